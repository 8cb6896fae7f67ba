"""Masks of comparisons with what is unknown, taken to hold for all lanes.

Checks of bounds are such comparisons, and hold for whole waves but in the last workgroups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ..emulator.waves import ALL, U32, Waves
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import SCALAR_ROWS, Decoded, halves_of
from ..isa.dataflow.register_sets import SCALAR_BIT, VECTOR_REGISTERS, rows_of
from ..model import Instruction
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
