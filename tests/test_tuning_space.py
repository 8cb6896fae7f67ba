"""`sweep --autotune` of a file with KINSPECT_CASES: the product of its TUNING, or a fair sample."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.guest.cases.case import CaseError
from kinspect.inspector.guest.cases.space import (
    PointSelection,
    evenly_spread,
    read_tuning,
    select_points,
    stated_points,
)

OPTIONS = frozenset({"num_warps", "num_stages", "waves_per_eu"})
SPACE: dict[str, list[Any]] = {"BM": [16, 32, 64], "BN": [16, 32], "num_warps": [1, 2, 4, 8]}


def points(selection: PointSelection) -> list[dict[str, Any]]:
    return [{**outer, **inner} for outer, option_sets in selection.runs for inner in option_sets]


def selected(most: int | None = None, derive: Any = None, **user_axes: list[Any]) -> PointSelection:
    return select_points(
        SPACE,
        user_axes=user_axes,
        constexprs=("BM", "BN", "EVEN"),
        options=OPTIONS,
        max_points=most,
        case={"name": "c"},
        derive=derive,
    )


def test_whole_product_with_one_front_end_run_per_blocks() -> None:
    selection = selected()
    assert (selection.count, selection.total) == (24, 24)
    assert len(selection.runs) == 6
    assert len({tuple(point.items()) for point in points(selection)}) == 24


def test_names_that_are_nothing_to_a_kernel_are_left_out() -> None:
    selection = select_points(
        SPACE,
        user_axes={},
        constexprs=("BM",),
        options=OPTIONS,
        max_points=None,
        case={},
        derive=None,
    )
    assert selection.unused_names == ("BN",)
    assert selection.total == 12


def test_typed_axes_replace_those_of_the_file() -> None:
    selection = selected(BM=[128], num_warps=[16, 32])
    # num_warps is the host's to set: it makes two points of each.
    assert (selection.count, selection.total, selection.host_factor) == (2, 2, 2)
    assert points(selection) == [{"BM": 128, "BN": 16}, {"BM": 128, "BN": 32}]
    assert selected(most=2, num_warps=[16, 32]).count == 1, "two points at most, of one each two"


def test_a_sample_is_even_and_the_same_every_time() -> None:
    sizes = (5, 5, 5, 5, 11, 4, 2, 4, 2, 2)  # the space of the bundled GEMM
    order = evenly_spread(sizes)
    sample = [next(order) for _ in range(256)]
    assert len(set(sample)) == 256
    for axis, size in enumerate(sizes):
        seen = Counter(place[axis] for place in sample)
        assert len(seen) == size, "every value of every axis occurs"
        assert min(seen.values()) >= 0.6 * 256 / size, (axis, seen)
    again = evenly_spread(sizes)
    assert sample == [next(again) for _ in range(256)]


@pytest.mark.parametrize("sizes", [(1,), (2, 3), (7, 5, 4), (1, 1), (16, 16)])
def test_the_order_comes_to_every_point_once(sizes: tuple[int, ...]) -> None:
    places = list(evenly_spread(sizes))
    assert len(set(places)) == len(places) == math.prod(sizes)


def test_what_follows_from_a_point_and_what_is_refused() -> None:
    def derive(case: Any, point: Any) -> Any:
        assert case == {"name": "c"}
        return None if point["BM"] == 64 else {"EVEN": point["BN"] == 16}

    chosen_points = points(selected(derive=derive))
    assert len(chosen_points) == 16
    assert all(p["BM"] != 64 and p["EVEN"] == (p["BN"] == 16) for p in chosen_points)
    assert len(points(selected(most=10, derive=derive))) == 10, "others stand in for the refused"
    with pytest.raises(CaseError, match=r"tuned_constexprs fails at .*ZeroDivisionError"):
        selected(derive=lambda case, point: 1 // 0)
    with pytest.raises(CaseError, match="tuned_constexprs gives 3"):
        selected(derive=lambda case, point: 3)


def test_points_that_are_stated_have_what_follows_from_them() -> None:
    """Whatever of TUNING the case states goes to the file's function with them."""
    seen = []

    def derive(case: Any, point: Any) -> Any:
        seen.append(dict(point))
        return None if point["BM"] == 8 else {"EVEN": point["BM"] > 16}

    selection = stated_points(
        [{"BM": 32}, {"BM": 8}, {"NONE": 1}],
        constexprs=("BM", "BN", "EVEN"),
        tuning=SPACE,
        case={"constexprs": {"BM": 64, "BN": 16}, "options": {"num_warps": 8}},
        derive=derive,
    )
    assert points(selection) == [{"BM": 32, "EVEN": True}]
    assert seen[0] == {"BM": 32, "BN": 16, "num_warps": 8}


@pytest.mark.parametrize("raw", [[], {"BM": 3}, {"BM": []}, {1: [2]}])
def test_a_tuning_that_is_none(raw: Any) -> None:
    with pytest.raises(CaseError, match="TUNING is not a dict"):
        read_tuning(raw)
    assert read_tuning(None) == {}


# --------------------------------------------------------------------------- the command

KERNEL = """import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr, HALVES: tl.constexpr):
    tl.static_assert(BLOCK < 1024)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < (2 * n if EVEN else n)
    tl.store(x_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def tuned_constexprs(case, point):
    if point["BLOCK"] == 64 and point.get("num_warps") == 2:
        return None
    return {"HALVES": point["BLOCK"] // 2}


TUNING = {"BLOCK": [64, 256, 1024], "num_warps": [1, 2, 4], "TILE": [1, 2]}
KINSPECT_CASES = [
    {
        "name": "fp32",
        "kernel": "scale_kernel",
        "signature": {"x_ptr": "*fp32:16", "n": "i32:16"},
        "constexprs": {"BLOCK": 128, "EVEN": True, "HALVES": 64},
        "options": {"num_warps": 4},
    }
]
"""


@pytest.fixture
def swept(tool: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    pytest.importorskip("triton")
    path = tmp_path / "scale.py"
    path.write_text(KERNEL)

    def run(*args: str) -> tuple[list[dict[str, Any]], list[str]]:
        done = tool("sweep", path, "--autotune", "--arch", "gfx942", "--format", "json", *args)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        (table,) = found["tables"]
        return [row["point"] for row in table["rows"]], found["notes"]

    return run


def test_sweep_goes_over_the_files_space(swept: Callable[..., Any]) -> None:
    values, notes = swept()
    assert [(v["BLOCK"], v["num_warps"], v["HALVES"]) for v in values] == [
        (64, 1, 32), (64, 4, 32), (256, 1, 128), (256, 2, 128), (256, 4, 128)
    ]  # fmt: skip
    assert any(
        "the front end refuses 1 of 3 block configurations, e.g. BLOCK=1024" in n for n in notes
    )
    assert any("TUNING names TILE, which its code does not depend on" in n for n in notes)
    assert any("scale_kernel: EVEN as the cases state them" in n for n in notes)


def test_sweep_of_a_part_of_the_space(swept: Callable[..., Any]) -> None:
    values, notes = swept("--max-configs", "3", "--set", "BLOCK=128", "--set", "num_stages=1,2")
    assert {(v["BLOCK"], v["num_stages"]) for v in values} == {(128, 1), (128, 2)}
    assert len(values) == 2, "three at most, and each comes twice"
    assert any("2 of 6 configurations of TUNING (--max-configs)" in n for n in notes)
