"""Times of whole launches: what is executed for them, what is left out, and what is told."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.emulator.memory import Buffer
from kinspect.inspector.isa.asm.constants import read_constants
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.machines.rates import rates_of
from kinspect.inspector.model import KernelReport, SourceLoc
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context, Overrides
from kinspect.inspector.pipeline.emulated_code import CodeLaunch, code_launch, typed_arguments
from kinspect.inspector.pipeline.jobs import timing
from kinspect.inspector.timing import timed as timing_module
from kinspect.inspector.timing import trace as tracing
from kinspect.inspector.timing import wave_traces
from kinspect.inspector.timing.attribution import (
    Attribution,
    attributed,
    instructions_of,
    lines_of,
    stalls_of,
)
from kinspect.inspector.timing.device import Device, device_of, place, shares_of
from kinspect.inspector.timing.savings import savings
from kinspect.inspector.timing.timed import Timing, timed, traced
from msgspec.structs import replace

Tool = Callable[..., Any]


GEMM = Path(__file__).parents[1] / "docs" / "examples" / "gemm.amdgcn"
SIZE = 1024
ARGUMENTS = ", ".join([f"f16[{SIZE * SIZE}]=zeros"] * 3) + f", i32 {SIZE}"

STRIDED = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.type k,@function
k:
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dword s6, s[0:1], 0x8
  v_lshlrev_b32 v1, 2, v0
  s_lshl_b32 s7, s2, 16
  v_add_u32 v1, s7, v1
  v_mov_b32 v3, 0
  s_waitcnt lgkmcnt(0)
.Lloop:
  global_load_dword v2, v1, s[4:5]
  v_add_u32 v1, 0x400, v1
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_waitcnt vmcnt(0)
  v_add_f32 v3, v3, v2
  v_exp_f32 v3, v3
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v3, s[4:5]
  s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
.end_amdhsa_kernel
"""


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


def launched(
    text: str, arguments: str, grid: tuple[int, int, int], threads: int, lds: int = 0
) -> tuple[Emulator, Launch, list[Buffer]]:
    program = parse_text(text, "k.s")
    function, machine = program.kernels[0], load("gfx942")
    buffers, scalars, _ = typed_arguments(arguments)
    request = CodeLaunch(Path("k.s"), None, "gfx942", grid, (threads, 1, 1), arguments, lds)
    emulator = Emulator(function, machine, read_constants(text, "k.s"), program.functions)
    return emulator, code_launch(request, function, machine, scalars), buffers


def gemm(grid: tuple[int, int, int] = (16, 16, 1)) -> tuple[Emulator, Launch, list[Buffer]]:
    return launched(GEMM.read_text(), ARGUMENTS, grid, 256, lds=8192)


def timing_of(emulator: Emulator, launch: Launch, buffers: list[Buffer], resident: int) -> Timing:
    machine = load("gfx942")
    device = device_of(machine)
    assert device is not None
    return traced(emulator, machine, device, launch, buffers, resident)


def accesses(emulator: Emulator, launch: Launch, buffers: list[Buffer]) -> dict[Any, Any]:
    done = tracing.trace(emulator, replace(launch, checks=False), buffers, 128, "gfx942")
    return done.workgroups


