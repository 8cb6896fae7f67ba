"""The order in which findings are told: what matters most if true, then what its cure may save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeVar

from ..model import Finding

_T = TypeVar("_T")

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""From the most to the least severe."""
SEVERITY_RANK: Mapping[Severity, int] = MappingProxyType(
    {severity: place for place, severity in enumerate(SEVERITIES)}
)
WORTHWHILE = 20.0
"""Percent: a cure that saves less at most comes after those whose saving nothing bounds."""

LEAST = 1.0
"""Percent: a warning or note whose cure saves less at most is not told."""

Place = tuple[bool, int, float, int]
"""A place in the order of findings, the lowest first."""


def place_in_order(severity: Severity, saves_percent: float | None) -> Place:
    """The place of a finding by its severity and by what its cure saves at most, the lowest first.

    Errors come first. Warnings and notes are one order: the largest savings, then cures whose
    saving nothing bounds, then small savings; where these are equal, warnings before notes. A note
    that may save four fifths of the time is worth more than a warning of a tenth.
    """
    if saves_percent is None:
        kind, saving = 1, 0.0
    else:
        kind, saving = (0 if saves_percent >= WORTHWHILE else 2), -saves_percent
    return severity != "error", kind, saving, SEVERITY_RANK[severity]


def is_worth_telling(severity: Severity, saves_percent: float | None, least: float) -> bool:
    """Whether a finding is told, by what its cure saves at most (None: nothing bounds it).

    What takes no time of the slowest unit is true and of no use. Errors are told in any case.
    """
    return severity == "error" or saves_percent is None or saves_percent >= least


def rank(finding: Finding) -> Place:
    """The place of a finding among those of a kernel, the lowest first."""
    return place_in_order(finding.severity, finding.saves_percent)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """A kernel's findings by rank, those of one rank in the order that they come in.

    What repeats a rule and remedy stands behind the others, as `repetitions_last` has it.
    """
    return repetitions_last(sorted(findings, key=rank), lambda finding: finding)


def repetitions_last(items: Iterable[_T], finding_of: Callable[[_T], Finding]) -> list[_T]:
    """Moves what repeats a rule and remedy behind all others; errors stay before all else.

    One remedy takes one of the first places, however many loops and accesses it would mend.
    """
    seen: set[tuple[str, str]] = set()
    placed: list[tuple[bool, bool, _T]] = []
    for item in items:
        finding = finding_of(item)
        cure = finding.rule, finding.fix
        placed.append((finding.severity != "error", cure in seen, item))
        seen.add(cure)
    return [item for *_, item in sorted(placed, key=lambda entry: entry[:2])]
