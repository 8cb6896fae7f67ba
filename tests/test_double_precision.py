"""Vector instructions on float64, and those of numbers that lie in memory as float64."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from emulated import KERNEL
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

WIDENED = "v_cvt_f64_f32_e32 v[4:5], v2\n v_mul_f64 v[4:5], v[4:5], s[6:7]\n"
NARROWED = "v_cvt_f32_f64_e32 v2, v[4:5]\n global_store_dword v0, v2, s[4:5]\n"
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"


@pytest.mark.parametrize(
    ("code", "instructions", "of_memory"),
    [
        # A float times an argument of 64 bits.
        ("s_load_dwordx2 s[6:7], s[0:1], 0x8\n global_load_dword v2, v0, s[4:5]\n"
         + WAIT + WIDENED + NARROWED, 3, 0),
        # A float times a double that all lanes load.
        ("s_load_dwordx2 s[6:7], s[4:5], 0x8\n global_load_dword v2, v0, s[4:5]\n"
         + WAIT + WIDENED + NARROWED, 3, 1),
        # Of a loaded double, or of 0 where the lane has none.
        ("global_load_dwordx2 v[4:5], v0, s[4:5]\n" + WAIT
         + "v_cndmask_b32_e32 v4, 0, v4, vcc\n v_cndmask_b32_e32 v5, 0, v5, vcc\n" + NARROWED,
         1, 1),
        # A product that is stored as a double.
        ("global_load_dword v2, v0, s[4:5]\n" + WAIT + WIDENED
         + "global_store_dwordx2 v0, v[4:5], s[4:5]\n", 2, 1),
        # Two floats that were loaded at once, in a register that a double is written to later.
        ("global_load_dwordx2 v[4:5], v0, s[4:5]\n" + WAIT + "v_add_f32_e32 v2, v4, v5\n"
         + WIDENED + NARROWED, 3, 0),
    ],
)  # fmt: skip
def test_memory(code: str, instructions: int, of_memory: int) -> None:
    text = KERNEL.format(arch="gfx942", code=code)
    (kernel,) = analyze_text(text, Context("k.s"))
    value = kernel.metrics["float64"].value
    assert isinstance(value, Mapping)
    assert (value["instructions"], value["of_memory"]) == (instructions, of_memory)


@pytest.mark.parametrize(
    ("arch", "copies"),
    [
        ("gfx1100", "v_dual_mov_b32 v6, v4 :: v_dual_mov_b32 v7, v5\n"),
        ("gfx1100", "v_dual_cndmask_b32 v6, 0, v4 :: v_dual_cndmask_b32 v7, 0, v5\n"),
        ("gfx942", "v_pk_mov_b32 v[6:7], v[4:5], v[4:5] op_sel:[0,1]\n"),
        ("gfx942", "v_accvgpr_write_b32 a0, v4\n v_accvgpr_write_b32 a1, v5\n"
         "v_accvgpr_read_b32 v6, a0\n v_accvgpr_read_b32 v7, a1\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_loaded", [True, False])
def test_doubles_are_followed_through_copies(arch: str, copies: str, *, is_loaded: bool) -> None:
    load = "global_load_b64" if arch == "gfx1100" else "global_load_dwordx2"
    store = "global_store_b64" if arch == "gfx1100" else "global_store_dwordx2"
    if is_loaded:
        code = f"{load} v[4:5], v0, s[4:5]\n s_waitcnt vmcnt(0)\n{copies}"
        code += "v_cvt_f32_f64_e32 v8, v[6:7]\n"
    else:
        code = f"v_cvt_f64_f32_e32 v[4:5], v0\n{copies}{store} v0, v[6:7], s[4:5]\n"
    (kernel,) = analyze_text(KERNEL.format(arch=arch, code=code), Context("k.s"))
    figures = kernel.metrics["float64"].value
    assert isinstance(figures, Mapping)
    assert (figures["instructions"], figures["of_memory"]) == (1, 1)
