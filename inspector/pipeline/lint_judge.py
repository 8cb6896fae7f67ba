"""A report reduced to its findings and the places where comments may ignore them.

Applies the comments that suppress findings, in the source files of a lint run's kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..base import named_files
from ..explain.view import target_of
from ..lint.budget import over_budget, unknown_metrics
from ..lint.engine import evaluate
from ..lint.finding_places import SourceText
from ..lint.lint_results import CheckedKernel, Suppressed, Suppression
from ..lint.ranking import in_order
from ..lint.rule import Rule
from ..lint.worsening import WeighedFigure, figures_of
from ..metrics.given_metrics import US
from ..model import ErrorRecord, Finding, KernelReport, LoopReport, SourceLoc
from . import analysis
from .inputs import MOST_TEXT_BYTES
from .jobs import Request
from .lint_plan import LintPlan, Override
from .naming import portable
from .source_positions import source_positions

if TYPE_CHECKING:
    from ..lint.suppress import Marks


ToTry = Callable[[KernelReport, Sequence[Finding]], frozenset[str]]
"""Tells the fingerprints of those findings for which `kinspect try` compiles something."""


class PlacedFinding(Struct, frozen=True):
    """A finding, with the places at which a comment may ignore it.

    Args:
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
        findings, budgets, unknown = self._findings(report, overrides)
        severity = {r: level for override in overrides for r, level in override.severity.items()}
        ignored = {r: override.settings.label for override in overrides for r in override.ignore}
        graded = in_order(
            replace(finding, severity=severity.get(finding.rule, finding.severity))
            for finding in findings
        )
        kernel = _checked_kernel(report)
        if self._to_try is not None:
            kernel = replace(kernel, to_try=self._to_try(report, graded))
        if plan.accepted is not None:
            rules = {f.fingerprint: budgets.get(f.fingerprint, plan.rules[f.rule]) for f in graded}
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
        """Applies the rules, and the budgets of the overrides; of one metric's the last counts."""
        text = _source_text(report, self._read)
        findings = list(evaluate(self._plan.pack, report, text))
        budgets = {
            metric: (pack, override.settings.label)
            for override in overrides
            for metric, pack in override.budgets.items()
        }
        unknown = []
        rules: dict[str, Rule] = {}
        for metric, (pack, label) in budgets.items():
            exceeded = over_budget(metric, pack, report, text)
            rules.update((finding.fingerprint, pack.rules[0]) for finding in exceeded)
            findings += exceeded
            unknown += [(name, label) for name in unknown_metrics(pack, report)]
        return findings, rules, unknown


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


_MARK = "kinspect:"
"""Stands in every comment that suppresses; `lint.suppress` is imported for files that have it."""


