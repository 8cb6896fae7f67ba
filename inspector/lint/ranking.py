"""The order in which findings are told: what matters most if true, then what its cure may save."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ..model import Finding

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""From the most to the least severe."""
SEVERITY_RANK: Mapping[Severity, int] = MappingProxyType(
    {severity: place for place, severity in enumerate(SEVERITIES)}
)
WORTHWHILE = 10.0
"""Percent: a cure that saves less at most comes after those whose saving nothing bounds."""


def saving_rank(saves_percent: float | None) -> tuple[int, float]:
    """Sorts cures: the largest savings first, then those without a bound, then small savings."""
    if saves_percent is None:
        return (1, 0.0)
    return (0 if saves_percent >= WORTHWHILE else 2, -saves_percent)


def rank(finding: Finding) -> tuple[int, int, float]:
    """The place of a finding among those of a kernel, the lowest first."""
    return (SEVERITY_RANK[finding.severity], *saving_rank(finding.saves_percent))
