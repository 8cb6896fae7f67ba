"""LDS races found from the code alone, against what the emulator meets when it runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from emulated import KERNEL, troubles
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.lanes.lds import races, trace
from kinspect.inspector.lanes.lds.accesses import LdsTrace
from kinspect.inspector.lanes.lds.races import Race, RaceReport, races_of
from kinspect.inspector.machines.loader import load
from kinspect.inspector.model import Metric
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from msgspec.structs import replace

DATA = Path(__file__).parent / "data" / "emulator"

PLACES = """
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x100, v1
"""
"""v1: a place for each lane; v2: that of the same lane in the other wave."""
LOOP = "s_movk_i32 s5, 3\n.LBB0_1:\n"
AGAIN = "v_add_u32_e32 v0, 1, v0\ns_sub_i32 s5, s5, 1\ns_cmp_lg_u32 s5, 0\ns_cbranch_scc1 .LBB0_1\n"
WRITE, READ = "ds_write_b32 v1, v0\n", "ds_read_b32 v3, v2\n"
WAIT, BARRIER = "s_waitcnt lgkmcnt(0)\n", "s_barrier\n"
READ_AND_WRITE = f"ds_read_b32 v3, v5\n{WAIT}v_add_u32_e32 v3, v3, v0\nds_write_b32 v5, v3\n{WAIT}"
TURNS = """
v_and_b32_e32 v5, 63, v0
v_lshlrev_b32_e32 v5, 2, v5
v_lshrrev_b32_e32 v6, 6, v0
v_readfirstlane_b32 s6, v6
"""
"""v5: a place that both waves use; s6: the wave's number."""
SECOND_WAITS = "s_cmp_lg_u32 s6, 1\ns_cbranch_scc1 .LBB0_2\ns_barrier\n.LBB0_2:\n"
FIRST_WAITS = "s_cmp_lg_u32 s6, 0\ns_cbranch_scc1 .LBB0_3\ns_barrier\n.LBB0_3:\n"
FIRST_WAVE = "v_cmp_gt_u32_e32 vcc, 64, v0\ns_and_saveexec_b64 s[8:9], vcc\n"
ALL_WAVES = "s_or_b64 exec, exec, s[8:9]\n"

RACING = {
    "no barrier": (WRITE + WAIT + READ + WAIT, "barrier"),
    "no wait before the barrier": (WRITE + BARRIER + READ + WAIT, "wait"),
    "no barrier before the next iteration": (
        LOOP + WRITE + WAIT + BARRIER + READ + WAIT + AGAIN,
        "barrier",
    ),
    "a read on its way": (
        LOOP + WRITE + WAIT + BARRIER + READ + BARRIER + AGAIN + WAIT,
        "wait",
    ),
    "a wait for all but the newest": (
        WRITE + "ds_write_b32 v1, v0 offset:1024\ns_waitcnt lgkmcnt(1)\n" + BARRIER
        + "ds_read_b32 v3, v2 offset:1024\n" + WAIT,
        "wait",
    ),
    "not in turns": (
        TURNS + LOOP + READ_AND_WRITE + BARRIER + BARRIER + AGAIN,
        "barrier",
    ),
    "one wave writes": (
        TURNS + FIRST_WAVE + "ds_write_b32 v5, v0\n" + ALL_WAVES + WAIT + "ds_read_b32 v3, v5\n",
        "barrier",
    ),
}  # fmt: skip
IN_ORDER = {
    "a barrier": WRITE + WAIT + BARRIER + READ + WAIT,
    "two barriers in a loop": (
        LOOP + WRITE + WAIT + BARRIER + READ + WAIT + BARRIER + AGAIN
    ),
    "two buffers in turns": (
        LOOP + WRITE + WAIT + BARRIER + READ + WAIT
        + "v_xor_b32_e32 v1, 0x400, v1\nv_xor_b32_e32 v2, 0x400, v2\n" + AGAIN
    ),
    "own places": WRITE + WAIT + "ds_read_b32 v3, v1\n" + WAIT,
    "a wait for the one that is read": (
        WRITE + "ds_write_b32 v1, v0 offset:1024\ns_waitcnt lgkmcnt(1)\n" + BARRIER + READ + WAIT
    ),
    "waves that take turns": (
        TURNS + SECOND_WAITS + LOOP + READ_AND_WRITE + BARRIER + BARRIER + AGAIN + FIRST_WAITS
    ),
    "one wave writes, then a barrier": (
        TURNS + FIRST_WAVE + "ds_write_b32 v5, v0\n" + ALL_WAVES + WAIT + BARRIER
        + "ds_read_b32 v3, v5\n" + WAIT
    ),
    "both add": TURNS + LOOP + "ds_add_u32 v5, v0\n" + AGAIN + WAIT,
}  # fmt: skip