def test_what_is_left_out_changes_neither_ways_nor_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All instructions of all iterations, against those that feed addresses of the first six."""
    emulator, launch, buffers = gemm()
    launch = replace(launch, workgroups=(0, 37, 255))
    thin = accesses(emulator, launch, buffers)

    class Whole:
        def __init__(self, code: Any) -> None:
            self.for_addresses = self.for_branches = code.blocks
            self.deciding = frozenset[int]()

    monkeypatch.setattr(tracing, "Thinned", Whole)
    monkeypatch.setattr(tracing, "INNERMOST_TRIPS", 1000)
    emulator, launch, buffers = gemm()
    whole = accesses(emulator, replace(launch, workgroups=(0, 37, 255)), buffers)
    for number, waves in thin.items():
        for wave, full in zip(waves, whole[number], strict=True):
            ((loop, (kept, trips)),) = wave.trips.items()
            assert full.trips[loop] == (trips, trips)
            assert (kept, trips) == (6, 30)
            first = [end for _, _, end in wave.spans][kept - 2]
            assert wave.stream[:first] == full.stream[:first]
            for position in range(first):
                assert wave.accesses.get(position) == full.accesses.get(position)


def test_loops_are_extrapolated_as_if_all_iterations_were_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = timed(timing_of(*gemm(), resident=2))
    monkeypatch.setattr(tracing, "INNERMOST_TRIPS", 1000)
    whole = timed(timing_of(*gemm(), resident=2))
    assert short.us == pytest.approx(whole.us, rel=0.05)
    assert sum(short.cu.issues.values()) == sum(whole.cu.issues.values())
    for name, share in whole.units.items():
        assert short.units[name] == pytest.approx(share, rel=0.1, abs=0.01)


@pytest.mark.parametrize("trips", [1, 3, 7, 50, 300])
def test_the_time_grows_with_the_trips(trips: int) -> None:
    launch = launched(STRIDED, f"f32[{1 << 24}]=zeros, i32 {trips}", (304, 1, 1), 64)
    timing = timing_of(*launch, resident=8)
    ((kept, in_all),) = timing.workgroups[0][0].trips.values()
    assert (kept, in_all) == (min(trips, 6), trips)
    rates = timing.rates
    # Each iteration waits for a load from memory, or from the L2 where another wave was before.
    per_trip = (timed(timing).cycles - rates.scalar_miss - rates.memory_latency) / trips
    if trips >= 50:
        assert rates.l1_latency < per_trip < 1.3 * rates.memory_latency


@pytest.mark.parametrize(("trips", "rest"), [(83, 3), (4002, 2)])
def test_what_an_unrolled_loop_leaves_over_is_what_it_leaves(trips: int, rest: int) -> None:
    """The rest goes on from where the loop ended, though that was not carried out to its end."""
    by_four = """.Lfour:
  global_load_dword v2, v1, s[4:5]
  s_sub_u32 s6, s6, 4
  v_add_u32 v4, 4, v4
  s_waitcnt vmcnt(0)
  s_cmp_gt_u32 s6, 3
  s_cbranch_scc1 .Lfour
  v_readfirstlane_b32 s8, v4
  s_sub_u32 s6, COUNT, s8
.Lloop:
""".replace("COUNT", str(trips))
    code = STRIDED.replace(".Lloop:\n", by_four, 1).replace(
        "v_mov_b32 v3, 0\n", "v_mov_b32 v3, 0\n  v_mov_b32 v4, 0\n"
    )
    arguments = f"f32[{1 << 24}]=zeros, i32 {trips}"
    emulator, launch, buffers = launched(code, arguments, (304, 1, 1), 64)
    (wave,) = timing_of(emulator, launch, buffers, 1).workgroups[0]
    (_, fours), (_, left) = (wave.trips[loop] for loop in sorted(wave.trips))
    assert (fours, left) == (trips // 4, rest)


def test_lines_that_neighbours_touch_come_from_the_l2() -> None:
    """Sixteen columns of workgroups read the same rows of A: only the first one misses."""
    timing = timing_of(*gemm(), resident=1)
    instructions = timing.function.instructions
    loads = {
        site: share
        for site, share in timing.sharing.fresh.items()
        if instructions[site].cls == "global_load"
    }
    assert pytest.approx(1 / 16) in loads.values()
    assert max(loads.values()) <= 0.5


@pytest.mark.parametrize(("step", "period"), [(4, 32), (8, 16), (16, 8), (64, 2), (128, 1)])
def test_lanes_that_stay_in_a_line_for_some_iterations_bring_every_line_once(
    monkeypatch: pytest.MonkeyPatch, step: int, period: int
) -> None:
    """Rows of a work-item each, read `step` bytes at a time; against all iterations."""
    trips, lanes = 96, 64
    row = STRIDED.replace("v_lshlrev_b32 v1, 2, v0", f"v_mul_u32_u24 v1, {trips * step}, v0")
    row = row.replace("s_lshl_b32 s7, s2, 16", f"s_mul_i32 s7, s2, {trips * step * lanes}")
    row = row.replace("v_add_u32 v1, 0x400, v1", f"v_add_u32 v1, {step}, v1")
    row = row.replace("  global_store_dword v1, v3, s[4:5]\n", "")
    read = 304 * lanes * trips * step

    def found() -> Timing:
        launch = launched(row, f"f32[{read // 4}]=zeros, i32 {trips}", (304, 1, 1), lanes)
        return timing_of(*launch, resident=8)

    timing = found()
    assert timing.periods == ({} if period <= 2 else {timing.function.loops[0].id: period})
    now = timed(timing)
    assert now.memory_bytes == pytest.approx(read, rel=0.05)
    monkeypatch.setattr(tracing, "INNERMOST_TRIPS", 1000)
    whole = timed(found())
    assert whole.memory_bytes == pytest.approx(read, rel=0.02)
    assert now.us == pytest.approx(whole.us, rel=0.1)


@pytest.mark.parametrize(("size", "least", "most"), [(1 << 20, 0.9, 1.1), (16 << 20, 1.0, 9.0)])
def test_what_the_l2_holds_is_read_into_each_once(size: int, least: float, most: float) -> None:
    """Scattered loads of a table: an XCD's workgroups touch up to 155,648 lines in all."""
    workgroups, lanes = 304 * 64, 64
    table = STRIDED[: STRIDED.index(".Lloop")] + STRIDED[STRIDED.index("  global_load") :]
    table = re.sub(r"  s_(sub|cmp|cbranch)[^\n]*\n", "", table)
    table = table.replace("v_lshlrev_b32 v1, 2, v0", "s_lshl_b32 s8, s2, 6")
    table = table.replace("s_lshl_b32 s7, s2, 16", "v_add_u32 v1, s8, v0")
    table = table.replace("v_add_u32 v1, s7, v1", "v_mul_lo_u32 v1, v1, 0x9e3779b1", 1)
    bits = 32 - (size.bit_length() - 1)
    table = table.replace(
        "v_mov_b32 v3, 0", f"v_lshrrev_b32 v1, {bits}, v1\n  v_and_b32 v1, -4, v1"
    )
    table = re.sub(r"  (v_add_u32 v1, 0x400|global_store)[^\n]*\n", "", table)
    launch = launched(table, f"f32[{size // 4}]=zeros, i32 1", (workgroups, 1, 1), lanes)
    timing = timing_of(*launch, resident=8)
    ((site, share),) = (
        (site, share)
        for site, share in timing.sharing.fresh.items()
        if timing.function.instructions[site].cls == "global_load"
    )
    lines = [len(a.lines) for ws in timing.workgroups for w in ws for a in w.accesses.values()]
    touched = sum(lines) / len(timing.workgroups) * workgroups / 8 * 128
    assert least <= touched * share / size <= most
    assert timing.sharing.beyond_l3[site] * share * touched * 8 == pytest.approx(size, rel=0.01)


