"""Words of the arguments and of the dispatch packet, and the loops that go on by such."""

from __future__ import annotations

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.value_graph import graph_of
from kinspect.inspector.metrics.argument_words import DISPATCH, KERNARG, loaded_word
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from msgspec.structs import replace

TEXT = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.type k,@function
k:
{code}
    s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 32
  .amdhsa_user_sgpr_count 4
  .amdhsa_user_sgpr_dispatch_ptr 1
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
"""


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("s_load_b32 s6, s[2:3], 0x8\n", {6}),
        ("s_load_b128 s[4:7], s[2:3], null\n", {6}),
        ("s_load_b32 s6, s[2:3], 0x8 glc\n", {6}),
        ("s_add_u32 s4, s2, 4\n s_addc_u32 s5, s3, 0\n s_load_b32 s6, s[4:5], 0x4\n", {6}),
        ("s_load_b32 s6, s[0:1], 0xc\n", {6}),
        ("s_load_b32 s6, s[2:3], 0xc\n", set()),
        # Somewhere among the arguments.
        ("s_load_b32 s6, s[2:3], s8 offset:0x8\n", set()),
        ("s_load_b96 s[4:6], s[2:3], s8\n", set()),
        ("s_add_u32 s2, s2, s8\n s_load_b32 s6, s[2:3], 0x8\n", set()),
    ],
)
def test_words_that_are_loaded(code: str, loaded: set[int]) -> None:
    (function,) = parse_text(TEXT.format(arch="gfx1100", code=code), "k.s").kernels
    wanted = {(KERNARG, 8), (DISPATCH, 12)}
    registers = {
        register
        for load in graph_of(function).in_order
        for register in (load.results[0].rows if load.inst.cls == "smem_load" else ())
        if loaded_word(function, replace(load.results[0], first=register), load) in wanted
    }
    assert registers == loaded


LOOPS = """
    s_load_dword s6, s[0:1], 0xc
    s_load_dword s7, s[2:3], 0x0
.Lfirst:
    {step}
    v_cmp_gt_u32_e32 vcc, s7, v0
    s_cbranch_vccnz .Lfirst
    v_mov_b32_e32 v1, 0
    s_mov_b32 s8, 0
.Lsecond:
    v_add_u32_e32 v1, v1, v0
    s_add_i32 s8, s8, 1
    s_cmp_lt_u32 s8, s7
    s_cbranch_scc1 .Lsecond
"""


@pytest.mark.parametrize(
    ("step", "is_by_grid"),
    [
        ("v_add_u32_e32 v0, s6, v0", True),
        ("v_add_u32_e32 v0, s7, v0", False),
    ],
)
def test_a_loop_that_adds_up_a_position_goes_on_by_no_grid(step: str, *, is_by_grid: bool) -> None:
    text = TEXT.format(arch="gfx90a", code=LOOPS.format(step=step))
    (kernel,) = analyze_text(text, Context("k.s"))
    by_grid = {}
    for loop in kernel.loops:
        value = loop.metrics["loop.grid_stride"].value
        assert isinstance(value, dict)
        by_grid[loop.id] = value["by_grid"]
    assert list(by_grid.values()) == [is_by_grid, False]


def test_a_pointer_that_moves_by_the_grid_does_not_end_a_loop() -> None:
    code = """
    s_load_dword s6, s[0:1], 0xc
    s_load_dword s7, s[2:3], 0x0
.Lloop:
    global_load_dword v3, v[0:1], off
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v2, v2, v3
    v_add_co_u32_e32 v0, vcc, s6, v0
    v_addc_co_u32_e32 v1, vcc, 0, v1, vcc
    s_add_i32 s7, s7, -1
    s_cmp_lg_u32 s7, 0
    s_cbranch_scc1 .Lloop
"""
    (kernel,) = analyze_text(TEXT.format(arch="gfx942", code=code), Context("k.s"))
    value = kernel.loops[0].metrics["loop.grid_stride"].value
    assert isinstance(value, dict)
    assert value["by_grid"] is False


def test_a_step_that_issues_with_another_operation() -> None:
    code = """
    s_load_b32 s6, s[0:1], 0xc
    s_load_b32 s7, s[2:3], 0x0
.Lloop:
    v_dual_mul_f32 v1, 0x40400000, v1 :: v_dual_add_nc_u32 v0, s6, v0
    v_cmp_gt_u32_e32 vcc_lo, s7, v0
    s_cbranch_vccnz .Lloop
"""
    (kernel,) = analyze_text(TEXT.format(arch="gfx1100", code=code), Context("k.s"))
    (loop,) = kernel.loops
    value = loop.metrics["loop.grid_stride"].value
    assert isinstance(value, dict)
    assert value["by_grid"] is True


def test_a_comparison_of_the_size_leaves_it_where_it_is() -> None:
    text = TEXT.format(
        arch="gfx90a",
        code=LOOPS.format(step="v_add_u32_e32 v0, s6, v0").replace(
            ".Lfirst:", "s_cmp_eq_u32 s6, 1\n.Lfirst:", 1
        ),
    )
    (kernel,) = analyze_text(text, Context("k.s"))
    value = kernel.loops[0].metrics["loop.grid_stride"].value
    assert isinstance(value, dict)
    assert value["by_grid"] is True
