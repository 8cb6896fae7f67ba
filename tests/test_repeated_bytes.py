"""Bytes that different loads bring, against what the sources of the kernels compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.jobs import Request

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
POINTS = FIXTURES / "hip_points_gfx942.s"
LANES = 32
"""Those that are looked at where the workgroup's size is not known."""


def value_of(kernel: KernelReport, name: str) -> Mapping[str, Scalar]:
    value = kernel.metrics[name].value
    assert isinstance(value, Mapping)
    return value


def overlap(name: str) -> Mapping[str, Scalar]:
    context = Context(path=str(POINTS), patterns=(name,))
    (kernel,) = analyze_text(POINTS.read_text("utf-8"), context)
    return value_of(kernel, "loads.overlap")


@pytest.mark.parametrize(
    ("name", "offsets", "others"),
    [("five_points", (-1, 0, 1), 2), ("three_of_ten", (-1, 0, 1), 7), ("long_way", (-1, 0, 1), 0)],
)
def test_neighbours_elements(name: str, offsets: tuple[int, ...], others: int) -> None:
    """Rows apart by an unknown number are different elements' own."""
    value = overlap(name)
    elements = {lane + offset for lane in range(LANES) for offset in offsets}
    assert value["lanes"] == LANES
    assert value["asked"] == 4 * LANES * len(offsets)
    assert value["distinct"] == 4 * len(elements)
    assert value["bytes"] == 4 * LANES * (len(offsets) + others)


@pytest.mark.parametrize(("name", "distinct"), [("windows", 4), ("columns", 0)])
def test_elements_of_the_iteration_before(name: str, distinct: int) -> None:
    """A window that is one element further on has one element that is new."""
    value = overlap(name)
    assert (value["loads"], value["distinct"]) == (int(distinct > 0), distinct)


def test_stores_between_loads() -> None:
    assert overlap("in_turn")["loads"] == 0


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    script = str(FIXTURES / "repeated.py")
    result = collect_kept(Request((script,), ("gfx942",), passes=False, jobs=2))
    assert not result.errors
    return {k.variant.case: k for k in result.kernels if k.variant is not None and k.variant.case}


def test_two_loops_over_a_row(kernels: dict[str, KernelReport]) -> None:
    value = value_of(kernels["softmax_of_two_loops"], "loads.passes")
    assert (value["loads"], value["of"]) == (2, 2)  # unrolled twice
    assert (value["bytes"], value["fits"]) == (2 * 1024 * 4, True)
    for case in ("softmax_of_long_rows", "softmax_of_any_rows"):
        assert value_of(kernels[case], "loads.passes")["fits"] is False


def test_lanes_that_take_no_part_load_nothing(kernels: dict[str, KernelReport]) -> None:
    """The row has 128 KiB, which a workgroup just holds; the tiles have more."""
    assert value_of(kernels["wide_tiles"], "loads.passes")["fits"] is True


def test_loops_in_loops_are_none_of_two(kernels: dict[str, KernelReport]) -> None:
    assert value_of(kernels["keys_again"], "loads.passes")["loads"] == 0
