"""Whether the atomics of a module order what its workgroups see of each other."""

from __future__ import annotations

import pytest
from kinspect.inspector.metrics.triton_loads import AtomicOrder
from kinspect.inspector.ttgir.parser import parse_ttgir

_BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>"
)


def is_needed(code: str) -> bool:
    """Of a kernel that stores to `y` what atomics on the tile of `x` return."""
    text = f"""
#blocked = {_BLOCKED}
module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 64 : i32}} {{
  tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {{
    %cst = arith.constant dense<0> : tensor<64xi32, #blocked>
    %ones = arith.constant dense<1> : tensor<64xi32, #blocked>
    %zero = arith.constant 0 : i32
    %true = arith.constant dense<true> : tensor<64xi1, #blocked>
    %at = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, #blocked>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #blocked>
    %x_at = tt.addptr %xs, %at : tensor<64x!tt.ptr<i32>, #blocked>, tensor<64xi32, #blocked>
    %ys = tt.splat %y : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #blocked>
    %y_at = tt.addptr %ys, %at : tensor<64x!tt.ptr<i32>, #blocked>, tensor<64xi32, #blocked>
{code}
    %old = tt.atomic_rmw add, acq_rel, gpu, %x_at, %value, %true : (tensor<64x!tt.ptr<i32>,\
 #blocked>, tensor<64xi32, #blocked>, tensor<64xi1, #blocked>) -> tensor<64xi32, #blocked>
    tt.store %y_at, %old : tensor<64x!tt.ptr<i32>, #blocked>
    tt.return
  }}
}}
"""
    return AtomicOrder(parse_ttgir(text, "k.ttgir")).is_needed


@pytest.mark.parametrize(
    ("value", "needed"),
    [
        ("tt.splat %zero : i32 -> tensor<64xi32, #blocked>", True),
        ("ttg.convert_layout %cst : tensor<64xi32, #blocked> -> tensor<64xi32, #blocked>", True),
        ("ttg.convert_layout %ones : tensor<64xi32, #blocked> -> tensor<64xi32, #blocked>", False),
        ("arith.addi %at, %cst : tensor<64xi32, #blocked>", False),
    ],
)
def test_what_adds_zeros_asks_for_a_signal(value: str, *, needed: bool) -> None:
    """A sum with a zero in it is a value of its own."""
    assert is_needed(f"    %value = {value}") == needed
