"""By how many bytes the addresses of a loop's accesses move from one iteration to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from msgspec import Struct

from ..isa.dataflow.operands import Operand
from ..isa.dataflow.value_graph import Operation, graph_of, operations, registers, rows_of
from ..isa.twos_complement import signed
from ..lanes.slices import address_operands
from ..model import Function
from .load_paths import LOADS, code_of

_MOST_SHIFT: Final = 32
_TYPES: Final = frozenset(("u32", "i32", "b32", "u64", "b64"))
_Term = tuple[int, int | None, int]
"""A source, the one by which it is shifted to the left, and its factor."""
_FIRST: Final[_Term] = (0, None, 1)
_SECOND: Final[_Term] = (1, None, 1)
_THIRD: Final[_Term] = (2, None, 1)
_SUMS: Final[Mapping[str, Sequence[_Term]]] = {
    "mov": (_FIRST,),
    "add": (_FIRST, _SECOND),
    "addk": (_FIRST, _SECOND),
    "add3": (_FIRST, _SECOND, _THIRD),
    "sub": (_FIRST, (1, None, -1)),
    "subrev": ((0, None, -1), _SECOND),
    "lshl": ((0, 1, 1),),
    "lshlrev": ((1, 0, 1),),
    "lshl_add": ((0, 1, 1), _THIRD),
    "add_lshl": ((0, 2, 1), (1, 2, 1)),
}
"""What operations add up, by their names without unit and type."""


class _Form(Struct, frozen=True):
    """A value as a sum of what registers held when the iteration began.

    Args:
        factors: register -> its factor, of those that the loop changes.
        constant: what is added; None where that is not known but the same in each iteration.
    """

    factors: Mapping[int, int] = {}
    constant: int | None = None

    def plus(self, other: _Form, factor: int) -> _Form:
        """The sum with a multiple of another one."""
        factors = dict(self.factors)
        for row, own in other.factors.items():
            factors[row] = signed(factors.get(row, 0) + factor * own)
        constant = None
        if self.constant is not None and other.constant is not None:
            constant = signed(self.constant + factor * other.constant)
        return _Form({row: own for row, own in factors.items() if own}, constant)


def access_steps(
    function: Function, path: Sequence[int], own: Sequence[int], classes: Set[str] = LOADS
) -> dict[int, int]:
    """Index of an access -> bytes that its address moves in an iteration, where that is a constant.

    `path`: blocks that an iteration executes, in order; `own`: all blocks of the loop; `classes`:
    of the accesses that are asked about.
    """
    values = _Values(function, path, own)
    return {
        operation.inst.index: step
        for operation in values.forms
        if operation.inst.cls in classes and (step := values.step_of(operation)) is not None
    }


class _Values:
    """What registers hold in an iteration of a loop.

    Attributes:
        forms: the operations of the path and their results' low words; None of no such sum.
    """

    def __init__(self, function: Function, path: Sequence[int], own: Sequence[int]) -> None:
        done = operations(function, code_of(function, *path))
        beside = [inst.index for inst in code_of(function, *set(own) - set(path))]
        others = graph_of(function).operations(beside)
        self._elsewhere = rows_of(result for one in others for result in one.results)
        """Registers that code of the loop beside the path writes."""
        self._last = {row: one for one in done for row in rows_of(one.results)}
        """Register -> the last operation of the path that writes it."""
        self.forms: dict[Operation, _Form | None] = {}
        for operation in done:
            self.forms[operation] = self._result(operation)

    def step_of(self, access: Operation) -> int | None:
        """The bytes that an access's address moves."""
        makers = dict(zip(access.sources, access.makers, strict=True))
        total = 0
        for operand in address_operands(access.inst, access.parts):
            if not registers(operand):
                continue
            form = self._low(operand, makers.get(operand))
            if form is None:
                return None
            for row, factor in form.factors.items():
                last = self._last[row]
                left = self.forms[last] if row in registers(last.results[0])[:1] else None
                if left is None or left.constant is None or left.factors != {row: 1}:
                    return None
                total += factor * left.constant
        return signed(total)

    def _low(self, source: Operand, maker: Operation | None) -> _Form | None:
        """The low word of what an operation reads."""
        rows = registers(source)[:1]
        if source.integer is not None:
            return _Form({}, source.integer)
        is_half = source.negate or source.half is not None
        if not rows or is_half or not self._elsewhere.isdisjoint(rows):
            return None
        if maker is not None:
            return self.forms[maker] if rows == registers(maker.results[0])[:1] else None
        return _Form({rows[0]: 1}, 0) if rows[0] in self._last else _Form()

    def _result(self, operation: Operation) -> _Form | None:
        """The low word of what an operation writes first."""
        name, _, kind = operation.name[len("v_") :].rpartition("_")
        sources = [*zip(operation.sources, operation.makers, strict=True)]
        if name not in _SUMS or kind not in _TYPES:
            read = rows_of(operation.sources)
            is_same = read.isdisjoint(self._last) and read.isdisjoint(self._elsewhere)
            return _Form() if is_same and operation.inst.cls in ("valu", "salu") else None
        total = _Form({}, 0)
        for place, by, factor in _SUMS[name]:
            shift = sources[by][0].integer if by is not None and by < len(sources) else 0
            if place >= len(sources) or shift is None or not 0 <= shift < _MOST_SHIFT:
                return None
            form = self._low(*sources[place])
            if form is None:
                return None
            if name == "addk" and place == 0:  # printed without a sign
                form = _Form({}, signed(form.constant or 0, 16))
            total = total.plus(form, factor << shift)
        return total
