"""Names of the source by position, and which operation of a position is meant."""

from __future__ import annotations

import pytest
from kinspect.inspector.isa.mnemonics import lookup
from kinspect.inspector.metrics.source_values import DOTS, LDS_READS, STORES, SourceOperations
from kinspect.inspector.model import Instruction, SourceLoc
from kinspect.inspector.ttgir.parser import parse_ttgir

TTGIR = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], \
order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942"} {
  tt.func public @k(%p: !tt.ptr<f32>, %x: tensor<64xbf16, #blocked>, %n: i32) {
    %c0 = arith.constant 0 : i32 loc(#loc1)
    %cst = arith.constant dense<0.0> : tensor<64xf32, #blocked> loc(#loc1)
    %wide = arith.extf %x : tensor<64xbf16, #blocked> to tensor<64xf32, #blocked> loc(#loc2)
    %product = arith.mulf %wide, %cst : tensor<64xf32, #blocked> loc(#loc2)
    %tile_2 = arith.addf %product, %cst : tensor<64xf32, #blocked> loc(#loc3)
    %tile_2_7 = arith.addf %tile_2, %cst : tensor<64xf32, #blocked> loc(#loc3)
    %buffer = ttg.local_alloc : () -> !ttg.memdesc<64xf32, #shared, #smem, mutable> loc(#loc4)
    %bound = arith.subi %n, %c0 : i32 loc(#loc5)
    %carried:2 = scf.for %i = %c0 to %n step %n iter_args(%carried_1 = %cst, %weight_9 = %buffer) \
-> (tensor<64xf32, #blocked>, !ttg.memdesc<64xf32, #shared, #smem, mutable>)  : i32 {
      %sum_8 = ttg.local_load %weight_9 : !ttg.memdesc<64xf32, #shared, #smem, mutable> \
-> tensor<64xf32, #blocked> loc(#loc6)
      %sum = arith.addf %carried_1, %sum_8 : tensor<64xf32, #blocked> loc(#loc7)
      %weight = ttg.memdesc_index %buffer[%c0] : !ttg.memdesc<64xf32, #shared, #smem, mutable> \
-> !ttg.memdesc<64xf32, #shared, #smem, mutable> loc(#loc4)
      scf.yield %sum, %weight : tensor<64xf32, #blocked>, \
!ttg.memdesc<64xf32, #shared, #smem, mutable> loc(#loc5)
    } loc(#loc5)
    %0 = ttg.convert_layout %carried#0 : tensor<64xf32, #blocked> -> tensor<64xf32, #blocked> \
loc(#loc8)
    %1 = ttg.local_load %carried#1 : !ttg.memdesc<64xf32, #shared, #smem, mutable> \
-> tensor<64xf32, #blocked> loc(#loc9)
    amdg.buffer_store %0, %p[%x] : !tt.ptr<f32> -> tensor<64xf32, #blocked> loc(#loc10)
    tt.return loc(#loc1)
  } loc(#loc1)
} loc(#loc1)
""" + "".join(f'#loc{line} = loc("k.py":{line}:1)\n' for line in range(1, 11))


def named(
    line: int, mnemonic: str = "v_mov_b32", preferred: tuple[str, ...] = ()
) -> tuple[str | None, str]:
    op = lookup(mnemonic)
    inst = Instruction(0, 1, mnemonic, "", "", op, op.cls, SourceLoc("k.py", line, 1))
    value = SourceOperations(parse_ttgir(TTGIR, "k.ttgir")).named(inst, "value", preferred)
    return value.name, value.type


@pytest.mark.parametrize(
    ("mnemonic", "name"), [("v_pk_mul_f32", "product"), ("v_lshlrev_b32_e32", "wide")]
)
def test_the_mnemonic_tells_operations_of_one_position_apart(mnemonic: str, name: str) -> None:
    assert named(2, mnemonic) == (name, "64xf32")


def test_the_number_of_a_variable_is_not_mlir_s() -> None:
    assert named(3) == ("tile_2", "64xf32")


def test_what_counts_a_loop_s_iterations_has_no_name() -> None:
    assert named(5) == (None, "")


def test_a_buffer_that_a_loop_carries_is_named_and_not_what_takes_it() -> None:
    assert named(6, "ds_read_b64", LDS_READS) == ("weight", "64xf32")
    assert named(9, "ds_read_b64", LDS_READS) == ("weight", "64xf32")


def test_a_loop_s_result_is_what_it_yields() -> None:
    assert named(8) == ("sum", "64xf32")


def test_an_address_is_that_of_the_value_which_is_stored() -> None:
    assert named(10, "buffer_store_dword", STORES)[0] == "sum"
    assert named(10, "v_mfma_f32_32x32x8_f16", DOTS)[0] == "sum"
