"""What the work of a finding takes of a launch, against kernels that lack it from the start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast, get_args

import numpy as np
import pytest
from kinspect.inspector.model.time import Removal, Removed
from kinspect.inspector.timing import savings
from kinspect.inspector.timing.savings import saved_percent
from kinspect.inspector.timing.timed import LaunchTime, Timing, timed
from kinspect.inspector.timing.trace import uneven
from kinspect.inspector.timing.wave_traces import TracedLoop
from msgspec.structs import replace

from .test_timing_launches import STRIDED
from .test_timing_savings import CUS, made, strided

_LOOP = """  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32 v1, 4, v0
  s_movk_i32 s6, 0xc8
  s_waitcnt lgkmcnt(0)
.Lloop:
BODY
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lloop
"""
_HEAD = STRIDED[: STRIDED.index("  s_load_dwordx2")]
_TAIL = STRIDED[STRIDED.index("  s_endpgm") :].replace("next_free_vgpr 8", "next_free_vgpr 64")
_NARROW = "".join(f"  global_load_dword v{8 + n}, v1, s[4:5] offset:{4 * n}\n" for n in range(4))
_WORK = "  v_add_f32 v2, v2, v3\n  v_add_f32 v4, v4, v5\n" * 8


def looped(
    body: str,
    threads: int = 64,
    resident: int = 1,
    lds: int = 0,
    trips: int = 200,
    grid: int = 4 * CUS,
) -> Timing:
    code = _LOOP.replace("BODY", body.rstrip("\n")).replace("0xc8", hex(trips))
    arguments = f"f32[{1 << 20}]=zeros, i32 1"
    return made(f"{_HEAD}{code}{_TAIL}", arguments, grid, threads, resident, lds)


def lines_of(timing: Timing, name: str, *, in_loop: bool = True) -> tuple[int, ...]:
    """Lines of the instructions of a name."""
    spans = [span for loop in timing.function.loops for span in loop.lines]
    return tuple(
        inst.line
        for inst in timing.function.instructions
        if inst.op.name.startswith(name)
        and (not in_loop or any(a <= inst.line <= b for a, b in spans))
    )


def saves(timing: Timing, removal: Removal) -> float:
    percent = saved_percent(timing, timed(timing), removal)
    assert percent is not None
    return percent


@pytest.mark.parametrize(
    ("us", "share", "memory", "percent"),
    [
        (90.0, 0.6, 0.1, 10.0),
        (100.5, 0.6, 0.1, 0.0),
        (105.0, 0.7, 0.1, None),
        (105.0, 0.75, 0.1, 0.0),
        (105.0, 0.7, 0.98, 0.0),  # the same bytes: it can save 2 % at most
    ],
)
def test_less_work_that_takes_longer_says_nothing(
    monkeypatch: pytest.MonkeyPatch, us: float, share: float, memory: float, percent: float | None
) -> None:
    """Where waves come to a unit at another time; but what relieves no unit saves nothing."""
    timing = looped(_WORK)
    (loop,) = timing.function.loops
    now = SimpleNamespace(us=100.0, cycles=1000.0, units={"vector": 0.8, "memory": memory})
    after = SimpleNamespace(us=us, cycles=10 * us, units={"vector": share, "memory": memory})
    monkeypatch.setattr(savings, "timed", lambda _: after)
    found = saved_percent(timing, cast(LaunchTime, now), Removal("vector", loops=(loop.id,)))
    assert found == percent


def test_where_less_work_takes_longer_a_little_less_of_it_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timing, asked = looped(_WORK), list[float]()
    now, longer, shorter = (
        SimpleNamespace(us=us, cycles=10 * us, units={"vector": share, "memory": 0.1})
        for us, share in ((100.0, 0.8), (105.0, 0.6), (85.0, 0.7))
    )
    found = iter((longer, shorter))

    def without(_timing: Timing, removal: Removal, _sites: object) -> Timing:
        asked.append(removal.part)
        return timing

    monkeypatch.setattr(savings, "timed", lambda _: next(found))
    monkeypatch.setattr(savings, "_CURES", {"vector": without})
    assert saved_percent(timing, cast(LaunchTime, now), Removal("vector", 0.5)) == 15.0
    assert asked == [0.5, 0.45]


def gain(slow: Timing, fast: Timing) -> float:
    return 100 * (1 - timed(fast).us / timed(slow).us)


def test_work_of_a_loop_is_gone_with_the_loop_s_alone() -> None:
    slow, fast = looped(_WORK), looped("")
    (loop,) = slow.function.loops
    removal = Removal("vector", loops=(loop.id,))
    assert saves(slow, removal) == pytest.approx(gain(slow, fast), abs=1)
    assert saves(slow, Removal("vector", lines=lines_of(slow, "v_add_f32"))) == saves(slow, removal)
    half = gain(slow, looped(_WORK[: len(_WORK) // 2]))
    assert saves(slow, Removal("vector", 0.5, loops=(loop.id,))) == pytest.approx(half, abs=1)


@pytest.mark.parametrize("what", get_args(Removed))
def test_what_is_not_there_saves_nothing(what: Removed) -> None:
    timing = looped(_WORK)
    elsewhere = Removal(what, lines=(1,))
    of_all = ("occupancy", "workgroups", "work", "iterations", "latency", "code", "earlier loads")
    if what not in (*of_all, "repeated products", "wide accesses"):
        assert saves(timing, elsewhere) == 0
    assert 0 <= saves(timing, Removal(what)) <= 100


def test_four_narrow_loads_are_one_wide_one() -> None:
    wait = "  s_waitcnt vmcnt(0)\n"
    slow = looped(_NARROW + wait, 256, resident=4)
    fast = looped(f"  global_load_dwordx4 v[8:11], v1, s[4:5]\n{wait}", 256, resident=4)
    assert gain(slow, fast) > 20
    removal = Removal("wide accesses", lines=lines_of(slow, "global_load"))
    assert saves(slow, removal) == pytest.approx(gain(slow, fast), abs=2)


_STREAM = """  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_lshl_b32 s7, s2, 13
  v_lshlrev_b32 v1, 3, v0
  v_add_u32 v1, s7, v1
  s_waitcnt lgkmcnt(0)
