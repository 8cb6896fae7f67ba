"""What a launch would take with one of its costs gone: the same model, without it.

Each change is one of the traces, costs, rates or placement; the changed launch is simulated again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Final

from msgspec.structs import replace

from ..isa.dataflow.execution_target import target_of
from ..model.time import BOUNDS, CostGone, Saving
from .costs import BARRIER, IDLE, LDS, LOAD, MATRIX, STORE, VECTOR, WAIT, Cost, Costs
from .reduced import without
from .timed import LaunchTime, Timing, timed
from .wave_traces import Access, WaveTrace

_LEAST: Final = 0.5
"""Percent below which a saving is none."""
_UNLIMITED: Final = 1e18
_WIDEST: Final = 16
"""Bytes that a lane moves with one access at most."""
_APART: Final = 1 << 40
"""Numbers of cache lines between those of workgroups that are told apart."""
_NEVER: Final = -1
_MOST_OUTSTANDING: Final = 64
"""Operations that a wait counter can count."""
_Apply = Callable[[Timing], Timing | None]


def savings(timing: Timing, now: LaunchTime) -> tuple[Saving, ...]:
    """What each change would save, the most first; bounds come behind the others.

    Args:
        timing: of the launch.
        now: its time as it is.
    """
    found: list[tuple[CostGone, float]] = []
    for change, apply in _CHANGES.items():
        changed = apply(timing)
        if changed is not None:
            found.append((change, timed(changed).us))
    found.append(("launch", now.us - timing.rates.launch_us))
    told = [
        Saving(change, round(us, 3), round(100 * (1 - us / now.us), 1))
        for change, us in found
        if 100 * (1 - us / now.us) >= _LEAST
    ]
    return tuple(sorted(told, key=lambda saving: (saving.change in BOUNDS, saving.us)))


# ------------------------------------------------------------------------- instructions gone


def _without(*kinds: int) -> _Apply:
    return lambda timing: _without_sites(timing, lambda cost: cost.kind in kinds)


def _without_scratch(timing: Timing) -> Timing | None:
    return _without_sites(timing, lambda cost: cost.is_scratch)


def _without_sites(timing: Timing, is_gone: Callable[[Cost], bool]) -> Timing | None:
    """Without the time of some instructions; waits do not count their operations any more."""
    gone = frozenset(site for site, cost in enumerate(timing.costs.sites) if is_gone(cost))
    if not gone:
        return None
    sites = _Sites(timing.costs)
    for site in gone:
        sites.costs[site] = _gone(sites.costs[site])
    counters = {counter for site in gone for counter, _ in timing.costs.sites[site].raises}
    if not counters:
        return replace(timing, costs=sites.made())

    def changed(wave: WaveTrace) -> WaveTrace:
        stream = list(wave.stream)
        raised: defaultdict[int, list[int]] = defaultdict(list)
        for position, site, cost in _counted(timing.costs, wave, counters):
            if cost.kind == WAIT:
                waits = []
                for counter, most in cost.waits:
                    if counter not in counters:
                        waits.append((counter, most))
                        continue
                    behind = max(0, len(raised[counter]) - most)
                    done = raised[counter][:behind]
                    left = [other for other in raised[counter][behind:] if other not in gone]
                    if done and done[-1] in gone:  # the wait is for what is gone
                        left = _not_needed(timing.costs, wave, position, counter, done, gone) + left
                    waits.append((counter, len(left)))
                stream[position] = sites.waiting(site, tuple(waits))
            for counter, _ in cost.raises:
                raised[counter].append(site)
        return replace(wave, stream=stream)

    workgroups = [[changed(wave) for wave in waves] for waves in timing.workgroups]
    return replace(timing, workgroups=workgroups, costs=sites.made())


def _not_needed(
    costs: Costs,
    wave: WaveTrace,
    position: int,
    counter: int,
    done: Sequence[int],
    gone: frozenset[int],
) -> list[int]:
    """Operations that a wait is not for which was placed for others.

    They follow the last one whose result is read before the next wait for the counter.

    Args:
        costs: of the kernel.
        wave: what it does.
        position: of the wait.
        counter: that it waits for.
        done: operations that are complete behind it, in their order.
        gone: those that there are not any more.
    """
    read: set[int] = set()
    for site in wave.stream[position + 1 :]:
        cost = costs.sites[site]
        if cost.kind == WAIT and any(which == counter for which, _ in cost.waits):
            break
        read.update(cost.reads)
    left: list[int] = []
    for site in reversed(done[-_MOST_OUTSTANDING:]):
        if site in gone:
            continue
        if not read.isdisjoint(costs.sites[site].writes):
            break
        left.append(site)
    return left


def _gone(cost: Cost) -> Cost:
    return cost._replace(kind=IDLE, cycles=0.0, reads=(), writes=(), raises=(), waits=())


class _Sites:
    """The instructions of a kernel and variants of them.

    Attributes:
        costs: by number; variants follow the kernel's own.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = list(costs.sites)
        self._of = costs
        self._variants: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}

    def waiting(self, site: int, waits: tuple[tuple[int, int], ...]) -> int:
        """The number of a wait that lets other numbers of operations stay outstanding."""
        if waits == self._of.sites[site].waits:
            return site
        known = self._variants.get((site, waits))
        if known is None:
            known = self._variants[site, waits] = len(self.costs)
            self.costs.append(self._of.sites[site]._replace(waits=waits))
        return known

    def gone(self, site: int) -> int:
        """The number of an instruction that takes no time."""
        self.costs.append(_gone(self._of.sites[site]))
        return len(self.costs) - 1

    def made(self) -> Costs:
        """All of them."""
        return replace(self._of, sites=tuple(self.costs))


