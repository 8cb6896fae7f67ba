"""Constants by which loops move on, and loops that go on in smaller steps."""

from __future__ import annotations

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.twos_complement import signed
from kinspect.inspector.metrics.loop_shape import leftovers
from kinspect.inspector.model import Function

_TWO_LOOPS = """\
.LBB0_1:
	{first}
	s_cmp_gt_i32 s4, s5
	s_cbranch_scc1 .LBB0_1
.LBB0_2:
	{second}
	s_cmp_gt_i32 s4, s6
	s_cbranch_scc1 .LBB0_2
"""


def function_of(code: str, arch: str = "gfx942") -> Function:
    text = f"""\
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
	.type k,@function
k:
{code}
	s_endpgm
.Lfunc_end0:
	.size k, .Lfunc_end0-k
"""
    (function,) = parse_text(text, "k.s").functions
    return function


@pytest.mark.parametrize(
    ("value", "bits", "number"),
    [(0xFF80, 16, -128), (0x7FFF, 16, 32767), (0xFFFFFE00, 32, -512), (-1, 32, -1), (4, 32, 4)],
)
def test_numbers_without_a_sign(value: int, bits: int, number: int) -> None:
    assert signed(value, bits) == number


@pytest.mark.parametrize(
    ("first", "second", "goes_on"),
    [
        ("s_add_i32 s4, s4, 8", "s_add_i32 s4, s4, 1", True),
        ("s_add_i32 s4, s4, 1", "s_add_i32 s4, s4, 8", False),
        ("s_add_i32 s4, s4, 0xfffffe00", "s_add_i32 s4, s4, -1", True),
        ("s_add_i32 s4, s4, 0xfffffe00", "s_add_i32 s4, s4, 1", False),
        ("s_addk_i32 s4, 0xff80", "s_sub_i32 s4, s4, 1", True),
        ("s_addk_i32 s4, 0xff80", "s_add_i32 s4, s4, 1", False),
        ("s_sub_i32 s4, 8, s4", "s_sub_i32 s4, 1, s4", False),
        ("s_add_i32 s4, s4, 08", "s_add_i32 s4, s4, 1", False),
    ],
)
def test_a_loop_goes_on_in_smaller_steps(first: str, second: str, *, goes_on: bool) -> None:
    """Both step in one direction; what a register is taken from is no step."""
    function = function_of(_TWO_LOOPS.format(first=first, second=second))
    assert leftovers(function) == ({function.loops[1].id} if goes_on else set())


_DOUBLING = """\
.LBB0_1:
	v_add_u32_e32 v6, s7, v2
	global_load_dword v4, v[6:7], off
	{sums}
	s_cmp_gt_i32 s4, s5
	s_cbranch_scc1 .LBB0_1
"""


@pytest.mark.parametrize(
    ("sums", "step"),
    [
        ("v_add_u32_e32 v2, 8, v2", 8),
        ("s_addk_i32 s7, 0xff80", -128),
        ("\n\t".join(["v_add_u32_e32 v2, v2, v2"] * 22), None),
    ],
)
def test_bytes_by_which_an_address_moves(sums: str, step: int | None) -> None:
    """Sums of sums take as long as their instructions are many."""
    pytest.importorskip("numpy")
    from kinspect.inspector.metrics.loop_steps import access_steps

    function = function_of(_DOUBLING.format(sums=sums))
    (loop,) = function.loops
    steps = access_steps(function, loop.blocks, loop.blocks)
    assert steps == ({} if step is None else {1: step})


def test_each_loop_may_go_on_where_one_before_has_stopped() -> None:
    """By way of a copy; what is loaded anew between two loops begins anew."""
    steps = ("s4, s4, 16", "s4, s4, 4", "s6, s6, 1", "s4, s4, 1")
    between = ("", "", "\ts_mov_b32 s6, s4\n", "\ts_load_dword s4, s[0:1], 0x0\n")
    code = "".join(
        f"{before}.LBB0_{number}:\n\ts_add_i32 {step}\n\ts_cmp_gt_i32 s4, s5\n"
        f"\ts_cbranch_scc1 .LBB0_{number}\n"
        for number, (step, before) in enumerate(zip(steps, between, strict=True))
    )
    function = function_of(code)
    assert leftovers(function) == {loop.id for loop in function.loops[1:3]}