LOADS  s_waitcnt vmcnt(0)
  v_add_f32 v2, v2, v3
  v_add_f32 v6, v6, v7
  global_store_dword v1, v2, s[4:5]
"""
_PAIRS = """  global_load_dword v2, v1, s[4:5]
  global_load_dword v3, v1, s[4:5] offset:4
  global_load_dword v6, v1, s[4:5] offset:2048
  global_load_dword v7, v1, s[4:5] offset:2052
"""


def streamed(loads: str, shift: int = 3) -> Timing:
    stream = _STREAM.replace("LOADS", loads).replace("v1, 3, v0", f"v1, {shift}, v0")
    code = f"{_HEAD}{stream}{_TAIL}"
    return made(code, f"f32[{1 << 25}]=zeros, i32 1", 1 << 14, 256, 8)


def test_bytes_that_a_neighbour_brings_come_from_memory_all_the_same() -> None:
    """Loads of even and of odd elements take both halves of each line: no layout needs fewer."""
    slow = streamed(_PAIRS)
    wide = "  global_load_dwordx2 v[2:3], v1, s[4:5]\n"
    fast = streamed(wide + "  global_load_dwordx2 v[6:7], v1, s[4:5] offset:2048\n")
    assert timed(slow).units["memory"] > 0.9
    assert abs(gain(slow, fast)) < 3
    lines = lines_of(slow, "global_load", in_loop=False)
    for what in ("lines", "wide accesses"):
        assert saves(slow, Removal(what, lines=lines)) < 3, what


def test_loads_of_two_tensors_in_turn_bring_the_bytes_of_both() -> None:
    """Each of them finds in the L1 what the first of its tensor brought."""
    upper = "  v_add_u32 v20, 0x1000, v1\n"
    narrow = "".join(
        f"  global_load_dword v{start + n}, {place}, s[4:5] offset:{4 * n}\n"
        for n in range(4)
        for start, place in ((4, "v1"), (8, "v20"))
    )
    wide = "  global_load_dwordx4 v[4:7], v1, s[4:5]\n  global_load_dwordx4 v[8:11], v20, s[4:5]\n"
    slow, fast = (streamed(upper + loads, shift=4) for loads in (narrow, wide))
    assert timed(slow).units["memory"] > 0.9
    assert abs(gain(slow, fast)) < 3
    removal = Removal("wide accesses", lines=lines_of(slow, "global_load", in_loop=False))
    assert saves(slow, removal) < 3


def test_loads_that_are_gone_leave_their_lines_to_others() -> None:
    """Half of the loads of even and odd elements: the others bring both halves of each line."""
    slow = streamed(_PAIRS)
    lines = lines_of(slow, "global_load", in_loop=False)
    assert saves(slow, Removal("loads", lines=lines[::2])) < 3
    assert saves(slow, Removal("loads", lines=lines)) < 10  # somebody has to bring the bytes


def test_shorter_accesses_save_no_more_than_units_are_relieved_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waves that meet at another time may save more in one simulation."""
    timing = cast("Timing", SimpleNamespace())
    now, after = (
        cast("LaunchTime", SimpleNamespace(us=us, cycles=us, units={"lds": share, "l1": 0.5}))
        for us, share in ((100.0, 0.3), (60.0, 0.45))
    )
    monkeypatch.setattr(savings, "timed", lambda _: after)
    percents = {"conflicts": 23.0, "lines": 23.0, "vector": 40.0}
    monkeypatch.setattr(savings, "sites_of", lambda *_: frozenset())
    monkeypatch.setattr(savings, "_CURES", dict.fromkeys(percents, lambda *_: timing))
    for what, percent in percents.items():
        assert saved_percent(timing, now, Removal(cast("Removed", what))) == percent


