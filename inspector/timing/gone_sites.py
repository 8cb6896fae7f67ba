"""Which instructions the cure of a finding takes away."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..isa.graph.cfg import innermost_loops
from ..model import Function
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


def loop_of_site(function: Function) -> dict[int, str]:
    """Index of an instruction -> id of the innermost loop around it, of those in loops."""
    loops = innermost_loops(function)
    return {
        site: loops[block.index].id
        for block in function.blocks
        if block.index in loops
        for site in range(block.start, block.stop)
    }


def sites_of(timing: Timing, removal: Removal) -> Sites:
    """Indices of the instructions where the work is: of a loop those of loops in it are theirs."""
    function = timing.function
    sites: Iterable[int] = range(len(function.instructions))
    if removal.loops:
        loop_of = loop_of_site(function)
        sites = (site for site, loop in loop_of.items() if loop in removal.loops)
    if removal.lines:
        lines = frozenset(removal.lines)
        sites = (site for site in sites if function.instructions[site].line in lines)
    return frozenset(sites)


def spread(timing: Timing, sites: Iterable[int], part: float) -> Sites:
    """A part of some instructions, by their cycles, spread evenly over the code."""

    def chosen() -> Iterator[int]:
        due = 0.0
        for site in sorted(sites):
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
    loop_of = loop_of_site(function)
    named = [site for site in of_unit if function.instructions[site].line in lines]
    if not named:
        return spread(timing, of_unit, removal.part)
    ((busiest, count),) = Counter(map(loop_of.get, named)).most_common(1)
    others = [
        site
        for site in of_unit
        if loop_of.get(site) == busiest and function.instructions[site].line not in lines
    ]
    due = removal.part * (count + len(others))
    gone = _spread_by_count(timing, named, due / count)
    gone |= _spread_by_count(timing, others, (due - count) / max(1, len(others)))
    idle = [site for site in sites if costs[site].kind == IDLE]
    return gone | {site for site in idle if site - 1 in gone and site + 1 in gone}


def _spread_by_count(timing: Timing, sites: Sequence[int], part: float) -> Sites:
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
