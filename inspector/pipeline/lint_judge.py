"""What is kept of a kernel's report in a lint run: findings, and where comments may speak of them.

It may be made in another process than the one that gathers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..lint.budget import over_budget, unknown_metrics
from ..lint.engine import SourceText, evaluate
from ..lint.results import SEVERITIES, CheckedKernel
from ..model import Finding, KernelReport, LoopReport, SourceLoc
from . import analysis
from .lint_plan import Plan


class PlacedFinding(Struct, frozen=True):
    """A finding, with the places at which a comment may speak of it.

    Args:
        places: (file, line).
        of_kernel: whether it is about the kernel as a whole.
        setting: label of the setting that ignores the rule, or None.
    """

    finding: Finding
    places: tuple[tuple[str, int], ...]
    of_kernel: bool
    setting: str | None = None


class Judged(Struct, frozen=True):
    """What is kept of a report.

    Args:
        kernel: without findings yet.
        findings: its findings, the gravest first.
        source_lines: file -> lines that its code came from.
        overrides: indices of the overrides that match the kernel.
        unknown: metrics that a budget needs, with the budget's place, that are not known.
    """

    kernel: CheckedKernel
    findings: tuple[PlacedFinding, ...]
    source_lines: Mapping[str, frozenset[int]]
    overrides: tuple[int, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()


class Judge:
    """Asks a plan's rules of one report after the other; in several processes, too."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._read = analysis.source_reader()

    def __call__(self, report: KernelReport) -> Judged:
        """Judges a report; the findings that it brings along are not looked at."""
        plan = self._plan
        text = _source_text(report, self._read)
        matching = [
            (index, override)
            for index, override in enumerate(plan.overrides)
            if override.matches(report)
        ]
        findings = list(evaluate(plan.pack, report, text))
        budgets = {metric: (pack, o) for _, o in matching for metric, pack in o.budgets.items()}
        unknown = []
        for metric, (pack, override) in budgets.items():
            findings += over_budget(metric, pack, report, text)
            label = override.settings.label
            unknown += [(name, label) for name in unknown_metrics(pack, report)]
        severity = {id_: level for _, o in matching for id_, level in o.severity.items()}
        ignored = {id_: o.settings.label for _, o in matching for id_ in o.ignore}
        graded = by_severity(
            replace(f, severity=severity[f.rule]) if f.rule in severity else f for f in findings
        )
        kernel = _checked(report)
        return Judged(
            kernel,
            tuple(
                PlacedFinding(
                    finding,
                    tuple(_places(finding, report, kernel.artifact)),
                    plan.rules[finding.rule].text.scope == "kernel",
                    ignored.get(finding.rule),
                )
                for finding in graded
            ),
            _source_lines(report),
            tuple(index for index, _ in matching),
            tuple(unknown),
        )


def _checked(report: KernelReport) -> CheckedKernel:
    file = report.id.partition("::")[0]
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
        source=report.source,
        artifact=listing,
        findings=(),
        all_read=not report.unread,
    )


def _is_text(file: str) -> bool:
    from ..capture.targets import SUFFIXES

    return SUFFIXES.get(Path(file).suffix) == "asm" and Path(file).is_file()


def _source_text(report: KernelReport, read: SourceText) -> SourceText:
    """Source lines: as a saved report quotes them, else as they stand in the file now."""
    quoted = {
        (at.file, at.line): at.text
        for finding in report.findings
        for at in finding.locations
        if at.kind == "source" and at.text
    }

    def line_of(loc: SourceLoc) -> str | None:
        return quoted.get((loc.file, loc.line)) or read(loc)

    return line_of


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, gravest first; those of one severity keep their order."""
    return tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity)))


def _places(
    finding: Finding, report: KernelReport, listing: str | None
) -> Iterator[tuple[str, int]]:
    """Where a comment may speak of a finding: its own lines, and its loop's statement."""
    loops: dict[str, LoopReport] = {}
    for at in finding.locations:
        if at.line is None:
            continue
        if at.kind == "source" and at.file is not None:
            yield at.file, at.line
        elif at.kind == "amdgcn":
            if listing is not None:
                yield listing, at.line
            loop = _innermost(report.loops, at.line)
            if loop is not None:
                loops[loop.id] = loop
    for loop in loops.values():
        if loop.source:
            yield loop.source[0].file, loop.source[0].line  # the statement comes first
        if listing is not None:
            yield listing, loop.header_line


def _innermost(loops: Sequence[LoopReport], line: int) -> LoopReport | None:
    around = [o for o in loops if any(first <= line <= last for first, last in o.lines)]
    return max(around, key=lambda loop: loop.depth, default=None)


def _source_lines(report: KernelReport) -> dict[str, frozenset[int]]:
    """The source lines that a kernel's code came from, as far as its report names them."""
    lines_by_file: dict[str, set[int]] = {}
    places = [op.source for op in report.memory_ops] + [wait.source for wait in report.waits]
    places += [report.source, *(at for loop in report.loops for at in loop.source)]
    for place in {id(place): place for place in places}.values():  # one for many instructions
        at = place
        while at is not None:
            if at.in_library:
                break
            lines_by_file.setdefault(at.file, set()).add(at.line)
            at = at.inlined_at
    return {file: frozenset(lines) for file, lines in lines_by_file.items()}
