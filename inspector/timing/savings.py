"""What a launch would gain with one of its costs gone, or without the work that a cure takes away.

Each change is one of the traces, costs, rates or placement; the changed launch is simulated again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..isa.graph.cfg import innermost_loops
from ..model.time import BOUNDS, LEAST, CostGone, Removal, Removed, Saving
from .attribution import attributed
from .changed_accesses import (
    APART,
    with_fewest_lines,
    with_merged_accesses,
    with_wide_accesses,
    without_conflicts,
    without_loads,
    without_repeated_products,
)
from .changed_code import with_earlier_loads, without_sites, without_waits_for
from .costs import BARRIER, IDLE, LDS, LOAD, MATRIX, SCALAR, SCALAR_LOAD, STORE, VECTOR, Cost
from .reduced import without
from .timed import LaunchTime, Timing, timed
from .wave_traces import WaveTrace

_LEAST_LISTED: Final = 0.5
"""Percent below which a saving is none."""
_LITTLE_LESS: Final = 0.9
"""Part of some work with which waves meet at other times."""
_MOST_SIMULATED: Final = 20_000
"""Instructions of the workgroups behind which no more are simulated."""
_UNLIMITED: Final = 1e18
"""Bytes per second or clock of memory that never limits."""
_KINDS: Final[Mapping[Removed, tuple[int, ...]]] = {
    "vector": (VECTOR,), "matrix": (MATRIX,), "scalar": (SCALAR,), "lds": (LDS,),
    "loads": (LOAD,), "stores": (STORE,), "atomics": (LOAD, STORE), "barriers": (BARRIER,),
    "no-ops": (IDLE,), "products": (MATRIX, LDS, LOAD),
}  # fmt: skip
"""Work of a unit -> kinds of its instructions."""
_SAME_BYTES: Final[frozenset[Removed]] = frozenset(
    (
        "conflicts", "wide accesses", "earlier loads", "latency", "code", "vector", "matrix",
        "scalar", "lds", "loads", "barriers", "no-ops", "work",
    )
)  # fmt: skip
"""What leaves all bytes that come from memory: needless loads, and lanes that do nothing of use,
are of what others load.
"""
_SHORTER: Final[frozenset[Removed]] = frozenset(("conflicts", "lines"))
"""What makes accesses shorter, and none of them needless."""
_OF_LAUNCH: Final[frozenset[Removed]] = frozenset(
    ("latency", "code", "wide accesses", "repeated products")
)
"""What can be taken from the whole launch only: of a loop it saves at most the time spent there."""
_Sites = frozenset[int]
"""Indices of instructions."""
_Change = Callable[[Timing], Timing | None]
_Cure = Callable[[Timing, Removal, _Sites], Timing | None]
"""The launch without some work of the instructions at `_Sites`; None where none of it is there."""


def savings(timing: Timing, now: LaunchTime, *, bounds: bool = True) -> tuple[Saving, ...]:
    """What each change would save, the most first; bounds come behind the others.

    `bounds`: whether those that no change of the code makes are listed too.
    """
    times: list[tuple[CostGone, float]] = []
    for change, apply in _CHANGES.items():
        if change in BOUNDS and not bounds:
            continue
        changed = apply(timing)
        if changed is not None:
            times.append((change, timed(changed).us))
    if bounds:
        times.append(("launch", now.us - timing.rates.launch_us))
    listed = [
        Saving(change, round(us, 3), round(100 * (1 - us / now.us), 1))
        for change, us in times
        if 100 * (1 - us / now.us) >= _LEAST_LISTED
    ]
    return tuple(sorted(listed, key=lambda saving: (saving.change in BOUNDS, saving.us)))


def lightened(timing: Timing) -> Timing:
    """A launch of which fewer workgroups are simulated, where all of them take long.

    A difference of two times needs no more than those that a compute unit holds at once.
    """
    issues, resident = 0, timing.placement.resident
    for count, waves in enumerate(timing.workgroups):
        if issues > _MOST_SIMULATED and count >= resident:
            return replace(timing, workgroups=timing.workgroups[:count])
        issues += sum(len(wave.stream) for wave in waves)
    return timing


def saved_percent(
    timing: Timing, now: LaunchTime, removal: Removal, *, again: bool = False
) -> float | None:
    """Percent of the launch's time that goes with some work; 0 where nothing of it is executed.

    None where nobody knows: less work takes longer, although a unit is relieved of more than
    `LEAST` percent of the time. Which waves get ahead of others decides whether they want one unit
    at the same time: so a little less of a unit's work goes once more, `again`.
    """
    changed = _CURES[removal.what](timing, removal, _sites(timing, removal))
    if changed is None:
        return 0.0
    after = timed(changed)
    percent = round(100 * (1 - after.us / now.us), 1)
    relieved = _relieved(now, after)
    if percent < -1 and max(relieved) >= LEAST:
        if removal.what not in _KINDS or again:
            return None
        less = replace(removal, part=_LITTLE_LESS * removal.part)
        return saved_percent(timing, now, less, again=True)
    return max(0.0, min([percent, *_limits(timing, now, removal, relieved)]))


def _limits(
    timing: Timing, now: LaunchTime, removal: Removal, relieved: Sequence[float]
) -> Iterator[float]:
    """Percentages that the removal saves at most."""
    # What needs the same bytes saves no more than the time in which memory is idle.
    if removal.what in _SAME_BYTES:
        yield round(100 * (1 - now.units.get("memory", 0.0)), 1)
    if removal.what in _OF_LAUNCH and removal.loops:
        blamed = attributed(timing, now).blamed
        sites = _sites(timing, replace(removal, lines=()))
        yield round(100 * sum(sum(blamed[site]) for site in sites if site in blamed), 1)
    # Shorter accesses need as many instructions: they save what units are relieved of.
    if removal.what in _SHORTER:
        yield round(sum(max(0.0, less) for less in relieved), 1)


def _relieved(now: LaunchTime, after: LaunchTime) -> list[float]:
    """For each unit the percent of the time for which it has less to do."""
    return [
        100 * (share - after.units.get(unit, 0.0) * after.cycles / now.cycles)
        for unit, share in now.units.items()
    ]


def _sites(timing: Timing, removal: Removal) -> _Sites:
    """Indices of the instructions where the work is."""
    function = timing.function
    loops = [loop for loop in function.loops if loop.id in removal.loops]
    sites = set(range(len(function.instructions)))
    if loops:
        blocks = {
            block
            for loop in loops
            for block in {*loop.blocks}.difference(
                *(nested.blocks for nested in function.loops if nested.parent == loop.id)
            )
        }
        sites = {
            site
            for block in blocks
            for site in range(function.blocks[block].start, function.blocks[block].stop)
        }
    if removal.lines:
        lines = frozenset(removal.lines)
        sites = {site for site in sites if function.instructions[site].line in lines}
    return frozenset(sites)


def _without_kinds(*kinds: int) -> _Change:
    return lambda timing: _without_where(timing, lambda cost: cost.kind in kinds)


def _without_where(timing: Timing, is_gone: Callable[[Cost], bool]) -> Timing | None:
    sites = enumerate(timing.costs.sites)
    return without_sites(timing, frozenset(site for site, cost in sites if is_gone(cost)))


def _without_instructions(timing: Timing, removal: Removal, sites: _Sites) -> Timing | None:
    """Without a part of the instructions of a unit."""
    if removal.named:
        return without_sites(timing, _named(timing, removal, sites))
    instructions = timing.function.instructions
    is_atomic = removal.what == "atomics"
    gone: set[int] = set()
    for kind in _KINDS[removal.what]:
        of_unit = [
            site
            for site in sorted(sites)
            if timing.costs.sites[site].kind == kind
            and (instructions[site].cls == "atomic") == is_atomic
        ]
        gone |= _spread(timing, of_unit, removal.part)
    shortened = without_loads if removal.what in ("loads", "products") else without_sites
    return shortened(timing, frozenset(gone))


def _spread(timing: Timing, sites: Iterable[int], part: float) -> _Sites:
    """A part of some instructions, by their cycles, spread evenly over the code."""

    def chosen() -> Iterator[int]:
        due = 0.0
        for site in sites:
            cycles = timing.costs.sites[site].cycles
            due += min(1.0, part) * cycles
            if due >= cycles:
                due -= cycles
                yield site

    return frozenset(chosen())


def _named(timing: Timing, removal: Removal, sites: _Sites) -> _Sites:
    """A part of the instructions where most of those are that a finding names: these first.

    With them go the no-ops between them. In other loops as large a part of the named ones goes.
    """
    function, costs = timing.function, timing.costs.sites
    lines = frozenset(removal.named)
    of_unit = [site for site in sorted(sites) if costs[site].kind in _KINDS[removal.what]]
    loop_of = innermost_loops(function)
    place = {
        site: loop_of.get(block.index)
        for block in function.blocks
        for site in range(block.start, block.stop)
    }
    named = [site for site in of_unit if function.instructions[site].line in lines]
    if not named:
        return _spread(timing, of_unit, removal.part)
    most, count = max(
        ((loop, sum(place[site] is loop for site in named)) for loop in map(place.get, named)),
        key=lambda found: found[1],
    )
    others = [site for site in of_unit if place[site] is most and site not in named]
    due = removal.part * (count + len(others))
    gone = _evenly(timing, named, due / count)
    gone |= _evenly(timing, others, (due - count) / max(1, len(others)))
    idle = [site for site in sites if costs[site].kind == IDLE]
    return gone | {site for site in idle if site - 1 in gone and site + 1 in gone}


def _evenly(timing: Timing, sites: Sequence[int], part: float) -> _Sites:
    """A part of some instructions, those that take longest last: a shorter form still has them."""
    count = round(min(1.0, max(0.0, part)) * len(sites))
    by_length: defaultdict[float, list[int]] = defaultdict(list)
    for site in sites:
        by_length[timing.costs.sites[site].cycles].append(site)
    chosen: set[int] = set()
    for _, alike in sorted(by_length.items()):
        wanted = min(len(alike), count - len(chosen))
        chosen.update(alike[at * len(alike) // wanted] for at in range(wanted))
    return frozenset(chosen)


def _without_part_of_scratch(timing: Timing, removal: Removal, sites: _Sites) -> Timing | None:
    scratch = [site for site in sorted(sites) if timing.costs.sites[site].is_scratch]
    return without_sites(timing, _spread(timing, scratch, removal.part))


def with_latency(timing: Timing, times: float) -> Timing:
    """The launch on memory that answers in some times the cycles."""
    rates = timing.rates
    shorter = replace(
        rates,
        l1_latency=rates.l1_latency * times,
        l2_latency=rates.l2_latency * times,
        l3_latency=rates.l3_latency * times,
        memory_latency=rates.memory_latency * times,
        store_latency=rates.store_latency * times,
        scalar_hit=rates.scalar_hit * times,
        scalar_miss=rates.scalar_miss * times,
    )
    return replace(timing, rates=shorter)


def _without_latency(timing: Timing, removal: Removal, sites: _Sites) -> Timing | None:
    """Without waits for the named loads, for some of a loop's, or for a part of all latency."""
    costs, part = timing.costs.sites, removal.part
    if removal.named:
        named, instructions = frozenset(removal.named), timing.function.instructions
        loads = (site for site in sites if costs[site].kind in (LOAD, SCALAR_LOAD))
        these = frozenset(site for site in loads if instructions[site].line in named)
        return without_waits_for(timing, these)
    if removal.loops:
        loads = (site for site in sites if costs[site].kind == LOAD)
        return without_waits_for(timing, frozenset(loads), round(1 / max(1 - part, 0.01)))
    return with_latency(timing, max(0.0, 1 - part))


