"""What a loop's structure makes its waves wait for: loads left behind, indices, LDS at once.

The modules and loops here are written by hand, so that what each load is for is plain; the rules'
fixtures (`rules/fixtures/structure.py`) are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kinspect.inspector.metrics.exposed_latency import LATENCY
from kinspect.inspector.metrics.triton_loads import LoopLoad, Use, issued_ahead, loop_loads
from kinspect.inspector.model import Scalar
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from kinspect.inspector.ttgir.flow import flow_of
from kinspect.inspector.ttgir.parser import parse_ttgir

MODULE = """
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942"}} {{
  tt.func public @k(%p: !tt.ptr<f16>, %q: !tt.ptr<i32>, %n: i32, %first: tensor<16x16xf16, #d>) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<16x16xf32, #m>
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %tile = %first) -> (\
tensor<16x16xf32, #m>, tensor<16x16xf16, #d>) : i32 {{
{body}
    }}
    tt.return
  }}
}}
"""
ADDRESS = "      %at = tt.splat %i : i32 -> tensor<16x16xi32, #b>\n"
NEXT = (
    "      %next = amdg.buffer_load %p[%at] : !tt.ptr<f16> -> tensor<16x16xf16, #b>\n"
    "      %moved = ttg.convert_layout %next : tensor<16x16xf16, #b> -> tensor<16x16xf16, #d>\n"
)
DOT = (
    "      %sum = tt.dot %tile, %tile, %acc : tensor<16x16xf16, #d> * tensor<16x16xf16, #d> -> "
    "tensor<16x16xf32, #m>\n"
)
YIELD = "      scf.yield %sum, %moved : tensor<16x16xf32, #m>, tensor<16x16xf16, #d>"


def loads(body: str) -> Mapping[str, LoopLoad]:
    """The loads of the loop by the names of their results."""
    module = parse_ttgir(MODULE.format(body=body), "k")
    return {load.op.results[0]: load for load in loop_loads(flow_of(module))}


def test_a_tile_for_the_next_iteration_has_no_use_in_this_one() -> None:
    found = loads(ADDRESS + NEXT + DOT + YIELD)
    assert found["%next"].uses == frozenset()
    assert issued_ahead(tuple(found.values()), found["%next"].loop)


def test_a_scale_of_the_product_is_used_at_once_and_no_operand() -> None:
    scale = (
        "      %scale = amdg.buffer_load %p[%at] : !tt.ptr<f16> -> tensor<16x16xf32, #m>\n"
        "      %part = arith.mulf %sum0, %scale : tensor<16x16xf32, #m>\n"
        "      %sum = arith.addf %acc, %part : tensor<16x16xf32, #m>\n"
    )
    dot = DOT.replace("%sum", "%sum0").replace("%acc", "%zero")
    found = loads(ADDRESS + NEXT + dot + scale + YIELD)
    assert found["%scale"].uses == {Use.VALUE}
    assert found["%next"].uses == frozenset()


def test_an_operand_that_is_multiplied_at_once_is_one_of_a_dot() -> None:
    dot = DOT.replace("%tile, %tile", "%moved, %tile")
    found = loads(ADDRESS + NEXT + dot + YIELD)
    assert Use.DOT in found["%next"].uses


def test_a_load_waits_for_the_index_that_its_iteration_loads() -> None:
    page = (
        "      %page = amdg.buffer_load %q[%at0] : !tt.ptr<i32> -> tensor<16x16xi32, #b>\n"
        "      %at = arith.addi %page, %at0 : tensor<16x16xi32, #b>\n"
    )
    found = loads(ADDRESS.replace("%at", "%at0") + page + NEXT + DOT + YIELD)
    assert [op.results for op in found["%next"].waits_for] == [("%page",)]
    assert found["%page"].uses == {Use.ADDRESS}
    assert found["%page"].waits_for == ()


def test_what_floats_decide_is_no_index() -> None:
    page = (
        "      %weight = amdg.buffer_load %p[%at] : !tt.ptr<f16> -> tensor<16x16xf16, #b>\n"
        "      %mask = arith.cmpf ogt, %weight, %weight : tensor<16x16xf16, #b>\n"
    )
    masked = NEXT.replace("%p[%at]", "%p[%at], %mask")
    assert loads(ADDRESS + page + masked + DOT + YIELD)["%next"].waits_for == ()


LOOP = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	k
	.type	k,@function
k:
.LBB0_1:
{loop}
	s_add_i32 s2, s2, -1
	s_cmp_lg_u32 s2, 0
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.Lfunc_end0:
	.size	k, .Lfunc_end0-k
	.section	.rodata,"a",@progbits
	.amdhsa_kernel k
		.amdhsa_next_free_vgpr 32
		.amdhsa_next_free_sgpr 16
		.amdhsa_accum_offset 32
	.end_amdhsa_kernel
"""
LOAD = "\tglobal_load_dword v2, v4, s[0:1]\n"
WAIT = "\ts_waitcnt vmcnt(0)\n"
WRITE = "\tds_write_b32 v5, {0}\n\ts_waitcnt lgkmcnt(0)\n\ts_barrier\n"
READ = "\tds_read_b32 v3, v6\n\ts_waitcnt lgkmcnt(0)\n\tv_add_f32_e32 v1, v1, v3\n\ts_barrier\n"


def serial(loop: str) -> Mapping[str, Scalar]:
    text = LOOP.format(loop=loop)
    (kernel,) = analyze_text(text, Context("k.s", overrides=Overrides(waves_per_workgroup=4)))
    (only,) = kernel.loops
    value = only.metrics["staging.serial"].value
    assert isinstance(value, Mapping)
    return value


def test_a_load_that_goes_to_lds_at_once_is_serial() -> None:
    value = serial(LOAD + WAIT + WRITE.format("v2") + READ)
    assert (value["loads"], value["writes"], value["barriers"]) == (1, 1, 2)
    assert value["latency"] == LATENCY
    # Thirteen instructions, of which the three waits take no slot.
    assert value["iteration"] == 4 * 9


def test_a_converted_value_is_still_the_load_s() -> None:
    convert = "\tv_cvt_f16_f32_e32 v7, v2\n"
    assert serial(LOAD + WAIT + convert + WRITE.format("v7") + READ)["loads"] == 1


@pytest.mark.parametrize("written", ["v8", "v2"])
def test_a_load_with_lds_read_before_its_write_is_ahead(written: str) -> None:
    assert serial(LOAD + READ + WAIT + WRITE.format(written))["loads"] == 0