def report_of(code: str, arch: str = "gfx942", waves: int = 2) -> RaceReport:
    function = parse_text(KERNEL.format(arch=arch, code=PLACES + code), "k.s").kernels[0]
    return races_of(function, load(arch), (waves * 64, 1, 1))


@pytest.mark.parametrize("name", RACING)
def test_what_races_is_found(name: str) -> None:
    code, cause = RACING[name]
    report = report_of(code)
    assert {race.cause for race in report.races} == {cause}
    assert report.decided == report.accesses
    assert "lds_race" in troubles(PLACES + code)


@pytest.mark.parametrize("name", IN_ORDER)
def test_what_is_in_order_is_not(name: str) -> None:
    report = report_of(IN_ORDER[name])
    assert report.races == ()
    assert report.decided == report.accesses
    assert "lds_race" not in troubles(PLACES + IN_ORDER[name])


def test_one_wave_has_nobody_to_race_with() -> None:
    assert report_of(WRITE + "ds_read_b32 v3, v1\n", waves=1).races == ()


def test_both_instructions_and_the_barrier_are_named() -> None:
    report = report_of(LOOP + WRITE + WAIT + BARRIER + READ + BARRIER + AGAIN + WAIT)
    # Behind the two places and the counter: write, wait, barrier, read, barrier.
    assert report.races == (Race(6, 3, False, True, "wait", 7, carried=True, bytes=256),)


def test_an_address_that_the_launch_passes_decides_nothing() -> None:
    code = "s_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_add_u32_e32 v2, s4, v2\n"
    report = report_of(code + WRITE + WAIT + READ + WAIT)
    assert (report.races, report.decided, report.accesses) == ((), 1, 2)


def test_lanes_that_the_launch_decides_decide_nothing() -> None:
    """Behind the masked part all lanes are back, and what is read there is decided again."""
    code = (
        "s_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_cmp_gt_u32_e32 vcc, s4, v0\n"
        "s_and_saveexec_b64 s[8:9], vcc\n"
    )
    report = report_of(code + WRITE + ALL_WAVES + WAIT + READ + WAIT)
    assert (report.races, report.decided, report.accesses) == ((), 1, 2)


def test_spilled_addresses_are_followed() -> None:
    spilled = (
        "scratch_store_dword off, v2, off offset:16\nv_mov_b32_e32 v2, 0\n"
        "s_waitcnt vmcnt(0)\nscratch_load_dword v4, off, off offset:16\ns_waitcnt vmcnt(0)\n"
    )
    report = report_of(spilled + WRITE + WAIT + "ds_read_b32 v3, v4\n" + WAIT)
    assert [race.bytes for race in report.races] == [256]


def test_a_wave_waits_for_its_own_copy() -> None:
    copy = (
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_mov_b32 m0, 0\ns_waitcnt lgkmcnt(0)\n"
        "global_load_lds_dword v1, s[4:5]\n"
    )
    alone = report_of(copy + "ds_read_b32 v3, v1\n", waves=1)
    assert [race.cause for race in alone.races] == ["own-wait"]
    assert report_of(copy + "s_waitcnt vmcnt(0)\nds_read_b32 v3, v1\n", waves=1).races == ()


@pytest.mark.parametrize(
    ("between", "behind", "races"), [("", READ, 0), (READ, "", 1), ("", WRITE, 0)]
)
def test_a_split_barrier(between: str, behind: str, races: int) -> None:
    """Between its halves the other wave may still be writing."""
    places = PLACES.replace("0x100", "0x80")  # 32 lanes
    code = (
        (
            f"{WRITE}s_wait_dscnt 0x0\ns_barrier_signal -1\n{between}s_barrier_wait -1\n{behind}"
            "s_wait_dscnt 0x0\n"
        )
        .replace("ds_write", "ds_store")
        .replace("ds_read", "ds_load")
    )
    text = KERNEL.format(arch="gfx1201", code=places + code)
    text = text.replace("  .amdhsa_accum_offset 32\n", "")
    assert (
        len(races_of(parse_text(text, "k.s").kernels[0], load("gfx1201"), (64, 1, 1)).races)
        == races
    )