def _without_bandwidth(timing: Timing) -> Timing:
    rates = replace(
        timing.rates, l2_bytes_per_s=_UNLIMITED, memory_share=_UNLIMITED,
        l3_bytes_per_s=None if timing.rates.l3_bytes_per_s is None else _UNLIMITED,
        cu_l2_bytes_per_clk=_UNLIMITED, cu_memory_bytes_per_clk=_UNLIMITED,
        l1_bytes_in_flight=None,
    )  # fmt: skip
    return replace(timing, rates=rates)


def with_more_waves(timing: Timing, times: float = 2.0) -> Timing | None:
    """More workgroups at a time; where the grid has none, each of twice as many does half."""
    placement = timing.placement
    if placement.busiest > placement.resident:
        resident = max(placement.resident + 1, round(times * placement.resident))
        return replace(timing, placement=replace(placement, resident=resident))
    twice = replace(placement, resident=2 * placement.resident)
    halves = _with_part(timing.workgroups, 0.5)
    if halves is None:
        return None
    others = [
        [
            replace(
                wave,
                accesses={
                    at: replace(access, lines=tuple(number + APART for number in access.lines))
                    for at, access in wave.accesses.items()
                },
            )
            for wave in waves
        ]
        for waves in halves
    ]
    return replace(
        timing,
        workgroups=[*halves, *others],
        workgroups_in_grid=2 * timing.workgroups_in_grid,
        placement=replace(twice, busiest=2 * placement.busiest),
    )


