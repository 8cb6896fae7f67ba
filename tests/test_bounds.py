"""Lower bounds of loops: each unit with a kernel that it bounds, figures by hand from documents.

CDNA3: a SIMD has its turn every fourth clock (ROCm Compute Profiler's performance model); one wave
issues an instruction at a time, two waves' vector instructions may issue together.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from emulated import KERNEL
from kinspect.inspector.explain.loop_view import scorecard
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.kernel import kernel_report
from kinspect.inspector.metrics.lanes import FROM_MEMORY
from kinspect.inspector.metrics.subject import Facts, KernelCode
from kinspect.inspector.model import LoopReport, value_of


def hot_loop(
    body: str,
    arch: str = "gfx942",
    waves: int = 4,
    before: str = "",
    lds: int = 4096,
    lanes: bool = True,
) -> LoopReport:
    """A loop around some instructions; the kernel's occupancy is 8 waves on a SIMD of gfx942.

    With 64 KiB of LDS it is one, as long as a workgroup has 4.
    """
    code = (
        f"{before}\n.Lloop:\n{body}\ns_sub_u32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\n"
        "s_cbranch_scc1 .Lloop\n"
    )
    text = KERNEL.format(arch=arch, code=code)
    if not arch.startswith("gfx9"):
        text = text.replace(".end_amdhsa", "  .amdhsa_wavefront_size32 1\n.end_amdhsa")
    function = parse_text(text, "k.s").kernels[0]
    size = waves * (64 if arch.startswith("gfx9") else 32)
    facts = Facts(lds_bytes=lds, workgroup_size=size, analyse_lanes=lanes)
    subject = KernelCode(function, load(arch), facts)
    report = kernel_report(subject, kernel_id="k", name="k", arch=arch, source=None)
    (loop,) = report.loops
    return loop


def alone(loop: LoopReport) -> Mapping[str, object]:
    figures = value_of(loop.metrics, "bound.wave")
    assert isinstance(figures, Mapping)
    return figures


MFMA = "v_mfma_f32_32x32x8_f16 v[{0}:{1}], v[32:33], v[34:35], v[{0}:{1}]"
FMA = "v_fma_f32 v{0}, v1, v2, v3"
ADDRESSES = "v_mov_b32_e32 v3, 0\nv_lshlrev_b32_e32 v1, 2, v0\nv_lshlrev_b32_e32 v2, 7, v0"
UNITS = {
    # 32 clocks each; 8 waves share the unit.
    "matrix": (MFMA.format(0, 15), 32, 8 * 32),
    # 4 clocks each, half of it where other waves issue at the same time.
    "vector": ("\n".join(FMA.format(4 + n) for n in range(8)), 8 * 4, 8 * 8 * 4 / 2),
    "transcendental": ("v_exp_f32_e32 v2, v1\nv_exp_f32_e32 v3, v1", 2 * 16, 8 * 2 * 16),
    # Two of the loop's own.
    "scalar": ("s_mul_i32 s5, s6, s7\ns_mul_i32 s8, s6, s7", 4 * 4, 8 * 4 * 4),
    # Each lane 128 bytes further: 32 banks, all in the same one; 32 waves of a CU.
    "lds": (
        "ds_read_b32 v4, v2\nds_read_b32 v5, v2 offset:64\ns_waitcnt lgkmcnt(0)", 128, 32 * 128
    ),
    # A pair of SIMDs takes 64 bytes a clock, addresses included; the banks take 128.
    "lds_port": ("ds_write_b32 v1, v3\nds_write_b32 v1, v3 offset:4096", 2 * 8, 16 * 2 * 8),
    # All lanes touch the same line: as long as one of the CU's lookups for each wave.
    "vmem": ("\n".join(f"global_load_dword v{5 + n}, v3, s[0:1]" for n in range(6)), 24, 8 * 24),
    # Every lane touches a line of its own.
    "l1": ("global_load_dword v4, v2, s[0:1]\ns_waitcnt vmcnt(0)", 64, 32 * 64),
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_with_a_kernel_that_it_bounds(unit: str) -> None:
    body, one_wave, resident = UNITS[unit]
    loop = hot_loop(body, before=ADDRESSES)
    assert value_of(loop.metrics, "bound.waves") == 8
    assert alone(loop)[unit] == one_wave
    assert value_of(loop.metrics, f"bound.{unit}") == resident
    assert value_of(loop.metrics, "bound.unit") == unit
    assert value_of(loop.metrics, "bound.cycles") == resident


def test_issue_bounds_a_lone_wave() -> None:
    """Vector and scalar instructions in turn: neither unit is busy all the time."""
    body = "\n".join(FMA.format(4 + n) + "\ns_mul_i32 s5, s6, s7" for n in range(4))
    loop = hot_loop(body, lds=65536)
    assert value_of(loop.metrics, "bound.waves") == 1
    assert value_of(loop.metrics, "bound.cycles") == (8 + 3) * 4
    assert value_of(loop.metrics, "bound.unit") == "issue"


def test_a_chain_bounds_a_lone_wave_of_rdna() -> None:
    """Four dependent sums of five clocks, issued in seven."""
    loop = hot_loop("v_add_f32_e32 v4, v4, v1\n" * 4, "gfx1100", lds=65536)
    assert value_of(loop.metrics, "bound.unit") == "latency"
    assert value_of(loop.metrics, "bound.cycles") == 20


def test_a_wave_by_itself_is_bound_by_its_own_issue() -> None:
    """12 instructions, one every fourth clock; units that waves share come to less than that."""
    body = "\n".join(FMA.format(4 + n) for n in range(4)) + "\n" + "\n".join(["s_nop 0"] * 3)
    loop = hot_loop(body + "\nv_mov_b32_e32 v9, s5\ns_mov_b32 s5, s6", waves=1, before="")
    assert alone(loop)["issue"] == 9 * 4  # s_nop takes no unit's turn


def test_a_chain_that_goes_from_iteration_to_iteration() -> None:
    """Three dependent products of 32 clocks, then a sum; the fourth product stands beside."""
    chain = "\n".join([MFMA.format(0, 15)] * 3) + "\nv_add_f32_e32 v0, v0, v40"
    loop = hot_loop(chain, before="")
    assert alone(loop)["latency"] == 3 * 32 + 4
    fresh = hot_loop(chain + "\n" + "\n".join(f"v_mov_b32_e32 v{n}, 0" for n in range(16)))
    assert alone(fresh)["latency"] == 4  # s4's: the accumulator starts anew


def test_a_chain_over_two_iterations() -> None:
    """v5 gets v4's value of the iteration before, and v4 v5's: 10 results in two iterations."""
    body = "v_mov_b32_e32 v6, v5\n" + "v_add_f32_e32 v6, v6, v1\n" * 8
    loop = hot_loop(body + "v_mov_b32_e32 v5, v4\nv_mov_b32_e32 v4, v6")
    assert alone(loop)["latency"] == (8 + 3) * 4 / 2


def test_chains_of_random_code() -> None:
    """Never longer than the largest cycle mean of the max-plus matrix, and nearly always equal."""
    draw = random.Random(7)
    equal = 0
    for _ in range(100):
        sums = [[draw.randint(1, 5) for _ in range(3)] for _ in range(draw.randint(2, 8))]
        lines = [f"v_add_f32_e32 v{d}, v{a}, v{b}" for d, a, b in sums]
        longest = alone(hot_loop("\n".join(lines)))["latency"]
        exact = max(cycle_mean(sums), 4)  # the loop's counter takes 4
        assert isinstance(longest, int | float)
        assert longest <= exact + 0.01, lines
        equal += abs(longest - exact) < 0.01
    assert equal >= 95


def cycle_mean(sums: list[list[int]]) -> float:
    """The longest walk from a register's value back to itself, for each iteration."""
    never = float("-inf")
    ways = []  # from each register to each, over one iteration
    for source in range(1, 6):
        ready = [never] * 6
        ready[source] = 0
        for result, left, right in sums:
            ready[result] = max(ready[left], ready[right]) + 4
        ways.append(ready[1:])
    most, power = 0.0, ways
    for iterations in range(1, 6):
        most = max([most, *(power[k][k] / iterations for k in range(5))])
        power = [
            [max(power[i][k] + ways[k][j] for k in range(5)) for j in range(5)] for i in range(5)
        ]
    return most


