"""The number of executions of dots and loops in each workgroup, by arguments, grid and
workgroup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from .queries import DOTS

Numbers = np.ndarray[Any, np.dtype[np.int64]]
"""A number for each workgroup of a launch, or one for all of them."""

MOST_WORKGROUPS: Final = 1 << 20
_AXES: Final = {"x": 0, "y": 1, "z": 2}
_SAME: Final = frozenset(
    ("arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui", "arith.trunci")
)
_LIMIT: Final = 1 << 31
"""Larger values would wrap around in 32 bits, or differ under an unsigned operation."""
_ONCE: Final = np.ones(1, np.int64)


def _divide(dividend: Numbers, divisor: Numbers) -> Numbers | None:
    """The quotient rounded towards 0, as the hardware does; None for a division by 0."""
    if not divisor.all():
        return None
    quotient: Numbers = np.abs(dividend) // np.abs(divisor)
    return np.where((dividend < 0) != (divisor < 0), -quotient, quotient)


def _remainder(dividend: Numbers, divisor: Numbers) -> Numbers | None:
    """The remainder of that quotient, with the dividend's sign; None for a division by 0."""
    quotient = _divide(dividend, divisor)
    return None if quotient is None else dividend - quotient * divisor


_BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.divsi": _divide,
    "arith.remsi": _remainder,
}
_COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}


def dot_executions(
    module: TtgirModule, arguments: Mapping[str, int], grid: tuple[int, ...]
) -> Iterator[tuple[TtgirOp, Numbers]]:
    """Yields dots with their number of executions in each workgroup, where it is known.

    `arguments`: name -> value of the known arguments; `grid`: workgroups along each dimension.
    """
    scalars = _Scalars(arguments, _extents(grid))
    return ((op, times) for op, times in _executions(module, scalars, grid) if op.name in DOTS)


class LoopRun(Struct, frozen=True):
    """A loop of a launch.

    Attributes:
        op: the `scf.for`.
        iterations: for each workgroup; those of a nested loop are all that it makes in the
            iterations of the loops around it.
        by_program: whether each workgroup starts at its own number and goes on by their number, so
            that iterations are shared out and their order does not matter.
    """

    op: TtgirOp
    iterations: Numbers
    by_program: bool


def loop_runs(
    module: TtgirModule, arguments: Mapping[str, int], grid: tuple[int, ...]
) -> Iterator[LoopRun]:
    """Yields the loops whose iterations are known. Arguments as for `dot_executions`."""
    scalars = _Scalars(arguments, _extents(grid))
    for op, iterations in _executions(module, scalars, grid, past_unknown_returns=True):
        if op.name == "scf.for":
            yield LoopRun(op, iterations, scalars.is_by_program(op))


def _extents(grid: tuple[int, ...]) -> tuple[int, int, int]:
    columns, rows, layers = (*grid, 1, 1, 1)[:3]
    return columns, rows, layers


def _executions(
    module: TtgirModule,
    scalars: _Scalars,
    grid: tuple[int, ...],
    *,
    past_unknown_returns: bool = False,
) -> Iterator[tuple[TtgirOp, Numbers]]:
    """Yields dots with their executions, and loops with their iterations.

    What follows an early return on a condition that is not known (a number that is loaded) has no
    executions, or, `past_unknown_returns`, those of the workgroups that do not return.
    """
    count = math.prod(_extents(grid))
    if len(module.functions) != 1 or not 0 < count <= MOST_WORKGROUPS:
        return
    # Operation with a region -> times that the region is entered; the second region of an `if`
    # begins after the `yield` of the first.
    entered: dict[int, Numbers | None] = {}
    for op in module.ops:
        if op.name.startswith("cf."):
            if op.parent is None or not _is_early_return(module, op):
                return  # who goes where is not tracked
            known, before = scalars.values.get(op.operands[0]), entered.get(op.parent)
            if before is None or (known is None and not past_unknown_returns):
                return
            entered[op.parent] = before if known is None else before * (1 - known)
            continue
        times = _ONCE if op.parent is None else entered.get(op.parent)
        if op.name in DOTS:
            if times is not None:
                yield op, np.broadcast_to(times, count)
        elif op.name == "tt.func":
            entered[op.index] = _ONCE
        elif op.name == "scf.for":
            entered[op.index] = iterations = scalars.iterations(op, times)
            if iterations is not None:
                yield op, np.broadcast_to(iterations, count)
        elif op.name == "scf.if":
            entered[op.index] = scalars.branch_entries(op, times)
        elif op.name == "scf.yield" and op.parent is not None:
            if module.ops[op.parent].name == "scf.if":
                entered[op.parent] = None
        elif len(op.results) == 1 and op.result_types and op.result_types[0].kind == "scalar":
            scalars.add(op)


