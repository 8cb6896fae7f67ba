"""The severity of findings and the order in which they are told: by what their cures save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..model import Finding
from ..model.time import LEAST, MUCH, Removal

_T = TypeVar("_T")

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""From the most to the least severe."""
SEVERITY_RANK: Mapping[Severity, int] = MappingProxyType(
    {severity: place for place, severity in enumerate(SEVERITIES)}
)
Price = Callable[[Removal], "float | None"]
"""Percent of a launch's time that goes with some work; None where that is not known."""
Place = tuple[bool, bool, float, int]
"""A place in the order of findings, the lowest first."""


class Savings(Struct, frozen=True):
    """What cures save of a launch's time: as it is simulated now, or as a report says.

    Args:
        price: says it of some work; None where the launch's time is not known.
        saved: percent, by a finding's fingerprint.
        of_rules: the most that a finding of a rule saves, percent, by the rule's id.
    """

    price: Price | None
    saved: Mapping[str, float]
    of_rules: Mapping[str, float]

    @classmethod
    def of(cls, price: Price | None, findings: Iterable[Finding]) -> Savings:
        """Savings by a price; without one, those that the findings of a report state."""
        saved: dict[str, float] = {}
        of_rules: dict[str, float] = {}
        for finding in findings:
            if finding.saves_percent is not None:
                saved[finding.fingerprint] = finding.saves_percent
                most = of_rules.get(finding.rule, 0.0)
                of_rules[finding.rule] = max(most, finding.saves_percent)
        return cls(price, saved, of_rules)

    @property
    def are_known(self) -> bool:
        """Whether some are."""
        return self.price is not None or bool(self.saved)

    def of_finding(self, finding: Finding, removal: Removal | None) -> float | None:
        """Percent of the launch that goes with a finding's work; None where it is not known."""
        if self.price is None:
            return self.saved.get(finding.fingerprint)
        return None if removal is None else self.price(removal)

    def of_rule(self, rule: str, removal: Removal | None) -> float | None:
        """The same before a finding is made of a rule's matches."""
        if self.price is None:
            return self.of_rules.get(rule)
        return None if removal is None else self.price(removal)


def saves_little(percent: float | None, *, is_stated: bool) -> bool:
    """Whether a cure saves too little for a finding, whose severity no pack states."""
    return percent is not None and percent < LEAST and not is_stated


def valued(finding: Finding, percent: float | None, *, is_stated: bool) -> Finding:
    """A finding with the percent of the launch that its cure saves, and the severity of that.

    `is_stated`: a pack states its severity, which then stays.
    """
    if percent is None:
        return finding
    is_small = saves_little(percent, is_stated=is_stated)
    doubt = f"it would save {percent:g} % of the launch" if is_small else ""
    severity: Severity = "warning" if percent >= MUCH else "info"
    return replace(
        finding,
        saves_percent=percent,
        severity=finding.severity if is_stated else severity,
        doubt=doubt,
    )


def place_in_order(severity: Severity, saves_percent: float | None) -> Place:
    """The place of a finding by its severity and by what its cure saves, the lowest first.

    Errors come first; then cures by what they save; those of which nobody knows it are last. What
    nobody has a time for goes by severity.
    """
    is_known = saves_percent is not None
    return severity != "error", not is_known, -(saves_percent or 0.0), SEVERITY_RANK[severity]


def rank(finding: Finding) -> Place:
    """The place of a finding among those of a kernel, the lowest first."""
    return place_in_order(finding.severity, finding.gain_percent)


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
