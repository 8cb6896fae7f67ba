"""Operands of dots that are made of loaded integers, by TTGIR."""

from __future__ import annotations

import pytest
from kinspect.inspector.metrics.triton_arithmetic import Unpacked, unpacked_operands
from kinspect.inspector.ttgir.parser import parse_ttgir

MODULE = """
module {{
  tt.func public @k(%p: !tt.ptr<i8>, %q: tensor<16x16xbf16>, %n: i32) {{
    %zero = arith.constant 0 : i32
    %four = arith.constant dense<4> : tensor<16x16xi8>
    %ptrs = tt.splat %p : !tt.ptr<i8> -> tensor<16x16x!tt.ptr<i8>>
    %acc = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
    %r = scf.for %i = %zero to %n step %zero iter_args(%a = %acc) -> (tensor<16x16xf32>) : i32 {{
      %b = tt.load %ptrs : tensor<16x16x!tt.ptr<i8>>
      {lines}
      %d = tt.dot %q, %w, %a : tensor<16x16xbf16> * tensor<16x16xbf16> -> tensor<16x16xf32>
      scf.yield %d : tensor<16x16xf32>
    }}
    tt.return
  }}
}}
"""
PLAIN = "%w = arith.sitofp %b : tensor<16x16xi8> to tensor<16x16xbf16>"
NIBBLES = (
    "%s = arith.shrsi %b, %four : tensor<16x16xi8>\n"
    "%w = arith.sitofp %s : tensor<16x16xi8> to tensor<16x16xbf16>"
)
SCALED = (
    "%f = arith.uitofp %b : tensor<16x16xi8> to tensor<16x16xf32>\n"
    "%m = arith.mulf %f, %f : tensor<16x16xf32>\n"
    "%w = arith.truncf %m : tensor<16x16xf32> to tensor<16x16xbf16>"
)
FLOATS = "%w = tt.bitcast %b : tensor<16x16xi8> -> tensor<16x16xbf16>"


def operands(lines: str) -> list[Unpacked]:
    return list(unpacked_operands(parse_ttgir(MODULE.format(lines=lines), "k.ttgir")))


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (PLAIN, ("bf16", "bf16", 8, False)),
        (NIBBLES, ("bf16", "bf16", 4, False)),
        (SCALED, ("f32", "bf16", 8, True)),
    ],
)
def test_integers_that_become_an_operand(lines: str, facts: tuple[str, str, int, bool]) -> None:
    (unpacked,) = operands(lines)
    assert (unpacked.element, unpacked.operand, unpacked.bits, unpacked.is_scaled) == facts


def test_an_operand_without_conversion_is_none() -> None:
    assert operands(FLOATS) == []