def with_even_workgroups(timing: Timing) -> Timing | None:
    """All compute units have as much to do: loops are split among more workgroups."""
    placement = timing.placement
    share = timing.workgroups_in_grid / timing.device.cus / placement.busiest
    if share >= 1:
        return None
    even = replace(timing, placement=replace(placement, active=timing.device.cus))
    parts = _with_part(timing.workgroups, share)
    if parts is None:  # workgroups without loops: their time is taken to shrink evenly
        return replace(even, part=timing.part / share) if placement.busiest > 1 else None
    return replace(even, workgroups=parts)


def with_fewer_iterations(timing: Timing, part: float, loops: Container[str] = ()) -> Timing | None:
    """Without a part of the iterations of some outermost loops; None where they are in others.

    `loops`: ids of the loops; empty: all.
    """
    workgroups = _with_part(timing.workgroups, 1 - part, loops)
    if workgroups is None or workgroups == timing.workgroups:
        return None
    return replace(timing, workgroups=workgroups)


def _with_part(
    workgroups: Sequence[Sequence[WaveTrace]], part: float, loops: Container[str] = ()
) -> list[list[WaveTrace]] | None:
    """Workgroups that do a part of the iterations of their outermost loops; None without loops."""
    if not any(wave.trips for waves in workgroups for wave in waves):
        return None
    return [[_part_of(wave, part, loops) for wave in waves] for waves in workgroups]