def test_a_stated_clock_is_the_clock() -> None:
    """The power limit slows a clock that nobody stated, and no other."""
    timing = timing_of(*gemm(), resident=1)
    timing = replace(timing, rates=replace(timing.rates, power_besides=2.0))
    slowed = timed(timing)
    assert slowed.mhz < timing.device.mhz
    stated = timed(replace(timing, device=replace(timing.device, holds_clock=True)))
    assert (stated.mhz, stated.cycles) == (timing.device.mhz, slowed.cycles)


def device(cus: int = 304, xcds: int = 8) -> Device:
    return Device(cus, xcds, 2100.0, 2100.0, 5.3e12, 1 << 28, "a device")


@pytest.mark.parametrize(
    ("workgroups", "resident", "busiest", "simulated"),
    [(1, 4, 1, 1), (304, 4, 1, 1), (305, 4, 2, 2), (10_000, 2, 33, 7), (608, 1, 2, 2)],
)
def test_workgroups_are_dealt_out(
    workgroups: int, resident: int, busiest: int, simulated: int
) -> None:
    found = place(device(), workgroups, resident, 4)
    assert found.busiest == busiest
    assert len(found.simulated) == simulated
    assert set(found.simulated) <= set(found.executed)
    assert max(found.executed) < workgroups
    # All of one XCD, a compute unit's 38 of it apart.
    assert len({number % 8 for number in found.executed}) == 1
    gaps = {b - a for a, b in zip(found.simulated, found.simulated[1:], strict=False)}
    assert gaps <= {304}


def spilling(scratch: int, workgroups: int = 4 * 304) -> Timing:
    """Waves that store 256 dwords a lane and read them back, of `scratch` bytes that a lane has."""
    stores = "".join(f"scratch_store_dword off, v1, off offset:{n}\n" for n in range(0, 1024, 4))
    loads = "".join(f"scratch_load_dword v2, off, off offset:{n}\n" for n in range(0, 1024, 4))
    body = f"{stores}{loads}s_waitcnt vmcnt(0)\n" + "v_exp_f32 v3, v2\n" * 256
    text = STRIDED[: STRIDED.index("  s_load_dwordx2")] + body + "  s_endpgm\n.Lend:\n"
    text += STRIDED[STRIDED.index(".size k") :].replace(
        "  .amdhsa_kernarg_size 16\n",
        f"  .amdhsa_kernarg_size 16\n  .amdhsa_private_segment_fixed_size {scratch}\n"
        "  .amdhsa_enable_private_segment 1\n",
    )
    return timing_of(*launched(text, "f32[64], i32 1", (workgroups, 1, 1), 64), 4)


