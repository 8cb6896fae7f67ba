"""What a launch would gain with one of its costs gone, or without the work that a cure takes away.

Each change is one of the traces, costs, rates or placement; the changed launch is simulated again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..model.time import BOUNDS, LEAST, CostGone, Removal, Removed, Saving
from .attribution import attributed
from .changed_accesses import (
    with_fewest_lines,
    with_merged_accesses,
    with_wide_accesses,
    without_conflicts,
    without_loads,
    without_repeated_products,
)
from .changed_code import with_earlier_loads, without_sites, without_waits_for
from .changed_launch import (
    with_even_workgroups,
    with_fewer_iterations,
    with_halved_workgroups,
    with_latency,
    with_more_resident,
    without_bandwidth,
)
from .costs import BARRIER, LDS, LOAD, MATRIX, SCALAR_LOAD, STORE, VECTOR, Cost
from .gone_sites import KINDS, Sites, named_sites, sites_of, spread
from .timed import LaunchTime, Timing, timed

_LEAST_LISTED: Final = 0.5
"""Percent below which a saving is none."""
_LITTLE_LESS: Final = 0.9
"""Part of some work with which waves meet at other times."""
_MOST_SIMULATED: Final = 20_000
"""Instructions of the workgroups behind which no more are simulated."""
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
_Change = Callable[[Timing], Timing | None]
_Cure = Callable[[Timing, Removal, Sites], Timing | None]
"""The launch without some work of the instructions at `Sites`; None where none of it is there."""


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
    `LEAST` percent of the time, and nothing else bounds what it saves. Which waves get ahead of
    others decides whether they want one unit at the same time: so a little less of a unit's work
    goes once more, `again`.
    """
    changed = _CURES[removal.what](timing, removal, sites_of(timing, removal))
    if changed is None:
        return 0.0
    after = timed(changed)
    percent = round(100 * (1 - after.us / now.us), 1)
    relieved = _relieved(now, after)
    most = min(_limits(timing, now, removal, relieved), default=100.0)
    if percent < -1 and max(relieved) >= LEAST and most >= LEAST:
        if removal.what not in KINDS or again:
            return None
        less = replace(removal, part=_LITTLE_LESS * removal.part)
        return saved_percent(timing, now, less, again=True)
    return max(0.0, min(percent, most))


def _limits(
    timing: Timing, now: LaunchTime, removal: Removal, relieved: Sequence[float]
) -> Iterator[float]:
    """Percentages that the removal saves at most."""
    # What needs the same bytes saves no more than the time in which memory is idle.
    if removal.what in _SAME_BYTES:
        yield round(100 * (1 - now.units.get("memory", 0.0)), 1)
    if removal.what in _OF_LAUNCH and removal.loops:
        blamed = attributed(timing, now).blamed
        sites = sites_of(timing, replace(removal, lines=()))
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


def _without_kinds(*kinds: int) -> _Change:
    return lambda timing: _without_where(timing, lambda cost: cost.kind in kinds)


def _without_where(timing: Timing, is_gone: Callable[[Cost], bool]) -> Timing | None:
    sites = enumerate(timing.costs.sites)
    return without_sites(timing, frozenset(site for site, cost in sites if is_gone(cost)))


def _without_instructions(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    """Without a part of the instructions of a unit."""
    if removal.named:
        return without_sites(timing, named_sites(timing, removal, sites))
    instructions = timing.function.instructions
    is_atomic = removal.what == "atomics"
    gone: set[int] = set()
    for kind in KINDS[removal.what]:
        of_unit = [
            site
            for site in sites
            if timing.costs.sites[site].kind == kind
            and (instructions[site].cls == "atomic") == is_atomic
        ]
        gone |= spread(timing, of_unit, removal.part)
    shortened = without_loads if removal.what in ("loads", "products") else without_sites
    return shortened(timing, frozenset(gone))


def _without_part_of_scratch(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    scratch = [site for site in sites if timing.costs.sites[site].is_scratch]
    return without_sites(timing, spread(timing, scratch, removal.part))


def _without_latency(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
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


def _without_work(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    """Without a part of all waves' work, which is in vain; of a loop's work where it is in one.

    Of workgroups of one wave, which nobody else has, fewer workgroups are left.
    """
    if removal.loops:
        return _without_iterations(timing, removal, sites)
    left = max(0.0, 1 - removal.part)
    waves = max(map(len, timing.workgroups))
    kept = max(1, math.ceil(waves * left))
    if kept < waves:
        fewer = _of_waves(timing, kept)
        return _without_work(fewer, replace(removal, part=1 - left * waves / kept), sites)
    grid = max(1, math.ceil(timing.workgroups_in_grid * left))
    return timing.with_grid(grid, max(1, math.ceil(timing.placement.busiest * left)))


def _of_waves(timing: Timing, kept: int) -> Timing:
    """The launch with fewer waves in a workgroup, so that more workgroups fit at a time."""
    placement, resident = timing.placement, timing.placement.resident
    if timing.resident_with is not None:
        resident = max(resident, min(placement.busiest, timing.resident_with(0, kept)))
    return replace(
        timing,
        workgroups=[group[:kept] for group in timing.workgroups],
        placement=replace(placement, resident=resident),
    )


def _without_iterations(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    """Without a part of the iterations; where loops are in others, of the loads instead."""
    return with_fewer_iterations(timing, removal.part, removal.loops) or without_loads(
        timing, spread(timing, sites, removal.part)
    )


_CHANGES: Final[Mapping[CostGone, _Change]] = {
    "scratch": lambda timing: _without_where(timing, lambda cost: cost.is_scratch),
    "lines": with_fewest_lines,
    "conflicts": without_conflicts,
    "wide accesses": with_wide_accesses,
    "earlier loads": with_earlier_loads,
    "repeated products": without_repeated_products,
    "occupancy": lambda timing: with_more_resident(timing, 2.0) or with_halved_workgroups(timing),
    "workgroups": with_even_workgroups,
    "memory latency": lambda timing: with_latency(timing, 0.0),
    "memory bandwidth": without_bandwidth,
    "memory": _without_kinds(LOAD, STORE),
    "lds": _without_kinds(LDS),
    "barriers": _without_kinds(BARRIER),
    "vector work": _without_kinds(VECTOR),
    "matrix work": _without_kinds(MATRIX),
}
_CURES: Final[Mapping[Removed, _Cure]] = {
    **dict.fromkeys(KINDS, _without_instructions),
    "scratch": _without_part_of_scratch,
    "lines": lambda timing, _, sites: with_fewest_lines(timing, sites),
    "conflicts": lambda timing, _, sites: without_conflicts(timing, sites),
    "wide accesses": lambda timing, _, sites: (
        with_merged_accesses(timing, sites) or with_wide_accesses(timing)
    ),
    "earlier loads": lambda timing, removal, _: with_earlier_loads(timing, removal.loops),
    "repeated products": lambda timing, *_: without_repeated_products(timing),
    "occupancy": lambda timing, removal, _: with_more_resident(timing, 1 + removal.part),
    "workgroups": lambda timing, *_: with_even_workgroups(timing),
    "work": _without_work,
    "iterations": _without_iterations,
    "latency": _without_latency,
    "code": lambda timing, *_: replace(timing, rates=replace(timing.rates, icache_miss=0.0)),
}