def test_loads_that_the_next_steps_do_not_need_are_no_longer_waited_for() -> None:
    wait = "  s_waitcnt vmcnt(0)\n"
    slow, fast = looped(_NARROW + wait), looped("")
    removal = Removal("loads", lines=lines_of(slow, "global_load"))
    assert saves(slow, removal) == pytest.approx(gain(slow, fast), abs=3)


def test_a_part_of_the_latency_and_more_waves_at_a_time() -> None:
    timing = strided(200, 8 * CUS)
    assert saves(timing, Removal("latency")) > 2 * saves(timing, Removal("latency", 0.4)) > 20
    # Four workgroups are simulated for the one, seven for the other.
    twice = gain(timing, strided(200, 8 * CUS, resident=2))
    assert saves(timing, Removal("occupancy")) == pytest.approx(twice, abs=8)
    # All workgroups have a place at once: fewer registers let no more in.
    assert saves(strided(200, CUS), Removal("occupancy")) == 0


_WAIT = "  s_waitcnt vmcnt(0)\n"


def test_a_load_that_could_begin_earlier_is_not_waited_for() -> None:
    """That of the next line waits for the first to arrive, though it needs nothing of it."""
    late = "  global_load_dword v10, v1, s[4:5] offset:256\n"
    first = "  global_load_dword v8, v1, s[4:5]\n"
    slow, fast = looped(first + _WAIT + late + _WAIT), looped(first + late + _WAIT)
    (loop,) = slow.function.loops
    lines = lines_of(slow, "global_load")
    removal = Removal("latency", 0.5, (loop.id,), named=lines[1:])
    assert gain(slow, fast) > 30
    assert saves(slow, removal) == pytest.approx(gain(slow, fast), abs=3)
    # What others wait for at the same place takes as long with one load less.
    assert saves(fast, Removal("latency", 0.5, (loop.id,), named=lines_of(fast, late[2:13]))) > 0
    assert saves(fast, Removal("latency", 0.5, (loop.id,), named=lines[1:2])) < 3


def test_steps_that_are_made_together_wait_once() -> None:
    load = "  global_load_dword v8, v1, s[4:5]\n"
    slow, fast = looped(load + _WAIT), looped(load * 4 + _WAIT, trips=50)
    (loop,) = slow.function.loops
    half, four, all_of_them = (
        saves(slow, Removal("latency", part, (loop.id,))) for part in (0.5, 0.75, 1.0)
    )
    assert half == pytest.approx(all_of_them / 2, abs=1)
    assert four == pytest.approx(all_of_them * 3 / 4, abs=1)
    assert 50 < four < gain(slow, fast)  # which has three branches less as well


def test_iterations_of_a_loop_go_with_all_that_they_do() -> None:
    body = f"{_NARROW}  s_waitcnt vmcnt(0)\n{_WORK}"
    whole, half = looped(body), looped(body, trips=100)
    (loop,) = whole.function.loops
    for loops in ((loop.id,), ()):
        removal = Removal("iterations", 0.5, loops)
        assert saves(whole, removal) == pytest.approx(gain(whole, half), abs=2)


