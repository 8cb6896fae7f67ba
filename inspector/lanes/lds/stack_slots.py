"""Spilled registers, followed as if they had stayed in registers.

A lane's stack is its own, and a spill slot has an offset that stands in the code: each dword of one
gets a vector row behind those that the hardware has. Arrays on the stack, whose addresses lie in
registers, are not followed; LLVM keeps them apart from spill slots.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...emulator.registry import Step
from ...emulator.waves import Waves
from ...isa.dataflow.effects import RegisterEffect
from ...isa.dataflow.operands import Decoded
from ...isa.dataflow.register_sets import SCALAR_BIT, vector_bits
from ...model import Function, Instruction

_FIRST_ROW: Final = 768
"""Behind 512 VGPRs and 256 AGPRs (`ExecutionTarget.accum_offset`)."""
_MOST: Final = SCALAR_BIT - _FIRST_ROW
_FIRST_SLOT: Final = SCALAR_BIT + 512
"""Stands for slots in sets of registers, behind all that there are."""
_DWORDS: Final = re.compile(r"(?:scratch|buffer)_(load|store)_(?:dword(?:x(\d))?|b(32|64|96|128))")


class SpillAccess(Struct, frozen=True):
    """A register that is stored to its slot, or loaded from there."""

    register: int
    rows: tuple[int, ...]
    stores: bool

    @property
    def effect(self) -> RegisterEffect:
        """The rows that it reads and writes."""
        slot = 0
        for row in self.rows:
            slot |= 1 << row
        registers = vector_bits(self.register, len(self.rows))
        reads, writes = (registers, slot) if self.stores else (slot, registers)
        return RegisterEffect(reads, writes, writes, writes)

    @property
    def step(self) -> Step:
        """Returns the moves that stand for the store or load."""
        pairs = list(enumerate(self.rows, self.register))
        moves = [(row, register) if self.stores else (register, row) for register, row in pairs]

        def step(waves: Waves) -> None:
            for target, source in moves:
                waves.write(target, waves.u32[source])

        return step


def spills_of(function: Function, decoded: Sequence[Decoded]) -> dict[int, SpillAccess]:
    """Returns the accesses of spill slots by index; their rows are only numbers."""
    spills: dict[int, SpillAccess] = {}
    numbers: dict[int, int] = {}
    for inst in function.instructions:
        if inst.cls not in ("scratch_load", "scratch_store"):
            continue
        access = _slot_access(inst, decoded[inst.index])
        if access is not None:
            register, offset, dwords, stores = access
            slot = tuple(
                numbers.setdefault(byte, _FIRST_SLOT + len(numbers))
                for byte in range(offset, offset + 4 * dwords, 4)
            )
            spills[inst.index] = SpillAccess(register, slot, stores)
    return spills


def with_rows(spills: Mapping[int, SpillAccess], chosen: Collection[int]) -> dict[int, SpillAccess]:
    """Returns the spills of chosen instructions, with real rows as long as there are any."""
    rows: dict[int, int] = {}
    placed: dict[int, SpillAccess] = {}
    for site, spill in spills.items():
        if site not in chosen:
            continue
        slot = tuple(rows.setdefault(number, _FIRST_ROW + len(rows)) for number in spill.rows)
        if max(slot) < _FIRST_ROW + _MOST:
            placed[site] = SpillAccess(spill.register, slot, spill.stores)
    return placed


def _slot_access(inst: Instruction, parts: Decoded) -> tuple[int, int, int, bool] | None:
    """Register, offset, dwords, and whether it stores; None for an address in registers."""
    match = _DWORDS.fullmatch(parts.name)
    if match is None:
        return None
    verb, times, bits = match.groups()
    dwords = int(bits) // 32 if bits else int(times or 1)
    operands, stores = list(parts.operands), verb == "store"
    data = 1 if stores and parts.name.startswith("scratch") else 0
    if data >= len(operands) or operands[data].kind != "vgpr":
        return None
    register = operands.pop(data).first
    if parts.name.startswith("buffer"):  # off, s[0:3], 0
        if len(operands) != 3 or operands[2].integer != 0:
            return None
        operands = operands[:1]
    if any(operand.text != "off" for operand in operands):
        return None
    offset = parts.number("offset")
    return None if offset % 4 else (register, offset, dwords, stores)