def _is_early_return(module: TtgirModule, op: TtgirOp) -> bool:
    """Whether a branch leads to a return, which stands behind it, where its condition is true."""
    following = op.index + 1
    return (
        op.name == "cf.cond_br"
        and len(op.operands) == 1
        and following < len(module.ops)
        and module.ops[following].name == "tt.return"
        and module.ops[following].parent == op.parent
    )


class _Scalars:
    """The scalars of a function that are known, for all workgroups of a launch at once.

    Attributes:
        values: name -> a number for each workgroup, or one number for all of them.
    """

    def __init__(self, arguments: Mapping[str, int], extents: tuple[int, int, int]) -> None:
        self._extents = extents
        self.values: dict[str, Numbers] = {
            f"%{name}": np.full(1, value, np.int64)
            for name, value in arguments.items()
            if -_LIMIT <= value < _LIMIT
        }

    def add(self, op: TtgirOp) -> None:
        """Takes the result of an operation, if it is known."""
        result = self._result(op)
        if result is not None and in_range(result):
            self.values[op.results[0]] = result

    def iterations(self, op: TtgirOp, times: Numbers | None) -> Numbers | None:
        """The times that a loop's body is entered, the loop itself being entered `times` times."""
        if times is None or len(op.operands) < 3:
            return None
        start, stop, step = (self.values.get(name) for name in op.operands[:3])
        if start is None or stop is None or step is None or not bool((step > 0).all()):
            return None
        trips: Numbers = np.maximum(-((start - stop) // step), 0)  # (stop - start) / step, up
        return times * trips

    def is_by_program(self, op: TtgirOp) -> bool:
        """Whether a loop goes from the workgroup's number along an axis by their number there."""
        if len(op.operands) < 3:
            return False
        start, _, step = (self.values.get(name) for name in op.operands[:3])
        if start is None or step is None or step.size != 1:
            return False
        ids = np.arange(math.prod(self._extents), dtype=np.int64)
        numbers = [(ids, ids.size)]
        for axis, extent in enumerate(self._extents):
            numbers.append((ids // math.prod(self._extents[:axis]) % extent, extent))
        return any(
            1 < extent <= step.item()
            and step.item() % extent == 0
            and np.array_equal(start, number * (step.item() // extent))
            for number, extent in numbers
        )

    def branch_entries(self, op: TtgirOp, times: Numbers | None) -> Numbers | None:
        """The times that an `if`'s first region is entered, the `if` being so `times` times."""
        condition = self.values.get(op.operands[0]) if op.operands else None
        return None if times is None or condition is None else times * condition

    def _result(self, op: TtgirOp) -> Numbers | None:
        """The result of an operation in each workgroup; None where it is unknown."""
        if not op.operands:
            return (
                constant(op) if op.name == "arith.constant" else program_number(op, self._extents)
            )
        operands = [self.values.get(name) for name in op.operands]
        known = [operand for operand in operands if operand is not None]
        return computed(op, known) if known and len(known) == len(operands) else None


def constant(op: TtgirOp) -> Numbers | None:
    """The value of an integer constant; None where it may wrap around in 32 bits."""
    value = op.attributes.get("value")
    return np.full(1, int(value), np.int64) if isinstance(value, int) and in_range(value) else None


def in_range(values: Numbers | int) -> bool:
    """Whether values fit in 32 bits, signed."""
    return bool((np.abs(values) < _LIMIT).all())


def program_number(op: TtgirOp, extents: tuple[int, int, int]) -> Numbers | None:
    """The workgroups' indices along an axis of the grid, or their number there.

    Workgroups are numbered along the first axis first, as they are dispatched. None for another
    operation, or where it names no axis.
    """
    axis = op.attributes.get("axis", 0)
    axis = _AXES.get(axis, axis)
    if not isinstance(axis, int) or not 0 <= axis < 3:
        return None
    if op.name == "tt.get_num_programs":
        return np.full(1, extents[axis], np.int64)
    if op.name != "tt.get_program_id":
        return None
    ids = np.arange(math.prod(extents), dtype=np.int64)
    return ids // math.prod(extents[:axis]) % extents[axis]


def computed(op: TtgirOp, operands: Sequence[Numbers]) -> Numbers | None:
    """The result of an operation with known operands; None for an unknown operation."""
    if op.name in _SAME:
        return operands[0]
    if op.name in _BINARY and len(operands) == 2:
        result: Numbers | None = _BINARY[op.name](operands[0], operands[1])
        return result
    if op.name == "arith.select" and len(operands) == 3:
        return np.where(operands[0] != 0, operands[1], operands[2])
    if op.name == "arith.cmpi" and len(operands) == 2:
        compare = _COMPARED.get(str(op.attributes.get("predicate")))
        if compare is not None:
            outcome: Numbers = compare(operands[0], operands[1]).astype(np.int64)
            return outcome
    return None
