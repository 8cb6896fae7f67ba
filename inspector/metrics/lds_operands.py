"""How often a loop's products use what they read from LDS.

A product of two matrices whose work-items compute one element each reads two values from LDS for
each multiply-add: the LDS of a CU delivers 128 bytes a cycle, that is 32 values, for which its
vector units do 128 multiply-adds or more. Only values that serve several products, as where each
work-item computes a block of elements in registers, let the vector units keep up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..isa.waitflow.registers import named, split_destination
from ..model import Instruction

_PRODUCT: Final = re.compile(r"v_(?:dual_|pk_)?(?:fma|fmac|mac|mad_f|mad_mix|mul_f|dot\d)")
_SECOND_HALF: Final = re.compile(r"\s*(\S+)\s+(.*)")
"""Of a dual instruction: its name and operands behind the two colons."""


class OperandUse(Struct, frozen=True):
    """One iteration of a loop, for one lane.

    Args:
        dwords: registers that reads of LDS fill and products read.
        uses: operands of products (multiplications too) that are such registers.
    """

    dwords: int
    uses: int


def operand_use(executed: Sequence[Instruction]) -> OperandUse:
    """Counts the operands of products that come from LDS.

    Args:
        executed: the instructions of one iteration, in order. They are walked through twice, for
            what is read at an iteration's end for the next.
    """
    holder: dict[int, int] = {}  # register -> the read that filled it
    used: set[tuple[int, int]] = set()
    uses = 0
    for is_counted in (False, True):
        for inst in executed:
            for name, operands in _halves(inst):
                written, read = split_destination(operands)
                if is_counted and _PRODUCT.match(name):
                    held = [(holder[at], at) for at in named(read) if at in holder]
                    uses += len(held)
                    used.update(held)
                for register in named(written):
                    if inst.cls == "lds_read":
                        holder[register] = inst.index
                    else:
                        holder.pop(register, None)
    return OperandUse(len(used), uses)


def _halves(inst: Instruction) -> Iterator[tuple[str, str]]:
    """Names and operands of an instruction; of a dual one, of both halves."""
    first, _, second = inst.operands.partition("::")
    yield inst.op.name, first
    match = _SECOND_HALF.match(second)
    if match is not None:
        yield match[1], match[2]
