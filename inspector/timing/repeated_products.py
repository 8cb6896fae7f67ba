"""Launches in which no wave does another's matrix products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set

from msgspec.structs import replace

from .changed_accesses import on_results
from .changed_code import Sites
from .costs import LDS, MATRIX, VECTOR, Costs
from .timed import Timing
from .wave_traces import Access, WaveTrace


def without_repeated_products(timing: Timing) -> Timing | None:
    """Without what a wave does of matrix products that another one of its workgroup does as well.

    These are the products, what it reads of the LDS for them, and vector work for and on them.
    """
    costs = timing.costs
    if not timing.workgroups or not any(cost.kind == MATRIX for cost in costs.sites):
        return None
    products = {site for site, cost in enumerate(costs.sites) if cost.kind == MATRIX}
    named = products | on_results(costs, MATRIX) | _for_products(costs)
    seen: set[int] = set()
    repeated: list[set[int]] = []
    for number, wave in enumerate(timing.workgroups[0]):
        values = _values(costs, wave, number, named)
        repeated.append({site for site, of_site in values.items() if of_site <= seen})
        seen = seen.union(*values.values())
    if not any(sites & products for sites in repeated):
        return None
    sites = Sites(costs)
    idle = {
        site: sites.gone(site)
        for site in frozenset[int]().union(*repeated)
        if costs.sites[site].kind != LDS
    }

    def changed(wave: WaveTrace, gone: set[int]) -> WaveTrace:
        stream, accesses = wave.stream, wave.accesses
        return replace(
            wave,
            stream=[idle[site] if site in gone and site in idle else site for site in stream],
            accesses={
                at: Access() if stream[at] in gone else access for at, access in accesses.items()
            },
        )

    workgroups = [
        [changed(wave, gone) for wave, gone in zip(waves, repeated, strict=True)]
        for waves in timing.workgroups
    ]
    return replace(timing, workgroups=workgroups, costs=sites.made())


def _values(costs: Costs, wave: WaveTrace, number: int, named: Set[int]) -> dict[int, set[int]]:
    """Numbers that stand for what a wave works out: equal ones are the same in other waves."""
    lanes = hash(("lanes", number))
    values = [lanes if group < costs.scalar_from else 0 for group in range(costs.groups)]
    times: defaultdict[int, int] = defaultdict(int)
    found: defaultdict[int, set[int]] = defaultdict(set)
    for position, site in enumerate(wave.stream):
        cost = costs.sites[site]
        if not cost.writes:
            continue
        access = wave.accesses.get(position)
        if access is None:
            value = hash((site, *[values[group] for group in cost.reads]))
        else:
            times[site] += 1
            value = hash((site, times[site], access.where, access.lines))
        for group in cost.writes:
            values[group] = value
        if site in named:
            found[site].add(value)
    return found


def _for_products(costs: Costs) -> frozenset[int]:
    """Vector instructions and accesses of the LDS whose results matrix instructions work on."""
    wanted = {group for cost in costs.sites if cost.kind == MATRIX for group in cost.reads}
    while True:
        more = {
            group
            for cost in costs.sites
            if cost.kind in (VECTOR, MATRIX) and not wanted.isdisjoint(cost.writes)
            for group in cost.reads
        } - wanted
        if not more:
            break
        wanted |= more
    return frozenset(
        site
        for site, cost in enumerate(costs.sites)
        if cost.kind in (LDS, VECTOR) and not wanted.isdisjoint(cost.writes)
    )