def test_spills_go_as_far_as_their_size_makes_them() -> None:
    """256 B a lane of 1,216 waves are 20 MB, which the L2s hold; 80 MB the L3, 1.3 GB nothing.

    m = 1 - exp(-m * size) holds for 0.875 where the size is 2.375 times what fits, 0.991 at 4.75.
    """
    found = [spilling(size) for size in (256, 1024, 16384)]
    sites = [site for site, cost in enumerate(found[0].costs.sites) if cost.is_scratch]
    assert len(sites) == 512
    expected = ((0.0, 0.0), (0.8755, 0.0), (1.0, 0.9912))
    for spills, (l2, l3) in zip(found, expected, strict=True):
        sharing = spills.sharing
        assert [sharing.fresh[site] for site in sites] == pytest.approx([l2] * 512, abs=0.01)
        assert [sharing.beyond_l3[site] for site in sites] == pytest.approx([l3] * 512, abs=0.01)
    in_l2, in_l3, in_memory = (timed(spills).units for spills in found)
    assert in_l2["l2"] > in_l2["l3"] == in_l2["memory"] == 0
    assert in_l3["l3"] > in_l3["memory"] == 0
    assert in_memory["memory"] > in_memory["l3"] > 0


@pytest.mark.parametrize(("most", "simulated"), [(1600, 4), (3500, 5)])
def test_rounds_of_which_one_is_simulated_take_as_long_each(
    monkeypatch: pytest.MonkeyPatch, most: int, simulated: int
) -> None:
    """Workgroups that begin together end together: how far apart says nothing of the others."""
    monkeypatch.setattr(timing_module, "MOST_ISSUES", most)
    one, eight = spilling(16384), spilling(16384, 8 * 4 * 304)
    assert (len(one.workgroups), len(eight.workgroups)) == (4, simulated)
    assert timed(eight).cycles == pytest.approx(8 * timed(one).cycles, rel=0.15)


