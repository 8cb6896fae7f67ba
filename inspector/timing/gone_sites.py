"""Which instructions the cure of a finding takes away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..isa.graph.cfg import innermost_loops
from ..model.time import Removal, Removed
from .costs import BARRIER, IDLE, LDS, LOAD, MATRIX, SCALAR, STORE, VECTOR
from .timed import Timing

KINDS: Final[Mapping[Removed, tuple[int, ...]]] = {
    "vector": (VECTOR,), "matrix": (MATRIX,), "scalar": (SCALAR,), "lds": (LDS,),
    "loads": (LOAD,), "stores": (STORE,), "atomics": (LOAD, STORE), "barriers": (BARRIER,),
    "no-ops": (IDLE,), "products": (MATRIX, LDS, LOAD),
}  # fmt: skip
"""Work of a unit -> kinds of its instructions."""
Sites = frozenset[int]
"""Indices of instructions."""


def sites_of(timing: Timing, removal: Removal) -> Sites:
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


def spread(timing: Timing, sites: Iterable[int], part: float) -> Sites:
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


def named_sites(timing: Timing, removal: Removal, sites: Sites) -> Sites:
    """A part of the instructions where most of those are that a finding names: these first.

    With them go the no-ops between them. In other loops as large a part of the named ones goes.
    """
    function, costs = timing.function, timing.costs.sites
    lines = frozenset(removal.named)
    of_unit = [site for site in sorted(sites) if costs[site].kind in KINDS[removal.what]]
    loop_of = innermost_loops(function)
    place = {
        site: loop_of.get(block.index)
        for block in function.blocks
        for site in range(block.start, block.stop)
    }
    named = [site for site in of_unit if function.instructions[site].line in lines]
    if not named:
        return spread(timing, of_unit, removal.part)
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


def _evenly(timing: Timing, sites: Sequence[int], part: float) -> Sites:
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
