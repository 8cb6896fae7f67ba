"""Atomics that count in bins: where a loaded value's bits or magnitude say which counter it is.

The bins of a histogram are few beside what they count: a value is scaled and converted to a whole
number, masked, shifted, or it is a byte. (An index that is loaded as it is may be one of millions,
as the vertex of an edge is.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..isa.mnemonics import access_bits
from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Function, Instruction

_ADDS: Final = re.compile(r"_atomic_(add|sub)(_x2|_[iu](32|64))?$")
_CONSTANT: Final = re.compile(r",\s*(-?\d{1,10}|0x[0-9a-f]{1,8})$")
_BINNING: Final = re.compile(
    r"v_(cvt_(flr_|rpi_|nearest_|floor_)?[iu]32_f(16|32|64)|bfe_[iu]32|and_b32|lshrrev_b32)(_|$)"
)
_NARROW: Final = 32
_MOST_DEPTH: Final = 40


def counting(function: Function, atomics: Sequence[Instruction]) -> list[Instruction]:
    """Those of some atomics that add a constant in a bin."""
    writers: dict[int, list[Instruction]] = {}
    if not any(_ADDS.search(inst.op.name) for inst in atomics):
        return []
    for inst in function.instructions:
        for register in written_registers(inst):
            writers.setdefault(register, []).append(inst)
    followed = _Bins(writers)
    return [
        inst
        for inst in atomics
        if _ADDS.search(inst.op.name) and _adds_constant(inst, writers) and followed.is_binned(inst)
    ]


def _before(writers: dict[int, list[Instruction]], register: int, index: int) -> Instruction | None:
    """The instruction that wrote a register last, in the order of the code."""
    return max(
        (inst for inst in writers.get(register, ()) if inst.index < index),
        key=lambda inst: inst.index,
        default=None,
    )


def _adds_constant(atomic: Instruction, writers: dict[int, list[Instruction]]) -> bool:
    data = named(atomic.operands.split(",")[1])
    moves = [_before(writers, register, atomic.index) for register in data]
    return bool(moves) and all(
        move is not None
        and move.op.name.startswith("v_mov_b")
        and _CONSTANT.search(move.operands) is not None
        for move in moves
    )


class _Bins:
    """Registers followed back to what was loaded."""

    def __init__(self, writers: dict[int, list[Instruction]]) -> None:
        self._writers = writers
        self._known: dict[int, tuple[bool, bool]] = {}
        """Instruction -> whether its result rests on a load, and whether a bin was made of that."""

    def is_binned(self, atomic: Instruction) -> bool:
        """Whether an atomic's address rests on a loaded value of which a bin was made."""
        address = named(atomic.operands.split(",")[0])
        return any(all(self._value(register, atomic.index, 0)) for register in address)

    def _value(self, register: int, index: int, depth: int) -> tuple[bool, bool]:
        writer = _before(self._writers, register, index)
        if writer is None or depth > _MOST_DEPTH:
            return False, False
        if writer.cls == "global_load":
            bits = access_bits(writer.op, writer.operands)
            return True, bits is not None and bits < _NARROW
        if writer.index not in self._known:
            self._known[writer.index] = False, False
            sources = [
                self._value(source, writer.index, depth + 1)
                for source in named(split_destination(writer.operands)[1])
            ]
            loaded = any(rests for rests, _ in sources)
            binned = any(rests and made for rests, made in sources)
            made = binned or bool(_BINNING.match(writer.op.name))
            self._known[writer.index] = loaded, loaded and made
        return self._known[writer.index]
