"""Figures, each with its unit and origin.

Short names of figures, the same in budgets, the Python interface and the agent format.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from msgspec import Struct

from .numbers import Line, Real
from .source import SourceLoc

Origin = Literal["compiler", "derived", "estimated", "measured", "emulated"]
"""Where a figure comes from: read off the compiler's output, computed from what was read, resting
on a model, measured on a device, or counted while the code was executed by the emulator."""

Scalar = int | Real | str | bool | None
MetricValue = Scalar | Mapping[str, Scalar]
MetricKind = Literal["number", "text", "boolean", "mapping", "any"]


EVERYWHERE: Final = "*"


class CodePosition(Struct, frozen=True, gc=False, omit_defaults=True):
    """An expression of the source that a figure is about, and its instructions.

    Args:
        key: what names it in the figure's value: `at`, `shared_at`; "" where that is no mapping.
            With `EVERYWHERE` behind it: code that a cure shortens, in other loops as well.
        source: the user's own expression; None where the compiler does not tell.
        lines: its instructions that the figure is about, lines of the assembly; empty where they
            are not known.
        text: the mnemonic of the first of these.
    """

    key: str
    source: SourceLoc | None
    lines: tuple[Line, ...] = ()
    text: str = ""


class Metric(Struct, frozen=True, gc=False, omit_defaults=True):
    """A figure with its unit and origin. `note` says why a value is None or what it rests on.

    `positions` are those that its value names, and others of their kind.
    """

    name: str
    value: MetricValue
    unit: str
    origin: Origin
    note: str = ""
    positions: tuple[CodePosition, ...] = ()

    def __lt__(self, other: object) -> bool:
        return self._compared(operator.lt, other)

    def __le__(self, other: object) -> bool:
        return self._compared(operator.le, other)

    def __gt__(self, other: object) -> bool:
        return self._compared(operator.gt, other)

    def __ge__(self, other: object) -> bool:
        return self._compared(operator.ge, other)

    def _compared(self, compare: Callable[[Any, Any], bool], other: object) -> bool:
        """The comparison of its value.

        Raises:
            TypeError: it is unknown, or of another kind.
        """
        if self.value is None:
            raise TypeError(f"{self.name} is unknown{f': {self.note}' if self.note else ''}")
        return compare(self.value, other.value if isinstance(other, Metric) else other)


def value_of(metrics: Mapping[str, Metric], name: str) -> MetricValue:
    """A figure; None where it is unknown or the report lacks it."""
    metric = metrics.get(name)
    return metric.value if metric is not None else None


def int_of(metrics: Mapping[str, Metric], name: str) -> int | None:
    """A figure that is a whole number; None where it is something else, unknown or missing."""
    value = value_of(metrics, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number_of(metrics: Mapping[str, Metric], name: str) -> int | float | None:
    """A figure that is a number; None where it is something else, unknown or missing."""
    value = value_of(metrics, name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text_of(metrics: Mapping[str, Metric], name: str) -> str | None:
    """A figure that is a word; None where it is something else, unknown or missing."""
    value = value_of(metrics, name)
    return value if isinstance(value, str) else None


class MetricSpec(Struct, frozen=True):
    """One entry of the metrics catalogue. `name` may end in `.*` for a family.

    `keys` are those of a mapping that views read: a saved report's mapping without one is unknown.
    """

    name: str
    unit: str
    origin: Origin
    scope: Literal["kernel", "loop", "both", "instruction", "wait"]
    description: str
    keys: frozenset[str] = frozenset()

    @property
    def kind(self) -> MetricKind:
        """The kind of its values, which follows from the unit: numbers but for four units."""
        match self.unit:
            case "bool":
                return "boolean"
            case "name":
                return "text"
            case "mapping":
                return "mapping"
            case "":
                return "any"
            case _:
                return "number"


METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "time_us": "time.us",
        "vgprs": "vgpr_count",
        "agprs": "agpr_count",
        "sgprs": "sgpr_count",
        "vgpr_spills": "vgpr_spill_count",
        "sgpr_spills": "sgpr_spill_count",
        "waves_per_simd": "occupancy.waves_per_eu",
        "workgroups_per_cu": "occupancy.workgroups_per_cu",
        "limited_by": "occupancy.limiter",
        "instructions": "instruction_count",
    }
)
"""Short name -> the metric; `lds_bytes`, `scratch_bytes` and `code_bytes` are metrics' names."""


def metric_of(name: str) -> str:
    """The metric that a name means: its own, or that of a short one."""
    return METRICS.get(name, name)
