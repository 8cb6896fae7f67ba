"""Masks of comparisons with what is unknown, taken to hold for all lanes.

Checks of bounds are such comparisons, and hold for whole waves but in the last workgroups.

Which lanes take part in an access of a buffer whose offsets rest on drawn sizes.

The registers that the other arm of a branch has written, where lanes are taken to go both ways.

LLVM writes an if as two stretches of code under complementary masks. Where the mask is not known,
all lanes are taken through both, so that what the first arm has written into a register stands
there in the second one, whose lanes have not been in the first.

Which edges of a flow graph are taken by waves that are carried out without a launch.

Their registers hold drawn values, and masks that compare with these are meant to let lanes through:
a branch round code for which no lane is left is therefore not gone, and a loop ends at some time,
whatever its counter is in the first round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from ..emulator.waves import ALL, CONDITIONS, U32, Array, Waves
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import (
    SCALAR_BIT,
    SCALAR_ROWS,
    VECTOR_REGISTERS,
    Decoded,
    halves_of,
    rows_of,
)
from ..model import Block, Function, Instruction
from .slices import EXEC_BITS
from .unknowns import DRAWS

MASKED_OFFSETS: Final = np.array([1 << 31, (1 << 31) - 1, ALL], U32)
"""Offsets that are set to mask lanes, out of reach of every buffer."""


class HeldMasks:
    """The registers that hold such masks, as far as a sweep has come.

    `held`: the set of these registers.
    """

    def __init__(
        self,
        waves: Waves,
        decoded: Sequence[Decoded],
        effects: Sequence[RegisterEffect],
        halves: Mapping[int, tuple[RegisterEffect, ...]],
        target: ExecutionTarget,
    ) -> None:
        self._waves = waves
        self._decoded = decoded
        self._effects = effects
        self._halves = halves
        self._target = target
        self._count = waves.count // DRAWS
        self.held = 0

    def hold(self, writes: int, *, everything: bool) -> bool:
        """Sets the mask that a comparison wrote, if it depends on what is unknown.

        `everything`: whether it depends on that in any case.
        """
        waves = self._waves
        rows = list(rows_of(writes >> SCALAR_BIT & (1 << SCALAR_ROWS) - 1))
        masks = waves.scalar[rows].reshape(len(rows), DRAWS, self._count)
        if not everything and (masks == masks[:, :1]).all():
            return False
        waves.scalar[rows] = ALL
        waves.exec_changed()
        return True

    def are_touched(self, effect: RegisterEffect) -> bool:
        """Whether an instruction reads or writes one of the masks."""
        return bool((effect.reads | effect.writes) & self.held)

    def has_unknown_bound(self, site: int) -> bool:
        """Whether a comparison is with a scalar that is not the same in all draws.

        Sizes are such: no lane may pass in any draw where all of them are too small for the tile.
        """
        for operand in self._decoded[site].operands[-2:]:
            for row in operand.rows if operand.kind == "sgpr" else ():
                draws = self._waves.scalar[row].reshape(DRAWS, self._count)
                if (draws != draws[:1]).any():
                    return True
        return False

    def selected(self, site: int) -> int:
        """The vector registers to which comparisons that were taken to hold give their values.

        Masked offsets are no such values: they are then those of the lanes that take part. Where
        both choices may be an address (a quotient that is set right), none can be relied on.
        """
        parts, effect = self._decoded[site], self._effects[site]
        halves = halves_of(parts, self._target.accum_offset) if site in self._halves else (parts,)
        selected = 0
        for half, half_effect in zip(halves, self._halves.get(site) or (effect,), strict=True):
            if half_effect.reads & self.held and not self._masks_offsets(half):
                selected |= half_effect.writes & VECTOR_REGISTERS
        return selected

    def _masks_offsets(self, parts: Decoded) -> bool:
        """Whether an instruction takes lanes' offsets out of reach, or makes a mask a number."""
        if not parts.name.startswith("v_cndmask_"):
            return False
        sources = parts.operands[1:3]
        return all(operand.kind == "constant" for operand in sources) or any(
            (operand.integer is not None and operand.integer & ALL in MASKED_OFFSETS)
            or (
                operand.kind == "vgpr"
                and bool((self._waves.vector[operand.first] == MASKED_OFFSETS[0]).all())
            )
            for operand in sources
        )

    def follow(self, instruction: Instruction, effect: RegisterEffect, *, is_held: bool) -> None:
        """Follows the masks of comparisons that were taken to hold."""
        masks = effect.writes & ~VECTOR_REGISTERS & ~EXEC_BITS
        if is_held or (instruction.cls == "salu" and effect.reads & self.held):
            self.held |= masks
        else:
            self.held &= ~masks


_UNLIMITED: Final = (1 << 31) - 2
"""Bytes of a buffer whose size is not that of its array: Triton's, LLVM's largest."""


def offsets_of(parts: Decoded, waves: Waves, *, limited: bool) -> Array | None:
    """The lanes' offsets in the buffer of an access, as far as its size does not tell lanes.

    `limited`: whether buffers that end with their array count. Returns a copy, uint32 [draw, wave
    and lane]; None where it is no such access.
    """
    if not parts.name.startswith("buffer_") or not parts.flag("offen") or parts.flag("idxen"):
        return None
    operands = parts.operands[0 if parts.flag("lds") else 1 :][:2]
    if [operand.kind for operand in operands] != ["vgpr", "sgpr"]:
        return None
    offset, descriptor = operands
    records = waves.scalar[descriptor.first + 2]
    if not limited and int(records.min()) < _UNLIMITED:
        return None
    offsets: Array = waves.vector[offset.first].reshape(DRAWS, -1).copy()
    return offsets


def lanes_in_buffer(usable: Array, offsets: Array, active: Array) -> Array:
    """The lanes that take part in a buffer access, bool [wave, lane].

    Products of drawn sizes may lead out of a buffer, as no launch's do: lanes whose offsets
    rest on these take part in all draws if they do in one.
    """
    drawn = usable.reshape(offsets.shape).any(0)
    drawn &= np.isin(offsets, MASKED_OFFSETS, invert=True).all(0)
    for draw in range(DRAWS):
        drawn &= offsets[draw] != offsets[draw - 1]
    lanes: Array = np.tile(drawn, DRAWS).reshape(usable.shape)
    return usable | (lanes & active)


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