def test_a_sample_of_long_waves_stands_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of stores, loads and arithmetic one behind the other, each has its part."""
    whole = timed(spilling(16384))
    monkeypatch.setattr(timing_module, "MOST_ISSUES", 1500)
    cut = spilling(16384)
    assert cut.part < 0.5
    assert timed(cut).cycles == pytest.approx(whole.cycles, rel=0.2)
    for unit in ("vector", "memory"):
        assert timed(cut).units[unit] == pytest.approx(whole.units[unit], rel=0.2)


def test_the_l2_has_the_clock_of_the_compute_units_and_memory_has_its_own() -> None:
    machine, rates = load("gfx942"), rates_of("gfx942")
    assert rates is not None
    fast, slow = (
        shares_of(machine, rates, replace(device(), mhz=mhz), 304, ()) for mhz in (2100.0, 1050.0)
    )
    assert slow.l2 == fast.l2
    assert slow.memory == pytest.approx(2 * fast.memory)


def test_shares_add_up_and_savings_are_those_of_the_model() -> None:
    timing = timing_of(*gemm(), resident=2)
    now = timed(timing)
    attribution = attributed(timing, now)
    stalls = stalls_of(attribution)
    assert sum(stall.share for stall in stalls) == pytest.approx(1, abs=0.03)
    instructions = timing.function.instructions
    lines = lines_of(attribution, instructions)
    inside = 1 - sum(s.share for s in stalls if s.reason in ("launch", "tail"))
    assert sum(line.share for line in lines) == pytest.approx(inside, abs=0.05)
    loads = {line.source.line for line in lines[:2] if line.source is not None}
    assert loads == {14, 15}, "gemm.py loads A and B there"
    rows = instructions_of(attribution, instructions)
    assert sum(row.share for row in rows) == pytest.approx(inside, abs=0.03)
    waits = {inst.line for inst in instructions if inst.cls == "wait"}
    assert max(rows, key=lambda row: row.stalled).line in waits
    assert all(row.stalled <= row.share + 1e-5 for row in rows)
    assert {row.reason for row in rows if row.line in waits} >= {"memory"}
    found = {saving.change: saving for saving in savings(timing, now)}
    assert found["launch"].us == pytest.approx(now.us - timing.rates.launch_us, abs=1e-3)
    assert all(saving.us < now.us for saving in found.values())
    assert found["memory"].us < found["memory latency"].us


def test_time_in_a_library_goes_to_the_line_that_calls_it() -> None:
    users = SourceLoc("k.py", 11)
    inside = SourceLoc("/lib/triton/language/standard.py", 216, inlined_at=users)
    gemm_text = parse_text(GEMM.read_text(), "k.s").kernels[0].instructions
    instructions = [replace(gemm_text[0], loc=inside), replace(gemm_text[1], loc=users)]
    found = Attribution(0.0, 0.0, {}, {}, {0: [0.0, 0.5], 1: [0.25, 0.0]})
    (line,) = lines_of(found, instructions)
    assert (line.source, line.share) == (users, 0.75)


def test_a_strided_read_would_gain_by_fewer_lines() -> None:
    apart = STRIDED.replace("s_lshl_b32 s7, s2, 16", "s_lshl_b32 s7, s2, 24")
    strided = apart.replace("v1, 2, v0", "v1, 9, v0").replace("0x400, v1", "0x80000, v1")
    grid, arguments = (8, 1, 1), f"f32[{1 << 25}]=zeros, i32 20"
    slow = timed(timing_of(*launched(strided, arguments, grid, 1024), resident=2))
    fast = timed(timing_of(*launched(apart, arguments, grid, 1024), resident=2))
    assert slow.us > 2 * fast.us
    timing = timing_of(*launched(strided, arguments, grid, 1024), resident=2)
    found = {saving.change: saving for saving in savings(timing, slow)}
    assert found["lines"].percent > 50


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_command_times_code_with_a_stated_launch(tool: Tool, form: str) -> None:
    run = tool(
        "time", GEMM, "--grid", "16,16", "--workgroup", "256", "--lds", "8192",
        "--args", ARGUMENTS, "--time-us", "20", "--format", form,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    if form == "text":
        assert "limited by memory latency" in run.stdout
        assert "measured 20 µs: within the model's range" in run.stdout
        assert "gemm.py:15" in run.stdout
        return
    (kernel,) = json.loads(run.stdout)["kernels"]
    time = kernel["time"]
    assert time["low"] < time["us"] < time["high"]
    assert time["workgroups"] == 256
    assert math.isclose(time["us"], time["cycles"] / time["mhz"] + 1.5, rel_tol=0.01)
    assert {saving["change"] for saving in time["savings"]} >= {"memory latency", "launch"}


def test_a_launch_whose_buffers_are_too_small_is_told(tool: Tool) -> None:
    launch = ("--grid", "16,16", "--workgroup", "256", "--lds", "8192")
    small = ARGUMENTS.replace(ARGUMENTS.split(",")[0], "f16[64]", 1)
    for arguments, is_told in ((ARGUMENTS, False), (small, True)):
        text = " ".join(tool("analyze", GEMM, *launch, "--args", arguments).stdout.split())
        assert "estimated" in text
        assert ("accesses memory outside of all arguments (reads" in text) is is_told


def test_findings_on_code_say_what_their_cures_save_of_a_stated_launch(tool: Tool) -> None:
    """`show` opens them as they were told, and `diff` compares the times."""
    launch = ("--grid", "16,16", "--workgroup", "256", "--lds", "8192", "--args", ARGUMENTS)
    told = {}
    for command in ("analyze", "lint"):
        run = tool(command, GEMM, *launch, "--format", "agent")
        assert run.returncode == 0, run.stderr
        told[command] = re.findall(r"finding (\w+) (KI\d+) \w+ .*saves=([\d.]+)%", run.stdout)
        assert f"--args {shlex.quote(ARGUMENTS)}" in run.stdout or command == "analyze"
    assert [rest for _, *rest in told["analyze"]] == [rest for _, *rest in told["lint"]]
    ident, _, percent = told["analyze"][0]
    assert f"saves: {percent} % of the launch" in tool("show", ident).stdout
    compared = tool("diff", GEMM, GEMM, *launch, "--format", "json")
    (pair,) = json.loads(compared.stdout)["pairs"]
    assert [side["metrics"]["time.us"]["value"] > 10 for side in pair["sides"]] == [True, True]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "workgroups a compute unit holds is not known; state --lds"),
        (("--lds", "8192", "--trips", "L7=2"), "there is no loop L7; it has L0"),
        (("--args", ARGUMENTS), "the grid is not stated"),
        (("--args", "f16[9", "--grid", "4"), "is not understood"),
        (("--args", "i32 1", "--grid", "4", "--workgroup", "256"), "bytes of arguments"),
    ],
)
def test_a_launch_that_is_not_known_has_no_time(
    tool: Tool, options: tuple[str, ...], reason: str
) -> None:
    run = tool("time", GEMM, *options)
    assert run.returncode == 2
    assert reason in run.stdout
    assert "no time" in run.stdout


@pytest.mark.parametrize(
    ("command", "option"),
    [("time", "--grid"), ("time", "--workgroup"), ("time", "--trips"), ("show", "--lines")],
)
def test_a_number_of_too_many_digits_is_refused(tool: Tool, command: str, option: str) -> None:
    run = tool(command, GEMM, option, "1" * 5000)
    assert run.returncode == 2
    assert "internal error" not in run.stderr
    assert " is not " in run.stderr


def stated(text: str, grid: tuple[int, int, int] = (304, 1, 1), **how: Any) -> KernelReport:
    """The report on a text that is no file, launched with 4,096 floats and a 7."""
    bare = AnalysisOptions(lanes=False, races=False, values=False)
    asked = timing(bare, arguments="f32[4096]=zeros, i32 7", **{"seconds": 2.0, **how})
    overrides = Overrides(grid=grid, workgroup=(64, 1, 1))
    (report,) = analyze_text(text, Context("nowhere.s", overrides=overrides, analysis=asked))
    return report


def with_code(code: str) -> str:
    """`STRIDED` with other code; s[4:5] holds the buffer, v1 offsets in it."""
    before, _, rest = STRIDED.partition(".Lloop:\n")
    return f"{before}{code}\n  s_endpgm\n{rest[rest.index('.Lend') :]}"


ENDLESS = {
    "a jump": ".La:\n s_branch .La",
    "two entries": " s_cmp_eq_u32 s6, 0\n s_cbranch_scc1 .Lb\n"
    ".La:\n global_load_dword v2, v1, s[4:5]\n.Lb:\n s_nop 0\n s_branch .La",
    "a lock": ".La:\n global_load_dword v2, v3, s[4:5] sc1\n s_waitcnt vmcnt(0)\n"
    " v_readfirstlane_b32 s8, v2\n s_cmp_eq_u32 s8, 0\n s_cbranch_scc1 .La",
}


@pytest.mark.parametrize("code", ENDLESS)
def test_what_never_ends_is_given_up(code: str) -> None:
    reason = stated(with_code(ENDLESS[code]), seconds=0.5).no_time
    assert reason is not None
    assert "did not come to their end: it took longer than 0.5 s" in reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (" s_setpc_b64 s[4:5]", "the emulator does not carry out this yet: s_setpc_b64"),
        (" s_trap 2", "the kernel stopped itself"),
        (".La:\n" + " global_load_dword v2, v1, s[4:5]\n" * 9, "more than the timing model keeps"),
    ],
)
def test_what_cannot_be_timed_says_why(
    code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wave_traces, "_MOST_KEPT", 1000)
    assert reason in (stated(with_code(code)).no_time or "")


def test_a_text_that_is_no_file_has_its_constants() -> None:
    """The kernel's trips come from a table beside its code."""
    loop = STRIDED[STRIDED.index(".Lloop") : STRIDED.index("  s_endpgm")]
    code = (
        " s_getpc_b64 s[8:9]\n s_add_u32 s8, s8, table@rel32@lo+4\n"
        " s_addc_u32 s9, s9, table@rel32@hi+12\n s_load_dword s6, s[8:9], 0x0\n"
        f" s_waitcnt lgkmcnt(0)\n{loop}"
    )
    text = with_code(code) + ".section .rodata\ntable:\n .long 500\n"
    few, many = stated(text.replace("500", "5")).time, stated(text).time
    assert few is not None
    assert many is not None
    assert many.us > 20 * few.us


