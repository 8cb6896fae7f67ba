"""Loops over the values of a register, and loops that lanes leave at different times."""

from __future__ import annotations

from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

_TEXT = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
\t.globl\tk
\t.type\tk,@function
k:
.LBB0_1:
\tglobal_load_dwordx2 v[4:5], v0, s[4:5]
\ts_waitcnt vmcnt(0)
\ts_mov_b64 s[10:11], exec
.LBB0_2:
\tv_readfirstlane_b32 s12, v4
\tv_readfirstlane_b32 s13, v5
\tv_cmp_eq_u64_e32 vcc, s[12:13], v[4:5]
\ts_and_saveexec_b64 s[0:1], vcc
\t{work}
\ts_xor_b64 exec, exec, s[0:1]
\ts_cbranch_execnz .LBB0_2
\ts_mov_b64 exec, s[10:11]
\ts_cmp_lg_u32 s2, 0
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel k
\t\t.amdhsa_next_free_vgpr 16
\t\t.amdhsa_next_free_sgpr 16
\t\t.amdhsa_accum_offset 16
\t.end_amdhsa_kernel
"""


def analysed(text: str) -> KernelReport:
    (kernel,) = analyze_text(text, Context("k.s"))
    return kernel


def test_the_loop_around_a_waterfall_is_the_hot_one() -> None:
    kernel = analysed(_TEXT.format(work="buffer_load_dword v6, v7, s[12:15], 0 offen"))
    assert [(loop.depth, loop.hot) for loop in kernel.loops] == [(1, True), (2, False)]
    assert [loop.metrics["loop.parted"].value for loop in kernel.loops] == [False, True]


def test_a_loop_without_a_first_lane_is_no_waterfall() -> None:
    text = _TEXT.format(work="buffer_load_dword v6, v7, s[12:15], 0 offen")
    kernel = analysed(
        text.replace("v_readfirstlane_b32 s12, v4", "s_mov_b32 s12, s6").replace(
            "v_readfirstlane_b32 s13, v5", "s_mov_b32 s13, s7"
        )
    )
    assert [(loop.depth, loop.hot) for loop in kernel.loops] == [(1, False), (2, True)]
