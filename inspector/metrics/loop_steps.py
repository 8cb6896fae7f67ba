"""By how many bytes the addresses of a loop's accesses move from one iteration to the next.

The registers of an address are followed back through sums, shifts and products with constants to
what the iteration before has left in a register; that must be the same register's own value and a
constant. Low words alone are followed: no step is as large as 2 GiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

from msgspec import Struct

from ..isa.dataflow.code_registers import CodeRegisters, registers_of
from ..isa.dataflow.execution_target import target_of
from ..isa.dataflow.operands import Operand
from ..isa.dataflow.register_sets import SCALAR_BIT, rows_of
from ..isa.twos_complement import signed
from ..lanes.slices import address_operands
from ..model import Function, Machine
from .load_paths import LOADS

_MOST_DEPTH: Final = 24
_SUMS: Final = re.compile(r"(v_add|s_add)(_co)?_(u32|i32|nc_u32)")
_DIFFERENCES: Final = re.compile(r"(v_sub|s_sub)(_co)?_(u32|i32|nc_u32)")
_REVERSED: Final = re.compile(r"v_subrev(_co)?_(u32|nc_u32)")
_MOVES: Final = re.compile(r"(v|s)_mov_b(32|64)")
_SHIFTS: Final = re.compile(r"s_lshl_b(32|64)")
_REVERSED_SHIFTS: Final = re.compile(r"v_lshlrev_b(32|64)")
_MOST_SHIFT: Final = 32


class _Form(Struct, frozen=True):
    """A value as a sum of what registers held when the iteration began.

    Args:
        factors: register -> its factor, of those that the loop changes.
        constant: what is added; None where that is not known but the same in each iteration.
    """

    factors: Mapping[int, int] = {}
    constant: int | None = None

    def plus(self, other: _Form, factor: int = 1) -> _Form:
        """The sum with a multiple of another one."""
        factors = dict(self.factors)
        for row, own in other.factors.items():
            factors[row] = factors.get(row, 0) + factor * own
        known = self.constant is not None and other.constant is not None
        constant = (self.constant or 0) + factor * (other.constant or 0) if known else None
        return _Form({row: own for row, own in factors.items() if own}, constant)


def access_steps(
    function: Function,
    machine: Machine,
    path: Sequence[int],
    own: Sequence[int],
    classes: Set[str] = LOADS,
) -> dict[int, int]:
    """Index of an access -> bytes that its address moves in an iteration, where that is a constant.

    Args:
        function: the kernel.
        machine: the target.
        path: blocks that an iteration executes, in order.
        own: all blocks of the loop.
        classes: of the accesses that are asked about.
    """
    code = registers_of(function, target_of(function, machine.arch))
    steps = _Steps(function, code, path, own)
    moved = {}
    for number in path:
        block = function.blocks[number]
        for index in range(block.start, block.stop):
            if function.instructions[index].cls in classes:
                step = steps.of(index)
                if step is not None:
                    moved[index] = step
    return moved


class _Steps:
    """The values of a loop's registers, from the beginning of an iteration."""

    def __init__(
        self, function: Function, code: CodeRegisters, path: Sequence[int], own: Sequence[int]
    ) -> None:
        self._instructions = function.instructions
        self._code = code
        self._order: dict[int, int] = {}
        """Instruction -> its place on the path."""
        self._writers: dict[int, list[int]] = {}
        """Register -> the instructions of the path that write it, in order."""
        self._elsewhere = 0
        """Registers that code of the loop beside the path writes."""
        for number in path:
            block = function.blocks[number]
            for index in range(block.start, block.stop):
                self._order[index] = len(self._order)
                for row in rows_of(code.effects[index].writes):
                    self._writers.setdefault(row, []).append(index)
        for number in set(own) - set(path):
            block = function.blocks[number]
            for index in range(block.start, block.stop):
                self._elsewhere |= code.effects[index].writes
        self._step_of: dict[int, int | None] = {}
        self._forms: dict[tuple[int, int], _Form | None] = {}
        """Instruction and register -> what it writes there; sums of sums come back to the same."""

    def of(self, index: int) -> int | None:
        """The bytes that an access's address moves."""
        decoded, inst = self._code.decoded[index], self._instructions[index]
        total = 0
        for operand in address_operands(inst, decoded):
            if not operand.rows:
                continue
            form = self._low(operand, index, 0)
            if form is None:
                return None
            for row, factor in form.factors.items():
                step = self._step(row)
                if step is None:
                    return None
                total += factor * step
        return signed(total)

    def _step(self, row: int) -> int | None:
        """What an iteration adds to a register, where that is a constant."""
        if row not in self._step_of:
            self._step_of[row] = None  # where it rests on itself in another way
            form = self._result(self._writers[row][-1], row, 0)
            if form is not None and form.constant is not None and form.factors == {row: 1}:
                self._step_of[row] = signed(form.constant)
        return self._step_of[row]

    def _low(self, operand: Operand, index: int, depth: int) -> _Form | None:
        """The low word of an operand as an instruction reads it."""
        if operand.integer is not None:
            return _Form({}, operand.integer)
        if not operand.rows or operand.negate or operand.half is not None:
            return None
        return self._value(_row(operand), index, depth)

    def _value(self, row: int, index: int, depth: int) -> _Form | None:
        """A register in front of an instruction; None where it is no such sum."""
        if self._elsewhere >> row & 1 or depth > _MOST_DEPTH:
            return None
        writers = self._writers.get(row)
        if writers is None:
            return _Form()
        before = [w for w in writers if self._order[w] < self._order[index]]
        if not before:
            return _Form({row: 1}, 0)
        key = before[-1], row
        if key not in self._forms:
            self._forms[key] = self._result(*key, depth + 1)
        return self._forms[key]

    def _result(self, index: int, row: int, depth: int) -> _Form | None:
        """What an instruction of the path writes to a register."""
        decoded, effect = self._code.decoded[index], self._code.effects[index]
        if not decoded.operands or row != _row(decoded.operands[0]):
            return None
        name = decoded.name
        sources = decoded.operands[2 if "_co_" in name and name.startswith("v_") else 1 :]

        def low(place: int) -> _Form | None:
            return self._low(sources[place], index, depth) if place < len(sources) else None

        def shifted(form: _Form | None, place: int) -> _Form | None:
            return _shifted(form, sources[place]) if place < len(sources) else None

        form: _Form | None = None
        if _SUMS.fullmatch(name):
            form = _sum(low(0), low(1))
        elif _DIFFERENCES.fullmatch(name):
            form = _sum(low(0), low(1), -1)
        elif _REVERSED.fullmatch(name):
            form = _sum(low(1), low(0), -1)
        elif name == "v_add3_u32":
            form = _sum(_sum(low(0), low(1)), low(2))
        elif name in ("v_lshl_add_u32", "v_lshl_add_u64"):
            form = _sum(shifted(low(0), 1), low(2))
        elif name == "v_add_lshl_u32":
            form = shifted(_sum(low(0), low(1)), 2)
        elif _SHIFTS.fullmatch(name):
            form = shifted(low(0), 1)
        elif _REVERSED_SHIFTS.fullmatch(name):
            form = shifted(low(1), 0)
        elif _MOVES.fullmatch(name):
            form = low(0)
        elif name == "s_add_nc_u64" or name == "s_add_u64":
            form = _sum(low(0), low(1))
        elif name == "s_addk_i32":
            added = sources[0].integer if sources else None  # printed as 16 bits, without a sign
            own = self._value(row, index, depth)
            if added is not None:
                form = _sum(own, _Form({}, signed(added, 16)))
        elif self._instructions[index].cls in ("valu", "salu") and not any(
            read in self._writers or self._elsewhere >> read & 1 for read in rows_of(effect.reads)
        ):
            form = _Form()
        return form


def _row(operand: Operand) -> int:
    """The first register of an operand, as a bit in sets of registers."""
    return operand.first + (SCALAR_BIT if operand.kind == "sgpr" else 0)


def _sum(first: _Form | None, second: _Form | None, factor: int = 1) -> _Form | None:
    return None if first is None or second is None else first.plus(second, factor)


def _shifted(form: _Form | None, by: Operand) -> _Form | None:
    if form is None or by.integer is None or not 0 <= by.integer < _MOST_SHIFT:
        return None
    return _Form({}, 0).plus(form, 1 << by.integer)
