"""What conditions are translated into: small trees that are evaluated over known values.

Metrics can be unknown (None). Anything computed from an unknown is unknown, `and`, `or` and `not`
follow Kleene's three-valued logic, and a condition that stays unknown decides nothing.

Where part of a kernel's code was not read, a count is a lower bound. A condition then holds, or
does not, only if it would whatever the true figures are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from ..errors import KinspectError
from ..model import MetricValue
from .catalogue import Kind


class Interval(Struct, frozen=True):
    """A number from `low` to `high`, both included."""

    low: float
    high: float


ANYTHING = Interval(-math.inf, math.inf)
"""A figure that is there and of which nothing is known."""


def at_least(value: MetricValue) -> MetricValue | Interval:
    """A figure that may be larger: the interval from a number on, anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Interval(value, math.inf)


def apply_to_bounds(name: str, operands: Sequence[Any]) -> Any:
    """What a function of a condition gives if at least one of its operands is an interval.

    Args:
        name: its sign in a condition.
        operands: numbers, intervals, or whatever else conditions compare.

    Returns:
        An interval, a truth value, or None where the bounds do not decide it.
    """
    bounds = [_bounds(operand) for operand in operands]
    rule = _BOUND_RULES.get(name)
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


_BOUND_RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
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


# --------------------------------------------------------------------------- trees

Source = Literal["kernel", "loop", "subject"]


class Values(Struct, frozen=True):
    """What names stand for.

    Args:
        kernel: the kernel's metrics. Where code was not read, conditions are asked once more with
            figures that may be larger as an `Interval`.
        loop: those of the loop that a rule looks at, or that the subject stands in.
        subject: what is known of the instruction or wait that a rule looks at.
    """

    kernel: Mapping[str, MetricValue | Interval]
    loop: Mapping[str, MetricValue | Interval]
    subject: Mapping[str, MetricValue] = field(default_factory=dict)


class Constant(Struct, frozen=True):
    """A number, text, true, false, none, or the choices of an `in`."""

    value: Any

    def evaluate(self, values: Values) -> Any:
        return self.value


class MetricName(Struct, frozen=True):
    """A metric, or one field of a metric that is a mapping; `name` is how the rule calls it."""

    name: str
    metric: str
    field: str | None
    source: Source

    def evaluate(self, values: Values) -> MetricValue | Interval:
        value: MetricValue | Interval = getattr(values, self.source).get(self.metric)
        if self.field is None:
            return value
        return value.get(self.field) if isinstance(value, Mapping) else None


class Apply(Struct, frozen=True):
    """A function on its operands; unknown if one of them is."""

    function: Callable[..., Any]
    operands: tuple[Node, ...]

    def evaluate(self, values: Values) -> Any:
        operands = []
        bounded = False
        for node in self.operands:
            operand = node.evaluate(values)
            if operand is None:
                return None
            bounded = bounded or isinstance(operand, Interval)
            operands.append(operand)
        if bounded:
            return apply_to_bounds(_SIGNS[self.function], operands)
        return self.function(*operands)


class Join(Struct, frozen=True):
    """`and` (`decisive` is False) or `or` (True): the first decisive operand ends it."""

    decisive: bool
    operands: tuple[Node, ...]

    def evaluate(self, values: Values) -> bool | None:
        open_ = False
        for operand in self.operands:
            truth = operand.evaluate(values)
            if truth is None:
                open_ = True
            elif _truth(truth) is self.decisive:
                return self.decisive
        return None if open_ else not self.decisive


class IsNone(Struct, frozen=True):
    """Whether a value is unknown, or (`wanted` False) known."""

    operand: Node
    wanted: bool

    def evaluate(self, values: Values) -> bool:
        return (self.operand.evaluate(values) is None) is self.wanted


Node = Constant | MetricName | Apply | Join | IsNone


class Expression(Struct, frozen=True):
    """A checked condition or figure; `names` are the metrics it reads, in order."""

    text: str
    kind: Kind
    root: Node
    names: tuple[MetricName, ...]

    def evaluate(self, values: Values) -> Any:
        """The value, None where it is unknown.

        Raises:
            KinspectError: a value has another kind than the condition takes it for. Only fields of
                mappings can do that: the kind of everything else is checked on loading.
        """
        try:
            return self.root.evaluate(values)
        except (TypeError, OverflowError, RecursionError) as error:
            raise KinspectError(
                f"rule condition `{self.text}`: {error}",
                "compare each metric with a value of its own kind",
            ) from error


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} is neither true nor false")


def _not(a: Any) -> bool:
    return not _truth(a)


def _divide(a: float, b: float) -> float | None:
    return a / b if b else None  # a share of nothing is unknown, not infinite


def _is_in(a: Any, choices: tuple[Any, ...]) -> bool:
    return a in choices


def _is_not_in(a: Any, choices: tuple[Any, ...]) -> bool:
    return a not in choices


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "not": _not,
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "in": _is_in,
        "not in": _is_not_in,
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": _divide,
        "negative": operator.neg,
        "min": min,
        "max": max,
    }
)
"""What `Apply` applies, by its sign in a condition. Functions with names: they can be pickled."""
_SIGNS: Mapping[Callable[..., Any], str] = MappingProxyType({f: s for s, f in FUNCTIONS.items()})
