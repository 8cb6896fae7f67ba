"""Writes of vector registers that leave old values standing in lanes that EXEC switches off.

Values are those of active lanes. A write under a narrowed EXEC ends the old value only where the
lanes that it leaves out go round it (a branch on EXEC in front); LLVM leaves that branch out of
short blocks, and then the old value is read behind it as well.

What a function's instructions do to registers, worked out once for all analyses of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...model import Function, Instruction
from .effects import RegisterEffect, effects_of, effects_of_halves
from .execution_target import ExecutionTarget
from .operands import EXEC, SUFFIXES, Decoded, decode, scalar_bits

_EXEC: Final = scalar_bits(EXEC, 2)
_WIDENS: Final = re.compile(r"s_(mov|or|or_saveexec|orn2_saveexec|or_not\d_saveexec)_b(32|64)")
"""Instructions that may set bits of EXEC; everything else that writes EXEC clears some."""


def masked_sites(function: Function, effects: Sequence[RegisterEffect]) -> frozenset[int]:
    """The instructions to which lanes come that are switched off there, by index.

    `effects`: what its instructions do to registers.
    """
    narrowed = _narrowed(function, effects)
    masked = []
    for block in function.blocks:
        inside = narrowed[block.index]
        for index in range(block.start, block.stop):
            if inside:
                masked.append(index)
            inside = _narrows(function.instructions[index], effects[index], inside)
    return frozenset(masked)


def _narrows(inst: Instruction, effect: RegisterEffect, inside: bool) -> bool:
    """Whether lanes that are switched off come to what follows an instruction."""
    if effect.writes & _EXEC:
        return _WIDENS.match(inst.mnemonic) is None
    # Lanes that a branch on EXEC leaves out have gone the other way, or do nothing there.
    return inside and not inst.mnemonic.startswith("s_cbranch_exec")


def _narrowed(function: Function, effects: Sequence[RegisterEffect]) -> list[bool]:
    """Whether blocks begin under an EXEC that was narrowed with no branch in between."""
    narrowed = [False] * len(function.blocks)
    waiting = list(range(len(function.blocks)))
    while waiting:
        block = function.blocks[waiting.pop()]
        inside = narrowed[block.index]
        for index in range(block.start, block.stop):
            inside = _narrows(function.instructions[index], effects[index], inside)
        for successor in block.successors:
            if inside and not narrowed[successor]:
                narrowed[successor] = True
                waiting.append(successor)
    return narrowed


class CodeRegisters(Struct, frozen=True):
    """The instructions of a function.

    Args:
        decoded: by index, the instruction taken apart.
        effects: by index, the registers that it reads and writes.
        halves: by index of a dual instruction, those of its operations.
        masked: indices of those to which lanes come that are switched off there (`masked_sites`).
    """

    decoded: Sequence[Decoded]
    effects: Sequence[RegisterEffect]
    halves: Mapping[int, tuple[RegisterEffect, ...]]
    masked: frozenset[int]


_RECENT: Final[dict[tuple[int, ExecutionTarget], tuple[Function, CodeRegisters]]] = {}
"""By identity, which holds as long as the function is kept: comparing two takes as long as this."""
_MOST_RECENT: Final = 2


def registers_of(function: Function, target: ExecutionTarget) -> CodeRegisters:
    """Returns what a function's instructions do to registers."""
    key = id(function), target
    known = _RECENT.get(key)
    if known is not None:
        return known[1]
    decoded = decoded_instructions(function, target)
    effects = effects_of(function.instructions, decoded, target)
    registers = CodeRegisters(
        decoded,
        effects,
        effects_of_halves(function.instructions, decoded, target),
        masked_sites(function, effects),
    )
    # Threads analyse several kernels at a time: another one may have dropped the same.
    for old in list(_RECENT)[: 1 - _MOST_RECENT]:
        _RECENT.pop(old, None)
    _RECENT[key] = function, registers
    return registers


def decoded_instructions(function: Function, target: ExecutionTarget) -> list[Decoded]:
    """A function's instructions with their operands."""
    return [
        decode(inst.mnemonic, inst.operands, SUFFIXES, target.accum_offset)
        for inst in function.instructions
    ]
