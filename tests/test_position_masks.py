"""Masks of scores in loops of dots, by TTGIR and in the code of the fixtures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.metrics.triton_masks import masked_tiles
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.parser import parse_ttgir

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "masks.py"
LANES, SCORES = 256, 128 * 128

MODULE = """
module {{
  tt.func public @k(%q: tensor<16x16xf16>, %n: i32, %w: !tt.ptr<i32>) {{
    %zero = arith.constant 0 : i32
    %step = arith.constant 16 : i32
    %limit = arith.constant {limit} : i32
    %acc = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
    %range = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %r = scf.for %i = %zero to {end} step %step iter_args(%a = %acc) -> (tensor<16x16xf32>) : i32 {{
      %d = tt.dot %q, %q, %acc : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
      %s = tt.splat %i : i32 -> tensor<16xi32>
      %p = arith.addi %s, %range : tensor<16xi32>
      %e = tt.expand_dims %p {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
      %b = tt.broadcast %e : tensor<1x16xi32> -> tensor<16x16xi32>
      {comparison}
      %m = arith.select %c, %d, %acc : tensor<16x16xi1>, tensor<16x16xf32>
      %t = arith.addf %a, %m : tensor<16x16xf32>
      scf.yield %t : tensor<16x16xf32>
    }}
    tt.return
  }}
}}
"""
ORDERED = (
    "%l = tt.splat %n : i32 -> tensor<16x16xi32>\n%c = arith.cmpi slt, %b, %l : tensor<16x16xi32>"
)

LOADED = (
    "%v = tt.splat %w : !tt.ptr<i32> -> tensor<16x16x!tt.ptr<i32>>\n"
    "%l = tt.load %v : tensor<16x16x!tt.ptr<i32>>\n"
    "%c = arith.cmpi slt, %b, %l : tensor<16x16xi32>"
)


@pytest.mark.parametrize(
    ("comparison", "end", "tiles"),
    [
        (ORDERED, "%n", 1),
        (ORDERED.replace("slt", "eq"), "%n", 0),
        (LOADED, "%n", 0),
        (ORDERED, "%limit", 0),
    ],
    ids=["ordered", "equal", "of_other_values", "two_iterations"],
)
def test_only_an_order_of_positions_masks_a_few_tiles(
    comparison: str, end: str, tiles: int
) -> None:
    module = parse_ttgir(MODULE.format(comparison=comparison, end=end, limit=32), "k.ttgir")
    assert len(masked_tiles(module)) == tiles


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    report = collect_kept(Request((str(FIXTURE),), ("gfx942",), passes=False, jobs=2))
    return {kernel.variant.case: kernel for kernel in report.kernels if kernel.variant.case}


def _masks(kernel: KernelReport) -> list[Mapping[str, object]]:
    values = [loop.metrics["masks.positions"].value for loop in kernel.loops]
    return [value for value in values if isinstance(value, Mapping) and value["tiles"]]


def test_each_score_is_compared_and_selected(kernels: Mapping[str, KernelReport]) -> None:
    (masks,) = _masks(kernels["masked"])
    assert masks["instructions"] == 2 * SCORES // LANES
    assert masks["split"] is False
    assert masks["at"] == "masks.py:14"


def test_a_loop_of_its_own_for_whole_tiles_is_seen(kernels: Mapping[str, KernelReport]) -> None:
    (masks,) = _masks(kernels["split"])
    assert masks["split"] is True
    assert _masks(kernels["plain"]) == []
