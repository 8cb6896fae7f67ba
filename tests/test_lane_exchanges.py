"""Which lanes read which in exchanges within a wave, and which of these are steps of reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kinspect.inspector.metrics import lane_exchanges
from kinspect.inspector.metrics.subject import Subject
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "hip_exchanged_lanes_gfx942.s"


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    report = collect(Request((str(FIXTURE),), passes=False))
    return {kernel.name: kernel for kernel in report.kernels}


@pytest.mark.parametrize(
    ("name", "count", "steps", "repeated", "distances"),
    [
        ("sums_by_xor", 6, 4, 4, 4),
        ("maximum_by_shift", 6, 4, 4, 4),
        ("double_sums", 12, 8, 8, 4),  # two words each
        ("first_wave_sums", 5, 4, 4, 4),
        ("differences", 3, 3, 3, 1),
        ("exchanges", 4, 0, 0, 0),  # nothing is added
        ("sums_by_index", 3, 0, 0, 0),
        ("far_sums", 2, 0, 0, 0),
        ("sums_of_rows", 6, 4, 4, 4),
        ("sum_behind_loop", 6, 4, 0, 0),
    ],
)
def test_steps(
    kernels: Mapping[str, KernelReport],
    name: str,
    count: int,
    steps: int,
    repeated: int,
    distances: int,
) -> None:
    value = kernels[name].metrics["lane_exchanges"].value
    assert isinstance(value, Mapping)
    assert {key: value[key] for key in ("count", "steps", "repeated", "distances", "at")} == {
        "count": count,
        "steps": steps,
        "repeated": repeated,
        "distances": distances,
        "at": None,
    }
    assert value["one_lane"] == 0


def test_read_lanes_equal_the_executed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """What HIP's functions name as the lane to read (amd_warp_functions.h), for each step."""
    seen: dict[str, list[list[int]]] = {}
    followed = lane_exchanges._sources

    def kept(subject: Subject) -> Mapping[int, Sequence[int]] | None:
        sources = followed(subject)
        assert sources is not None
        seen[subject.function.name] = [
            [int(lane) for lane in sources[at]] for at in sorted(sources)
        ]
        return sources

    monkeypatch.setattr(lane_exchanges, "_sources", kept)
    collect(Request((str(FIXTURE),), passes=False))
    distances = (32, 16, 8, 4, 2, 1)
    assert seen["sums_by_xor"] == [[i ^ d for i in range(64)] for d in distances]
    assert seen["maximum_by_shift"] == [
        [i + d if i + d < 64 else i for i in range(64)] for d in distances
    ]
    assert seen["first_wave_sums"] == [
        [(i + d if i + d < 32 else i) if i < 32 else -1 for i in range(64)] for d in distances[1:]
    ]


def test_one_lane_that_all_read(one_lane: Mapping[str, Mapping[str, Scalar]]) -> None:
    figures = {
        name: (value["count"], value["one_lane"], value["one_lane_here"])
        for name, value in one_lane.items()
    }
    assert figures == {
        "walks_lanes": (1, 1, 1),
        "walks_lanes_by_readlane": (0, 0, 0),
        "shares_first": (1, 1, 1),
        "shares_first_in_long_work": (1, 1, 1),
    }


@pytest.fixture(scope="module")
def one_lane() -> Mapping[str, Mapping[str, Scalar]]:
    report = collect(Request((str(FIXTURE.with_name("hip_one_lane_gfx942.s")),), passes=False))
    values = {kernel.name: kernel.metrics["lane_exchanges"].value for kernel in report.kernels}
    return {name: value for name, value in values.items() if isinstance(value, Mapping)}
