"""What a function's instructions do to registers, worked out once for all analyses of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...model import Function
from .effects import RegisterEffect, effects_of, effects_of_halves
from .execution_target import ExecutionTarget
from .masked_writes import masked_sites
from .operands import SUFFIXES, Decoded, decode


class CodeRegisters(Struct, frozen=True):
    """What the instructions of a function do to registers.

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
"""By identity, which holds as long as the function is kept: to compare two takes as long."""
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
    recent = list(_RECENT)
    for old in recent[: max(0, len(recent) + 1 - _MOST_RECENT)]:
        _RECENT.pop(old, None)
    _RECENT[key] = function, registers
    return registers


def decoded_instructions(function: Function, target: ExecutionTarget) -> list[Decoded]:
    """A function's instructions with their operands."""
    return [
        decode(inst.mnemonic, inst.operands, SUFFIXES, target.accum_offset)
        for inst in function.instructions
    ]
