"""What waves did, sorted by wave, from what was noted while they ran in lockstep.

A machine that keeps the accesses and blocks of waves, in the order of their execution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from ..base.errors import KinspectError
from ..emulator.access_figures import DWORD, data_cycles, phases_of
from ..emulator.machine import LaneAccess, ObservingMachine
from ..emulator.memory import GlobalMemory
from ..emulator.program import PreparedCode
from ..emulator.waves import Array, Waves
from ..isa.mnemonics import access_bits
from ..model import Loop

_SCRATCH: Final = 1 << 60
"""Where private memory stands among the addresses of lines; each wave has its own."""
_SCRATCH_STEP: Final = 1 << 24
_MOST_SPAN: Final = 1 << 25
"""Lines from the first that is touched to the last, beyond which they are numbered anew: 4 GB."""


class Access(Struct, frozen=True):
    """An instruction's access by one wave.

    Args:
        lines: numbers of the cache lines of global memory that it touches.
        bytes: of all active lanes.
        cycles: of the LDS.
        least: cycles of the LDS without bank conflicts.
        where: stands for the addresses of the lanes in the LDS.
    """

    lines: tuple[int, ...] = ()
    bytes: int = 0
    cycles: int = 0
    least: int = 0
    where: int = 0

    def with_more(self, other: Access) -> Access:
        """Both accesses of an instruction that has two."""
        return Access(
            self.lines + other.lines, self.bytes + other.bytes,
            self.cycles + other.cycles, self.least + other.least, self.where ^ other.where,
        )  # fmt: skip


class WaveTrace(Struct, frozen=True):
    """What one wave did.

    Args:
        stream: indices of the executed instructions.
        accesses: by position in the stream, for accesses of memory.
        trips: loop id -> (iterations that are in the stream, iterations in all).
        spans: of each iteration in the stream: (loop id, position where it begins, and ends).
    """

    stream: list[int]
    accesses: dict[int, Access]
    trips: dict[str, tuple[int, int]]
    spans: list[tuple[str, int, int]]


class TracedLoop(NamedTuple):
    """A loop, the numbers of its blocks as the emulator has them, and that of its header."""

    loop: Loop
    blocks: frozenset[int]
    header: int


class Run(NamedTuple):
    """A block that waves went through together."""

    block: int
    waves: Array


class AccessEvent(NamedTuple):
    """An access that waves carry out together.

    Args:
        run: number of the block's execution; an instruction may access memory twice in one.
        lines: those of global memory that they touch, one wave behind the other.
        counts: how many of them each wave touches.
        moved: bytes of each wave.
        cycles, least: of the LDS; None for an access of global memory.
        places: of the LDS; see `Access.where`.
    """

    site: int
    run: int
    waves: Array
    lines: Array
    counts: Array
    moved: Array
    cycles: Array | None = None
    least: Array | None = None
    places: Array | None = None

    def of_waves(self, wanted: Array) -> Iterator[tuple[int, Access]]:
        """Yields the number and access of each wave that is wanted, bool [wave]."""
        which = np.flatnonzero(wanted[self.waves])
        if not len(which):
            return
        numbers = self.waves[which].tolist()
        if self.cycles is not None and self.least is not None and self.places is not None:
            taken = (part[which].tolist() for part in (self.cycles, self.least, self.places))
            for wave, cycles, least, where in zip(numbers, *taken, strict=True):
                yield wave, Access(cycles=cycles, least=least, where=where)
            return
        ends = np.cumsum(self.counts)
        begins = (ends - self.counts)[which].tolist()
        parts = zip(numbers, begins, ends[which].tolist(), self.moved[which].tolist(), strict=True)
        for wave, begin, end, moved in parts:
            yield wave, Access(tuple(self.lines[begin:end].tolist()), moved)


class Noted(NamedTuple):
    """What was noted of waves that ran in lockstep.

    `runs`: the blocks that were kept, in the order of their execution. `skipped`: how many
    iterations of each loop each wave ran unkept, int64 [loop, wave].
    """

    runs: list[Run]
    events: list[AccessEvent]
    skipped: Array


def wave_traces(
    code: PreparedCode,
    loops: Sequence[TracedLoop],
    noted: Noted,
    wanted: Sequence[int],
    line_bytes: int,
) -> list[WaveTrace]:
    """What some waves did, in the order in which they are named."""
    is_wanted = np.zeros(noted.skipped.shape[1], bool)
    is_wanted[list(wanted)] = True
    made = {wave: _Made(code, wave, line_bytes) for wave in wanted}
    for number, run in enumerate(noted.runs):
        for wave in run.waves[is_wanted[run.waves]].tolist():
            made[wave].add_run(number, run.block)
    for event in noted.events:
        for wave, access in event.of_waves(is_wanted):
            made[wave].add_access(event.site, event.run, access)
    return [made[wave].trace(loops, noted.skipped[:, wave].tolist()) for wave in wanted]


class _Made:
    """The trace of one wave while it is put together."""

    def __init__(self, code: PreparedCode, wave: int, line_bytes: int) -> None:
        self._code = code
        self._line_bytes = line_bytes
        self._base = (_SCRATCH + wave * _SCRATCH_STEP) // line_bytes
        self._stream: list[int] = []
        self._accesses: dict[int, Access] = {}
        self._way: list[int] = []
        self._starts: list[int] = []
        self._start_of: dict[int, int] = {}
        self._scratch: dict[int, dict[int, Access]] = {}

    def add_run(self, run: int, number: int) -> None:
        """The wave goes through a block."""
        block, start = self._code.blocks[number], len(self._stream)
        self._way.append(number)
        self._starts.append(start)
        self._start_of[run] = start - block.first
        self._stream += range(block.first, block.stop)
        scratch = self._scratch.get(number)
        if scratch is None:
            scratch = self._scratch[number] = self._scratch_accesses(block.first, block.stop)
        for site, access in scratch.items():
            self._accesses[start - block.first + site] = access

    def add_access(self, site: int, run: int, access: Access) -> None:
        """The wave accesses memory in a block that it goes through."""
        start = self._start_of.get(run)
        if start is None or not 0 <= start + site < len(self._stream):
            return
        position = start + site
        if self._stream[position] != site:  # what was begun in another block
            return
        known = self._accesses.get(position)
        self._accesses[position] = access if known is None else known.with_more(access)

    def _scratch_accesses(self, first: int, stop: int) -> dict[int, Access]:
        """Accesses of private memory: a dword of all lanes lies side by side, none is shared."""
        dword = DWORD * self._code.target.lanes
        accesses = {}
        for inst in self._code.function.instructions[first:stop]:
            if inst.cls not in ("scratch_load", "scratch_store"):
                continue
            dwords = max(1, (access_bits(inst.op, inst.operands) or 32) // 32)
            offset = self._code.decoded[inst.index].number("offset") // DWORD * dword
            begin = self._base + offset // self._line_bytes
            count = max(1, dwords * dword // self._line_bytes)
            accesses[inst.index] = Access(tuple(range(begin, begin + count)), dwords * dword)
        return accesses

    def trace(self, loops: Sequence[TracedLoop], skipped: Sequence[int]) -> WaveTrace:
        """What the wave did."""
        spans = iterations(self._way, [*self._starts, len(self._stream)], loops)
        kept = Counter(loop for loop, _, _ in spans)
        trips = {
            traced.loop.id: (kept[traced.loop.id], kept[traced.loop.id] + more)
            for traced, more in zip(loops, skipped, strict=True)
            if kept[traced.loop.id]
        }
        return WaveTrace(self._stream, self._accesses, trips, spans)


def iterations(
    way: Sequence[int], starts: Sequence[int], loops: Sequence[TracedLoop]
) -> list[tuple[str, int, int]]:
    """The iterations on a way, as `spans` of a `WaveTrace`.

    `starts`: position in the stream where each of them starts, and where the last one ends.
    """
    spans = []
    for traced in loops:
        for index, number in enumerate(way):
            if number != traced.header:
                continue
            end = index + 1
            while end < len(way) and way[end] in traced.blocks and way[end] != traced.header:
                end += 1
            spans.append((traced.loop.id, starts[index], starts[end]))
    return spans


class Shares(NamedTuple):
    """Which of the lines that instructions touch are those that nobody had touched before.

    `fresh`: by instruction, their share of the lines that its workgroup had not touched before: the
    others are in the L1, or were there. `stored`: by instruction that stores, the share of the
    lines that nobody had stored to before: what is stored over lines that were read goes to memory
    all the same.
    """

    fresh: dict[int, float]
    stored: dict[int, float]


def fresh_shares(
    events: Sequence[AccessEvent], waves_each: int, storing: Collection[int]
) -> Shares:
    """What is first touched by whom."""
    touching = [event for event in events if len(event.lines)]
    if not touching:
        return Shares({}, {})
    sites = np.repeat([event.site for event in touching], [len(e.lines) for e in touching])
    lines = np.concatenate([event.lines for event in touching])
    groups = np.concatenate([np.repeat(e.waves // waves_each, e.counts) for e in touching])
    of_all = np.bincount(sites)
    stores = np.isin(sites, list(storing))
    begin, span = int(lines.min()), int(lines.max() - lines.min()) + 1
    if span > _MOST_SPAN:
        _, lines = np.unique(lines, return_inverse=True)
        begin, span = 0, int(lines.max()) + 1
    first = _FirstTouches(lines - begin, sites, span)
    every = np.arange(len(sites))
    fresh, stored = first.of(every), first.of(every[stores])
    in_order = np.argsort(groups.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(groups))
    of_groups = np.sum([first.of(part) for part in np.split(in_order, ends[:-1])], 0)
    touched = np.flatnonzero(of_all).tolist()
    return Shares(
        {site: float(fresh[site] / max(1, of_groups[site])) for site in touched},
        {site: float(stored[site] / of_all[site]) for site in touched if site in storing},
    )


class _FirstTouches:
    """Which accesses are the first to touch a line.

    Args:
        lines: that are touched, in order, from 0 on.
        sites: the instruction of each.
        span: more than the largest line.
    """

    def __init__(self, lines: Array, sites: Array, span: int) -> None:
        self._lines, self._sites = lines, sites
        self._at = np.zeros(span, np.int32)

    def of(self, places: Array) -> Array:
        """By instruction, how many lines it is the first to touch, of the accesses at places."""
        lines, order = self._lines[places], np.arange(len(places), dtype=np.int32)
        self._at[lines[::-1]] = order[::-1]  # of those that are written twice the last stays
        is_first = self._at[lines] == order
        return np.bincount(self._sites[places[is_first]], minlength=int(self._sites.max()) + 1)


_MOST_KEPT: Final = 1 << 25
"""Executed instructions and cache lines of all waves that are kept, 8 bytes each or twice that."""
_NO_LINE: Final = -1


class Recorder(ObservingMachine):
    """Keeps accesses and blocks, in the order in which the emulator carries them out."""

    def __init__(
        self, memory: GlobalMemory, arch: str, line_bytes: int, waves_each: int, skipped: Array
    ) -> None:
        super().__init__(memory)
        self._arch = arch
        self._shift = line_bytes.bit_length() - 1
        self.is_kept = True
        self.waves_each = waves_each
        self.noted = Noted([], [], skipped)
        self.periods: dict[str, int] = {}
        self._kept = 0
        self._places: dict[int, tuple[int, int, int]] = {}  # of the first wave's first lane
        self._strides: dict[int, int] = {}

    def keep(self, count: int) -> None:
        """Counts instructions or lines that are kept."""
        self._kept += count
        if self._kept > _MOST_KEPT:
            raise KinspectError(
                "its first workgroups execute and touch more than the timing model keeps",
                "launch smaller workgroups",
            )

    def numbers(self, waves: Waves) -> Array:
        """Numbers of waves among all that are executed, [wave]."""
        return waves.workgroup * self.waves_each + waves.wave

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        if not self.is_kept:
            return
        site, waves, where, usable, size, _ = access
        self._follow(site, waves, where, usable)
        first = where >> self._shift
        last = (where + (size - 1)) >> self._shift
        if usable is not None:
            first, last = np.where(usable, first, _NO_LINE), np.where(usable, last, _NO_LINE)
        lines = np.sort(first if (first == last).all() else np.concatenate([first, last], 1), 1)
        distinct = lines >= 0
        distinct[:, 1:] &= lines[:, 1:] != lines[:, :-1]
        counts = distinct.sum(1)
        self.keep(int(counts.sum()))
        active = np.full(waves.count, where.shape[1]) if usable is None else usable.sum(1)
        self.noted.events.append(
            AccessEvent(
                site,
                len(self.noted.runs) - 1,
                self.numbers(waves),
                lines[distinct],
                counts,
                active * size,
            )
        )

    def _follow(self, site: int, waves: Waves, where: Array, usable: Array | None) -> None:
        """Notes how far an access moves from one iteration to the next."""
        lane = 0 if usable is None else int(usable[0].argmax())
        wave, address = int(self.numbers(waves)[0]), int(where[0, lane])
        former = self._places.get(site)
        self._places[site] = wave, lane, address
        if former is not None and former[:2] == (wave, lane):
            self._strides[site] = abs(address - former[2])

    def period_of(self, sites: Iterable[int]) -> int:
        """Iterations until each access of a loop has come to another line; 1: it always does."""
        line = 1 << self._shift
        strides = (self._strides.get(site, 0) for site in sites)
        return max((-(-line // stride) for stride in strides if stride), default=1)

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        if not self.is_kept:
            return
        site, waves, where, usable, size, _ = access
        phases = phases_of(self._arch, size, where.shape[1], writes=values is not None)
        cycles, least = data_cycles(phases, where, size, usable)
        none = np.zeros(waves.count, np.int64)
        weights = np.arange(1, 2 * where.shape[1], 2, dtype=np.int64) ** 5
        used = where if usable is None else np.where(usable, where, -1)
        self.noted.events.append(
            AccessEvent(
                site,
                len(self.noted.runs) - 1,
                self.numbers(waves),
                none[:0],
                none,
                none,
                cycles,
                least,
                used.astype(np.int64) @ weights,
            )
        )

    def unwaited(self, site: int, registers: int, waves: Waves) -> None:
        pass