@pytest.mark.parametrize("what", ["work", "iterations"])
def test_work_of_a_nested_loop_is_that_loop_s_alone(what: Removed) -> None:
    count = "  s_sub_u32 s7, s7, 1\n  s_cmp_lg_u32 s7, 0\n  s_cbranch_scc1 .Linner\n"
    inner = f"  s_movk_i32 s7, 0x8\n.Linner:\n{_WORK}{count}"
    outer = f"{_NARROW}  s_waitcnt vmcnt(0)\n"
    slow, fast = looped(outer + inner), looped(outer)
    nested = next(loop for loop in slow.function.loops if loop.parent is not None)
    removal = Removal(what, 1 - 1 / 256, (nested.id,))
    assert 20 < gain(slow, fast) < 80
    assert saves(slow, removal) == pytest.approx(
        gain(slow, fast), abs=4
    )  # its first instruction stays


def test_work_that_other_lanes_do_takes_its_bytes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = looped(_WORK)
    (loop,) = timing.function.loops
    now, after = (
        cast("LaunchTime", SimpleNamespace(us=us, cycles=us, units={"memory": 0.75}))
        for us in (100.0, 10.0)
    )
    monkeypatch.setattr(savings, "timed", lambda _: after)
    assert saved_percent(timing, now, Removal("work", 0.9, (loop.id,))) == 25.0
    assert saved_percent(timing, now, Removal("work", 0.9)) == 25.0


def test_what_waves_repeat_goes_with_the_waves() -> None:
    """Not with workgroups: each of them still has to be begun, and waits for memory."""
    body = f"{_NARROW}  s_waitcnt vmcnt(0)\n{_WORK * 8}"
    four, one = looped(body, 256, resident=4), looped(body, 64, resident=4)
    assert 20 < gain(four, one) < 70
    assert saves(four, Removal("work", 0.75)) == pytest.approx(gain(four, one), abs=2)
    half = saves(one, Removal("work", 0.5))  # of a wave alone nobody else does the other half
    assert half == pytest.approx(gain(one, looped(body, 64, resident=2, grid=2 * CUS)), abs=2)


_LONG_FORM = """  v_mul_f32 v20, v2, v2
  v_cmp_gt_f32 vcc, v20, v21
  s_nop 1
  v_cndmask_b32 v20, v20, v22, vcc
  v_exp_f32 v23, v20
  v_add_f32 v2, v23, v2
"""


def test_what_a_finding_names_goes_first_and_its_slowest_instruction_last() -> None:
    """Four exponentials of a loop with care for denormal numbers, of which v_exp stays."""
    others = "  v_add_u32 v4, v4, v5\n" * 12
    slow = looped(others + 4 * _LONG_FORM)
    fast = looped(others + 4 * "  v_exp_f32 v23, v2\n  v_add_f32 v2, v23, v2\n")
    (loop,) = slow.function.loops
    names = ("v_mul", "v_cmp", "v_cnd", "v_exp")
    named = tuple(line for name in names for line in lines_of(slow, name))
    assert len(named) == 16
    part = 12 / (12 + 4 * 5)
    assert gain(slow, fast) > 20
    for loops in ((loop.id,), ()):
        removal = Removal("vector", part, loops, named=named)
        assert saves(slow, removal) == pytest.approx(gain(slow, fast), abs=1)
    evenly = saves(slow, Removal("vector", part, (loop.id,)))
    assert abs(evenly - gain(slow, fast)) > 5  # others go, and what separates the named ones stays


def test_the_share_of_what_is_named_is_that_of_its_own_loop() -> None:
    """Code elsewhere counts for nothing, but the like of it there goes as well."""
    again = "  s_movk_i32 s6, 0x64\n.Lagain:\nAGAIN"
    count = "  s_sub_u32 s6, s6, 1\n  s_cmp_lg_u32 s6, 0\n  s_cbranch_scc1 .Lagain\n"

    def twice(body: str) -> Timing:
        code = _LOOP.replace("BODY", body.rstrip("\n")) + again.replace("AGAIN", body + count)
        return made(f"{_HEAD}{code}{_TAIL}", f"f32[{1 << 20}]=zeros, i32 1", 4 * CUS, 64, 1, 0)

    rest = "  v_add_u32 v4, v4, v5\n" * 6
    slow, fast = twice(rest + "  v_mul_f32 v2, v2, v3\n" * 6), twice(rest)
    named = lines_of(slow, "v_mul_f32")
    assert len(named) == 12
    removal = Removal("vector", 0.5, named=named)
    assert saves(slow, removal) == pytest.approx(gain(slow, fast), abs=1)
    one = Removal("vector", 0.5, named=named[:6])
    assert saves(slow, one) == pytest.approx(gain(slow, fast) * 2 / 3, abs=2)


