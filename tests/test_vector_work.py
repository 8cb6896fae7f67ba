"""Vector instructions by what they do: by hand, against the ISA documents' descriptions."""

from __future__ import annotations

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.metrics.mix import kind_of
from kinspect.inspector.pipeline.analysis import Context, analyze_text

HEAD = '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.text\n.globl k\n.type k,@function\nk:\n'
TAIL = "s_endpgm\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 32\n.amdhsa_next_free_sgpr 16\n"
TAIL += ".amdhsa_accum_offset 32\n.end_amdhsa_kernel\n"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("v_fma_f32 v0, v1, v2, v3", None),
        ("v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", None),
        ("v_max3_f32 v0, v1, v2, v3", None),
        ("v_exp_f32_e32 v0, v1", None),
        ("v_dot2_f32_f16 v0, v1, v2, v3", None),
        ("v_add_f64 v[0:1], v[2:3], v[4:5]", None),
        ("v_add3_u32 v0, v1, v2, v3", "integer"),
        ("v_mad_u64_u32 v[0:1], s[0:1], v2, v3, v[4:5]", "integer"),
        ("v_lshlrev_b32_e32 v0, 2, v1", "integer"),
        ("v_pk_add_u16 v0, v1, v2", "integer"),
        ("v_cmp_gt_f32_e32 vcc, v0, v1", "select"),
        ("v_cndmask_b32_e32 v0, v1, v2, vcc", "select"),
        ("v_cvt_f16_f32_e32 v0, v1", "convert"),
        ("v_mov_b32_dpp v0, v1 row_shr:1", "move"),
        ("v_accvgpr_read_b32 v0, a0", "move"),
        ("v_perm_b32 v0, v1, v2, v3", "move"),
        ("v_readfirstlane_b32 s0, v0", "move"),
    ],
)
def test_kinds(code: str, kind: str | None) -> None:
    function = parse_text(f"{HEAD}{code}\n{TAIL}", "k.s").functions[0]
    assert kind_of(function.instructions[0]) == kind


def test_cycles_are_four_for_each_that_is_no_floating_point_arithmetic() -> None:
    body = "v_fma_f32 v0, v1, v2, v3\nv_exp_f32_e32 v0, v1\nv_add_u32_e32 v0, v1, v2\n"
    body += "v_mov_b32_e32 v0, v1\nv_mov_b32_e32 v2, v3\nglobal_store_dword v0, v1, s[0:1]\n"
    (kernel,) = analyze_text(HEAD + body + TAIL, Context("k.s"))
    assert kernel.metrics["vector_overhead"].value == {
        "cycles": 12,
        "integer": 4,
        "select": 0,
        "convert": 0,
        "move": 8,
        "at": None,
        "at_cycles": None,
    }
