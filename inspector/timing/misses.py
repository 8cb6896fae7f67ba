"""Where the lines of a launch come from: the L2, the Infinity Cache or memory."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ..emulator.grid import Launch
from ..emulator.launch import Emulator
from ..emulator.memory import Buffer
from ..emulator.start import waves_of
from ..model import Function, Machine
from .costs import LDS, LOAD, Costs
from .device import Device, Placement
from .reduced import stands_for_each
from .wave_traces import Access, WaveTrace

_ROUNDS_TO_SETTLE: Final = 100
_FEWEST_LOOPS: Final = 2
"""Of a kernel that may go through the same lines again from afar."""
_RETURN: Final = 1 << 46
_MOST_RETURNS: Final = 60
"""A line that comes from afar for the nth time stands under another number: n times this more."""


def scratch_missed(
    emulator: Emulator, machine: Machine, device: Device, placement: Placement, launch: Launch
) -> tuple[dict[int, float], dict[int, float]]:
    """By access of private memory, the share that misses the L2, and the share of these that
    misses the L3.

    Between two accesses of a line all resident waves go through theirs. How caches choose what
    goes is not published; of one that chooses at random a line survives each eviction but one in
    as many as it has lines.
    """
    function = emulator.code.function
    sites = [i.index for i in function.instructions if i.cls in ("scratch_load", "scratch_store")]
    if not sites:
        return {}, {}
    waves = placement.resident * waves_of(launch.threads, emulator.target) * placement.active
    needed = waves * (function.resources.scratch_bytes or 0) * emulator.target.lanes

    def missed(held: int) -> dict[int, float]:
        return dict.fromkeys(sites, _missed_in_turn(needed / held if held else math.inf))

    return missed((machine.l2_bytes or 0) * device.xcds), missed(device.l3_bytes)


def _missed_in_turn(size: float) -> float:
    """The share of misses where `size` times what a cache holds is gone through again and again.

    With misses m a line meets m * size evictions per line of the cache: m = 1 - exp(-m * size).
    """
    if size <= 1:
        return 0.0
    misses = 1.0
    for _ in range(_ROUNDS_TO_SETTLE):
        misses = 1 - math.exp(-misses * size)
    return misses


class Read(NamedTuple):
    """A load's part of what the simulated workgroups read of a buffer.

    `buffer`: number of the buffer; -1 for none of them. `first`: bytes of the lines that no earlier
    access of the workgroup touches, all iterations.
    """

    site: int
    buffer: int
    size: int
    first: float


def reads_of(
    costs: Costs,
    workgroups: Sequence[Sequence[WaveTrace]],
    periods: Mapping[str, int],
    buffers: Sequence[Buffer],
    line: int,
) -> list[Read]:
    """What each load reads of each buffer."""
    starts = sorted((buffer.address, buffer.size) for buffer in buffers)
    first: defaultdict[tuple[int, int], float] = defaultdict(float)
    for waves in workgroups:
        seen: set[int] = set()
        for wave in waves:
            stands_for = stands_for_each(wave, periods)
            for position, access in sorted(wave.accesses.items()):
                site = wave.stream[position]
                cost = costs.sites[site]
                if not access.lines or cost.kind != LOAD or cost.is_scratch:
                    continue
                address = access.lines[0] * line
                buffer = max(
                    (number for number, (start, _) in enumerate(starts) if start <= address),
                    default=-1,
                )
                known = len(seen)
                seen.update(access.lines)
                first[site, buffer] += (len(seen) - known) * line * stands_for[position]
    return [
        Read(site, buffer, starts[buffer][1] if buffer >= 0 else 0, amount)
        for (site, buffer), amount in first.items()
    ]


def missed_in_l2(
    reads: Sequence[Read], fresh: Mapping[int, float], scale: float, l2_bytes: int | None
) -> dict[int, float]:
    """By instruction, the share of lines that miss the L2, where a buffer is read again and again.

    The workgroups that were executed are the first of many: what they are the first to touch is
    there for those that follow, as far as the L2 holds it. A cache that holds a part of a buffer
    misses the rest of what is read again. Buffers that are read again share it by their size.

    `fresh`: by instruction, the share of lines that nobody of those executed had touched before.
    `scale`: workgroups of an XCD for each that was simulated. `l2_bytes`: of an XCD; None where
    that is not known.
    """
    missed = _by_buffer(reads, fresh, scale)
    sizes = {read.buffer: read.size for read in reads if read.buffer >= 0}
    again = {buffer for buffer, size in sizes.items() if missed[buffer] > size}
    whole = sum(sizes[buffer] for buffer in again)
    held = min(1.0, (l2_bytes or 0) / whole) if whole else 0.0
    share = {
        buffer: (sizes[buffer] + (missed[buffer] - sizes[buffer]) * (1 - held)) / missed[buffer]
        for buffer in again
    }
    return {
        read.site: fresh.get(read.site, 1.0) * share[read.buffer]
        for read in reads
        if read.buffer in again
    }


def beyond_l3(reads: Sequence[Read], fresh: Mapping[int, float], scale: float) -> dict[int, float]:
    """By instruction, the share of its misses in L2 that go to memory: each byte goes there once.

    What several XCDs read is read from memory by the first and from the L3 by the others.

    `fresh`: by instruction, the share of lines that miss the L2. `scale`: workgroups of the grid
    for each that was simulated.
    """
    missed = _by_buffer(reads, fresh, scale)
    return {
        read.site: min(1.0, read.size / missed[read.buffer])
        for read in reads
        if read.buffer >= 0 and missed[read.buffer]
    }


def _by_buffer(reads: Sequence[Read], fresh: Mapping[int, float], scale: float) -> dict[int, float]:
    """Bytes of each buffer that come from beyond the L2."""
    missed: defaultdict[int, float] = defaultdict(float)
    for read in reads:
        missed[read.buffer] += read.first * fresh.get(read.site, 1.0) * scale
    return missed


def queued_atomics(
    workgroups: Sequence[Sequence[WaveTrace]],
    line: int | None,
    periods: Mapping[str, int],
    function: Function,
    grid: int,
) -> dict[int, float]:
    """By instruction, the atomics of a whole grid on one line, from those of some workgroups.

    Lanes of a wave that reach the line together count once.
    """
    requests: defaultdict[int, float] = defaultdict(float)
    for waves in workgroups if line is not None else ():
        for wave in waves:
            stands_for: Sequence[float] = ()
            for position, access in wave.accesses.items():
                site = wave.stream[position]
                if line in access.lines and function.instructions[site].cls == "atomic":
                    stands_for = stands_for or stands_for_each(wave, periods)
                    requests[site] += stands_for[position] * grid / len(workgroups)
    return dict(requests)


class Caches(NamedTuple):
    """The caches of a device, and the workgroups that share each.

    `held`: bytes of the L1 of a compute unit, the L2 of an XCD, the L3. `workgroups`: that run at a
    time on a compute unit, an XCD, the device.
    """

    line: int
    held: tuple[float, float, float]
    workgroups: tuple[float, float, float]


class Returns(Struct, frozen=True):
    """Lines that workgroups come back to after more than the L1 holds.

    Args:
        workgroups: what their waves did; such lines have other numbers each time.
        again: by instruction, bytes of such lines in all iterations.
        missed: by instruction, the part of these that misses the L2.
        from_memory: by instruction, the part of these that misses the L3 as well.
    """

    workgroups: Sequence[Sequence[WaveTrace]]
    again: Mapping[int, float]
    missed: Mapping[int, float]
    from_memory: Mapping[int, float]

    def mixed(
        self, reads: Sequence[Read], fresh: Mapping[int, float], beyond: Mapping[int, float]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """By instruction, the shares of lines that miss L2, and of these that miss the L3.

        `reads`: what the workgroups read for the first time. `fresh`: of these, the share that
        misses the L2. `beyond`: of what misses it, the share that misses the L3.
        """
        first: defaultdict[int, float] = defaultdict(float)
        for read in reads:
            first[read.site] += read.first
        l2, l3 = {}, {}
        for site, again in self.again.items():
            missed = first[site] * fresh.get(site, 1.0)
            from_memory = missed * beyond.get(site, 1.0)
            missed, from_memory = missed + self.missed[site], from_memory + self.from_memory[site]
            l2[site] = missed / (first[site] + again)
            l3[site] = from_memory / missed if missed else 0.0
        return l2, l3


def returns(
    costs: Costs,
    function: Function,
    workgroups: Sequence[Sequence[WaveTrace]],
    periods: Mapping[str, int],
    buffers: Sequence[Buffer],
    caches: Caches,
) -> Returns | None:
    """The lines that waves come back to from afar, such as those of a row that is read twice.

    Between two touches of a line a wave goes through others, those of iterations that were not kept
    included, and all workgroups that run at a time do so. Of a buffer they go through no more
    than it has. Caches that choose at random what goes are assumed, as for private memory.

    `periods`: as of `Trace`. Returns None where there are no such lines.
    """
    skips = any(
        kept < in_all for waves in workgroups for w in waves for kept, in_all in w.trips.values()
    )
    if len(function.loops) < _FEWEST_LOOPS or not skips:
        return None
    again: defaultdict[int, float] = defaultdict(float)
    missed: defaultdict[int, float] = defaultdict(float)
    from_memory: defaultdict[int, float] = defaultdict(float)
    changed = []
    for waves in workgroups:
        told = []
        for wave in waves:
            way = _Way(costs, function, wave, buffers, caches, _distinct(costs, waves))
            told.append(replace(wave, accesses=way.accesses()))
            stands_for = stands_for_each(wave, periods)
            for position, count, (_, in_xcd, in_all) in way.far:
                site, amount = wave.stream[position], count * caches.line * stands_for[position]
                from_l2 = _missed_in_turn(_times(in_xcd, caches.held[1]))
                from_l3 = _missed_in_turn(_times(in_all, caches.held[2]))
                again[site] += amount
                missed[site] += amount * from_l2
                from_memory[site] += amount * from_l2 * from_l3
        changed.append(told)
    return Returns(changed, again, missed, from_memory) if again else None


def _times(needed: float, held: float) -> float:
    return needed / held if held else math.inf


def _distinct(costs: Costs, waves: Sequence[WaveTrace]) -> float:
    """Lines that a workgroup touches for each one that a wave of it does."""
    of_waves = [
        {line for at, access in _global(costs, wave) for line in access.lines} for wave in waves
    ]
    largest = max(map(len, of_waves))
    return len(set[int]().union(*of_waves)) / largest if largest else 1.0


def _global(costs: Costs, wave: WaveTrace) -> Iterator[tuple[int, Access]]:
    """Yields a wave's accesses of global memory with their positions, in their order."""
    for position, access in sorted(wave.accesses.items()):
        cost = costs.sites[wave.stream[position]]
        if access.lines and cost.kind != LDS and not cost.is_scratch:
            yield position, access


