"""Constant folding: the results of integer operations whose operands are known.

Comparisons of a range with a bound: which of them change only at multiples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...model import TtgirOp
from .facts import AxisFacts

_Fold = Callable[[int, int], "int | None"]


def _divide(a: int, b: int) -> int | None:
    """The quotient rounded towards zero, as machines and MLIR round it; None for division by 0."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int | None:
    quotient = _divide(a, b)
    return None if quotient is None else a - b * quotient


def _shift_left(a: int, b: int) -> int | None:
    return a << b if 0 <= b < 64 else None


def _shift_right(a: int, b: int) -> int | None:
    return a >> b if 0 <= b < 64 else None


_FOLDS: Mapping[str, _Fold] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _divide,
    "arith.remsi": _remainder,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.minsi": min,
    "arith.maxsi": max,
}
_INTEGER_CASTS = frozenset(("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"))
_LIMIT = 1 << 31
"""Larger results are not folded: whether they wrap depends on the width of the type."""


def fold(op: TtgirOp, operands: Sequence[AxisFacts]) -> int | None:
    """The integer that an operation always yields; None where it is not known.

    Unsigned division, which would need the width of negative operands, is not folded; nor are
    results that do not fit 32 bits.
    """
    if op.name == "arith.constant":
        value = op.attributes.get("value")
        return int(value) if isinstance(value, int) else None
    if op.name in _INTEGER_CASTS:
        value = operands[0].constant
        return value if value is not None and 0 <= value < _LIMIT else None
    compute = _FOLDS.get(op.name)
    if compute is None or operands[0].constant is None or operands[1].constant is None:
        return None
    result = compute(operands[0].constant, operands[1].constant)
    return result if result is not None and -_LIMIT <= result < _LIMIT else None


_RANGE_LEFT = frozenset(("slt", "ult", "sge", "uge"))
_RANGE_RIGHT = frozenset(("sgt", "ugt", "sle", "ule"))


def changes_at_multiples(predicate: object, *, range_is_left: bool) -> bool:
    """Whether a comparison of a range changes at its bound itself, not one element later.

    Args:
        predicate: the `predicate` of an `arith.cmpi`, e.g. `slt`.
        range_is_left: whether the range is the left operand and the bound the right one.
    """
    return predicate in (_RANGE_LEFT if range_is_left else _RANGE_RIGHT)
