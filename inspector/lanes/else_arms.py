"""The registers that the other arm of a branch has written, where lanes are taken to go both ways.

LLVM writes an if as two stretches of code under complementary masks. Where the mask is not known,
all lanes are taken through both, so that what the first arm has written into a register stands
there in the second one, whose lanes have not been in the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.register_sets import VECTOR_REGISTERS, rows_of
from ..model import Instruction
from .slices import EXEC_BITS

_ENTERING: Final = ("s_andn2_saveexec", "s_and_not1_saveexec")
"""Instructions that take EXEC from the first arm's lanes to the second one's."""
_JOINING: Final = "s_or_saveexec"
"""The same in two steps: first both, then (`s_xor`) without those of the first arm."""


def has_else_arms(instructions: Iterable[Instruction]) -> bool:
    """Whether a kernel's code enters second arms at all."""
    return any(inst.op.name.startswith((*_ENTERING, _JOINING)) for inst in instructions)


class ElseArms:
    """What has been written since masks of second arms were made, which is before the first."""

    def __init__(self) -> None:
        """Nothing has been carried out yet."""
        self._vectors: list[int] = []
        """The vector registers that each instruction has written."""
        self._made: dict[int, int] = {}
        """Scalar row -> how many instructions had been carried out when it was written."""
        self._joined = 0
        """What the first arm has written, where the second one is entered in two steps."""

    def follow(self, instruction: Instruction, effect: RegisterEffect) -> int:
        """Takes the next instruction in.

        Returns the vector registers that the first arm has written, where the instruction enters a
        second one.
        """
        name, writes = instruction.op.name, effect.writes
        first_arm = 0
        if name.startswith(_ENTERING):
            first_arm = self._written_since(effect.reads)
        elif name.startswith(_JOINING):
            self._joined = self._written_since(effect.reads)
        elif name.startswith("s_xor_b") and writes & EXEC_BITS:
            first_arm, self._joined = self._joined, 0
        self._vectors.append(writes & VECTOR_REGISTERS)
        for row in rows_of(writes & ~EXEC_BITS & ~VECTOR_REGISTERS):
            self._made[row] = len(self._vectors)
        return first_arm

    def _written_since(self, reads: int) -> int:
        """The vector registers that were written since the mask was made that is read."""
        mask = rows_of(reads & ~EXEC_BITS & ~VECTOR_REGISTERS)
        since = max((self._made.get(row, 0) for row in mask), default=0)
        written = 0
        for bits in self._vectors[since:]:
            written |= bits
        return written
