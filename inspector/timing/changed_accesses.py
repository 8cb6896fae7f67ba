"""Launches whose accesses are others: no conflicts, fewer lines, more bytes at a time.

Launches in which no wave does another's matrix products.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from typing import Final

from msgspec.structs import replace

from ..isa.dataflow.execution_target import target_of
from .changed_code import Sites, without_sites
from .costs import LDS, LOAD, MATRIX, VECTOR, Costs, Sharing
from .timed import Timing
from .wave_traces import Access, WaveTrace

APART: Final = 1 << 40
"""Numbers of cache lines between those of workgroups that are told apart."""
_WIDEST: Final = 16
"""Bytes that a lane moves with one access at most."""
_LDS_BYTES: Final = 128
"""That the LDS moves in a cycle: 32 banks of 4 bytes."""
_NEVER: Final = -1


def _with_accesses(
    timing: Timing, change: Callable[[Access], Access], sites: Container[int] | None = None
) -> Timing | None:
    """The launch with other accesses, at some instructions or at all."""
    known: dict[int, Access] = {}

    def changed(access: Access) -> Access:
        made = known.get(id(access))
        if made is None:
            made = known[id(access)] = change(access)
        return made

    def of_wave(wave: WaveTrace) -> WaveTrace:
        accesses = {
            at: changed(access) if sites is None or wave.stream[at] in sites else access
            for at, access in wave.accesses.items()
        }
        return replace(wave, accesses=accesses)

    after = timing.with_waves(of_wave)
    return after if after.waves != timing.waves else None


def without_conflicts(timing: Timing, sites: Container[int] | None = None) -> Timing | None:
    """No banks conflict, at some instructions or at all."""
    return _with_accesses(timing, lambda access: replace(access, cycles=access.least), sites)


def with_fewest_lines(timing: Timing, sites: Container[int] | None = None) -> Timing | None:
    """Each access touches as many lines as hold its bytes; all of them together what they did.

    Instructions of a wave that touch the same lines, such as loads of even and of odd elements,
    divide these between them. Accesses at addresses that were loaded stay: another layout does not
    bring those together.

    `sites`: instructions whose accesses change; None: all.
    """
    line = timing.machine.cache_line_bytes or 64
    gathers = _gathers(timing.costs, timing.waves[0]) if timing.waves else set()
    pool_of = _pools(timing)

    def changed(wave: WaveTrace) -> WaveTrace:
        touched: defaultdict[int, dict[int, None]] = defaultdict(dict)
        for position, access in wave.accesses.items():
            if access.lines:
                touched[pool_of[wave.stream[position]]].update(dict.fromkeys(access.lines))
        pools = {number: tuple(lines) for number, lines in touched.items()}
        taken = dict.fromkeys(pools, 0)
        accesses = dict(wave.accesses)
        for position, access in sorted(wave.accesses.items()):
            fewest, site = math.ceil(access.bytes / line), wave.stream[position]
            is_asked = sites is None or site in sites
            if is_asked and len(access.lines) > fewest and site not in gathers:
                number = pool_of[site]
                pool, begin = pools[number], taken[number]
                taken[number] += fewest
                accesses[position] = replace(
                    access, lines=tuple(pool[at % len(pool)] for at in range(begin, begin + fewest))
                )
        return replace(wave, accesses=accesses) if any(taken.values()) else wave

    after = timing.with_waves(changed)
    return None if after.waves == timing.waves else _with_all_bytes(timing, after)


def without_loads(timing: Timing, gone: frozenset[int]) -> Timing | None:
    """Without some loads. Others that touch their lines bring what they were the first to bring."""

    def changed(wave: WaveTrace) -> WaveTrace:
        left = {at: of for at, of in wave.accesses.items() if wave.stream[at] not in gone}
        return replace(wave, accesses=left)

    return without_sites(_with_all_bytes(timing, timing.with_waves(changed)), gone)


def _with_all_bytes(before: Timing, after: Timing) -> Timing:
    """A launch with other accesses, all bytes of which still come from where they came from.

    Which instruction brings a line into the L2 is noted of the former accesses. Those of one kind
    with lines in common bring as many as before, or as hold their bytes if these are fewer: each as
    many of them as it is the first of its workgroup to touch, for the others find theirs in the L1.
    """
    line = before.machine.cache_line_bytes or 64
    sharing, pool_of, sites = before.sharing, _pools(before, after), before.costs.sites
    lines: defaultdict[int, int] = defaultdict(int)  # by instruction, before
    needed: defaultdict[int, float] = defaultdict(float)  # by pool
    lines_after: defaultdict[int, int] = defaultdict(int)
    for site, access in _all_accesses(before):
        lines[site] += len(access.lines)
        needed[pool_of[site]] += access.bytes / line
    for site, access in _all_accesses(after):
        lines_after[site] += len(access.lines)
    changed = {pool for site, pool in pool_of.items() if lines[site] != lines_after[site]}
    first_before, first = _first_touches(before), _first_touches(after)
    in_pool: defaultdict[int, int] = defaultdict(int)
    for site, count in first.items():
        in_pool[pool_of[site]] += count
    brought: defaultdict[int, float] = defaultdict(float)
    from_memory: defaultdict[int, float] = defaultdict(float)
    for site, count in lines.items():
        own = (
            sharing.fresh.get(site, 1.0) * first_before[site]
            if sites[site].kind == LOAD
            else sharing.stored.get(site, 1.0) * count
        )
        brought[pool_of[site]] += own
        from_memory[pool_of[site]] += own * sharing.beyond_l3.get(site, 1.0)
    fresh, beyond = dict(sharing.fresh), dict(sharing.beyond_l3)
    stored = dict(sharing.stored)
    for site, pool in pool_of.items():
        still = min(brought[pool], needed[pool])
        if pool in changed and lines_after[site] and in_pool[pool] and still > 0:
            fresh[site] = min(1.0, still / in_pool[pool])
            stored[site] = min(1.0, still * first[site] / in_pool[pool] / lines_after[site])
            beyond[site] = min(1.0, from_memory[pool] / still)
    return replace(after, sharing=Sharing(fresh, beyond, stored))


def _first_touches(timing: Timing) -> dict[int, int]:
    """By instruction, the lines that no earlier access of the workgroup touches."""
    first: defaultdict[int, int] = defaultdict(int)
    for waves in timing.workgroups:
        seen: set[int] = set()
        for wave in waves:
            for position in sorted(at for at, access in wave.accesses.items() if access.lines):
                known = len(seen)
                seen.update(wave.accesses[position].lines)
                first[wave.stream[position]] += len(seen) - known
    return first


def _all_accesses(timing: Timing) -> Iterator[tuple[int, Access]]:
    for wave in timing.waves:
        for position, access in wave.accesses.items():
            if access.lines:
                yield wave.stream[position], access


def _pools(*timings: Timing) -> dict[int, int]:
    """By instruction, a number that it shares with those of its kind that touch its lines."""
    touched: defaultdict[int, set[int]] = defaultdict(set)
    for timing in timings:
        for site, access in _all_accesses(timing):
            touched[site].update(access.lines)
    costs = timings[0].costs
    pools: list[tuple[int, list[int], set[int]]] = []  # kind, instructions, their lines
    for site, lines in touched.items():
        kind, sites, pool = costs.sites[site].kind, [site], lines
        for other in [of for of in pools if of[0] == kind and not pool.isdisjoint(of[2])]:
            pools.remove(other)
            sites, pool = other[1] + sites, other[2] | pool
        pools.append((kind, sites, pool))
    return {site: number for number, (_, sites, _) in enumerate(pools) for site in sites}


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
    for wave in timing.waves:
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
    fewer = changed.with_grid(math.ceil(timing.workgroups_in_grid / times), busiest)
    return replace(fewer, costs=replace(costs, sites=sites))


def with_merged_accesses(timing: Timing, sites: frozenset[int]) -> Timing | None:
    """Neighbouring accesses of some instructions are one each, of up to 16 bytes a lane.

    None where no two of them can be one.
    """
    lanes = target_of(timing.function, timing.machine.arch).lanes
    moved: dict[int, int] = {}
    for wave in timing.waves:
        for position, access in wave.accesses.items():
            site = wave.stream[position]
            if site in sites:
                moved[site] = max(moved.get(site, 0), access.bytes)
    last_of: dict[int, int] = {}
    for group in _mergeable(timing, {site: math.ceil(n / lanes) for site, n in moved.items()}):
        last_of |= dict.fromkeys(group[:-1], group[-1])
    if not last_of:
        return None
    kept = frozenset(last_of.values())

    def changed(wave: WaveTrace) -> WaveTrace:
        waiting: defaultdict[int, list[Access]] = defaultdict(list)
        accesses = dict(wave.accesses)
        for position in sorted(accesses):
            site = wave.stream[position]
            if site in last_of:
                waiting[last_of[site]].append(accesses.pop(position))
            elif site in kept:
                accesses[position] = _merged([*waiting.pop(site, ()), accesses[position]])
        return replace(wave, accesses=accesses)

    merged = _with_all_bytes(timing, timing.with_waves(changed))
    return without_sites(merged, frozenset(last_of))


def _mergeable(timing: Timing, moved: Mapping[int, int]) -> Iterator[list[int]]:
    """Yields instructions of one block and kind that one access of 16 bytes a lane can replace."""
    block_of = {
        site: number
        for number, block in enumerate(timing.function.blocks)
        for site in range(block.start, block.stop)
    }
    pool_of = _pools(timing)
    in_order = sorted(moved.items(), key=lambda item: (pool_of.get(item[0], _NEVER), item[0]))
    alike: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for site, size in in_order:
        if 0 < size < _WIDEST:
            alike[block_of.get(site, -1), timing.costs.sites[site].kind, size].append(site)
    for (_, _, size), of_size in alike.items():
        times = _WIDEST // size
        for begin in range(0, len(of_size), times):
            group = sorted(of_size[begin : begin + times])
            if len(group) > 1:
                yield group


def _merged(accesses: Sequence[Access]) -> Access:
    """One access of the bytes of several."""
    lines = tuple(dict.fromkeys(number for access in accesses for number in access.lines))
    size = sum(access.bytes for access in accesses)
    least = max(math.ceil(size / _LDS_BYTES), *(access.least for access in accesses))
    conflicts = max(access.cycles - access.least for access in accesses)
    if not any(access.cycles for access in accesses):
        least = conflicts = 0
    return Access(lines, size, least + conflicts, least, accesses[-1].where)


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