@pytest.mark.parametrize(
    ("grid", "how", "reason"),
    [
        ((1 << 31, 1, 1), {}, "a grid of 2,147,483,648 workgroups"),
        ((0, 1, 1), {}, "its grid is empty"),
        ((1, 1, 1), {"gpu": "MI250X"}, "not a known product of gfx942; there is MI300A, MI300X"),
        ((1, 1, 1), {"gpu": "nothing"}, "not a known product of gfx942; there is MI300A, MI300X"),
    ],
)
def test_an_impossible_launch_says_why(
    grid: tuple[int, int, int], how: dict[str, Any], reason: str
) -> None:
    assert reason in (stated(STRIDED, grid, **how).no_time or "")


METADATA = """
.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 24
    .args:
      - .offset: 0
        .size: 8
        .value_kind: global_buffer
      - .offset: 8
        .size: 8
        .value_kind: global_buffer
      - .offset: 16
        .size: 8
        .value_kind: LAST
...
.end_amdgpu_metadata
"""


def test_what_may_be_left_out_are_two_pointers() -> None:
    """Triton adds two; other arguments that are left out would be read as 0."""
    text = STRIDED.replace("kernarg_size 16", "kernarg_size 24") + METADATA
    launched(text.replace("LAST", "global_buffer"), "f32[64]=zeros", (4, 1, 1), 64)
    with pytest.raises(KinspectError, match="--args gives 8"):
        launched(text.replace("LAST", "by_value"), "f32[64]=zeros", (4, 1, 1), 64)


@pytest.mark.parametrize("mhz", [1.0, 1e5])
def test_the_time_follows_the_clock(mhz: float) -> None:
    now = stated(STRIDED, clock_mhz=mhz).time
    assert now is not None
    assert now.us == pytest.approx(now.cycles / now.mhz + 1.5, rel=0.01)


