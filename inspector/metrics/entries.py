"""Entries of the metrics catalogue as tables: name -> `unit | meaning`.

Without a unit a metric is a mapping of several values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..model import MetricSpec, Origin

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
