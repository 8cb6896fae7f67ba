"""How often each workgroup executes each dot, where arguments, grid and workgroup decide it.

Scalars are evaluated for all workgroups of a launch at once. What rests on memory or on a loop's
own values (a tile that a persistent kernel works on) is unknown, and so are dots in loops whose
bounds do: they count as not executed, so that sums over dots are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..model import TtgirModule, TtgirOp
from .queries import DOTS

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

MOST_WORKGROUPS: Final = 1 << 20
_AXES: Final = {"x": 0, "y": 1, "z": 2}
_SAME: Final = frozenset(
    ("arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui", "arith.trunci")
)
_LIMIT: Final = 1 << 31
"""Where a 32-bit value would wrap around, or be taken for another by an unsigned operation."""


def _divide(left: Numbers, right: Numbers) -> Numbers | None:
    """Towards 0, as the hardware does; None where it divides by 0."""
    if not right.all():
        return None
    quotient: Numbers = np.abs(left) // np.abs(right)
    return np.where((left < 0) != (right < 0), -quotient, quotient)


def _remainder(left: Numbers, right: Numbers) -> Numbers | None:
    quotient = _divide(left, right)
    return None if quotient is None else left - quotient * right


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
    """Dots with their number of executions in each workgroup, those for which it is known.

    Args:
        module: a TTGIR with one function.
        arguments: name -> value, of those that are known.
        grid: workgroups along each dimension.
    """
    extents = (*grid, 1, 1, 1)[:3]
    count = extents[0] * extents[1] * extents[2]
    if len(module.functions) != 1 or not 0 < count <= MOST_WORKGROUPS:
        return
    ids = np.arange(count, dtype=np.int64)
    ids_along = (ids % extents[0], ids // extents[0] % extents[1], ids // extents[0] // extents[1])
    values: dict[str, Numbers] = {
        f"%{name}": np.full(1, value, np.int64)
        for name, value in arguments.items()
        if -_LIMIT <= value < _LIMIT
    }
    # Of each operation with a region how often the region is entered; the second one of an `if`
    # begins behind the first one's `yield`.
    entered: dict[int, Numbers | None] = {}
    for op in module.ops:
        if op.name.startswith("cf."):  # an early return: who comes past it is not followed
            return
        times = np.ones(1, np.int64) if op.parent is None else entered.get(op.parent)
        if op.name == "tt.func":
            entered[op.index] = np.ones(1, np.int64)
        elif op.name == "scf.for":
            entered[op.index] = _iterations(op, times, values)
        elif op.name == "scf.if":
            condition = values.get(op.operands[0]) if op.operands else None
            if times is None or condition is None:
                entered[op.index] = None
            else:
                entered[op.index] = times * condition
        elif op.name == "scf.yield" and op.parent is not None:
            if module.ops[op.parent].name == "scf.if":
                entered[op.parent] = None
        elif op.name in DOTS:
            if times is not None:
                yield op, np.broadcast_to(times, count)
        elif len(op.results) == 1 and op.result_types and op.result_types[0].kind == "scalar":
            result = _value(op, values, ids_along, extents)
            if result is not None and bool((np.abs(result) < _LIMIT).all()):
                values[op.results[0]] = result


def _iterations(
    op: TtgirOp, times: Numbers | None, values: Mapping[str, Numbers]
) -> Numbers | None:
    if times is None or len(op.operands) < 3:
        return None
    first, stop, step = (values.get(name) for name in op.operands[:3])
    if first is None or stop is None or step is None or not bool((step > 0).all()):
        return None
    trips: Numbers = np.maximum(-((first - stop) // step), 0)
    return times * trips


def _value(
    op: TtgirOp,
    values: Mapping[str, Numbers],
    ids: tuple[Numbers, Numbers, Numbers],
    extents: tuple[int, ...],
) -> Numbers | None:
    """A scalar's value in each workgroup, or one for all of them; None where it is unknown."""
    if op.name == "arith.constant":
        value = op.attributes.get("value")
        if isinstance(value, int) and abs(value) < _LIMIT:
            return np.full(1, int(value), np.int64)
        return None
    if op.name in ("tt.get_program_id", "tt.get_num_programs"):
        axis = op.attributes.get("axis", 0)
        axis = _AXES.get(axis, axis)
        if not isinstance(axis, int) or not 0 <= axis < 3:
            return None
        return ids[axis] if op.name == "tt.get_program_id" else np.full(1, extents[axis], np.int64)
    operands = [values.get(name) for name in op.operands]
    known = [operand for operand in operands if operand is not None]
    if not known or len(known) < len(operands):
        return None
    if op.name in _SAME:
        return known[0]
    if op.name in _BINARY and len(known) == 2:
        result: Numbers | None = _BINARY[op.name](known[0], known[1])
        return result
    if op.name == "arith.select" and len(known) == 3:
        return np.where(known[0] != 0, known[1], known[2])
    if op.name == "arith.cmpi" and len(known) == 2:
        compare = _COMPARED.get(str(op.attributes.get("predicate")))
        return None if compare is None else compare(known[0], known[1]).astype(np.int64)
    return None
