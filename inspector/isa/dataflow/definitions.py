"""Where a register's value comes from and where it goes: reaching definitions and next uses.

Values outside of registers, such as spilled ones in scratch memory, may be followed as further rows
beyond those of the register files.

Which registers' values before a function's first instruction may be read, and where.

Without regard to lanes, unlike `liveness`: a write counts for all of them. Halves are followed
apart, as 16-bit operations write one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Final

from msgspec import Struct

from ...model import Block, Function
from .effects import RegisterEffect
from .liveness import Liveness
from .operands import HIGH_HALVES, rows_of

START: Final = -1
"""In place of an instruction's index: what the wave starts with."""
_END: Final = HIGH_HALVES
"""Rows from here on are no registers."""
_BOTH: Final = 0b11
"""The halves of a row, the lower one first."""


class Touched(Struct, frozen=True):
    """Further rows that an instruction reads, and further rows whose values it replaces."""

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


class _RowEvents(Struct):
    """What a function does to one row, in the order of the code.

    Args:
        indices: of the instructions that touch it.
        read: the halves that each of them reads.
        ended: those whose old value is gone behind each.
        writers: indices of the instructions that write any of it.
        writers_ended: the halves whose old value is gone behind each of these.
    """

    indices: list[int]
    read: list[int]
    ended: list[int]
    writers: list[int]
    writers_ended: list[int]


class Definitions:
    """Reaching definitions and uses of the rows of one function.

    Args:
        live: its registers, by `liveness.liveness`.
        extra: index of an instruction -> rows that are no registers, which it touches.
    """

    def __init__(
        self, function: Function, live: Liveness, extra: Mapping[int, Touched] | None = None
    ) -> None:
        self._blocks = function.blocks
        self._live = live
        self._extra = extra or {}
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._writers: dict[int, list[int]] = defaultdict(list)
        self._reads_whole: list[bool] = []
        """Whether an instruction reads both halves of all that it reads."""
        self._ends_whole: list[bool] = []
        """Whether both halves of all that it writes are gone behind it."""
        readers, writers = self._readers, self._writers
        for index, (effect, ended) in enumerate(zip(live.effects, live.ended, strict=True)):
            reads, writes = effect.reads, effect.writes
            for row in rows_of(reads):
                readers[row].append(index)
            for row in rows_of(writes):
                writers[row].append(index)
            self._reads_whole.append(effect.reads_low == reads == effect.reads_high)
            self._ends_whole.append(ended == writes | writes << HIGH_HALVES)
        for index, touched in sorted(self._extra.items()):
            for row in touched.reads:
                readers[row].append(index)
            for row in touched.writes:
                writers[row].append(index)
        self._block_of = [block for block in self._blocks for _ in range(block.start, block.stop)]
        self._events: dict[int, _RowEvents] = {}
        self._arriving: dict[tuple[int, int, int], frozenset[int]] = {}
        self._leaving: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def before(self, index: int, row: int) -> frozenset[int]:
        """The instructions that may have written what a row holds before an instruction.

        Several where control flow joins, or where one writes a part of it: half, or the active
        lanes. Halves are followed apart. `START` is among them where the wave may have begun with
        it.
        """
        block = self._block_of[index]
        definitions: set[int] = set()
        halves = _defined_in(block, index, self._events_of(row), _BOTH, definitions)
        if halves:
            definitions |= self._before_block(block, row, halves)
        return frozenset(definitions)

    def _before_block(self, block: Block, row: int, halves: int) -> frozenset[int]:
        """The instructions that may have written what some halves of a row hold at its start."""
        key = (block.index, row, halves)
        known = self._arriving.get(key)
        if known is not None:
            return known
        events = self._events_of(row)
        definitions: set[int] = set()
        seen: dict[int, int] = {}
        waiting = [(block, halves)]
        while waiting:
            block, halves = waiting.pop()
            if not block.predecessors:
                definitions.add(START)
            for number in block.predecessors:
                if halves & ~seen.get(number, 0):
                    seen[number] = seen.get(number, 0) | halves
                    before = self._blocks[number]
                    left = _defined_in(before, before.stop, events, halves, definitions)
                    if left:
                        waiting.append((before, left))
        self._arriving[key] = result = frozenset(definitions)
        return result

    def after(self, index: int, row: int) -> list[int]:
        """The instructions that may read what a row holds before an instruction, it included."""
        block = self._block_of[index]
        uses: dict[int, None] = {}
        halves = _used_in(block, index, self._events_of(row), _BOTH, uses)
        if halves:
            uses.update(dict.fromkeys(self._behind_block(block, row, halves)))
        return list(uses)

    def _behind_block(self, block: Block, row: int, halves: int) -> tuple[int, ...]:
        """The instructions that may read what some halves of a row hold at its end."""
        key = (block.index, row, halves)
        known = self._leaving.get(key)
        if known is not None:
            return known
        events = self._events_of(row)
        uses: dict[int, None] = {}
        seen: dict[int, int] = {}
        waiting: list[tuple[Block, int]] = []
        while True:
            for number in block.successors if halves else ():
                if halves & ~seen.get(number, 0):
                    seen[number] = seen.get(number, 0) | halves
                    waiting.append((self._blocks[number], halves))
            if not waiting:
                break
            block, halves = waiting.pop()
            halves = _used_in(block, block.start, events, halves, uses)
        self._leaving[key] = result = tuple(uses)
        return result

    def _events_of(self, row: int) -> _RowEvents:
        """What the function does to a row."""
        events = self._events.get(row)
        if events is None:
            readers, writers = self._readers.get(row, ()), self._writers.get(row, ())
            read = {index: self._halves_read(index, row) for index in readers}
            ended = {index: self._halves_ended(index, row) for index in writers}
            indices = sorted(read.keys() | ended.keys())
            events = self._events[row] = _RowEvents(
                indices,
                [read.get(index, 0) for index in indices],
                [ended.get(index, 0) for index in indices],
                list(ended),
                list(ended.values()),
            )
        return events

    def _halves_read(self, index: int, row: int) -> int:
        """The halves of a row that an instruction reads, which is one of its readers."""
        if row >= _END or self._reads_whole[index]:
            return _BOTH
        effect = self._live.effects[index]
        return (effect.reads_low >> row & 1) | (effect.reads_high >> row & 1) << 1

    def _halves_ended(self, index: int, row: int) -> int:
        """The halves of a row whose old value is gone behind one of its writers."""
        if row >= _END or self._ends_whole[index]:
            return _BOTH
        ended = self._live.ended[index]
        return (ended >> row & 1) | (ended >> (row + HIGH_HALVES) & 1) << 1


