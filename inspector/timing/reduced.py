"""Loops extrapolated: what some iterations cost more, found by leaving some out.

A simulation of all kept iterations and one with some fewer differ by what these take; those that
were not kept take as much each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..model import Loop
from .costs import REASONS, CuTime
from .wave_traces import WaveTrace

_FEWEST = 3
"""Iterations of an entry of which one can be left out."""
Workgroups = Sequence[Sequence[WaveTrace]]


class Extrapolated(NamedTuple):
    """The time of workgroups with all iterations of their loops.

    `cycles`: by loop of which not all iterations were simulated, what one iteration of one wave
    adds to it, nested loops included.
    """

    cu: CuTime
    cycles: dict[str, float]


def extrapolated(
    workgroups: Workgroups,
    loops: Sequence[Loop],
    simulate: Callable[[Workgroups], CuTime],
    periods: Mapping[str, int],
) -> Extrapolated:
    """The time of workgroups with all iterations of their loops.

    `simulate`: gives the time of some workgroups as they are. `periods`: id of a loop -> iterations
    that are left out together.
    """
    whole = simulate(workgroups)
    missing, in_all = _iterations(workgroups)
    total = whole
    taken: dict[str, float] = {}
    factors: dict[str, float] = {}
    dropped: dict[str, Mapping[str, int]] = {}
    # Outer loops first: with their iterations go some of the inner ones.
    for loop in sorted(loops, key=lambda loop: loop.depth):
        left = missing.get(loop.id, 0.0) - sum(
            factor * dropped[outer].get(loop.id, 0) for outer, factor in factors.items()
        )
        if not missing.get(loop.id) or left <= 0:
            continue
        fewer, counts = _without_some(workgroups, loop.id, periods.get(loop.id, 0))
        if not counts.get(loop.id):
            continue
        factors[loop.id] = left / counts[loop.id]
        dropped[loop.id] = counts
        less = simulate(fewer)
        total = _plus(total, whole, less, factors[loop.id])
        taken[loop.id] = (whole.cycles - less.cycles) / counts[loop.id]
    cycles = {}
    for loop in loops:
        if loop.id in taken:
            nested = sum(
                factors[other.id] * dropped[other.id][other.id] * taken[other.id]
                for other in loops
                if other.id in taken and loop.id in _around(other, loops)
            )
            cycles[loop.id] = taken[loop.id] + nested / in_all[loop.id]
    return Extrapolated(total, cycles)


def _around(loop: Loop, loops: Sequence[Loop]) -> set[str]:
    """Ids of the loops that a loop is nested in."""
    parents = {other.id: other.parent for other in loops}
    around: set[str] = set()
    parent = loop.parent
    while parent is not None:
        around.add(parent)
        parent = parents.get(parent)
    return around


def _iterations(workgroups: Workgroups) -> tuple[dict[str, float], dict[str, float]]:
    """By loop, the iterations of all waves that were not kept, and all of them."""
    missing: defaultdict[str, float] = defaultdict(float)
    every: defaultdict[str, float] = defaultdict(float)
    for waves in workgroups:
        for wave in waves:
            for loop, (kept, in_all) in wave.trips.items():
                missing[loop] += in_all - kept
                every[loop] += in_all
    return missing, every


def _without_some(
    workgroups: Workgroups, loop: str, period: int
) -> tuple[list[list[WaveTrace]], dict[str, int]]:
    """Workgroups with some fewer iterations of a loop, and how many of each loop are gone."""
    gone: defaultdict[str, int] = defaultdict(int)
    fewer = [[_wave_without(wave, loop, period, gone) for wave in waves] for waves in workgroups]
    return fewer, gone


def _wave_without(
    wave: WaveTrace, loop: str, period: int, gone: defaultdict[str, int]
) -> WaveTrace:
    ranges, _ = last_iterations(wave, loop, period)
    for name, begin, end in wave.spans:
        if any(first <= begin and end <= last for first, last in ranges):
            gone[name] += 1
    return without(wave, ranges) if ranges else wave


def last_iterations(wave: WaveTrace, loop: str, period: int) -> tuple[list[tuple[int, int]], int]:
    """The last iterations of each entry into a loop, which stand for those that were not kept.

    `period`: iterations that belong together; 0 where that is not known. Returns where they begin
    and end in the stream, one after another, and how many they are.
    """
    ranges: list[tuple[int, int]] = []
    entry: list[tuple[int, int]] = []
    spans = [(begin, end) for name, begin, end in wave.spans if name == loop]
    for begin, end in spans:
        if entry and entry[-1][1] != begin:
            ranges += _last(entry, period)
            entry = []
        entry.append((begin, end))
    ranges += _last(entry, period)
    count = sum(any(first <= begin < last for first, last in ranges) for begin, _ in spans)
    return ranges, count


def without(wave: WaveTrace, ranges: Sequence[tuple[int, int]]) -> WaveTrace:
    """A wave that does not do what stands at some positions.

    `ranges`: where each begins and ends, in their order; iterations are left out as a whole.
    """
    stream: list[int] = []
    accesses = {}
    spans = []
    kept_until = 0
    removed = 0
    moved = iter(sorted(wave.accesses.items()))
    following = next(moved, None)
    iterations = iter(sorted(wave.spans, key=lambda span: span[1]))
    iteration = next(iterations, None)
    for begin, end in [*ranges, (len(wave.stream), len(wave.stream))]:
        stream += wave.stream[kept_until:begin]
        while following is not None and following[0] < begin:
            accesses[following[0] - removed] = following[1]
            following = next(moved, None)
        while following is not None and following[0] < end:
            following = next(moved, None)
        while iteration is not None and iteration[1] < begin:
            loop, first, last = iteration
            inside = sum(e - b for b, e in ranges if first <= b < last)
            spans.append((loop, first - removed, last - removed - inside))
            iteration = next(iterations, None)
        while iteration is not None and iteration[1] < end:
            iteration = next(iterations, None)
        removed += end - begin
        kept_until = end
    return WaveTrace(stream, accesses, wave.trips, spans)


def _last(entry: Sequence[tuple[int, int]], period: int) -> list[tuple[int, int]]:
    """The iterations of one entry into a loop to leave out: the last of those that were kept.

    Pairs of iterations often share lines: two go where there are enough. Of a loop with a period
    all of it goes.
    """
    if len(entry) < _FEWEST:
        return []
    if 0 < period < len(entry):
        return [(entry[-period][0], entry[-1][1])]
    count = 2 if len(entry) > _FEWEST + 1 else 1
    return [(entry[-count][0], entry[-1][1])]


def _plus(total: CuTime, more: CuTime, less: CuTime, factor: float) -> CuTime:
    """A time and `factor` times the difference of two others.

    What is issued as often in both, as code before a loop is, waits as long however often the loop
    runs: a difference there comes from how the waves happen to meet.
    """

    def rows(of: Callable[[CuTime], Mapping[int, list[float]]]) -> dict[int, list[float]]:
        nothing = [0.0] * len(REASONS)
        return {
            site: [
                max(0.0, t + factor * (m - f))
                for t, m, f in zip(row, of(more)[site], of(less).get(site, nothing), strict=True)
            ]
            if more.issues.get(site) != less.issues.get(site)
            else row
            for site, row in of(total).items()
        }

    return CuTime(
        [t + factor * (m - f) for t, m, f in zip(total.ends, more.ends, less.ends, strict=True)],
        rows(lambda time: time.stalls),
        rows(lambda time: time.blamed),
        {
            site: round(count + factor * (more.issues[site] - less.issues.get(site, 0)))
            for site, count in total.issues.items()
        },
        [t + factor * (m - f) for t, m, f in zip(total.busy, more.busy, less.busy, strict=True)],
    )


def stands_for_each(wave: WaveTrace, periods: Mapping[str, int]) -> list[float]:
    """For each executed instruction, how many there are in all: of a loop not all are kept."""
    counts = [1.0] * len(wave.stream)
    for loop, begin, end in sorted(wave.spans, key=lambda span: span[1] - span[2]):
        kept, in_all = wave.trips[loop]
        counts[begin:end] = [in_all / kept] * (end - begin)
    for loop in periods.keys() & wave.trips.keys():
        kept, in_all = wave.trips[loop]
        left_out, iterations = last_iterations(wave, loop, periods[loop])
        for name, begin, end in wave.spans:
            if name == loop and iterations:
                is_last = any(first <= begin < last for first, last in left_out)
                more = (in_all - kept) / iterations if is_last else 0.0
                counts[begin:end] = [1.0 + more] * (end - begin)
    return counts
