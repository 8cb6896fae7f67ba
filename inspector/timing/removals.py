"""What a launch would gain without the work that the cure of a finding takes away."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from ..model.removal import Removal, Removed
from .changed_accesses import (
    with_fewest_lines,
    with_merged_accesses,
    with_wide_accesses,
    without_conflicts,
)
from .changed_code import with_earlier_loads, without_sites
from .costs import BARRIER, IDLE, LDS, LOAD, MATRIX, SCALAR, STORE, VECTOR, Cost
from .repeated_products import without_repeated_products
from .savings import with_even_workgroups, with_latency, with_more_waves
from .timed import LaunchTime, Timing, timed

_KINDS: Final[Mapping[Removed, tuple[int, ...]]] = {
    "vector": (VECTOR,), "matrix": (MATRIX,), "scalar": (SCALAR,), "lds": (LDS,),
    "loads": (LOAD,), "stores": (STORE,), "atomics": (LOAD, STORE), "barriers": (BARRIER,),
    "no-ops": (IDLE,),
}  # fmt: skip
"""Work of a unit -> kinds of its instructions."""
Sites = frozenset[int]


def saved_percent(timing: Timing, now: LaunchTime, removal: Removal) -> float:
    """Percent of the launch's time that goes with some work; 0 where nothing of it is executed.

    Args:
        timing: of the launch.
        now: its time as it is.
        removal: what goes.
    """
    changed = _without(timing, removal, _place(timing, removal))
    if changed is None:
        return 0.0
    return round(max(0.0, 100 * (1 - timed(changed).us / now.us)), 1)


def _place(timing: Timing, removal: Removal) -> Sites:
    """Indices of the instructions where the work is."""
    function = timing.function
    loops = [loop for loop in function.loops if loop.id in removal.loops]
    sites = set(range(len(function.instructions)))
    if loops:
        nested = {
            block
            for loop in function.loops
            if loop.parent in removal.loops and loop.id not in removal.loops
            for block in loop.blocks
        }
        blocks = {block for loop in loops for block in loop.blocks} - nested
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
        return without_sites(timing, _where(timing, sites, lambda cost: cost.is_scratch))
    if what == "wide accesses":
        return with_merged_accesses(timing, sites) or with_wide_accesses(timing)
    if what == "earlier loads":
        return with_earlier_loads(timing, removal.loops)
    if what == "occupancy":
        return with_more_waves(timing, 1 + part)
    if what == "work":
        return _without_work(timing, part)
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


def _where(timing: Timing, sites: Sites, is_it: Callable[[Cost], bool]) -> Sites:
    return frozenset(site for site in sites if is_it(timing.costs.sites[site]))


def _without_instructions(timing: Timing, removal: Removal, sites: Sites) -> Timing | None:
    """Without a part of the instructions of a unit, spread evenly over the code."""
    kinds = _KINDS[removal.what]
    instructions = timing.function.instructions
    is_atomic = removal.what == "atomics"

    def gone() -> Iterator[int]:
        due = 0.0
        for site in sorted(sites):
            cost = timing.costs.sites[site]
            if cost.kind not in kinds or (instructions[site].cls == "atomic") != is_atomic:
                continue
            due += min(1.0, removal.part) * cost.cycles
            if due >= cost.cycles:
                due -= cost.cycles
                yield site

    return without_sites(timing, frozenset(gone()))


def _without_work(timing: Timing, part: float) -> Timing:
    """The workgroups that are left where a part of all waves' work is in vain."""
    placement, left = timing.placement, max(0.0, 1 - part)
    busiest = max(1, math.ceil(placement.busiest * left))
    grid = max(1, math.ceil(timing.workgroups_in_grid * left))
    return replace(
        timing,
        workgroups=timing.workgroups[:busiest],
        workgroups_in_grid=grid,
        placement=replace(
            placement,
            busiest=busiest,
            resident=min(placement.resident, busiest),
            active=min(placement.active, grid),
        ),
    )
