"""Dots on padding, by hand-written TTGIR, and the rates of the matrix unit by published figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import kinspect
import pytest
from kinspect.inspector.machines import load
from kinspect.inspector.metrics.matrix import best_rates
from kinspect.inspector.metrics.source_products import pieces
from kinspect.inspector.metrics.triton_padding import Side, padded_dots
from kinspect.inspector.ttgir.parser import parse_ttgir

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 64], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 0, parent = #blocked}>
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k(%p: !tt.ptr<f16>, %n: i32) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #row>
    %bound = arith.constant dense<BOUND> : tensor<128xi32, #row>
    %zero = arith.constant dense<0.000000e+00> : tensor<64x128xf16, #blocked>
    %acc = arith.constant dense<0.000000e+00> : tensor<64x128xf32, #blocked>
    %a = arith.constant dense<1.000000e+00> : tensor<64x64xf16, #blocked>
    %m = arith.cmpi slt, %r, %bound : tensor<128xi32, #row>
    %m2 = tt.expand_dims %m {axis = 0 : i32} : tensor<128xi1, #row> -> tensor<1x128xi1, #blocked>
    %m3 = tt.broadcast %m2 : tensor<1x128xi1, #blocked> -> tensor<64x128xi1, #blocked>
    %q = tt.splat %p : !tt.ptr<f16> -> tensor<64x128x!tt.ptr<f16>, #blocked>
    %b = tt.load %q, %m3, %zero : tensor<64x128x!tt.ptr<f16>, #blocked>
    %c = USE
    %d = tt.dot %a, %c, %acc : tensor<64x64xf16, #blocked> * tensor<64x128xf16, #blocked> -> tensor<64x128xf32, #blocked>
    tt.return
  }
}
"""  # noqa: E501 - types as Triton prints them

TILE = "tensor<64x128xf16, #blocked>"


def _used(bound: int, use: str) -> list[tuple[int, ...]]:
    text = HEAD.replace("BOUND", str(bound)).replace("USE", use)
    return [tuple(side.used for side in dot.sides) for dot in padded_dots(parse_ttgir(text, "k"))]


@pytest.mark.parametrize(
    ("bound", "use", "used"),
    [
        (72, "arith.mulf %b, %b : tensor<64x128xf16, #blocked>", [(64, 72, 64)]),
        (72, "arith.addf %b, %b : tensor<64x128xf16, #blocked>", [(64, 72, 64)]),
        # 1 is added to the zeros.
        (72, "arith.addf %b, %b1 : tensor<64x128xf16, #blocked>", []),
        (128, "arith.mulf %b, %b : tensor<64x128xf16, #blocked>", []),
    ],
)
def test_a_constant_mask_leaves_zeros(bound: int, use: str, used: list[tuple[int, ...]]) -> None:
    """Products keep the zeros, sums those of both operands; a mask of all elements leaves none."""
    assert _used(bound, use) == used


@pytest.mark.parametrize(("n", "used"), [(72, [(64, 72, 64)]), (128, []), (None, [])])
def test_a_mask_by_an_argument_of_the_launch(n: int | None, used: list[tuple[int, ...]]) -> None:
    bound = "%bound = tt.splat %n : i32 -> tensor<128xi32, #row>"
    constant = "%bound = arith.constant dense<BOUND> : tensor<128xi32, #row>"
    text = HEAD.replace(constant, bound).replace("USE", f"arith.mulf %b, %b : {TILE}")
    dots = padded_dots(parse_ttgir(text, "k"), None if n is None else {"n": n, "p": 4096})
    assert [tuple(side.used for side in dot.sides) for dot in dots] == used


def test_differences_below_zero_are_large_without_a_sign() -> None:
    """71 - r > 0 holds up to 70 by signed numbers, and for all r but 71 by unsigned ones."""
    difference = "%s = arith.subi %bound, %r : tensor<128xi32, #row>\n    %m = arith.cmpi "
    for predicate, used in (("sgt", [(64, 71, 64)]), ("ugt", [])):
        text = HEAD.replace(
            "%m = arith.cmpi slt, %r, %bound", f"{difference}{predicate}, %s, %none"
        )
        none = "%none = arith.constant dense<0> : tensor<128xi32, #row>\n    %zero ="
        text = text.replace("%zero =", none, 1)
        text = text.replace("BOUND", "71").replace("USE", f"arith.negf %b : {TILE}")
        dots = padded_dots(parse_ttgir(text, "k"))
        assert [tuple(side.used for side in dot.sides) for dot in dots] == used


@pytest.mark.parametrize(
    ("extent", "used", "granule", "held"),
    [
        (128, 72, 16, (64, 16)),
        (128, 96, 16, (64, 32)),
        (256, 192, 16, (128, 64)),
        (128, 72, 64, (128,)),
        (128, 113, 16, (128,)),
        (16, 1, 16, (16,)),
        (64, 16, 16, (16,)),
    ],
)
def test_two_powers_of_two_hold_a_dimension(
    extent: int, used: int, granule: int, held: tuple[int, ...]
) -> None:
    """The least that one or two of at least a granule hold."""
    assert pieces(Side("K", extent, used, granule)) == held


@pytest.mark.parametrize(
    ("arch", "rates"),
    [
        # Peak rates of AMD's data sheets over CUs, 4 SIMDs, 2 operations and the clock: MI300X
        # 1,307 TFLOPS of fp16, 654 of TF32, 163 of fp32; MI250X 383 and 96; MI355X 2,517 and 157.
        ("gfx942", {"f16": 256, "bf16": 256, "xf32": 128, "f32": 32}),
        ("gfx90a", {"f16": 128, "f32": 32}),
        ("gfx950", {"f16": 512, "f32": 32}),
    ],
)
def test_rates_are_those_of_data_sheets(arch: str, rates: dict[str, float]) -> None:
    """Multiply-accumulates a cycle of one SIMD."""
    best = best_rates(load(arch))
    assert {element: best.get(element) for element in rates} == rates


SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def product(a, b, c, K, B: tl.constexpr):
    m, k = tl.arange(0, B), tl.arange(0, 32)
    acc = tl.zeros((B, B), tl.float32)
    for i in range(0, K, 32):
        x = tl.load(a + m[:, None] * K + i + k[None, :]).to(tl.float32)
        y = tl.load(b + (i + k)[:, None] * K + m[None, :]).to(tl.float32)
        acc += tl.dot(x, y)
    tl.store(c + m[:, None] * B + m[None, :], acc)

a = torch.empty(1024, 1024, device="cuda", dtype=torch.KIND)
product[(1,)](a, a, torch.empty(64, 64, device="cuda"), 1024, 64)
"""


@pytest.mark.parametrize(
    ("kind", "times", "stored"), [("bfloat16", 2, "bfloat16"), ("float32", None, None)]
)
def test_products_in_xf32_are_slow_where_operands_are_stored_in_16_bits(
    kind: str, times: float | None, stored: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "product.py"
    path.write_text(SCRIPT.replace("KIND", kind))
    kernel = kinspect.analyze(path, arch="gfx942").kernel
    value = kernel.report.loops[0].metrics["matrix.rate"].value
    assert isinstance(value, Mapping)
    assert (value["element"], value["times"], value["stored"]) == ("xf32", times, stored)
