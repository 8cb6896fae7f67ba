"""The longest way of an iteration: lanes pass their checks, a scalar branch takes one way."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from emulated import KERNEL
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.graph.longest_way import kernel_way, longest_ways
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.kernel import kernel_report
from kinspect.inspector.metrics.subject import Facts, KernelCode
from kinspect.inspector.model import Function, KernelReport, Scalar

ADD = "v_add_f32 v1, v1, v2\n"
LATCH = "s_sub_u32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 .Lloop\n"  # 3 instructions
LINES = "global_load_dword v4, v2, s[0:1]\n"  # its lanes are 128 bytes apart
ADDRESSES = "v_lshlrev_b32_e32 v2, 7, v0\n"


def code_of(code: str) -> Function:
    return parse_text(KERNEL.format(arch="gfx942", code=code), "k.s").kernels[0]


def in_loop(body: str, before: str = "") -> Function:
    return code_of(f"{before}\n.Lloop:\n{body}{LATCH}")


def guarded(body: str, label: str = "1") -> str:
    """Code under a condition of lanes, with three instructions of its own."""
    return (
        f"s_and_saveexec_b64 s[6:7], vcc\ns_cbranch_execz .Lout{label}\n{body}"
        f".Lout{label}:\ns_or_b64 exec, exec, s[6:7]\n"
    )


def lengths(function: Function) -> tuple[int, int]:
    """Instructions on the longest way of the only loop, and how many of them are optional."""
    (loop,) = function.loops
    way = longest_ways(function, {loop.id})[loop.id]
    return way.instructions, way.optional


KNOWN = Facts(lds_bytes=4096, workgroup_size=256)


def report_of(function: Function, facts: Facts = KNOWN) -> KernelReport:
    subject = KernelCode(function, load("gfx942"), facts)
    return kernel_report(subject, kernel_id="k", name="k", arch="gfx942", source=None)


def figures(value: object) -> Mapping[str, Scalar]:
    assert isinstance(value, Mapping)
    return value


BOTH_SIDES = (
    "s_and_saveexec_b64 s[6:7], vcc\ns_xor_b64 s[6:7], exec, s[6:7]\ns_cbranch_execz .Lelse\n"
    + ADD * 4
    + ".Lelse:\ns_andn2_saveexec_b64 s[6:7], s[6:7]\ns_cbranch_execz .Lout\n"
    + ADD * 5
    + ".Lout:\ns_or_b64 exec, exec, s[6:7]\n"
)
OUT_OF_LINE = (
    "s_and_saveexec_b64 s[6:7], vcc\ns_cbranch_execnz .Lfar\n.Lback:\n"
    "s_or_b64 exec, exec, s[6:7]\n" + LATCH + "s_endpgm\n.Lfar:\n" + ADD * 6 + "s_branch .Lback\n"
)


@pytest.mark.parametrize(
    ("body", "length", "optional"),
    [
        (ADD, 4, 0),
        (guarded(ADD * 10), 3 + 10 + 3, 0),
        (guarded(ADD * 2 + guarded(ADD * 3, "2")), 3 + 2 + 3 + 3 + 3, 0),
        (BOTH_SIDES, 3 + 4 + 2 + 5 + 1 + 3, 0),
        # A wave takes either way of a scalar branch.
        (f"s_cbranch_scc1 .Lout\n{ADD * 5}.Lout:\n", 1 + 5 + 3, 5),
        (f"s_cbranch_scc1 .Lelse\n{ADD * 5}s_branch .Lout\n.Lelse:\n{ADD * 2}.Lout:\n", 10, 6),
        (f"s_cbranch_vccz .Lout\n{guarded(ADD * 5)}.Lout:\n", 1 + 8 + 3, 8),
    ],
)  # fmt: skip
def test_the_way_passes_what_only_an_empty_exec_skips(
    body: str, length: int, optional: int
) -> None:
    assert lengths(in_loop(body)) == (length, optional)


def test_code_out_of_line_is_on_the_way() -> None:
    assert lengths(code_of(".Lloop:\n" + OUT_OF_LINE)) == (2 + 7 + 1 + 3, 0)


def test_lanes_that_leave_a_loop_do_not_end_the_way_of_the_outer_one() -> None:
    """The inner loop ends where EXEC is empty; what follows it belongs to every iteration."""
    inner = f".Linner:\n{ADD * 2}s_andn2_b64 exec, exec, vcc\ns_cbranch_execnz .Linner\n"
    function = in_loop(f"{ADD}{inner}{ADD * 4}")
    outer = next(loop for loop in function.loops if loop.depth == 1)
    way = longest_ways(function, {outer.id})[outer.id]
    assert (way.instructions, way.optional) == (1 + 4 + 3, 0)


def test_the_bounds_count_the_guarded_access() -> None:
    """One of five instructions is certain: of the lines nothing is known but on the longest way."""
    report = report_of(in_loop(guarded(LINES + "s_waitcnt vmcnt(0)\n" + ADD * 20), ADDRESSES))
    metrics = report.loops[0].metrics
    assert metrics["bound.unit"].value is None
    assert metrics["bound.l1"].value == 0
    longest = figures(metrics["bound.longest"].value)
    assert metrics["bound.longest"].origin == "estimated"
    assert longest["unit"] == "l1"
    # 64 lanes with a line each, 32 waves of a CU.
    assert (longest["l1"], longest["cycles"]) == (32 * 64, 32 * 64)
    assert (longest["covered"], longest["optional"]) == (100, 0)


def test_where_nothing_is_conditional_both_bounds_are_alike() -> None:
    metrics = report_of(in_loop(LINES + ADD, ADDRESSES)).loops[0].metrics
    longest = figures(metrics["bound.longest"].value)
    assert longest["unit"] == metrics["bound.unit"].value
    assert longest["cycles"] == metrics["bound.cycles"].value


def test_a_kernel_without_loops_has_bounds() -> None:
    function = code_of(ADDRESSES + guarded(LINES + ADD * 2))
    way = kernel_way(function)
    assert way is not None
    assert (way.instructions, way.optional) == (len(function.instructions), 0)
    longest = figures(report_of(function).metrics["bound.longest"].value)
    assert (longest["unit"], longest["l1"]) == ("l1", 32 * 64)
    with_loop = report_of(in_loop(ADD)).metrics["bound.longest"]
    assert with_loop.value is None
    assert with_loop.note


def test_without_resident_waves_nothing_is_known_but_the_share_of_the_code() -> None:
    metrics = report_of(in_loop(guarded(ADD * 20)), Facts()).loops[0].metrics
    assert metrics["bound.longest"].value is None
    assert metrics["bound.covered"].value == round(100 * 6 / 26, 1)


@pytest.mark.parametrize(
    "code",
    [
        ".Lloop:\ns_branch .Lloop\n",
        # The ways meet at a latch that only lanes without work lead to.
        ".Lloop:\ns_cbranch_execz .Llast\ns_branch .Lloop\n.Llast:\ns_cbranch_scc0 .Lloop\n",
        # Two blocks lead into each other, and each is entered from outside.
        f"s_cbranch_scc1 .Lb\n.La:\n{ADD}.Lb:\n{ADD}s_cbranch_scc0 .La\n",
        f"s_endpgm\n.Lloop:\n{ADD}s_branch .Lloop\n",
    ],
)
def test_odd_loops_have_shares_within_bounds(code: str) -> None:
    for loop in report_of(code_of(code)).loops:
        longest = loop.metrics["bound.longest"].value
        if longest is not None:
            shares = [figures(longest)[name] for name in ("covered", "optional")]
            assert all(isinstance(share, float) and 0 <= share <= 100 for share in shares)


def test_many_branches_do_not_multiply() -> None:
    """Two ways at each of 300 branches: 2 to the power of 300 in all."""
    other = "s_cbranch_scc1 .Le{0}\n" + ADD + "s_branch .Lo{0}\n.Le{0}:\n" + ADD * 2 + ".Lo{0}:\n"
    way = kernel_way(code_of("".join(other.format(number) for number in range(300))))
    assert way is not None
    assert (way.instructions, way.optional) == (300 * 3 + 1, 300 * 2)