@pytest.mark.parametrize(("workgroup", "races"), [((64, 2, 1), 1), ((8, 16, 1), 0), (None, None)])
def test_work_items_with_two_numbers(workgroup: Any, races: int | None) -> None:
    """A row reads the next one's places: another wave's, or one in the same wave."""
    code = (
        "v_and_b32_e32 v1, 0x3ff, v0\nv_bfe_u32 v2, v0, 10, 10\nv_lshlrev_b32_e32 v2, 6, v2\n"
        "v_add_lshl_u32 v1, v1, v2, 2\nv_xor_b32_e32 v2, 0x100, v1\n" + WRITE + WAIT + READ + WAIT
    )
    text = KERNEL.format(arch="gfx942", code=code)
    dimensions = "  .amdhsa_system_vgpr_workitem_id 1\n.end_amdhsa_kernel"
    launch = Overrides(workgroup=workgroup, waves_per_workgroup=None if workgroup else 2)
    context = Context("k.s", overrides=launch)
    (report,) = analyze_text(text.replace(".end_amdhsa_kernel", dimensions), context)
    metric = report.metrics["lds.races"]
    if races is None:
        assert metric.value is None
        assert "--workgroup" in metric.note
    else:
        assert isinstance(metric.value, dict)
        assert metric.value["pairs"] == races


def test_how_many_waves_there_are_has_to_be_known() -> None:
    """`counts_in_lds` allows 16 waves, and has no barrier: one was meant."""
    text = (DATA.parents[2] / "rules" / "fixtures" / "hip_arrays_gfx942.s").read_text()

    def races(waves: int | None) -> Metric:
        context = Context("k.s", overrides=Overrides(waves_per_workgroup=waves))
        reports = {report.name: report for report in analyze_text(text, context)}
        return reports["counts_in_lds"].metrics["lds.races"]

    found = []
    for waves in (None, 1, 2, 16):
        value = races(waves).value
        assert isinstance(value, dict)
        found.append((value.get("pairs"), value.get("pairs_of_two_waves")))
    pairs = found[2][0]
    assert found[:2] == [(None, pairs), (0, None)]
    assert found[3][0] >= pairs > 0
    assert "--waves" in races(None).note


@pytest.mark.parametrize(("most", "is_advised"), [(1024, True), (512, False)])
def test_one_wave_is_not_advised_where_the_code_states_more(most: int, is_advised: bool) -> None:
    text = (DATA.parents[2] / "rules" / "fixtures" / "hip_arrays_gfx942.s").read_text()
    text = text.replace(".max_flat_workgroup_size: 1024", f".max_flat_workgroup_size: {most}")
    reports = {report.name: report for report in analyze_text(text, Context("k.s"))}
    (finding,) = [f for f in reports["counts_in_lds"].findings if f.rule == "KI130"]
    assert ("__launch_bounds__(64)" in finding.fix) is is_advised
    assert "--waves 1" not in finding.fix or is_advised
    assert finding.fix.startswith("Put a wait and a barrier between the two.")


def compiled(name: str) -> str:
    return (DATA / name).read_text()


def races_in(text: str, arch: str) -> RaceReport:
    """Of a kernel of 8 waves."""
    report = races_of(
        parse_text(text, "k.s").kernels[0], load(arch), (8 * load(arch).wave_sizes[0], 1, 1)
    )
    assert report.decided == report.accesses > 80
    return report


def test_the_race_of_triton_3_8() -> None:
    """Triton-lang #11696: reads are on their way at a barrier, and the next tile is stored."""
    races = races_in(compiled("ieee_dot.triton-3.8.gfx942.s"), "gfx942").races
    assert {(race.cause, race.first_writes, race.second_writes) for race in races} == {
        ("wait", False, True)
    }
    assert races_in(compiled("ieee_dot.triton-3.9.gfx942.s"), "gfx942").races == ()


def test_the_wait_that_llvm_took_away() -> None:
    """llvm-project #220357: stores at a loop's end, on their way at its first barrier."""
    text = compiled("gemm.triton-3.9.gfx1100.s")
    races = races_in(text, "gfx1100").races
    assert all(race.first_writes and race.carried and race.cause == "wait" for race in races)
    assert len(races) > 1
    mended = text.replace("\ts_waitcnt vmcnt(0)\n\ts_barrier", "\ts_waitcnt 0\n\ts_barrier")
    assert races_in(mended, "gfx1100").races == ()