def _part_of(wave: WaveTrace, part: float, loops: Container[str]) -> WaveTrace:
    outermost = [
        span
        for span in wave.spans
        if (not loops or span[0] in loops)
        and not any(
            loop != span[0] and begin <= span[1] and span[2] <= end
            for loop, begin, end in wave.spans
        )
    ]
    ranges: list[tuple[int, int]] = []
    fewer = {
        name
        for name, begin, end in wave.spans
        if any(first <= begin and end <= last for _, first, last in outermost)
    }
    for loop in dict.fromkeys(loop for loop, _, _ in outermost):
        traced, in_all = wave.trips[loop]
        excess = traced - max(1, round(in_all * part))
        if excess > 0:
            ranges += [(begin, end) for name, begin, end in outermost if name == loop][-excess:]
    short = without(wave, sorted(ranges)) if ranges else wave
    counts: defaultdict[str, int] = defaultdict(int)
    for loop, _, _ in short.spans:
        counts[loop] += 1
    trips = {
        loop: (counts[loop], max(counts[loop], round(in_all * (part if loop in fewer else 1))))
        for loop, (_, in_all) in wave.trips.items()
        if counts[loop]
    }
    return replace(short, trips=trips)


def _with_part_more_waves(timing: Timing, removal: Removal, _: _Sites) -> Timing | None:
    """More workgroups at a time, where some of the grid wait for others to end."""
    waits = timing.placement.busiest > timing.placement.resident
    return with_more_waves(timing, 1 + removal.part) if waits else None


def _without_work(timing: Timing, removal: Removal, sites: _Sites) -> Timing | None:
    """Without a part of all waves' work, which is in vain; of a loop's work where it is in one.

    Of workgroups of one wave, which nobody else has, fewer workgroups are left.
    """
    if removal.loops:
        return _without_iterations(timing, removal, sites)
    left = max(0.0, 1 - removal.part)
    waves = max(map(len, timing.workgroups))
    kept = max(1, math.ceil(waves * left))
    if kept < waves:
        fewer = replace(timing, workgroups=[group[:kept] for group in timing.workgroups])
        return _without_work(fewer, replace(removal, part=1 - left * waves / kept), sites)
    grid = max(1, math.ceil(timing.workgroups_in_grid * left))
    return timing.with_grid(grid, max(1, math.ceil(timing.placement.busiest * left)))


def _without_iterations(timing: Timing, removal: Removal, sites: _Sites) -> Timing | None:
    """Without a part of the iterations; where loops are in others, of the loads instead."""
    return with_fewer_iterations(timing, removal.part, removal.loops) or without_loads(
        timing, _spread(timing, sorted(sites), removal.part)
    )


_CHANGES: Final[Mapping[CostGone, _Change]] = {
    "scratch": lambda timing: _without_where(timing, lambda cost: cost.is_scratch),
    "lines": with_fewest_lines,
    "conflicts": without_conflicts,
    "wide accesses": with_wide_accesses,
    "earlier loads": with_earlier_loads,
    "repeated products": without_repeated_products,
    "occupancy": with_more_waves,
    "workgroups": with_even_workgroups,
    "memory latency": lambda timing: with_latency(timing, 0.0),
    "memory bandwidth": _without_bandwidth,
    "memory": _without_kinds(LOAD, STORE),
    "lds": _without_kinds(LDS),
    "barriers": _without_kinds(BARRIER),
    "vector work": _without_kinds(VECTOR),
    "matrix work": _without_kinds(MATRIX),
}
_CURES: Final[Mapping[Removed, _Cure]] = {
    **dict.fromkeys(_KINDS, _without_instructions),
    "scratch": _without_part_of_scratch,
    "lines": lambda timing, _, sites: with_fewest_lines(timing, sites),
    "conflicts": lambda timing, _, sites: without_conflicts(timing, sites),
    "wide accesses": lambda timing, _, sites: (
        with_merged_accesses(timing, sites) or with_wide_accesses(timing)
    ),
    "earlier loads": lambda timing, removal, _: with_earlier_loads(timing, removal.loops),
    "repeated products": lambda timing, *_: without_repeated_products(timing),
    "occupancy": _with_part_more_waves,
    "workgroups": lambda timing, *_: with_even_workgroups(timing),
    "work": _without_work,
    "iterations": _without_iterations,
    "latency": _without_latency,
    "code": lambda timing, *_: replace(timing, rates=replace(timing.rates, icache_miss=0.0)),
}
