"""Where a register's value comes from and where it goes: reaching definitions and next uses.

Values outside of registers, such as spilled ones in scratch memory, may be followed as further rows
beyond those of the register files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Final

from msgspec import Struct

from ..model import Block, Function
from .liveness import Liveness
from .register_sets import HIGH_HALVES, rows_of

START: Final = -1
"""In place of an instruction's index: what the wave starts with."""
_BOTH: Final = 0b11
"""The halves of a row, the lower one first."""


class Touched(Struct, frozen=True):
    """Further rows that an instruction reads, and further rows whose values it replaces."""

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


class Definitions:
    """Reaching definitions and uses of the rows of one function.

    Args:
        function: the function.
        live: its registers, by `liveness.liveness`.
        extra: index of an instruction -> rows that are no registers, which it touches.
    """

    def __init__(
        self, function: Function, live: Liveness, extra: Mapping[int, Touched] | None = None
    ) -> None:
        self._blocks = function.blocks
        self._live = live
        self._extra = extra or {}
        self._writers: dict[int, list[int]] = defaultdict(list)
        self._readers: dict[int, list[int]] = defaultdict(list)
        for index, effect in enumerate(live.effects):
            touched = self._extra.get(index, Touched())
            for row in (*rows_of(effect.writes), *touched.writes):
                self._writers[row].append(index)
            for row in (*rows_of(effect.reads), *touched.reads):
                self._readers[row].append(index)
        self._block_of = [block for block in self._blocks for _ in range(block.start, block.stop)]

    def before(self, index: int, row: int) -> frozenset[int]:
        """The instructions that may have written what a row holds before an instruction.

        Several where control flow joins, or where one writes a part of it: half, or the active
        lanes. Halves are followed apart. `START` is among them where the wave may have begun with
        it.
        """
        waiting = [(self._block_of[index], index, _BOTH)]
        seen: dict[int, int] = {}
        definitions: set[int] = set()
        while waiting:
            block, stop, halves = waiting.pop()
            halves = self._defined_in(block, stop, row, halves, definitions)
            if not halves:
                continue
            if not block.predecessors:
                definitions.add(START)
            for number in block.predecessors:
                if halves & ~seen.get(number, 0):
                    seen[number] = seen.get(number, 0) | halves
                    waiting.append((self._blocks[number], self._blocks[number].stop, halves))
        return frozenset(definitions)

    def _defined_in(
        self, block: Block, stop: int, row: int, halves: int, definitions: set[int]
    ) -> int:
        """Adds the writers of some halves in a block before `stop`; the halves left to look for."""
        writers = self._writers.get(row, ())
        for position in range(bisect_left(writers, stop) - 1, -1, -1):
            index = writers[position]
            if index < block.start:
                break
            ended = self._ended(index, row)
            if not ended or ended & halves:
                definitions.add(index)
            halves &= ~ended
            if not halves:
                break
        return halves

    def after(self, index: int, row: int) -> list[int]:
        """The instructions that may read what a row holds before an instruction, it included."""
        waiting = [(self._block_of[index], index, _BOTH)]
        seen: dict[int, int] = {}
        uses: dict[int, None] = {}
        while waiting:
            block, start, halves = waiting.pop()
            halves = self._used_in(block, start, row, halves, uses)
            for number in block.successors if halves else ():
                if halves & ~seen.get(number, 0):
                    seen[number] = seen.get(number, 0) | halves
                    waiting.append((self._blocks[number], self._blocks[number].start, halves))
        return list(uses)

    def _used_in(
        self, block: Block, start: int, row: int, halves: int, uses: dict[int, None]
    ) -> int:
        """Adds the readers of some halves in a block from `start` on; the halves left behind it."""
        readers = self._readers.get(row, ())
        for writer in (*_between(self._writers.get(row, ()), start, block.stop), block.stop):
            last = min(writer + 1, block.stop)
            for reader in _between(readers, start, last):
                if self._read(reader, row) & halves:
                    uses[reader] = None
            if writer == block.stop:
                break
            halves &= ~self._ended(writer, row)
            if not halves:
                break
            start = last
        return halves

    def _ended(self, index: int, row: int) -> int:
        """The halves of a row whose old value is gone behind an instruction that writes it."""
        touched = self._extra.get(index)
        if touched is not None and row in touched.writes:
            return _BOTH
        ended = self._live.ended[index]
        return (ended >> row & 1) | (ended >> (row + HIGH_HALVES) & 1) << 1

    def _read(self, index: int, row: int) -> int:
        """The halves of a row that an instruction reads."""
        touched = self._extra.get(index)
        if touched is not None and row in touched.reads:
            return _BOTH
        effect = self._live.effects[index]
        return (effect.reads_low >> row & 1) | (effect.reads_high >> row & 1) << 1


def _between(indices: Sequence[int], start: int, stop: int) -> Sequence[int]:
    return indices[bisect_left(indices, start) : bisect_left(indices, stop)]


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