def test_every_barrier_that_is_left_out_is_missed() -> None:
    """Each alone. Half of the waves take another turn: the second and the last barrier are theirs.

    Without one of those the halves meet at other barriers, and the emulator sees no race either.
    """
    text = compiled("ieee_dot.triton-3.9.gfx942.s")
    places = [match.span() for match in re.finditer(r"\ts_barrier\n", text)]
    shortened = [text[:start] + text[end:] for start, end in places]
    racing = [bool(races_in(code, "gfx942").races) for code in shortened]
    assert racing == [True, False, True, True, True, True, False]


def test_every_wait_before_a_barrier_that_is_left_out_is_missed() -> None:
    text = compiled("ieee_dot.triton-3.9.gfx942.s")
    wait = re.compile(r"\ts_waitcnt (?:vmcnt\(0\) )?lgkmcnt\(0\)\n(?=\ts_barrier)")
    places = [match.span() for match in wait.finditer(text)]
    assert len(places) >= 2
    for start, end in places:
        assert races_in(text[:start] + text[end:], "gfx942").races, text[start - 200 : end]


# ------------------------------------------------------------------ barriers that order nothing


ENDLESS = """\
  s_mov_b32 s10, 0
  v_lshlrev_b32_e32 v1, 2, v0
1:
  s_barrier
  ds_write_b64 v1, v[6:7]
  s_bitcmp1_b32 s11, 6
  s_cbranch_scc1 .Lend
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lsecond
.Lfirst:
  s_barrier
  s_cmp_lt_i32 s8, s9
  s_cbranch_scc1 .Lend
.Lafter:
  s_waitcnt lgkmcnt(0)
  s_cmp_lt_u32 s11, 64
  s_cbranch_scc0 .Lfirst
.Lsecond:
  s_waitcnt lgkmcnt(0)
  ds_write_b64 v1, v[6:7]
  s_xor_b32 s10, s10, 1
  s_bitcmp1_b32 s11, 6
  s_cbranch_scc1 .Lafter
.Lend:
  ds_read_b64 v[6:7], v1
"""
"""Two loops with a common part, of which nothing says how often they are executed."""


def test_ways_that_are_kept_cost_no_copies_of_what_was_met(monkeypatch: Any) -> None:
    kept: list[int] = []
    unchanged = trace._Walk._remember

    def counted(walk: Any, group: Any, to: int) -> None:
        unchanged(walk, group, to)
        kept.append(len(walk._later))

    monkeypatch.setattr(trace._Walk, "_remember", counted)
    monkeypatch.setattr(trace, "_MOST_LATER", 3)
    report = report_of(ENDLESS)
    blocks = 8
    assert len(kept) > 3 * blocks, "more than may be kept"
    assert max(kept) <= 3 * blocks
    assert report.accesses == 3


def test_another_way_begins_where_it_parted() -> None:
    whole = LdsTrace.of(2)
    barrier, read = (
        inst
        for inst in parse_text("k:\n  s_barrier\n  ds_read_b32 v1, v0\n", "k.s")
        .functions[0]
        .instructions
    )
    first = whole.add(read, (0, 1), (), ())
    whole.pass_barrier((0, 1), barrier)
    fork = whole.fork({first.number: replace(first, last={})})
    whole.end((0, 1), (first,))
    whole.pass_barrier((0,), barrier)
    whole.add(read, (1,), (), ())
    other = fork.continued()
    assert other.barrier_at == [[barrier.index]] * 2
    assert (other.waits, other.barriers) == ([1, 1], [1, 1])
    assert [(access.site, access.last) for access in other.accesses] == [(read.index, {})]
    other.pass_barrier((1,), barrier)
    assert [len(passed) for passed in whole.barrier_at] == [2, 1]


def test_accesses_that_last_over_too_many_barriers_are_not_compared(monkeypatch: Any) -> None:
    code = "  ds_write_b32 v0, v1\n" + "  s_barrier\n" * 9 + "  ds_read_b32 v2, v0\n"
    monkeypatch.setattr(races, "_MOST_COMPARED", 10)
    assert report_of(code).why
    monkeypatch.undo()
    assert not report_of(code).why
