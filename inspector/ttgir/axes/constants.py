"""Integer operations on known numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...model import TtgirOp
from .facts import Facts

_Fold = Callable[[int, int], "int | None"]


def _truncated(a: int, b: int) -> int | None:
    """Division as machines do it: towards zero."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int | None:
    quotient = _truncated(a, b)
    return None if quotient is None else a - b * quotient


def _left(a: int, b: int) -> int | None:
    return a << b if 0 <= b < 64 else None


def _right(a: int, b: int) -> int | None:
    return a >> b if 0 <= b < 64 else None


_FOLDS: Mapping[str, _Fold] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _truncated,
    "arith.remsi": _remainder,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": _left,
    "arith.shrsi": _right,
    "arith.minsi": min,
    "arith.maxsi": max,
}
_INTEGER_CASTS = frozenset(("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"))
_LARGEST = 1 << 31  # beyond it a sum may wrap, in what width the file alone knows


def folded(op: TtgirOp, operands: Sequence[Facts]) -> int | None:
    """The number that an operation yields; None where it is not known to be one.

    Unsigned division of numbers that may be negative, and results that do not fit 32 bits, are not
    folded.
    """
    if op.name == "arith.constant":
        value = op.attributes.get("value")
        return int(value) if isinstance(value, int) else None
    if op.name in _INTEGER_CASTS:
        value = operands[0].constant
        return value if value is not None and 0 <= value < _LARGEST else None
    fold = _FOLDS.get(op.name)
    if fold is None or operands[0].constant is None or operands[1].constant is None:
        return None
    result = fold(operands[0].constant, operands[1].constant)
    return result if result is not None and -_LARGEST <= result < _LARGEST else None
