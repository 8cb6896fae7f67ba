"""Vector instructions on float64, and those of numbers that lie in memory as float64."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from emulated import KERNEL
from kinspect.inspector.pipeline.analysis import Context, analyze_text

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