def _defined_in(
    block: Block, stop: int, events: _RowEvents, halves: int, definitions: set[int]
) -> int:
    """Adds the writers of some halves in a block before `stop`; the halves left to look for."""
    writers = events.writers
    for position in range(bisect_left(writers, stop) - 1, -1, -1):
        index = writers[position]
        if index < block.start:
            break
        ended = events.writers_ended[position]
        if not ended or ended & halves:
            definitions.add(index)
        halves &= ~ended
        if not halves:
            break
    return halves


def _used_in(
    block: Block, start: int, events: _RowEvents, halves: int, uses: dict[int, None]
) -> int:
    """Adds the readers of some halves in a block from `start` on; the halves left behind it."""
    indices, read, ended = events.indices, events.read, events.ended
    stop = block.stop
    for position in range(bisect_left(indices, start), len(indices)):
        index = indices[position]
        if index >= stop:
            break
        if read[position] & halves:
            uses[index] = None
        halves &= ~ended[position]
        if not halves:
            break
    return halves


def ranges(rows: Set[int]) -> Iterator[tuple[int, int]]:
    """The rows as ranges, ascending: (first, last)."""
    ordered = sorted(rows)
    if not ordered:
        return
    first = ordered[0]
    for row, following in pairwise(ordered):
        if following != row + 1:
            yield first, row
            first = following
    yield first, ordered[-1]


def live_at_entry(function: Function, effects: Sequence[RegisterEffect]) -> int:
    """Bit set of the registers whose value before the first instruction may be read."""
    blocks = function.blocks
    exposed, replaced = [], []
    for block in blocks:
        reads, written = _exposed_reads(block, effects)
        registers = 0
        for _, read in reads:
            registers |= read
        exposed.append(registers)
        replaced.append(written)
    live = list(exposed)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            leaving = 0
            for successor in blocks[number].successors:
                leaving |= live[successor]
            entering = exposed[number] | (leaving & ~replaced[number])
            if entering != live[number]:
                live[number], changed = entering, True
    return live[0] if live else 0


def first_read(function: Function, effects: Sequence[RegisterEffect], register: int) -> int:
    """Index of an instruction that reads a register which nothing has written on the way there.

    `effects`: what each instruction reads and writes; `register`: its row; one that is live at
    entry, else the result is 0.
    """
    bit = 1 << register
    waiting, visited = deque([0]), {0}
    while waiting:
        block = function.blocks[waiting.popleft()]
        reads, written = _exposed_reads(block, effects)
        for site, read in reads:
            if read & bit:
                return site
        if written & bit:
            continue
        for successor in block.successors:
            if successor not in visited:
                visited.add(successor)
                waiting.append(successor)
    return 0


def _exposed_reads(
    block: Block, effects: Sequence[RegisterEffect]
) -> tuple[list[tuple[int, int]], int]:
    """What a block reads of the values that registers have when it begins."""
    reads = []
    low = high = 0  # registers with that half written so far
    for site in range(block.start, block.stop):
        effect = effects[site]
        reads.append((site, effect.reads & ~(low & high)))
        low |= effect.low
        high |= effect.high
    return reads, low & high
