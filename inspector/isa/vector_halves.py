"""The operations of a vector instruction, of which dual ones (VOPD) have two, and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..model import Instruction
from .waitflow.registers import named, split_destination

TWO_RESULTS: Final = re.compile(r"v_div_scale|v_\w+_co_|v_mad_[iu]64")
"""Operations whose second operand is a result, too: a carry, or a mask of lanes."""
WITHOUT_RESULT: Final = frozenset(
    ("global_store", "lds_write", "scratch_store", "lds_direct_store")
)
"""Classes of instructions that write no register."""


def halves(inst: Instruction) -> Iterator[tuple[str, str]]:
    """Yields name and operands of an instruction, or of both halves of a dual one."""
    if "::" not in inst.operands:
        yield inst.op.name, inst.operands.rstrip()
        return
    first_half, separator, second_half = f"{inst.op.name} {inst.operands}".partition("::")
    for text in (first_half, second_half) if separator else (first_half,):
        name, _, operands = text.strip().partition(" ")
        yield name, operands


def written_registers(inst: Instruction) -> set[int]:
    """Registers that an instruction writes, as numbers of `waitflow.registers`."""
    if inst.cls in WITHOUT_RESULT:
        return set()
    return {register for name, text in halves(inst) for register in results(name, text)}


def results(name: str, operands: str) -> set[int]:
    """Registers that an operation, or half of a dual instruction, writes."""
    result, sources = split_destination(operands)
    registers = set(named(result))
    if TWO_RESULTS.match(name):
        registers.update(named(split_destination(sources)[0]))
    return registers