class _Way:
    """What one wave goes through between two touches of a line.

    `far`: of each load that comes back to lines from beyond the L1, its position, how many they
    are, and what a compute unit, an XCD and the device went through, bytes.
    """

    def __init__(
        self,
        costs: Costs,
        function: Function,
        wave: WaveTrace,
        buffers: Sequence[Buffer],
        caches: Caches,
        distinct: float,
    ) -> None:
        self.far: list[tuple[int, int, tuple[float, ...]]] = []
        self._costs, self._wave, self._caches, self._distinct = costs, wave, caches, distinct
        self._places = sorted((buffer.address, buffer.size) for buffer in buffers)
        self._ends = sorted(_entries(wave, function), key=lambda entry: (entry[1], -entry[0]))
        # By buffer, bytes of lines so far, each counted when it is new or comes from afar.
        self._passed = [0.0] * (len(buffers) + 1)
        self._last: dict[int, tuple[float, ...]] = {}
        self._returns: dict[int, int] = {}

    def accesses(self) -> dict[int, Access]:
        """The wave's accesses; lines that come from afar have other numbers each time."""
        accesses = dict(self._wave.accesses)
        begins = sorted((begin, end) for begin, end, _ in self._ends)
        before: dict[tuple[int, int], list[float]] = {}
        ends, entered = iter([*self._ends, (0, math.inf, 0.0)]), iter([*begins, (math.inf, 0)])
        ending, beginning = next(ends), next(entered)
        for position, access in _global(self._costs, self._wave):
            while min(ending[1], beginning[0]) <= position:
                if ending[1] <= beginning[0]:
                    for number, passed in enumerate(before[ending[0], int(ending[1])]):
                        self._passed[number] += (self._passed[number] - passed) * ending[2]
                    ending = next(ends)
                else:
                    before[int(beginning[0]), beginning[1]] = [*self._passed]
                    beginning = next(entered)
            accesses[position] = self._through(position, access)
        return accesses

    def _through(self, position: int, access: Access) -> Access:
        line = self._caches.line
        buffer = bisect_right(self._places, (access.lines[0] * line, math.inf)) - 1
        now, lines, far = tuple(self._passed), [], 0
        between: tuple[float, ...] = ()
        for number in access.lines:
            last = self._last.get(number)
            if last is not None and last is not now:
                passed = self._between(last, now)
                if passed[0] > self._caches.held[0]:
                    self._returns[number] = self._returns.get(number, 0) + 1
                    between, far, last = passed, far + 1, None
            if last is None:
                self._passed[buffer] += line
            self._last[number] = now
            lines.append(number + _RETURN * min(_MOST_RETURNS, self._returns.get(number, 0)))
        if far and self._costs.sites[self._wave.stream[position]].kind == LOAD:
            self.far.append((position, far, between))
        return replace(access, lines=tuple(lines))

    def _between(self, last: tuple[float, ...], now: tuple[float, ...]) -> tuple[float, ...]:
        """Bytes that a compute unit, an XCD and the device went through between two touches."""
        sizes = [*(size for _, size in self._places), math.inf]
        passed = [(b - a) * self._distinct for a, b in zip(last, now, strict=True)]
        return tuple(
            sum(min(part * count, size) for part, size in zip(passed, sizes, strict=True))
            for count in self._caches.workgroups
        )


def _entries(wave: WaveTrace, function: Function) -> Iterator[tuple[int, int, float]]:
    """Yields each entry into a loop of which iterations were not kept."""
    parents = {loop.id: loop.parent for loop in function.loops}
    ratios = {loop: in_all / kept for loop, (kept, in_all) in wave.trips.items()}
    for loop, ratio in ratios.items():
        outer = parents.get(loop)
        while outer is not None and outer not in ratios:
            outer = parents.get(outer)
        more = ratio / (ratios[outer] if outer is not None else 1.0) - 1
        if more <= 0:
            continue
        spans = sorted((begin, end) for name, begin, end in wave.spans if name == loop)
        begin, until = spans[0]
        for first, last in spans[1:]:
            if first != until:
                yield begin, until, more
                begin = first
            until = last
        yield begin, until, more
