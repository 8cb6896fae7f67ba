"""Reductions whose results a loop only sums up, in the fixture's compiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.metrics import loop_structure
from kinspect.inspector.metrics.launch import most_iterations
from kinspect.inspector.metrics.located import located
from kinspect.inspector.metrics.subject import Facts, KernelCode, Subject
from kinspect.inspector.model import Function, Resources, Scalar, TtgirModule
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.flow import flow_of
from kinspect.inspector.ttgir.parser import parse_ttgir

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "sums.py"


@pytest.fixture(scope="module")
def merged() -> Mapping[str, Mapping[str, Scalar]]:
    pytest.importorskip("triton")
    report = collect_kept(Request((str(FIXTURE),), ("gfx942",), passes=False, jobs=2))
    assert not report.errors
    values = {}
    for kernel in report.kernels:
        assert kernel.variant is not None
        (loop,) = kernel.loops
        value = loop.metrics["reductions.merged"].value
        assert isinstance(value, Mapping)
        values[str(kernel.variant.case)] = value
    return values


def test_only_what_nothing_else_reads_is_merged(
    merged: Mapping[str, Mapping[str, Scalar]],
) -> None:
    """The running mean stores each sum; a tile that is carried is not reduced in the loop."""
    assert {name: value["reductions"] for name, value in merged.items()} == {
        "sums_in_turn": 1,
        "largest_in_turn": 1,
        "sums_at_once": 0,
        "sums_of_wide_tiles": 1,
        "columns_in_turn": 1,
        "columns_of_many_rows": 1,
        "running_mean": 0,
        "products_in_turn": 1,
        "sums_of_one_row": 1,
        "sums_of_eight_rows": 1,
    }


def test_registers_are_those_of_the_layout(
    merged: Mapping[str, Mapping[str, Scalar]],
) -> None:
    """Four waves of 64 lanes; 1,024 and 16,384 elements over them."""
    for name, registers in (("sums_in_turn", 4), ("sums_of_wide_tiles", 64)):
        assert merged[name]["registers"] == registers
    # 32 x 16 x 32 elements over 256 lanes, of which 8 have parts of a sum.
    assert merged["products_in_turn"]["registers"] == 64


def test_exchanges_are_those_of_a_reduction_over_256_lanes(
    merged: Mapping[str, Mapping[str, Scalar]],
) -> None:
    """Six steps within a wave, then a write, a read and two barriers for those that meet in LDS."""
    for name in ("sums_in_turn", "largest_in_turn"):
        exchanges = merged[name]["exchanges"]
        assert isinstance(exchanges, int)
        assert 6 + 4 <= exchanges <= 16


_SUM = """
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [64], warpsPerCTA = [1],\
 order = [0]}>
module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k(%tile: tensor<256xELEMENT, #blocked>, %zero: ELEMENT, %n: i32) -> ELEMENT {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %total = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (ELEMENT) : i32 {
      %part = "tt.reduce"(%tile) <{axis = 0 : i32}> ({
      ^bb0(%a: ELEMENT, %b: ELEMENT):
        %c = arith.addf %a, %b : ELEMENT
        tt.reduce.return %c : ELEMENT
      }) : (tensor<256xELEMENT, #blocked>) -> ELEMENT
      %next = arith.addf %sum, %part : ELEMENT
      scf.yield %next : ELEMENT
    }
    tt.return %total : ELEMENT
  }
}
"""


def subject_of(module: TtgirModule, grid: tuple[int, int, int] | None) -> Subject:
    function = Function("k", True, 1, 1, (), (), (), Resources())
    return located(KernelCode(function, None, Facts(grid=grid, values={"n": 7}), module))


@pytest.mark.parametrize(("element", "registers"), [("f16", 2), ("f32", 4), ("f64", 8)])
def test_registers_are_those_of_the_elements(element: str, registers: int) -> None:
    """Four elements of a lane."""
    flow = flow_of(parse_ttgir(_SUM.replace("ELEMENT", element), "k.ttgir"))
    reductions = [op for op in flow.module.ops if op.name == "tt.reduce"]
    value = loop_structure.merged(subject_of(flow.module, None), flow, reductions, {})
    assert (value["reductions"], value["registers"]) == (1, registers)
    assert value["iterations"] is None


@pytest.mark.parametrize(("grid", "iterations"), [((4, 1, 1), 7), ((0, 1, 1), None), (None, None)])
def test_iterations_are_those_of_the_launch(
    grid: tuple[int, int, int] | None, iterations: int | None
) -> None:
    """A launch of no workgroup has none."""
    pytest.importorskip("numpy")
    flow = flow_of(parse_ttgir(_SUM.replace("ELEMENT", "f32"), "k.ttgir"))
    (loop,) = [op.index for op in flow.module.ops if op.name == "scf.for"]
    assert most_iterations(subject_of(flow.module, grid)).get(loop) == iterations