def test_a_target_without_rates_has_no_time(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    path.write_text(STRIDED.replace("gfx942", "gfx908").replace(".amdhsa_accum_offset 8\n", "\n"))
    run = tool("time", path, "--grid", "4", "--workgroup", "64", "--args", "f32[64], i32 1")
    assert run.returncode == 2
    assert "the rates of gfx908 are not known to the timing model" in run.stdout


LATCHES = {
    "lg": "s_sub_u32 s6, s6, 1\n s_cmp_lg_u32 s6, 0\n s_cbranch_scc1 .Lloop",
    "eq": "s_sub_u32 s6, s6, 1\n s_cmp_eq_u32 s6, 0\n s_cbranch_scc0 .Lloop",
    "lt": "s_add_i32 s8, s8, 3\n s_cmp_lt_i32 s8, s6\n s_cbranch_scc1 .Lloop",
    "ge": "s_add_i32 s8, s8, 3\n s_cmp_ge_i32 s8, s6\n s_cbranch_scc0 .Lloop",
    "le": "s_add_i32 s8, s8, 7\n s_cmp_le_i32 s8, s6\n s_cbranch_scc1 .Lloop",
    "gt": "s_sub_i32 s6, s6, 5\n s_cmp_gt_i32 s6, -9\n s_cbranch_scc1 .Lloop",
    "mask": "s_sub_u32 s6, s6, 1\n s_cmp_lg_u32 s6, 0\n s_cselect_b64 s[10:11], -1, 0\n"
    " s_and_b64 vcc, exec, s[10:11]\n s_cbranch_vccnz .Lloop",
    "inverted": "s_sub_u32 s6, s6, 1\n s_cmp_lg_u32 s6, 0\n s_cselect_b64 s[10:11], -1, 0\n"
    " s_andn2_b64 vcc, exec, s[10:11]\n s_cbranch_vccz .Lloop",
    "lanes": "s_sub_u32 s6, s6, 1\n v_mov_b32 v4, s6\n v_cmp_ne_u32 vcc, 0, v4\n"
    " s_cbranch_vccnz .Lloop",
    "squares": "s_mul_i32 s9, s8, s8\n s_add_i32 s8, s8, 1\n s_cmp_lt_i32 s9, s6\n"
    " s_cbranch_scc1 .Lloop",
}


@pytest.mark.parametrize("latch", LATCHES)
@pytest.mark.parametrize("count", [1, 2, 20, 341])
def test_trips_are_counted_without_running_them(latch: str, count: int) -> None:
    """Against the emulator, which runs the whole loop."""
    loop = STRIDED[STRIDED.index("  s_sub_u32") : STRIDED.index("  global_store")]
    text = STRIDED.replace(loop, f"  s_waitcnt vmcnt(0)\n  {LATCHES[latch]}\n").replace(
        "v_mov_b32 v3, 0", "v_mov_b32 v3, 0\n  s_mov_b32 s8, 0"
    )
    arguments = f"f32[{1 << 20}]=zeros, i32 {count}"
    emulator, launch, buffers = launched(text, arguments, (1, 1, 1), 64)
    emulator.run(replace(launch, workgroups=(0,)), buffers)
    header = next(b for b in emulator.code.function.blocks if ".Lloop" in b.labels)
    runs = next(b.runs for b in emulator.code.blocks if b.first == header.start)
    emulator, launch, buffers = launched(text, arguments, (1, 1, 1), 64)
    ((wave,),) = accesses(emulator, replace(launch, workgroups=(0,)), buffers).values()
    assert wave.trips == {"L0": (min(runs, 6), runs)}


SCRIPT = """
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


x = torch.zeros(1 << 22, device="cuda")
scaled[GRID](x, torch.empty_like(x), x.numel(), BLOCK=1024)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "scaled.py"
    path.write_text(SCRIPT.replace("GRID", "lambda meta: (triton.cdiv(1 << 22, meta['BLOCK']),)"))
    return path


def test_a_script_is_analysed_with_its_time(tool: Tool, script: Path) -> None:
    """A copy of 16 MiB moves 32 MiB: 5.3 TB/s take 6.3 µs, and three quarters of it are reached."""
    run = tool("analyze", script, "--format", "json", "--no-passes")
    assert run.returncode == 0, run.stderr
    (kernel,) = json.loads(run.stdout)["kernels"]
    assert 6.3 < kernel["time"]["us"] < 2 * 6.3 / 0.747 + 1.5
    assert kernel["time"]["workgroups"] == 4096
    assert kernel["time"]["units"]["memory"] > 0.4
    text = tool("analyze", script, "--no-passes").stdout
    assert "estimated)  limited by memory" in text
    without = tool("analyze", script, "--no-passes", "--no-time").stdout
    assert "estimated" not in without


def test_a_case_with_a_launch_has_the_time_of_the_script(script: Path, shared_guests: None) -> None:
    """And at another point too: its grid follows the constexprs."""
    import kinspect

    case = """
KINSPECT_CASES = [{
    "name": "c", "kernel": "scaled", "constexprs": {"BLOCK": 1024},
    "signature": {"x": "*fp32:16", "out": "*fp32:16", "n": "i32:16"},
    "grid": lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),),
    "args": {"x": [1 << 22], "out": 1 << 22, "n": 1 << 22},
}]
"""
    path = script.parent / "cases.py"
    path.write_text(SCRIPT.partition("x = torch")[0].replace("import torch\n", "") + case)
    stated, launched = (kinspect.analyze(str(file)).kernel.time for file in (path, script))
    assert stated is not None
    assert launched is not None
    assert (stated.us, stated.units, stated.stalls) == (
        launched.us,
        launched.units,
        launched.stalls,
    )
    points = kinspect.sweep(str(path), axes={"BLOCK": [1024, 2048]}).rows
    assert all(point["figures"]["time_us"] > 0 for point in points)


def test_two_sets_of_options_are_compared_by_time(tool: Tool, script: Path) -> None:
    """Bound by memory: fewer waves do it with fewer instructions, and in the same time."""
    run = tool("diff", script, "--set", "num_warps=1", "--no-passes", "--format", "json")
    (pair,) = json.loads(run.stdout)["pairs"]
    assert pair["time"]["verdict"] == "equal"
    assert pair["verdict"] == "neutral"


def test_a_sweep_begins_with_the_fastest_point(tool: Tool, script: Path) -> None:
    axes = ("--set", "BLOCK=64,1024", "--set", "num_warps=1,4")
    run = tool("sweep", script, *axes, "--format", "json")
    assert run.returncode == 0, run.stderr
    (table,) = json.loads(run.stdout)["tables"]
    times = [row["figures"]["time_us"] for row in table["rows"]]
    assert times == sorted(times)
    # Four waves that share 64 elements: three of four do the same again.
    assert table["rows"][-1]["point"] == {"BLOCK": 64, "num_warps": 4}
    assert times[-1] > 1.2 * times[0]
    kept = tool("sweep", script, *axes, "--keep", "4").stdout
    assert 'triton.Config({"BLOCK": 1024}, num_warps=4),' in kept
    assert 'triton.Config({"BLOCK": 64}, num_warps=4)' not in kept


def test_a_grid_that_does_not_follow_is_told(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "fixed.py"
    path.write_text(SCRIPT.replace("GRID", "(4096,)"))
    run = tool("sweep", path, "--set", "BLOCK=512,1024")
    assert "have the same grid although constants differ" in " ".join(run.stdout.split())


def test_the_python_interface_has_the_time(script: Path, shared_guests: None) -> None:
    import kinspect

    kernel = kinspect.analyze(str(script)).kernel
    assert kernel.time is not None
    assert kernel.time.low < kernel.time.us < kernel.time.high
    assert kernel.time.gpu == "MI300X"
    assert kinspect.analyze(GEMM.read_text()).kernel.time is None


def test_a_budget_and_a_rule_may_ask_for_the_time(tool: Tool, script: Path) -> None:
    (script.parent / "own.yaml").write_text(
        "pack: own\ndescription: mine\nrules:\n- id: T1\n  name: slow\n  severity: error\n"
        "  scope: kernel\n  require: time.us <= 1\n  message: '{time.us} us'\n"
    )
    run = tool("lint", script, "--rules", script.parent / "own.yaml")
    assert run.returncode == 1, run.stderr
    assert "T1" in run.stdout
    assert " us" in run.stdout


def test_a_diff_compares_times(tool: Tool, script: Path) -> None:
    other = script.parent / "other"
    other.mkdir()
    slow = script.read_text().replace("BLOCK=1024)", "BLOCK=64, num_warps=8)")
    (other / "scaled.py").write_text(slow)
    run = tool("diff", script, other / "scaled.py")
    assert "by the timing model" in " ".join(run.stdout.split()), run.stdout + run.stderr


CODE = sorted((Path(__file__).parent / "data" / "isa").glob("*.gfx9[04]*.s"))


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.stem)
def test_every_kernel_has_a_time_or_a_reason(path: Path) -> None:
    text = path.read_text()
    bare = AnalysisOptions(lanes=False, races=False, values=False)
    for kernel in parse_text(text, path.name).kernels:
        size, pointers = kernel.resources.kernarg_bytes or 0, kernel.resources.pointers or ()
        words = [at for at in range(0, size, 4) if at - 4 not in pointers]
        arguments = ["f32[65536]=zeros" if at in pointers else "i32 64" for at in words]
        (report,) = analyze_text(
            text,
            Context(
                str(path),
                patterns=(kernel.name,),
                overrides=Overrides(lds_bytes=16384, workgroup=(64, 1, 1), grid=(64, 1, 1)),
                analysis=timing(bare, arguments=", ".join(arguments), seconds=2.0, savings=True),
            ),
        )
        assert (report.time is None) == bool(report.no_time)
        assert "Error" not in report.no_time  # an exception that nobody foresaw
        if report.time is not None:
            assert report.time.us > 0
            assert all(0 <= share <= 1.001 for share in report.time.units.values())