def _counted(costs: Costs, wave: WaveTrace, counters: set[int]) -> Iterator[tuple[int, int, Cost]]:
    """Yields position, site and cost of what raises some counters or waits for them."""
    wanted = {
        site: cost
        for site, cost in enumerate(costs.sites)
        if any(counter in counters for counter, _ in (*cost.raises, *cost.waits))
    }
    for position, site in enumerate(wave.stream):
        if site in wanted:
            yield position, site, wanted[site]


# ------------------------------------------------------------------------- accesses


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


def _without_conflicts(timing: Timing) -> Timing | None:
    return _with_accesses(timing, lambda access: replace(access, cycles=access.least))


def _with_fewest_lines(timing: Timing) -> Timing | None:
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


def _with_wide_accesses(timing: Timing) -> Timing | None:
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
        lines = tuple(number + copy * _APART for copy in range(times) for number in access.lines)
        return replace(access, lines=lines, bytes=access.bytes * times)

    changed = _with_accesses(timing, wider)
    assert changed is not None
    busiest = max(1, math.ceil(timing.placement.busiest / times))
    on_data = _on_results(costs, LOAD)
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


def _on_results(costs: Costs, *kinds: int) -> frozenset[int]:
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


# ------------------------------------------------------------------------- repeated work


def _without_repeated_products(timing: Timing) -> Timing | None:
    """Without what a wave does of matrix products that another one of its workgroup does as well.

    These are the products, what it reads of the LDS for them, and vector work for and on them.
    """
    costs = timing.costs
    if not timing.workgroups or not any(cost.kind == MATRIX for cost in costs.sites):
        return None
    products = {site for site, cost in enumerate(costs.sites) if cost.kind == MATRIX}
    named = products | _on_results(costs, MATRIX) | _for_products(costs)
    seen: set[int] = set()
    repeated: list[set[int]] = []
    for number, wave in enumerate(timing.workgroups[0]):
        values = _values(costs, wave, number, named)
        repeated.append({site for site, of_site in values.items() if of_site <= seen})
        seen = seen.union(*values.values())
    if not any(sites & products for sites in repeated):
        return None
    sites = _Sites(costs)
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
    """Numbers that stand for what a wave works out: equal ones are the same in other waves.

    Args:
        costs: of the kernel.
        wave: what it does.
        number: of the wave; its lanes are unlike those of others.
        named: the instructions of which it is told.

    Returns:
        By instruction, the numbers of its results.
    """
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


# ------------------------------------------------------------------------- order of loads


def _with_earlier_loads(timing: Timing) -> Timing | None:
    """Waits in loops let the loads of one iteration more stay outstanding.

    The first iteration of an entry still waits for its own loads, as a prologue would.
    """
    costs = timing.costs
    of_lds = {counter for cost in costs.sites if cost.kind == LDS for counter, _ in cost.raises}
    counters = {
        counter for cost in costs.sites if cost.kind == LOAD for counter, _ in cost.raises
    } - of_lds
    sites = _Sites(costs)

    def changed(wave: WaveTrace) -> WaveTrace:
        inner = _innermost(wave)
        before = {(loop, end): number for number, (loop, _, end) in enumerate(wave.spans)}
        raised: defaultdict[int, int] = defaultdict(int)
        last: dict[int, tuple[int, dict[int, int]]] = {}
        stream = list(wave.stream)
        for position, site, cost in _counted(costs, wave, counters):
            if cost.kind == WAIT and inner[position] >= 0:
                loop, begin, _ = wave.spans[inner[position]]
                came, then = last.get(site, (-1, {}))
                last[site] = inner[position], dict(raised)
                if came >= 0 and before.get((loop, begin)) == came:
                    waits = tuple(
                        (counter, most + raised[counter] - then.get(counter, 0))
                        for counter, most in cost.waits
                    )
                    stream[position] = sites.waiting(site, waits)
            for counter, _ in cost.raises:
                if counter in counters:
                    raised[counter] += 1
        return replace(wave, stream=stream)

    workgroups = [[changed(wave) for wave in waves] for waves in timing.workgroups]
    if len(sites.costs) == len(costs.sites):
        return None
    return replace(timing, workgroups=workgroups, costs=sites.made())


