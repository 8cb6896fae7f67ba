"""Figures of which only a bound is known, and what conditions make of them.

Where part of a kernel's code was not read, a count is a lower bound. A condition then holds, or
does not, only if it would whatever the true figures are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ..model import MetricValue


class Interval(Struct, frozen=True):
    """A number from `low` to `high`, both included."""

    low: float
    high: float


ANY = Interval(-math.inf, math.inf)
"""A figure that is there and of which nothing is known."""


def at_least(value: MetricValue) -> MetricValue | Interval:
    """A figure that may be larger: the interval from a number on, anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Interval(value, math.inf)


def apply(name: str, operands: Sequence[Any]) -> Any:
    """What a function of a condition gives if at least one of its operands is an interval.

    Args:
        name: its sign in a condition.
        operands: numbers, intervals, or whatever else conditions compare.

    Returns:
        An interval, a truth value, or None where the bounds do not decide it.
    """
    bounds = [_bounds(operand) for operand in operands]
    rule = _RULES.get(name)
    known_bounds = [b for b in bounds if b is not None]
    if rule is None or len(known_bounds) < len(bounds):
        return None
    return rule(*known_bounds)


def _bounds(value: Any) -> Interval | None:
    if isinstance(value, Interval):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Interval(value, value)


def _product(a: Interval, b: Interval) -> Interval:
    # Nothing times any number is nothing, however large that may be.
    corners = [x * y if x and y else 0.0 for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def _quotient(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0:
        return None
    return _product(a, Interval(1 / b.high, 1 / b.low))


def _less(a: Interval, b: Interval) -> bool | None:
    return True if a.high < b.low else False if a.low >= b.high else None


def _at_most(a: Interval, b: Interval) -> bool | None:
    return True if a.high <= b.low else False if a.low > b.high else None


def _equal(a: Interval, b: Interval) -> bool | None:
    if a.high < b.low or b.high < a.low:
        return False
    return True if a.low == a.high == b.low == b.high else None


def _unequal(a: Interval, b: Interval) -> bool | None:
    equal = _equal(a, b)
    return None if equal is None else not equal


_RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "==": _equal,
        "!=": _unequal,
        "<": _less,
        "<=": _at_most,
        ">": lambda a, b: _less(b, a),
        ">=": lambda a, b: _at_most(b, a),
        "+": lambda a, b: Interval(a.low + b.low, a.high + b.high),
        "-": lambda a, b: Interval(a.low - b.high, a.high - b.low),
        "*": _product,
        "/": _quotient,
        "negative": lambda a: Interval(-a.high, -a.low),
        "min": lambda *operands: Interval(
            min(operand.low for operand in operands), min(operand.high for operand in operands)
        ),
        "max": lambda *operands: Interval(
            max(operand.low for operand in operands), max(operand.high for operand in operands)
        ),
    }
)
