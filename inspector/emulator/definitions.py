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
from .outstanding import HIGH_HALVES
from .undefined import rows_of

START: Final = -1
"""In place of an instruction's index: what the wave starts with."""


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
        lanes. `START` is among them where the wave may have begun with it.
        """
        block = self._block_of[index]
        waiting: list[tuple[Block, int]] = [(block, index)]
        seen: set[int] = set()
        definitions: set[int] = set()
        while waiting:
            block, stop = waiting.pop()
            if self._defined_in(block, stop, row, definitions):
                continue
            if not block.predecessors:
                definitions.add(START)
            for number in block.predecessors:
                if number not in seen:
                    seen.add(number)
                    waiting.append((self._blocks[number], self._blocks[number].stop))
        return frozenset(definitions)

    def _defined_in(self, block: Block, stop: int, row: int, definitions: set[int]) -> bool:
        """Adds the writers in a block before `stop`; tells whether the last ends older values."""
        writers = self._writers.get(row, ())
        for position in range(bisect_left(writers, stop) - 1, -1, -1):
            index = writers[position]
            if index < block.start:
                return False
            definitions.add(index)
            if self._ends(index, row):
                return True
        return False

    def after(self, index: int, row: int) -> list[int]:
        """The instructions that may read what a row holds before an instruction, it included."""
        block = self._block_of[index]
        waiting: list[tuple[Block, int]] = [(block, index)]
        seen: set[int] = set()
        uses: dict[int, None] = {}
        while waiting:
            block, start = waiting.pop()
            if self._used_in(block, start, row, uses):
                continue
            for number in block.successors:
                if number not in seen:
                    seen.add(number)
                    waiting.append((self._blocks[number], self._blocks[number].start))
        return list(uses)

    def _used_in(self, block: Block, start: int, row: int, uses: dict[int, None]) -> bool:
        """Adds the readers in a block from `start` on; tells whether the value ends in it."""
        end = next(
            (
                index
                for index in _between(self._writers.get(row, ()), start, block.stop)
                if self._ends(index, row)
            ),
            None,
        )
        last = block.stop if end is None else end + 1
        uses.update(dict.fromkeys(_between(self._readers.get(row, ()), start, last)))
        return end is not None

    def _ends(self, index: int, row: int) -> bool:
        """Whether nothing of a row's old value is left behind an instruction that writes it."""
        touched = self._extra.get(index)
        if touched is not None and row in touched.writes:
            return True
        ended = self._live.ended[index]
        return bool(ended >> row & ended >> (row + HIGH_HALVES) & 1)


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
