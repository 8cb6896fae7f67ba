"""What a function's instructions do to registers, worked out once for all analyses of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..model import Function
from .effects import RegisterEffect, effects_of, effects_of_halves
from .masked_writes import masked_sites
from .operands import Decoded
from .program import decoded_instructions
from .registry import ExecutionTarget


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
    if key not in _RECENT:
        while len(_RECENT) >= _MOST_RECENT:
            del _RECENT[next(iter(_RECENT))]
        decoded = decoded_instructions(function, target)
        effects = effects_of(function.instructions, decoded, target)
        _RECENT[key] = (
            function,
            CodeRegisters(
                decoded,
                effects,
                effects_of_halves(function.instructions, decoded, target),
                masked_sites(function, effects),
            ),
        )
    return _RECENT[key][1]
