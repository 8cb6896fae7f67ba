"""The value that each counter may have after each instruction, over all paths.

A counter rises with every operation that it counts, and a wait for n lets it fall to n. How fast it
falls by itself is not known, so its count is the most over all paths: what a wait at that place
would have to expect. In a loop that never waits that is its largest value, where issue stalls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from ...model import Block, Function, Instruction
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from .counters import RAISING, GenerationCounters, events_of
from .pending import CAP

Count = tuple[int, ...]
"""By counter, the most operations that may be outstanding."""


def outstanding_counts(
    function: Function,
    maxima: Mapping[str, int],
    waits_of: Callable[[Instruction], Mapping[str, int]],
) -> tuple[Mapping[str, int] | None, ...]:
    """The most operations that may be outstanding after each instruction of a function.

    Args:
        function: the code; nothing is outstanding at its entry.
        maxima: the machine's counters -> largest value.
        waits_of: the counters that a wait instruction waits for, and their counts.

    Returns:
        For each instruction counter -> count, with the counters that the function's operations
        raise; None where control never comes.
    """
    return _CounterFlow(function, maxima, waits_of).run()


class _CounterFlow:
    """The dataflow of the counters' values."""

    def __init__(
        self,
        function: Function,
        maxima: Mapping[str, int],
        waits_of: Callable[[Instruction], Mapping[str, int]],
    ) -> None:
        self._function = function
        counters = GenerationCounters.of(maxima)
        raised = {
            inst.index: [event.counter for event in events_of(inst, counters)]
            for inst in function.instructions
            if inst.cls in RAISING
        }
        self._names = tuple(dict.fromkeys(name for names in raised.values() for name in names))
        self._maxima = tuple(min(CAP, maxima.get(name, CAP)) for name in self._names)
        number_of = {name: number for number, name in enumerate(self._names)}
        # Instructions that change a count: the counters they raise, and the limits they set.
        self._adds = {
            i: [number_of[name] for name in names] for i, names in raised.items() if names
        }
        self._limits: dict[int, list[tuple[int, int]]] = {}
        for inst in function.instructions:
            if inst.cls == "wait":
                waits = waits_of(inst).items()
                self._limits[inst.index] = [(number_of[c], n) for c, n in waits if c in number_of]
            elif inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) is Flow.CALL:
                # The callee waits for everything before it returns.
                self._limits[inst.index] = [(number, 0) for number in number_of.values()]
        self._changing = sorted(self._adds.keys() | self._limits.keys())

    def run(self) -> tuple[Mapping[str, int] | None, ...]:
        """Computes the fixed point and returns the counts of `outstanding_counts`."""
        blocks = self._function.blocks
        inside = [self._inside(block) for block in blocks]
        effects = [self._effect(changing) for changing in inside]
        entry_counts: dict[int, Count] = {0: (0,) * len(self._names)} if blocks else {}
        work = [0] if blocks else []
        while work:
            index = heappop(work)
            exit_count = tuple(
                min(count + add, limit)
                for count, (add, limit) in zip(entry_counts[index], effects[index], strict=True)
            )
            for successor in blocks[index].successors:
                entry_count = entry_counts.get(successor)
                joined = (
                    exit_count if entry_count is None else tuple(map(max, entry_count, exit_count))
                )
                if joined != entry_count:
                    entry_counts[successor] = joined
                    if successor not in work:
                        heappush(work, successor)
        return self._counts_by_instruction(entry_counts, inside)

    def _inside(self, block: Block) -> Sequence[int]:
        """The instructions of a block that change a count."""
        changing = self._changing
        return changing[bisect_left(changing, block.start) : bisect_left(changing, block.stop)]

    def _effect(self, changing: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """(operations added, greatest count at its end) of a block, by counter."""
        additions = [0] * len(self._names)
        limits = list(self._maxima)
        for position in changing:
            for number in self._adds.get(position, ()):
                additions[number] += 1
                limits[number] = min(limits[number] + 1, self._maxima[number])
            for number, wait_limit in self._limits.get(position, ()):
                limits[number] = min(limits[number], wait_limit)
        return tuple(zip(additions, limits, strict=True))

    def _counts_by_instruction(
        self, entry_counts: Mapping[int, Count], inside: Sequence[Sequence[int]]
    ) -> tuple[Mapping[str, int] | None, ...]:
        """The counts after each instruction; None where control never comes."""
        count_maps: dict[Count, Mapping[str, int]] = {}
        result: list[Mapping[str, int] | None] = [None] * len(self._function.instructions)
        for index, count in entry_counts.items():
            block = self._function.blocks[index]
            position = block.start
            for changing in (*inside[index], block.stop):
                count_map = count_maps.setdefault(count, dict(zip(self._names, count, strict=True)))
                result[position:changing] = [count_map] * (changing - position)
                if changing < block.stop:
                    count = self._step(changing, count)
                position = changing
        return tuple(result)

    def _step(self, position: int, count: Count) -> Count:
        """The counts after an instruction that changes them."""
        changed = list(count)
        for number in self._adds.get(position, ()):
            changed[number] = min(changed[number] + 1, self._maxima[number])
        for number, wait_limit in self._limits.get(position, ()):
            changed[number] = min(changed[number], wait_limit)
        return tuple(changed)
