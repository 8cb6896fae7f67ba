"""Launches whose accesses are others: no conflicts, fewer lines, more bytes at a time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from ..isa.dataflow.execution_target import target_of
from .costs import LDS, LOAD, MATRIX, VECTOR, Costs
from .timed import Timing
from .wave_traces import Access, WaveTrace

APART: Final = 1 << 40
"""Numbers of cache lines between those of workgroups that are told apart."""
_WIDEST: Final = 16
"""Bytes that a lane moves with one access at most."""
_NEVER: Final = -1


def _with_accesses(timing: Timing, change: Callable[[Access], Access]) -> Timing | None:
    known: dict[int, Access] = {}

    def changed(access: Access) -> Access:
        made = known.get(id(access))
        if made is None:
            made = known[id(access)] = change(access)
        return made

    workgroups = [
        [
            replace(wave, accesses={at: changed(access) for at, access in wave.accesses.items()})
            for wave in waves
        ]
        for waves in timing.workgroups
    ]
    return replace(timing, workgroups=workgroups) if workgroups != timing.workgroups else None


def without_conflicts(timing: Timing) -> Timing | None:
    return _with_accesses(timing, lambda access: replace(access, cycles=access.least))


def with_fewest_lines(timing: Timing) -> Timing | None:
    """Each access touches as many lines as hold its bytes; all of them together what they did.

    Accesses at addresses that were loaded stay: another layout does not bring those together.
    """
    line = timing.machine.cache_line_bytes or 64
    waves = [wave for waves in timing.workgroups for wave in waves]
    gathers = _gathers(timing.costs, waves[0]) if waves else set()

    def changed(wave: WaveTrace) -> WaveTrace:
        touched: defaultdict[int, dict[int, None]] = defaultdict(dict)
        for position, access in wave.accesses.items():
            touched[wave.stream[position]].update(dict.fromkeys(access.lines))
        lines = {site: tuple(of_site) for site, of_site in touched.items()}
        taken: defaultdict[int, int] = defaultdict(int)
        accesses = dict(wave.accesses)
        for position, access in sorted(wave.accesses.items()):
            fewest, site = math.ceil(access.bytes / line), wave.stream[position]
            if len(access.lines) > fewest and site not in gathers:
                begin, of_site = taken[site], lines[site]
                taken[site] += fewest
                numbers = range(begin, begin + fewest)
                accesses[position] = replace(
                    access, lines=tuple(of_site[number % len(of_site)] for number in numbers)
                )
        return replace(wave, accesses=accesses) if taken else wave

    workgroups = [[changed(wave) for wave in waves] for waves in timing.workgroups]
    return replace(timing, workgroups=workgroups) if workgroups != timing.workgroups else None


def _gathers(costs: Costs, wave: WaveTrace) -> set[int]:
    """Accesses of a wave whose addresses follow from what it loaded since it last got there."""
    loaded = [_NEVER] * costs.groups
    last: dict[int, int] = {}
    found: set[int] = set()
    once: dict[int, bool] = {}
    for position, site in enumerate(wave.stream):
        cost = costs.sites[site]
        newest = max((loaded[group] for group in cost.reads), default=_NEVER)
        if cost.kind == LOAD:
            if site in last and newest > last[site]:
                found.add(site)
            once[site] = site not in last and newest > _NEVER
            last[site] = position
        if cost.kind in (LOAD, LDS):
            newest = position
        for group in cost.writes:
            loaded[group] = newest if group < costs.scalar_from else _NEVER
    return found | {site for site, is_gather in once.items() if is_gather}


def with_wide_accesses(timing: Timing) -> Timing | None:
    """Lanes move 16 bytes at a time: fewer workgroups, each with as much more data.

    Vector work on loaded values grows with them. None where data go through the LDS, or where lanes
    do not lie side by side.
    """
    line, costs = timing.machine.cache_line_bytes or 64, timing.costs
    lanes = target_of(timing.function, timing.machine.arch).lanes
    widths = []
    for waves in timing.workgroups:
        for wave in waves:
            for position, access in wave.accesses.items():
                needed = math.ceil(access.bytes / line)
                if costs.sites[wave.stream[position]].kind == LDS or len(access.lines) > 2 * needed:
                    return None
                if len(access.lines) >= needed:
                    widths.append(math.ceil(access.bytes / lanes))
    times = _WIDEST // max(1, min(widths, default=_WIDEST))
    if times <= 1:
        return None

    def wider(access: Access) -> Access:
        if len(access.lines) < math.ceil(access.bytes / line):  # the lanes read the same
            return access
        lines = tuple(number + copy * APART for copy in range(times) for number in access.lines)
        return replace(access, lines=lines, bytes=access.bytes * times)

    changed = _with_accesses(timing, wider)
    assert changed is not None
    busiest = max(1, math.ceil(timing.placement.busiest / times))
    on_data = on_results(costs, LOAD)
    sites = tuple(
        cost._replace(cycles=cost.cycles * times, result=cost.result * times)
        if number in on_data
        else cost
        for number, cost in enumerate(costs.sites)
    )
    return replace(
        changed,
        costs=replace(costs, sites=sites),
        workgroups=changed.workgroups[:busiest],
        workgroups_in_grid=math.ceil(timing.workgroups_in_grid / times),
        placement=replace(
            timing.placement,
            busiest=busiest,
            resident=min(timing.placement.resident, busiest),
            active=min(timing.placement.active, math.ceil(timing.workgroups_in_grid / times)),
        ),
    )


def on_results(costs: Costs, *kinds: int) -> frozenset[int]:
    """Vector and matrix instructions that work on results of some kinds of instructions."""
    groups = {group for cost in costs.sites if cost.kind in kinds for group in cost.writes}
    found: set[int] = set()
    while True:
        more = {
            site
            for site, cost in enumerate(costs.sites)
            if site not in found
            and cost.kind in (VECTOR, MATRIX)
            and not groups.isdisjoint(cost.reads)
        }
        if not more:
            return frozenset(found)
        found |= more
        groups |= {group for site in more for group in costs.sites[site].writes}
