"""How many operations each counter may have outstanding after each instruction.

A counter rises with every operation that counts in it, and a wait for n lets it fall to n. How fast
it falls by itself nobody knows, so this is the most over all paths: what a wait placed there would
have to expect. In a loop that never waits that is the counter's largest value, where issue stalls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from ...model import Block, Function, Instruction
from ..flow import FLOW_CLASSES, Flow, flow_of
from .events import RAISING, Counters, events_of
from .pending import CAP

Count = tuple[int, ...]
"""For each counter, the most that may be outstanding."""


def outstanding_counts(
    function: Function,
    maxima: Mapping[str, int],
    waits_of: Callable[[Instruction], Mapping[str, int]],
) -> tuple[Mapping[str, int] | None, ...]:
    """What may be outstanding after each instruction of a function, at most.

    Args:
        function: the code; nothing is outstanding at its entry.
        maxima: the machine's counters -> largest value.
        waits_of: what a wait instruction waits for.

    Returns:
        For each instruction counter -> count, with the counters that the function's operations
        raise; None where control never comes.
    """
    walk = _Walk(function, maxima, waits_of)
    return walk.run()


class _Walk:
    def __init__(
        self,
        function: Function,
        maxima: Mapping[str, int],
        waits_of: Callable[[Instruction], Mapping[str, int]],
    ) -> None:
        self._function = function
        counters = Counters.of(maxima)
        raised = {
            inst.index: [event.counter for event in events_of(inst, counters)]
            for inst in function.instructions
            if inst.cls in RAISING
        }
        self._names = tuple(dict.fromkeys(name for names in raised.values() for name in names))
        self._most = tuple(min(CAP, maxima.get(name, CAP)) for name in self._names)
        place = {name: number for number, name in enumerate(self._names)}
        # Instructions that change a count: what they add, what they leave.
        self._adds = {i: [place[name] for name in names] for i, names in raised.items() if names}
        self._leaves: dict[int, list[tuple[int, int]]] = {}
        for inst in function.instructions:
            if inst.cls == "wait":
                waits = waits_of(inst).items()
                self._leaves[inst.index] = [(place[c], n) for c, n in waits if c in place]
            elif inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) is Flow.CALL:
                # The callee waits for everything before it comes back.
                self._leaves[inst.index] = [(number, 0) for number in place.values()]
        self._changing = sorted(self._adds.keys() | self._leaves.keys())

    def run(self) -> tuple[Mapping[str, int] | None, ...]:
        """The fixed point, written out."""
        blocks = self._function.blocks
        inside = [self._inside(block) for block in blocks]
        effects = [self._effect(changing) for changing in inside]
        entry_counts: dict[int, Count] = {0: (0,) * len(self._names)} if blocks else {}
        waiting = [0] if blocks else []
        while waiting:
            index = heappop(waiting)
            exit_count = tuple(
                min(count + add, most)
                for count, (add, most) in zip(entry_counts[index], effects[index], strict=True)
            )
            for successor in blocks[index].successors:
                entry_count = entry_counts.get(successor)
                joined = (
                    exit_count if entry_count is None else tuple(map(max, entry_count, exit_count))
                )
                if joined != entry_count:
                    entry_counts[successor] = joined
                    if successor not in waiting:
                        heappush(waiting, successor)
        return self._written_out(entry_counts, inside)

    def _inside(self, block: Block) -> Sequence[int]:
        """The instructions of a block that change a count."""
        changing = self._changing
        return changing[bisect_left(changing, block.start) : bisect_left(changing, block.stop)]

    def _effect(self, changing: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """What a block does to each count: it adds some, and leaves at most so many."""
        adds = [0] * len(self._names)
        mosts = list(self._most)
        for at in changing:
            for number in self._adds.get(at, ()):
                adds[number] += 1
                mosts[number] = min(mosts[number] + 1, self._most[number])
            for number, left in self._leaves.get(at, ()):
                mosts[number] = min(mosts[number], left)
        return tuple(zip(adds, mosts, strict=True))

    def _written_out(
        self, entry_counts: Mapping[int, Count], inside: Sequence[Sequence[int]]
    ) -> tuple[Mapping[str, int] | None, ...]:
        count_maps: dict[Count, Mapping[str, int]] = {}
        result: list[Mapping[str, int] | None] = [None] * len(self._function.instructions)
        for index, count in entry_counts.items():
            block = self._function.blocks[index]
            at = block.start
            for changing in (*inside[index], block.stop):
                count_map = count_maps.setdefault(count, dict(zip(self._names, count, strict=True)))
                result[at:changing] = [count_map] * (changing - at)
                if changing < block.stop:
                    count = self._step(changing, count)
                at = changing
        return tuple(result)

    def _step(self, at: int, count: Count) -> Count:
        changed = list(count)
        for number in self._adds.get(at, ()):
            changed[number] = min(changed[number] + 1, self._most[number])
        for number, left in self._leaves.get(at, ()):
            changed[number] = min(changed[number], left)
        return tuple(changed)