class Comments:
    """The suppressions of the files that a run's kernels came from."""

    def __init__(self, plan: LintPlan) -> None:
        self._plan = plan
        self._local_names: dict[tuple[str, str], str | None] = {}  # of files with suppressions
        self._marks: dict[str, Marks] = {}  # file -> its suppressions
        self._without_marks: set[str] = set()  # files that were read and have none
        self._used: dict[str, set[tuple[int, str]]] = {}  # file -> (line, rule) that left one out
        self._covered_lines: dict[str, set[int]] = {}  # file -> lines that kernels came from

    def apply(self, judged: Judged) -> CheckedKernel:
        """Returns the kernel with its findings; those that are suppressed are apart."""
        kernel = judged.kernel
        headers = list(self._header_lines(kernel))
        for file, lines in judged.source_lines.items():
            name = self._local_name(file, kernel)
            if name is not None:
                self._covered_lines.setdefault(name, set()).update(lines)
        for name, line in headers:
            self._covered_lines.setdefault(name, set()).add(line)
        findings, suppressed = [], []
        for placed in judged.findings:
            suppression = self._suppression_of(placed, kernel, headers) or placed.setting
            if suppression is None:
                findings.append(placed.finding)
            else:
                suppressed.append(Suppressed(placed.finding, suppression))
        return replace(kernel, findings=tuple(findings), suppressed=tuple(suppressed))

    @property
    def source_files(self) -> set[str]:
        """The files that the kernels so far name as their source."""
        return {file for file, _ in self._local_names}

    def unused(self, request: Request, errors: Sequence[ErrorRecord]) -> Iterator[Suppression]:
        """Yields the suppressions that suppressed nothing, by file and line.

        Args:
            errors: what it could not look at: suppressions there may have a use.
        """
        if not self._marks:
            return
        from ..lint.suppress import Coverage, unused

        rule_names = {n for r in self._plan.rules.values() for n in (r.text.id, r.text.name)}
        analysed = _analysed_paths(request, errors)
        for name, marks in sorted(self._marks.items()):
            yield from unused(
                marks,
                self._used.get(name, set()),
                Coverage(_is_below(name, analysed), frozenset(self._covered_lines.get(name, ()))),
                rule_names,
                self._plan.words.unnamed,
                narrowed=self._plan.narrowed,
            )

    def _suppression_of(
        self, placed: PlacedFinding, kernel: CheckedKernel, headers: Sequence[tuple[str, int]]
    ) -> Suppression | None:
        """Returns the comment that suppresses a finding; None if there is none."""
        places = []
        for file, line in placed.places:
            name = self._local_name(file, kernel)
            if name is not None:
                places.append((name, line))
        if placed.of_kernel:
            places += headers
        return self._match(placed.finding, places) if places else None

    def _match(self, finding: Finding, places: Sequence[tuple[str, int]]) -> Suppression | None:
        from ..lint.suppress import match

        rule = self._plan.rules[finding.rule].text
        return match((rule.id, rule.name), places, self._marks, self._used)

    def _header_lines(self, kernel: CheckedKernel) -> Iterator[tuple[str, int]]:
        """Yields (file, line) where a comment applies to the kernel as a whole."""
        places: list[tuple[str, int | None]] = []
        if kernel.source is not None:
            places.append((kernel.source.file, kernel.source.line))
        if _is_users_assembly(kernel):
            places.append((kernel.file, None))
        for file, line in places:
            name = self._local_name(file, kernel)
            if name is not None:
                yield from ((name, n) for n in self._marks[name].header(line, kernel.name))

    def _local_name(self, file: str, kernel: CheckedKernel) -> str | None:
        """Returns the name of a file on this machine if it has suppressions; else None."""
        key = (file, kernel.file)
        if key not in self._local_names:
            readable = file != kernel.artifact or _is_users_assembly(kernel)
            name = _existing_name(file, kernel.file) if readable else None
            self._local_names[key] = name if name is not None and self._has_marks(name) else None
        return self._local_names[key]

    def _has_marks(self, name: str) -> bool:
        """Tells whether a file has suppressions; reads it the first time."""
        if name not in self._marks and name not in self._without_marks:
            marks = _read_marks(name)
            if marks is None:
                self._without_marks.add(name)
            else:
                self._marks[name] = marks
        return name in self._marks


def _is_users_assembly(kernel: CheckedKernel) -> bool:
    """Tells whether the assembly is the user's own file, not the output of a compile."""
    return kernel.artifact is not None and kernel.artifact == kernel.file


def _existing_name(file: str, target: str) -> str | None:
    """Returns the name of a source file on this machine; None if it is not there."""
    for name in (file, target) if file.endswith(f"/{target}") else (file,):
        if named_files.is_named(name):
            return portable(name)
    return None


def _read_marks(name: str) -> Marks | None:
    """Returns the suppressions in a file; None if there are none, or it cannot be read."""
    text = named_files.named_text(name, MOST_TEXT_BYTES)
    if text is None or _MARK not in text:
        return None
    from ..lint.suppress import NO_MARKS, in_text

    marks = in_text(text, name)
    return None if marks == NO_MARKS else marks


def _analysed_paths(request: Request, errors: Sequence[ErrorRecord]) -> list[Path]:
    """Returns the files and folders of which a run has analysed everything."""
    if request.kernel is not None:
        return []
    failed = {Path(error.file).resolve() for error in errors if error.file}
    paths = [Path(target).resolve() for target in request.targets if "::" not in target]
    return [
        path
        for path in paths
        if not any(path == failure or path in failure.parents for failure in failed)
    ]


def _is_below(file: str, paths: Sequence[Path]) -> bool:
    """Tells whether a file is one of these paths or in one of these folders."""
    resolved = Path(file).resolve()
    return any(resolved == path or path in resolved.parents for path in paths)
