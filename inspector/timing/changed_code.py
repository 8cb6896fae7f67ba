"""Launches with other code: instructions that take no time, waits that wait for less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.execution_target import target_of
from ..isa.dataflow.operands import SCALAR_BIT, rows_of
from ..isa.graph.cfg import innermost_loops
from .costs import IDLE, LDS, LOAD, WAIT, Cost, Costs, Sharing
from .timed import Timing
from .wave_traces import WaveTrace

_MOST_OUTSTANDING: Final = 64
"""Operations that a wait counter can count."""


def without_sites(timing: Timing, gone: frozenset[int]) -> Timing | None:
    """Without the time of some instructions; waits do not count their operations any more."""
    return _changed(timing, gone, _gone)


def without_waits_for(
    timing: Timing, loads: frozenset[int], steps: int | None = None
) -> Timing | None:
    """Nobody waits for some loads, which take their time at their place all the same.

    The first iteration of an entry into a loop still waits for its own.

    `steps`: iterations that are made one step, of which the first waits for all; None: all.
    """
    sites = Sites(timing.costs)
    later = {site: sites.again(site) for site in loads}

    def changed(wave: WaveTrace) -> WaveTrace:
        inner, before = _innermost(wave), dict[tuple[str, int], int]()
        waits = [False] * len(wave.spans) + [False]  # the last: outside of loops
        for number, (loop, begin, end) in enumerate(wave.spans):
            count = before.get((loop, begin), 0)
            waits[number] = count % steps == 0 if steps else not count
            before[loop, end] = count + 1
        stream = [
            later[site] if site in later and not waits[inner[at]] else site
            for at, site in enumerate(wave.stream)
        ]
        return replace(wave, stream=stream)

    shares = timing.sharing
    alike = Sharing(
        *(_with_others(of, later) for of in (shares.fresh, shares.beyond_l3, shares.stored))
    )
    periods = dict(timing.periods)
    if steps:
        loops = innermost_loops(timing.function)
        blocks = timing.function.blocks
        held = (
            loops[b.index] for b in blocks if b.index in loops and loads & {*range(b.start, b.stop)}
        )
        periods = {loop.id: steps for loop in held} | periods
    after = replace(timing.with_waves(changed), costs=sites.made(), sharing=alike, periods=periods)
    free = frozenset(later.values())
    return _changed(after, free, lambda cost: cost._replace(writes=(), raises=()))


def _with_others(shares: Mapping[int, float], others: Mapping[int, int]) -> dict[int, float]:
    """Shares by instruction, those of other numbers of instructions included."""
    return {**shares, **{others[site]: shares[site] for site in others if site in shares}}


def _changed(timing: Timing, gone: frozenset[int], change: Callable[[Cost], Cost]) -> Timing | None:
    if not gone:
        return None
    sites = Sites(timing.costs)
    for site in gone:
        sites.costs[site] = change(sites.costs[site])
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

    after = timing.with_waves(changed)
    return replace(after, costs=sites.made())


def _not_needed(
    costs: Costs,
    wave: WaveTrace,
    position: int,
    counter: int,
    done: Sequence[int],
    gone: frozenset[int],
) -> list[int]:
    """Operations that a wait is not for which was placed for others."""
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


class Sites:
    """The instructions of a kernel and variants of them.

    `costs`: by number; variants follow the kernel's own.
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

    def again(self, site: int) -> int:
        """Another number of an instruction."""
        self.costs.append(self._of.sites[site])
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


def with_earlier_loads(timing: Timing, loops: Container[str] = ()) -> Timing | None:
    """Waits in loops let the loads of one iteration more stay outstanding.

    The first iteration of an entry still waits for its own loads, as a prologue would. Registers
    and LDS that hold what was loaded in the meantime may leave room for fewer workgroups.

    `loops`: ids of the loops that do so; empty: all.
    """
    costs = timing.costs
    of_lds = {counter for cost in costs.sites if cost.kind == LDS for counter, _ in cost.raises}
    counters = {
        counter for cost in costs.sites if cost.kind == LOAD for counter, _ in cost.raises
    } - of_lds
    sites = Sites(costs)

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
                is_asked = not loops or loop in loops
                if is_asked and came >= 0 and before.get((loop, begin)) == came:
                    waits = tuple(
                        (counter, most + raised[counter] - then.get(counter, 0))
                        for counter, most in cost.waits
                    )
                    stream[position] = sites.waiting(site, waits)
            for counter, _ in cost.raises:
                if counter in counters:
                    raised[counter] += 1
        return replace(wave, stream=stream)

    earlier = timing.with_waves(changed)
    if len(sites.costs) == len(costs.sites):
        return None
    return _holding(replace(earlier, costs=sites.made()), len(_loaded(timing, loops)))


def _loaded(timing: Timing, loops: Container[str]) -> set[int]:
    """The VGPRs that the loads of some loops, or of all, write."""
    function, costs = timing.function, timing.costs
    effects = registers_of(function, target_of(function, timing.machine.arch)).effects
    return {
        row
        for loop in function.loops
        if not loops or loop.id in loops
        for block in loop.blocks
        for site in range(function.blocks[block].start, function.blocks[block].stop)
        if costs.sites[site].kind == LOAD
        for row in rows_of(effects[site].writes)
        if row < SCALAR_BIT
    }


def _holding(timing: Timing, registers: int) -> Timing:
    """A launch whose waves keep some VGPRs more."""
    placement = timing.placement
    if timing.resident_with is None or placement.busiest <= 1:
        return timing
    waves = max(map(len, timing.workgroups))
    resident = max(1, min(placement.resident, timing.resident_with(registers, waves)))
    return replace(timing, placement=replace(placement, resident=resident))


def _innermost(wave: WaveTrace) -> list[int]:
    """By position, the number of the innermost iteration that it lies in; -1 for none."""
    inner = [-1] * len(wave.stream)
    order = sorted(range(len(wave.spans)), key=lambda n: wave.spans[n][1] - wave.spans[n][2])
    for number in order:
        _, begin, end = wave.spans[number]
        inner[begin:end] = [number] * (end - begin)
    return inner
