"""Comparisons of a range with a bound: which of them change only at multiples."""

from __future__ import annotations

_RANGE_LEFT = frozenset(("slt", "ult", "sge", "uge"))
_RANGE_RIGHT = frozenset(("sgt", "ugt", "sle", "ule"))


def changes_at_multiples(predicate: object, *, range_is_left: bool) -> bool:
    """Whether a comparison of a range changes at its bound itself, not one element later.

    Args:
        predicate: the `predicate` of an `arith.cmpi`, e.g. `slt`.
        range_is_left: whether the range is the left operand and the bound the right one.
    """
    return predicate in (_RANGE_LEFT if range_is_left else _RANGE_RIGHT)
