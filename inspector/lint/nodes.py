"""Trees that the conditions of rules are compiled into, and their evaluation.

Metrics can be unknown (None). Anything computed from an unknown is unknown, `and`, `or` and `not`
follow Kleene's three-valued logic, and a condition that stays unknown decides nothing.

Where part of a kernel's code was not read, counts are lower bounds and are evaluated as intervals.
A condition on them is decided only if every value in the intervals gives the same answer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from ..base.errors import KinspectError
from ..model import MetricValue
from .catalogue import Kind


class Interval(Struct, frozen=True):
    """A number from `low` to `high`, both included."""

    low: float
    high: float


ANYTHING = Interval(-math.inf, math.inf)
"""A figure that exists but may have any value."""


def at_least(value: MetricValue) -> MetricValue | Interval:
    """The interval from a lower bound upwards; what is no number is returned unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Interval(value, math.inf)


def apply_to_bounds(name: str, operands: Sequence[Any]) -> Any:
    """The result of a function, by its sign, with an interval among its operands.

    None where the bounds do not decide it.
    """
    bounds = [_bounds(operand) for operand in operands]
    rule = _BOUND_RULES.get(name)
    known_bounds = [interval for interval in bounds if interval is not None]
    if rule is None or len(known_bounds) < len(bounds):
        return None
    return rule(*known_bounds)


def _bounds(value: Any) -> Interval | None:
    if isinstance(value, Interval):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Interval(value, value)


def _product(left: Interval, right: Interval) -> Interval:
    # 0 · ∞ is NaN for floats; here a factor of 0 makes the product 0, however large the other is.
    corners = [
        x * y if x and y else 0.0 for x in (left.low, left.high) for y in (right.low, right.high)
    ]
    return Interval(min(corners), max(corners))


def _quotient(left: Interval, right: Interval) -> Interval | None:
    if right.low <= 0:
        return None
    return _product(left, Interval(1 / right.high, 1 / right.low))


def _less(left: Interval, right: Interval) -> bool | None:
    return True if left.high < right.low else False if left.low >= right.high else None


def _at_most(left: Interval, right: Interval) -> bool | None:
    return True if left.high <= right.low else False if left.low > right.high else None


def _equal(left: Interval, right: Interval) -> bool | None:
    if left.high < right.low or right.high < left.low:
        return False
    return True if left.low == left.high == right.low == right.high else None


def _unequal(left: Interval, right: Interval) -> bool | None:
    equal = _equal(left, right)
    return None if equal is None else not equal


_BOUND_RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "==": _equal,
        "!=": _unequal,
        "<": _less,
        "<=": _at_most,
        ">": lambda left, right: _less(right, left),
        ">=": lambda left, right: _at_most(right, left),
        "+": lambda left, right: Interval(left.low + right.low, left.high + right.high),
        "-": lambda left, right: Interval(left.low - right.high, left.high - right.low),
        "*": _product,
        "/": _quotient,
        "negative": lambda operand: Interval(-operand.high, -operand.low),
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
    """The values of the names in a condition.

    Args:
        kernel: the kernel's metrics. Where code was not read, conditions are evaluated again with
            an `Interval` for each figure that may be larger.
        loop: metrics of the loop that a rule looks at, or that contains the subject.
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
    """A metric, or one field of a metric that is a mapping; `name` is its name in the rule."""

    name: str
    metric: str
    field: str | None
    source: Source

    def evaluate(self, values: Values) -> MetricValue | Interval:
        source, name = self.source, self.field
        of_source = (
            values.kernel
            if source == "kernel"
            else values.loop
            if source == "loop"
            else values.subject
        )
        value: MetricValue | Interval = of_source.get(self.metric)
        if name is None or value is None:
            return value
        if type(value) is dict:  # nearly always: of an abstract class it takes longer to find out
            return value.get(name)
        return value.get(name) if isinstance(value, Mapping) else None


class Apply(Struct, frozen=True):
    """A function on its operands; unknown if one of them is."""

    function: Callable[..., Any]
    operands: tuple[Node, ...]

    def evaluate(self, values: Values) -> Any:
        if len(self.operands) == 2:  # nearly always: written out, for it runs for each condition
            first, second = self.operands
            left = first.evaluate(values)
            if left is None:
                return None
            right = second.value if type(second) is Constant else second.evaluate(values)
            if right is None:
                return None
            if type(left) is not Interval and type(right) is not Interval:
                return self.function(left, right)
            return apply_to_bounds(_SIGNS[self.function], (left, right))
        operands = []
        for node in self.operands:
            operand = node.evaluate(values)
            if operand is None:
                return None
            operands.append(operand)
        if any(type(operand) is Interval for operand in operands):
            return apply_to_bounds(_SIGNS[self.function], operands)
        return self.function(*operands)


class Join(Struct, frozen=True):
    """`and` (`decisive` is False) or `or` (True): one operand of that value decides the result."""

    decisive: bool
    operands: tuple[Node, ...]

    def evaluate(self, values: Values) -> bool | None:
        any_unknown = False
        for operand in self.operands:
            truth = operand.evaluate(values)
            if truth is self.decisive:
                return truth
            if truth is None:
                any_unknown = True
            else:
                _truth(truth)
        return None if any_unknown else not self.decisive


class IsNone(Struct, frozen=True):
    """Tests that a value is unknown, or, if `expected` is False, that it is known."""

    operand: Node
    expected: bool

    def evaluate(self, values: Values) -> bool:
        return (self.operand.evaluate(values) is None) is self.expected


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
            KinspectError: a value has another kind than the condition needs. Only fields of
                mappings can have: the kind of everything else is checked on loading.
        """
        try:
            return self.root.evaluate(values)
        except (TypeError, OverflowError, RecursionError) as error:
            raise KinspectError(
                f"rule condition `{self.text}`: {error}",
                "compare each metric with a value of its kind",
            ) from error


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} is neither true nor false")


def _not(operand: Any) -> bool:
    return not _truth(operand)


def _divide(dividend: float, divisor: float) -> float | None:
    return dividend / divisor if divisor else None  # a share of nothing is unknown, not infinite


def _is_in(value: Any, choices: tuple[Any, ...]) -> bool:
    return value in choices


def _is_not_in(value: Any, choices: tuple[Any, ...]) -> bool:
    return value not in choices


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
"""Sign in a condition -> the function that `Apply` calls. No lambdas: expressions are pickled."""
_SIGNS: Mapping[Callable[..., Any], str] = MappingProxyType(
    {function: sign for sign, function in FUNCTIONS.items()}
)


def sign_of(node: Apply) -> str:
    """How a condition writes the function of a node."""
    return _SIGNS[node.function]