def _innermost(wave: WaveTrace) -> list[int]:
    """By position, the number of the innermost iteration that it lies in; -1 for none."""
    inner = [-1] * len(wave.stream)
    order = sorted(range(len(wave.spans)), key=lambda n: wave.spans[n][1] - wave.spans[n][2])
    for number in order:
        _, begin, end = wave.spans[number]
        inner[begin:end] = [number] * (end - begin)
    return inner


# ------------------------------------------------------------------------- rates


def _without_latency(timing: Timing) -> Timing:
    rates = replace(
        timing.rates, l1_latency=0.0, l2_latency=0.0, l3_latency=0.0, memory_latency=0.0,
        store_latency=0.0, scalar_hit=0.0, scalar_miss=0.0,
    )  # fmt: skip
    return replace(timing, rates=rates)


def _without_bandwidth(timing: Timing) -> Timing:
    rates = replace(
        timing.rates, l2_bytes_per_s=_UNLIMITED, memory_share=_UNLIMITED,
        l3_bytes_per_s=None if timing.rates.l3_bytes_per_s is None else _UNLIMITED,
        cu_l2_bytes_per_clk=_UNLIMITED, cu_memory_bytes_per_clk=_UNLIMITED,
        l1_bytes_in_flight=None,
    )  # fmt: skip
    return replace(timing, rates=rates)


# ------------------------------------------------------------------------- placement


def _with_more_waves(timing: Timing) -> Timing | None:
    """Twice the workgroups at a time; where the grid has no more, each does half of the work."""
    placement = timing.placement
    twice = replace(placement, resident=2 * placement.resident)
    if placement.busiest > placement.resident:
        return replace(timing, placement=twice)
    halves = _with_part(timing.workgroups, 0.5)
    if halves is None:
        return None
    others = [
        [
            replace(
                wave,
                accesses={
                    at: replace(access, lines=tuple(number + _APART for number in access.lines))
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


def _with_even_workgroups(timing: Timing) -> Timing | None:
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


def _with_part(
    workgroups: Sequence[Sequence[WaveTrace]], part: float
) -> list[list[WaveTrace]] | None:
    """Workgroups that do a part of the iterations of their outermost loops; None without loops."""
    if not any(wave.trips for waves in workgroups for wave in waves):
        return None
    return [[_part_of(wave, part) for wave in waves] for waves in workgroups]


def _part_of(wave: WaveTrace, part: float) -> WaveTrace:
    outermost = [
        span
        for span in wave.spans
        if not any(
            loop != span[0] and begin <= span[1] and span[2] <= end
            for loop, begin, end in wave.spans
        )
    ]
    ranges: list[tuple[int, int]] = []
    for loop in dict.fromkeys(loop for loop, _, _ in outermost):
        kept, in_all = wave.trips[loop]
        more = kept - max(1, round(in_all * part))
        if more > 0:
            ranges += [(begin, end) for name, begin, end in outermost if name == loop][-more:]
    short = without(wave, sorted(ranges)) if ranges else wave
    counts: defaultdict[str, int] = defaultdict(int)
    for loop, _, _ in short.spans:
        counts[loop] += 1
    trips = {
        loop: (counts[loop], max(counts[loop], round(in_all * part)))
        for loop, (_, in_all) in wave.trips.items()
        if counts[loop]
    }
    return replace(short, trips=trips)


_CHANGES: Final[Mapping[CostGone, _Apply]] = {
    "scratch": _without_scratch,
    "lines": _with_fewest_lines,
    "conflicts": _without_conflicts,
    "wide accesses": _with_wide_accesses,
    "earlier loads": _with_earlier_loads,
    "repeated products": _without_repeated_products,
    "occupancy": _with_more_waves,
    "workgroups": _with_even_workgroups,
    "memory latency": _without_latency,
    "memory bandwidth": _without_bandwidth,
    "memory": _without(LOAD, STORE),
    "lds": _without(LDS),
    "barriers": _without(BARRIER),
    "vector work": _without(VECTOR),
    "matrix work": _without(MATRIX),
}
