"""What conditions are translated into: small trees that are evaluated over known values.

Metrics can be unknown (None). Anything computed from an unknown is unknown, `and`, `or` and `not`
follow Kleene's three-valued logic, and a condition that stays unknown decides nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from ..errors import KinspectError
from ..model import MetricValue
from .bounds import Interval, apply
from .catalogue import Kind

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
            return apply(_SIGNS[self.function], operands)
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