def test_code_under_a_condition_does_not_count() -> None:
    body = "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 .Lskip\n" + MFMA.format(0, 15) + "\n.Lskip:"
    loop = hot_loop(body)
    assert value_of(loop.metrics, "cycles.mfma") == 32
    assert value_of(loop.metrics, "bound.matrix") == 0


def test_unknown_addresses_are_left_out_and_said() -> None:
    """An address from memory: nothing is known of its lines."""
    body = "global_load_dword v4, v4, s[0:1]\ns_waitcnt vmcnt(0)"
    loop = hot_loop(body, before="global_load_dword v4, v0, s[0:1]\ns_waitcnt vmcnt(0)")
    assert loop.metrics["bound.l1"].value is None
    assert loop.metrics["bound.l1"].note == f"1 of 1 accesses are left out: {FROM_MEMORY}"
    assert loop.metrics["bound.unit"].note.endswith("unknown: l1")
    assert "cache lines unknown" in scorecard(loop.metrics)[-1].text
    more = hot_loop(body + "\nglobal_load_dword v5, v1, s[0:1]", before=ADDRESSES)
    assert loop.metrics["uncached.memory"].value is None
    assert value_of(more.metrics, "bound.l1") == 32 * 2
    assert "1 of 2 accesses" in more.metrics["bound.l1"].note


def test_rdna_issues_in_every_clock() -> None:
    """gfx1100, wave32: a sum takes one clock and is there after five; a quarter rate beside it."""
    loop = hot_loop("v_add_f32_e32 v4, v4, v1\nv_exp_f32_e32 v5, v1", "gfx1100", waves=32)
    figures = alone(loop)
    assert (figures["vector"], figures["transcendental"], figures["latency"]) == (2, 4, 5)
    assert value_of(loop.metrics, "bound.waves") == 16
    assert value_of(loop.metrics, "bound.transcendental") == 16 * 4
    assert value_of(loop.metrics, "bound.unit") == "transcendental"


def test_the_report_names_the_bound() -> None:
    rows = scorecard(hot_loop(UNITS["matrix"][0]).metrics)
    cells = {row.label: row.text for row in rows}
    assert cells["bound"].startswith("256 cycles by matrix unit (")
    assert cells["bound"].endswith("8 waves/SIMD)")


def test_no_unit_is_named_where_most_code_is_under_conditions() -> None:
    """What is always executed says nothing of products that may be skipped."""
    skipped = "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 .Lskip\n" + "\n".join(
        MFMA.format(0, 15) for _ in range(12)
    )
    loop = hot_loop(FMA.format(4) + "\n" + skipped + "\n.Lskip:")
    assert value_of(loop.metrics, "bound.covered") == round(100 * 6 / 18, 1)
    assert value_of(loop.metrics, "bound.unit") is None
    cell = scorecard(loop.metrics)[-1].text
    assert " at least (" in cell
    assert cell.endswith(
        "without code under conditions, 67 % of the instructions, with it 3072 by matrix unit)"
    )
    whole = hot_loop(UNITS["matrix"][0])
    assert value_of(whole.metrics, "bound.covered") == 100
