"""What a launch would gain without the work that the cure of a finding takes away."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from ..model.removal import LEAST, Removal, Removed
from .attribution import attributed
from .changed_accesses import (
    with_fewest_lines,
    with_merged_accesses,
    with_wide_accesses,
    without_conflicts,
    without_loads,
)
from .changed_code import with_earlier_loads, without_sites
from .costs import BARRIER, IDLE, LDS, LOAD, MATRIX, SCALAR, STORE, VECTOR
from .repeated_products import without_repeated_products
from .savings import with_even_workgroups, with_fewer_iterations, with_latency, with_more_waves
from .timed import LaunchTime, Timing, timed

_KINDS: Final[Mapping[Removed, tuple[int, ...]]] = {
    "vector": (VECTOR,), "matrix": (MATRIX,), "scalar": (SCALAR,), "lds": (LDS,),
    "loads": (LOAD,), "stores": (STORE,), "atomics": (LOAD, STORE), "barriers": (BARRIER,),
    "no-ops": (IDLE,), "products": (MATRIX, LDS, LOAD),
}  # fmt: skip
"""Work of a unit -> kinds of its instructions."""
_SAME_BYTES: Final[frozenset[Removed]] = frozenset(
    (
        "conflicts", "wide accesses", "earlier loads", "latency", "code", "vector", "matrix",
        "scalar", "lds", "loads", "barriers", "no-ops",
    )
)  # fmt: skip
"""What leaves all bytes that come from memory; needless loads are of what others load."""
_SHORTER: Final[frozenset[Removed]] = frozenset(("conflicts", "lines"))
"""What makes accesses shorter, and none of them needless."""
_OF_LAUNCH: Final[frozenset[Removed]] = frozenset(
    ("latency", "code", "wide accesses", "repeated products")
)
"""What can be taken from the whole launch only: of a loop it saves at most the time spent there."""
MOST_LIGHT: Final = 20_000
"""Instructions of the workgroups behind which no more are simulated."""
Sites = frozenset[int]


def lightened(timing: Timing) -> Timing:
    """A launch of which fewer workgroups are simulated, where all of them take long: a difference
    of two times needs no more than those that a compute unit holds at once.
    """
    issues, resident = 0, timing.placement.resident
    for count, waves in enumerate(timing.workgroups):
        if issues > MOST_LIGHT and count >= resident:
            return replace(timing, workgroups=timing.workgroups[:count])
        issues += sum(len(wave.stream) for wave in waves)
    return timing


def saved_percent(timing: Timing, now: LaunchTime, removal: Removal) -> float | None:
    """Percent of the launch's time that goes with some work; 0 where nothing of it is executed.

    Which waves get ahead of others decides whether they want one unit at the same time. Where less
    work takes longer for that reason alone, and a unit is relieved of more than `LEAST` percent of
    the time, nobody knows what it saves: None. Shorter accesses, which need as many instructions,
    save no more time than units are relieved of, and what needs the same bytes no more than memory
    is idle. A loop's work that other lanes do needs them too.
    """
    changed = _without(timing, removal, _place(timing, removal))
    if changed is None:
        return 0.0
    after = timed(changed)
    percent = round(100 * (1 - after.us / now.us), 1)
    relieved = _relieved(now, after)
    if percent < -1 and max(relieved) >= LEAST:
        return None
    if removal.what in _SAME_BYTES or (removal.what == "work" and removal.loops):
        percent = min(percent, round(100 * (1 - now.units.get("memory", 0.0)), 1))
    if removal.what in _OF_LAUNCH and removal.loops:
        found, sites = attributed(timing, now).blamed, _place(timing, replace(removal, lines=()))
        there = sum(sum(found[site]) for site in sites if site in found)
        percent = min(percent, round(100 * there, 1))
    if removal.what in _SHORTER:
        percent = min(percent, round(sum(max(0.0, less) for less in relieved), 1))
    return max(0.0, percent)


def _relieved(now: LaunchTime, after: LaunchTime) -> list[float]:
    """For each unit the percent of the time for which it has less to do."""
    return [
        100 * (share - after.units.get(unit, 0.0) * after.cycles / now.cycles)
        for unit, share in now.units.items()
    ]


def _place(timing: Timing, removal: Removal) -> Sites:
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


def _without(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    what, part = removal.what, removal.part
    if what in _KINDS:
        return _without_instructions(timing, removal, sites)
    if what == "scratch":
        scratch = [site for site in sorted(sites) if timing.costs.sites[site].is_scratch]
        return without_sites(timing, _spread(timing, scratch, part))
    if what == "wide accesses":
        return with_merged_accesses(timing, sites) or with_wide_accesses(timing)
    if what == "earlier loads":
        return with_earlier_loads(timing, removal.loops)
    if what == "occupancy":
        waits = timing.placement.busiest > timing.placement.resident
        return with_more_waves(timing, 1 + part) if waits else None
    if what == "work" and not removal.loops:
        return _without_work(timing, part)
    if what in ("work", "iterations"):
        return with_fewer_iterations(timing, part, removal.loops) or without_loads(
            timing, _spread(timing, sorted(sites), part)
        )
    if what == "latency":
        return with_latency(timing, max(0.0, 1 - part))
    if what == "code":
        return replace(timing, rates=replace(timing.rates, icache_miss=0.0))
    changes: Mapping[str, Callable[[], Timing | None]] = {
        "lines": lambda: with_fewest_lines(timing, sites),
        "conflicts": lambda: without_conflicts(timing, sites),
        "repeated products": lambda: without_repeated_products(timing),
        "workgroups": lambda: with_even_workgroups(timing),
    }
    return changes[what]()


def _without_instructions(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    """Without a part of the instructions of a unit."""
    kinds = _KINDS[removal.what]
    instructions = timing.function.instructions
    is_atomic = removal.what == "atomics"
    gone: set[int] = set()
    for kind in kinds:
        of_unit = [
            site
            for site in sorted(sites)
            if timing.costs.sites[site].kind == kind
            and (instructions[site].cls == "atomic") == is_atomic
        ]
        gone |= _spread(timing, of_unit, removal.part)
    without = without_loads if removal.what in ("loads", "products") else without_sites
    return without(timing, frozenset(gone))


def _spread(timing: Timing, sites: Iterable[int], part: float) -> Sites:
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


def _without_work(timing: Timing, part: float) -> Timing:
    """The workgroups that are left where a part of all waves' work is in vain."""
    left = max(0.0, 1 - part)
    grid = max(1, math.ceil(timing.workgroups_in_grid * left))
    return timing.with_grid(grid, max(1, math.ceil(timing.placement.busiest * left)))