def test_work_in_vain_is_a_smaller_grid() -> None:
    assert saves(strided(100, 8 * CUS), Removal("work", 0.5)) == pytest.approx(
        gain(strided(100, 8 * CUS), strided(100, 4 * CUS)), abs=1
    )


@pytest.mark.parametrize(
    ("runs", "told"),
    [([60] * 63 + [12_000], (12_000, 60)), ([0] * 63 + [63], None), ([100] * 63 + [399], None)],
)
def test_a_loop_that_few_waves_run_far_longer_is_uneven(
    runs: list[int], told: tuple[int, int] | None
) -> None:
    (loop,) = looped(_WORK).function.loops
    found = uneven([TracedLoop(loop, frozenset(), 0)], np.array([runs]))
    assert (found and (found.most, found.median)) == told


def test_trips_and_addresses_from_memory_are_known_to_be_such() -> None:
    count = "  s_sub_u32 s7, s7, 1\n  s_cmp_lg_u32 s7, 0\n  s_cbranch_scc1 .Linner\n"
    read = "  s_load_dword s7, s[4:5], 0x0\n  s_waitcnt lgkmcnt(0)\n  s_add_u32 s7, s7, 2\n"
    gather = "  v_lshlrev_b32 v9, 2, v8\n  global_load_dword v10, v9, s[4:5]\n"
    wait = "  s_waitcnt vmcnt(0)\n"
    assert looped(f"{_NARROW}{wait}  v_add_f32 v2, v8, v9\n").decided_at == frozenset()
    assert looped(f"{read}.Linner:\n{_WORK}{count}").decided_at != frozenset()
    assert looped(f"{_NARROW}{wait}{gather}{wait}").decided_at != frozenset()


def test_workgroups_of_fewer_waves_leave_room_for_more_of_them() -> None:
    four = looped(f"{_NARROW}  s_waitcnt vmcnt(0)\n", 256)
    one = looped(f"{_NARROW}  s_waitcnt vmcnt(0)\n", 64, resident=4)
    roomy = replace(four, resident_with=lambda _, waves: 4 // waves)
    removal = Removal("work", 0.75)
    assert saves(four, removal) < 10
    assert saves(roomy, removal) == pytest.approx(gain(four, one), abs=2)


def test_earlier_loads_hold_registers_that_leave_room_for_fewer_workgroups() -> None:
    wait = "  s_waitcnt vmcnt(0)\n  v_add_f32 v2, v2, v8\n"
    alone = looped(_NARROW + wait, resident=4)
    asked: list[int] = []

    def one_fits(registers: int, _waves: int) -> int:
        asked.append(registers)
        return 1

    removal = Removal("earlier loads")
    assert saves(alone, removal) > saves(replace(alone, resident_with=one_fits), removal)
    assert set(asked) == {4}
    assert saves(replace(alone, resident_with=lambda *_: 4), removal) == saves(alone, removal)


def test_shorter_waits_of_a_loop_save_what_waves_spend_in_it() -> None:
    body = "  global_load_dword v8, v1, s[4:5]\n  s_waitcnt vmcnt(0)\n"
    brief = body + "  s_sub_u32 s7, s7, 1\n  s_cmp_lg_u32 s7, 0\n  s_cbranch_scc1 .Lbrief\n"
    code = _LOOP.replace("BODY", body.rstrip("\n")) + f"  s_movk_i32 s7, 0x1\n.Lbrief:\n{brief}"
    timing = made(f"{_HEAD}{code}{_TAIL}", f"f32[{1 << 20}]=zeros, i32 1", 4 * CUS, 64, 1, 0)
    long, short = timing.function.loops
    whole = saves(timing, Removal("latency", 0.75))
    assert whole > 20
    assert saves(timing, Removal("latency", 0.75, (long.id,))) == pytest.approx(whole, abs=2)
    assert saves(timing, Removal("latency", 0.75, (short.id,))) < 5
