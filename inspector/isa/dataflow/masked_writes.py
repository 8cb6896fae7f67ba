"""Writes of vector registers that leave old values standing in lanes that EXEC switches off.

Values are those of active lanes. A write under a narrowed EXEC ends the old value only where the
lanes that it leaves out go round it (a branch on EXEC in front); LLVM leaves that branch out of
short blocks, and then the old value is read behind it as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...model import Block, Function, Instruction
from .effects import RegisterEffect
from .operands import EXEC, scalar_bits

_EXEC: Final = scalar_bits(EXEC, 2)
_WIDENS: Final = re.compile(r"s_(mov|or|or_saveexec|orn2_saveexec|or_not\d_saveexec)_b(32|64)")
"""Instructions that may set bits of EXEC; everything else that writes EXEC clears some."""


def masked_sites(function: Function, effects: Sequence[RegisterEffect]) -> frozenset[int]:
    """The instructions to which lanes come that are switched off there, by index.

    `effects`: what its instructions do to registers.
    """
    narrowed = _narrowed(function, effects)
    return frozenset(
        index
        for block in function.blocks
        for index, inside in zip(
            range(block.start, block.stop),
            _through(function, block, effects, narrowed[block.index]),
            strict=False,
        )
        if inside
    )


def _through(
    function: Function, block: Block, effects: Sequence[RegisterEffect], inside: bool
) -> list[bool]:
    """Whether lanes that are switched off come to each instruction of a block, last to its end."""
    states = [inside]
    for index in range(block.start, block.stop):
        states.append(_narrows(function.instructions[index], effects[index], states[-1]))
    return states


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
        inside = _through(function, block, effects, narrowed[block.index])[-1]
        for successor in block.successors:
            if inside and not narrowed[successor]:
                narrowed[successor] = True
                waiting.append(successor)
    return narrowed
