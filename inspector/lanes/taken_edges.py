"""Which edges of a flow graph are taken by waves that are carried out without a launch.

Their registers hold drawn values, and masks that compare with these are meant to let lanes through:
a branch round code for which no lane is left is therefore not gone, and a loop ends at some time,
whatever its counter is in the first round.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..emulator.branch_conditions import CONDITIONS
from ..emulator.waves import Waves
from ..isa.dataflow.operands import Decoded
from ..model import Block, Function


class TakenEdges:
    """The edges between blocks that some draw takes, as far as a sweep has come."""

    def __init__(self, function: Function, decoded: Sequence[Decoded]) -> None:
        self._blocks = function.blocks
        self._decoded = decoded
        self._loops = [frozenset(loop.blocks) for loop in function.loops]
        self._taken: set[tuple[int, int]] = set()
        self._closed: set[tuple[int, int]] = set()
        """Edges taken only by waves without an active lane."""

    def follows(self, number: int, following: int) -> bool:
        """Whether a block is entered from the one above it alone."""
        return following == number + 1 and self._blocks[following].predecessors == (number,)

    def falls_through(self, block: Block) -> bool:
        """Whether every block behind one is entered from it alone, and stands next."""
        return all(self.follows(block.index, to) for to in block.successors)

    def before(self, index: int) -> list[int]:
        """The blocks that lead to one: those that do so in some draw, if any does."""
        before = [
            number
            for number in self._blocks[index].predecessors
            if (number, index) not in self._closed
        ]
        likely = [number for number in before if (number, index) in self._taken]
        return likely or before

    def leave(self, block: Block, waves: Waves) -> None:
        """Notes which ways out of a block are taken.

        Where EXEC is empty a branch goes round code that would do nothing: as if it went through.
        A loop ends, whatever its counter is in the first round, also where that is when no lane is
        left in it.
        """
        last = self._decoded[block.stop - 1].name if block.stop > block.start else ""
        reached = block.index == 0 or any(
            (number, block.index) in self._taken for number in block.predecessors
        )
        for to in block.successors:
            jumps = to != block.index + 1
            leaves = self._leaves_loop(block.index, to)
            if last == "s_cbranch_execz" and jumps and not leaves:
                self._closed.add((block.index, to))
            elif reached and (leaves or _goes(last, waves, jumps=jumps)):
                self._taken.add((block.index, to))

    def _leaves_loop(self, number: int, to: int) -> bool:
        """Returns whether an edge leads out of a loop."""
        return any(number in loop and to not in loop for loop in self._loops)


def _goes(last: str, waves: Waves, *, jumps: bool) -> bool:
    """Returns whether some wave takes a branch (`jumps`) or goes on behind it."""
    if last not in CONDITIONS or "exec" in last:
        return True
    taken = CONDITIONS[last](waves)
    return bool((taken if jumps else ~taken).any())
