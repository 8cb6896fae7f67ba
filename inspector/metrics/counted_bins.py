"""Atomics that count in bins: where a loaded value's bits or magnitude say which counter it is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ..isa.dataflow.operands import operand_texts
from ..isa.mnemonics import access_bits
from ..isa.vector_halves import WITHOUT_RESULT, halves, results
from ..isa.waitflow.registers import named, split_destination
from ..model import Function, Instruction

_ADDS: Final = re.compile(r"_atomic_(add|sub)(_x2|_[iu](32|64))?$")
_MOVES: Final = re.compile(r"v_(dual_)?mov_b")
_CONSTANT: Final = re.compile(r",\s*(-?\d{1,10}|0x[0-9a-f]{1,8})$")
_BINNING: Final = re.compile(
    r"v_(dual_)?(cvt_(flr_|rpi_|nearest_|floor_)?[iu]32_f(16|32|64)|bfe_[iu]32|and_b32|lshrrev_b32)(_|$)"
)
_NARROW: Final = 32
_MOST_DEPTH: Final = 40


class _Writer(NamedTuple):
    """An instruction that writes a register, or the half of it that does, of two in one.

    Args:
        name: the mnemonic of the half.
    """

    inst: Instruction
    name: str
    operands: str


_Writers: TypeAlias = dict[int, list[_Writer]]
"""A register -> what writes it, in the order of the code."""


def counting(function: Function, atomics: Sequence[Instruction]) -> list[Instruction]:
    """Those of some atomics that add a constant in a bin."""
    writers: _Writers = {}
    if not any(_ADDS.search(inst.op.name) for inst in atomics):
        return []
    for inst in function.instructions:
        for name, operands in halves(inst) if inst.cls not in WITHOUT_RESULT else ():
            for register in results(name, operands):
                writers.setdefault(register, []).append(_Writer(inst, name, operands))
    followed = _Bins(writers)
    return [
        inst
        for inst in atomics
        if _ADDS.search(inst.op.name) and _adds_constant(inst, writers) and followed.is_binned(inst)
    ]


def _before(writers: _Writers, register: int, index: int) -> _Writer | None:
    """What wrote a register last, in the order of the code."""
    all_of_it = writers.get(register, ())
    place = bisect_left(all_of_it, index, key=lambda writer: writer.inst.index)
    return all_of_it[place - 1] if place else None


def _operand(atomic: Instruction, *, is_data: bool) -> str:
    """The operand with what is added, or with the address's part in vector registers."""
    operands = operand_texts(atomic.operands)
    second = is_data != atomic.op.name.startswith("buffer_")
    return operands[second] if len(operands) > second else ""


def _adds_constant(atomic: Instruction, writers: _Writers) -> bool:
    data = named(_operand(atomic, is_data=True))
    moves = [_before(writers, register, atomic.index) for register in data]
    return bool(moves) and all(
        move is not None
        and _MOVES.match(move.name) is not None
        and _CONSTANT.search(move.operands) is not None
        for move in moves
    )


class _Bins:
    """Registers followed back to what was loaded."""

    def __init__(self, writers: _Writers) -> None:
        self._writers = writers
        self._known: dict[tuple[int, str], tuple[bool, bool]] = {}
        """Instruction, operands -> whether its result rests on a load and a bin was made of "
        "that."""

    def is_binned(self, atomic: Instruction) -> bool:
        """Whether an atomic's address rests on a loaded value of which a bin was made."""
        address = named(_operand(atomic, is_data=False))
        return any(all(self._value(register, atomic.index, 0)) for register in address)

    def _value(self, register: int, index: int, depth: int) -> tuple[bool, bool]:
        writer = _before(self._writers, register, index)
        if writer is None or depth > _MOST_DEPTH:
            return False, False
        if writer.inst.cls == "global_load":
            bits = access_bits(writer.inst.op, writer.operands)
            return True, bits is not None and bits < _NARROW
        key = writer.inst.index, writer.operands
        if key not in self._known:
            self._known[key] = False, False
            sources = [
                self._value(source, writer.inst.index, depth + 1)
                for source in named(split_destination(writer.operands)[1])
            ]
            loaded = any(rests for rests, _ in sources)
            binned = any(rests and made for rests, made in sources)
            made = binned or bool(_BINNING.match(writer.name))
            self._known[key] = loaded, loaded and made
        return self._known[key]
