"""A report reduced to its findings and the places where comments may ignore them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..explain.view import target_of
from ..lint.budget import over_budget, unknown_metrics
from ..lint.engine import evaluate
from ..lint.finding_places import SourceText
from ..lint.lint_results import CheckedKernel
from ..lint.ranking import in_order
from ..lint.rule import Rule
from ..lint.worsening import WeighedFigure, figures_of
from ..metrics.given_metrics import US
from ..model import Finding, KernelReport, LoopReport, SourceLoc
from . import analysis
from .lint_plan import LintPlan, Override
from .source_positions import source_positions

ToTry = Callable[[KernelReport, Sequence[Finding]], frozenset[str]]
"""Tells the fingerprints of those findings for which `kinspect try` compiles something."""


class PlacedFinding(Struct, frozen=True):
    """A finding, with the places at which a comment may ignore it.

    Args:
        places: of each the file and the line.
        of_kernel: whether its rule speaks of the kernel as a whole, as a comment above that does.
        setting: label of the setting that ignores the rule; None if none does.
    """

    finding: Finding
    places: tuple[tuple[str, int], ...]
    of_kernel: bool
    setting: str | None = None


class Judged(Struct, frozen=True):
    """The part of a report that a lint run needs.

    Args:
        source_lines: file -> lines that its code came from.
        overrides: indices of those of the plan that apply to it.
        unknown: unknown metrics that a budget needs, each with the label of the budget's setting.
    """

    kernel: CheckedKernel
    findings: tuple[PlacedFinding, ...]
    source_lines: Mapping[str, frozenset[int]]
    overrides: tuple[int, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()


class Judge:
    """Applies the rules of a plan to reports; can be used in several processes."""

    def __init__(self, plan: LintPlan, to_try: ToTry | None = None) -> None:
        self._plan = plan
        self._to_try = to_try
        self._read = analysis.source_reader()

    def __call__(self, report: KernelReport) -> Judged:
        """Applies the rules to a report; the findings in the report itself are not used."""
        plan = self._plan
        indices = [i for i, override in enumerate(plan.overrides) if override.matches(report)]
        overrides = [plan.overrides[index] for index in indices]
        findings, rules, unknown = self._findings(report, overrides)
        graded = _graded(findings, overrides)
        ignored = {
            id_: override.settings.label for override in overrides for id_ in override.ignore
        }
        kernel = _checked_kernel(report)
        if self._to_try is not None:
            kernel = replace(kernel, to_try=self._to_try(report, graded))
        if plan.accepted is not None:
            kernel = replace(kernel, figures=_figures(report, graded, rules))
        return Judged(
            kernel=kernel,
            findings=tuple(
                PlacedFinding(
                    finding=finding,
                    places=tuple(_places(finding, report, kernel.artifact)),
                    of_kernel=plan.rules[finding.rule].text.scope == "kernel",
                    setting=ignored.get(finding.rule),
                )
                for finding in graded
            ),
            source_lines=_source_lines(report),
            overrides=tuple(indices),
            unknown=tuple(unknown),
        )

    def _findings(
        self, report: KernelReport, overrides: Sequence[Override]
    ) -> tuple[list[Finding], dict[str, Rule], list[tuple[str, str]]]:
        """Applies the rules, and the budgets of the overrides; of one metric's the last counts.

        Returns:
            The findings; fingerprint -> rule of each; see `Judged.unknown`.
        """
        text = _source_text(report, self._read)
        findings = list(evaluate(self._plan.pack, report, text))
        rules = {finding.fingerprint: self._plan.rules[finding.rule] for finding in findings}
        budgets = {
            metric: (pack, override.settings.label)
            for override in overrides
            for metric, pack in override.budgets.items()
        }
        unknown = []
        for metric, (pack, label) in budgets.items():
            exceeded = over_budget(metric, pack, report, text)
            rules.update((finding.fingerprint, pack.rules[0]) for finding in exceeded)
            findings += exceeded
            unknown += [(name, label) for name in unknown_metrics(pack, report)]
        return findings, rules, unknown


def _graded(findings: Sequence[Finding], overrides: Sequence[Override]) -> list[Finding]:
    """The findings in order, with the severities of the overrides; the last one counts."""
    severity = {id_: level for override in overrides for id_, level in override.severity.items()}
    return in_order(
        replace(finding, severity=severity.get(finding.rule, finding.severity))
        for finding in findings
    )


def _figures(
    report: KernelReport, findings: Sequence[Finding], rules: Mapping[str, Rule]
) -> dict[str, tuple[WeighedFigure, ...]]:
    """Fingerprint -> how bad a finding is; `rules` has the rule of each."""
    time = report.metrics[US].value if US in report.metrics else None
    time_us = float(time) if isinstance(time, int | float) else None
    return {f.fingerprint: figures_of(f, rules[f.fingerprint], time_us) for f in findings}


def _checked_kernel(report: KernelReport) -> CheckedKernel:
    """Returns the kernel of a report, without findings."""
    file = report.file
    artifact = report.artifacts.get("amdgcn")
    if artifact is not None:
        listing: str | None = str(artifact.path)
    else:
        # Without a variant it was read, not compiled: the file is the assembly, or has none.
        listing = file if report.variant is None and _is_text(file) else None
    return CheckedKernel(
        id=report.id,
        name=report.name,
        case=report.variant.case if report.variant is not None else None,
        arch=report.arch,
        file=file,
        target=target_of(report),
        source=report.source,
        artifact=listing,
        findings=(),
        all_read=not report.unread,
    )


def _is_text(file: str) -> bool:
    from ..capture.targets import SUFFIXES

    return SUFFIXES.get(Path(file).suffix) == "asm" and Path(file).is_file()


def _source_text(report: KernelReport, read: SourceText) -> SourceText:
    """Returns a reader of source lines: as a saved report quotes them, else from the file."""
    quoted = {
        (location.file, location.line): location.text
        for finding in report.findings
        for location in finding.locations
        if location.kind == "source" and location.text
    }

    def line_of(loc: SourceLoc) -> str | None:
        return quoted.get((loc.file, loc.line)) or read(loc)

    return line_of


def _places(
    finding: Finding, report: KernelReport, listing: str | None
) -> Iterator[tuple[str, int]]:
    """Yields the lines at which a comment may ignore a finding: its own, and its loop's header."""
    loops: dict[str, LoopReport] = {}
    for location in finding.locations:
        if location.line is None:
            continue
        if location.kind == "source" and location.file is not None:
            yield location.file, location.line
        elif location.kind == "amdgcn":
            if listing is not None:
                yield listing, location.line
            loop = _innermost(report.loops, location.line)
            if loop is not None:
                loops[loop.id] = loop
    for loop in loops.values():
        if loop.source:
            yield loop.source[0].file, loop.source[0].line  # the statement comes first
        if listing is not None:
            yield listing, loop.header.line


def _innermost(loops: Sequence[LoopReport], line: int) -> LoopReport | None:
    enclosing = [loop for loop in loops if any(first <= line <= last for first, last in loop.lines)]
    return max(enclosing, key=lambda loop: loop.depth, default=None)


def _source_lines(report: KernelReport) -> dict[str, frozenset[int]]:
    """Returns file -> source lines that a kernel's code came from, where the report has them."""
    lines_by_file: dict[str, set[int]] = {}
    for location in source_positions(report):
        lines_by_file.setdefault(location.file, set()).add(location.line)
    return {file: frozenset(lines) for file, lines in lines_by_file.items()}
