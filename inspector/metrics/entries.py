"""Entries of the metrics catalogue, and metrics made by them.

A table of entries has `unit | meaning` by name. Without a unit a metric is a mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ..model import Metric, MetricSpec, MetricValue, Origin

Keys = Mapping[str, frozenset[str]]
"""Metric -> the keys of its mapping that views read."""
_NO_KEYS: Keys = {}


def of_kernels(
    table: Mapping[str, str], origin: Origin = "derived", keys: Keys = _NO_KEYS
) -> tuple[MetricSpec, ...]:
    """Entries of metrics of kernels."""
    return _entries("kernel", table, origin, keys)


def of_loops(
    table: Mapping[str, str], origin: Origin = "derived", keys: Keys = _NO_KEYS
) -> tuple[MetricSpec, ...]:
    """Entries of metrics of loops."""
    return _entries("loop", table, origin, keys)


def of_both(
    table: Mapping[str, str], origin: Origin = "derived", keys: Keys = _NO_KEYS
) -> tuple[MetricSpec, ...]:
    """Entries of metrics of kernels and loops."""
    return _entries("both", table, origin, keys)


def _entries(
    scope: Literal["kernel", "loop", "both"], table: Mapping[str, str], origin: Origin, keys: Keys
) -> tuple[MetricSpec, ...]:
    entries = []
    for name, text in table.items():
        unit, separator, meaning = text.partition("| ")
        unit, meaning = (unit.strip(), meaning) if separator else ("mapping", text)
        entries.append(MetricSpec(name, unit, origin, scope, meaning, keys.get(name, frozenset())))
    return tuple(entries)


class Unknown(str):
    """Why a metric has no value."""


NO_TTGIR = Unknown("needs the kernel's TTGIR")
NOT_IN_TRITON = Unknown("not looked for in Triton's code")
NO_CODE = Unknown("no code was read")


def metric_of(spec: MetricSpec, found: MetricValue | Unknown) -> Metric:
    """The metric of an entry, by its value or why it has none."""
    if isinstance(found, Unknown):
        return Metric(spec.name, None, spec.unit, spec.origin, str(found))
    return Metric(spec.name, found, spec.unit, spec.origin)


def unknown(specs: Sequence[MetricSpec], why: str) -> Iterator[Metric]:
    """The metrics of some entries, none of which has a value."""
    return (metric_of(spec, Unknown(why)) for spec in specs)
