"""A lint run: kernels' reports in, one light value for each out, and what became of each finding.

A report is large and a run may hold thousands: each is judged when it comes and only its findings
are kept. Comments are read from the source files that are there; the baseline is held against the
whole at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..lint.results import CheckedKernel, LintReport, Suppressed, Suppression
from ..model import ErrorRecord, Finding
from ..version import VERSION
from . import analysis
from .events import Captured, Compiled, Failed
from .jobs import MOST_TEXT_BYTES, Request
from .lint_judge import Judged, by_severity
from .lint_plan import Plan
from .reading import Made

if TYPE_CHECKING:
    from ..lint.baseline import Baseline, Compared
    from ..lint.suppress import Marks

Happened = Made | Captured | Compiled | Failed
"""What `lint` takes."""


def lint(
    events: Iterable[Happened], request: Request, plan: Plan
) -> tuple[LintReport, Baseline | None]:
    """Makes the report of a run.

    Args:
        events: of the run, as they come; what was made of each kernel is what a `Judge` of the same
            plan says of it.
        request: what it was asked to look at.
        plan: the rules.

    Returns:
        The report, and the baseline as it is to be written; None if it is not.

    Raises:
        KinspectError: the request itself is wrong (no such file, unknown target).
        KeyboardInterrupt: interrupted before there was anything to report.
    """
    gathered = _Gathered(plan)
    errors: list[tuple[tuple[int, int], ErrorRecord]] = []
    notes: dict[str, None] = {}
    try:
        for event in events:
            if isinstance(event, Made):
                gathered.add(event.order, event.value)
                if event.value.kernel.arch is None:
                    errors.append((event.order, _no_target(event.value.kernel)))
            elif isinstance(event, Failed):
                errors.append((event.order, event.error))
            elif isinstance(event, Captured):
                notes.update(dict.fromkeys(event.notes))
    except KeyboardInterrupt:
        # What was done by then is still a report; its last error says what is missing.
        if not errors:
            raise
    errors.sort(key=lambda item: item[0])
    failed = tuple(error for _, error in errors)
    report = LintReport(
        target=" ".join(request.targets),
        tool={"name": "kinspect", "version": VERSION, "analysis": str(analysis.ANALYSIS_VERSION)},
        packs=plan.packs,
        rules=plan.rules,
        fail_on=plan.fail_on,
        kernels=tuple(gathered.kernels()),
        errors=failed,
        unused=tuple(gathered.comments.unused(request, failed)),
        notes=(*plan.notes, *notes, *gathered.notes()),
    )
    return (report, None) if plan.accepted is None else _compared(report, plan, plan.accepted)


def _no_target(kernel: CheckedKernel) -> ErrorRecord:
    return ErrorRecord(
        kernel.file,
        kernel.name,
        "lint",
        "the target is unknown: rules about waits, registers and occupancy were not asked",
        "pass --arch",
    )


def _compared(
    report: LintReport, plan: Plan, accepted: Baseline
) -> tuple[LintReport, Baseline | None]:
    """The report held against the baseline, and what that is to be from now on."""
    from ..lint.baseline import compare, updated  # not for a run without one

    compared = compare(accepted, report.kernels, plan.rules.keys())
    report = replace(
        report,
        kernels=compared.kernels,
        baseline=str(plan.baseline),
        gone=tuple(e.fingerprint for e in compared.gone for _ in range(e.count)),
    )
    if not plan.update:
        return report, None
    if report.errors and compared.gone:
        # What has gone may stand in what failed: nothing that is known is thrown away unseen.
        return replace(report, errors=(*report.errors, _refused(report))), None
    return _accepted(report, compared), updated(accepted, compared)


_MOST_NAMED = 5


class _Gathered:
    """What is kept of the kernels as they come."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._kernels: list[tuple[tuple[int, int], CheckedKernel]] = []
        self._applied: set[int] = set()
        self._unknown: Counter[tuple[str, str]] = Counter()
        self.comments = Comments(plan)

    def add(self, order: tuple[int, int], judged: Judged) -> None:
        self._kernels.append((order, self.comments.applied(judged)))
        self._applied.update(judged.overrides)
        self._unknown.update(judged.unknown)

    def kernels(self) -> list[CheckedKernel]:
        """In the order of the targets."""
        return [k for _, k in sorted(self._kernels, key=lambda item: item[0])]

    def notes(self) -> Iterator[str]:
        """What could not be judged, and settings that speak of nothing: mistyped, perhaps."""
        for (metric, label), n in sorted(self._unknown.items()):
            kernels = "1 kernel" if n == 1 else f"{n} kernels"
            yield f"{metric} is not known of {kernels}: the budget of {label} was not checked there"
        partly = [kernel.name for _, kernel in self._kernels if not kernel.all_read]
        if partly:
            listed = ", ".join(partly[:_MOST_NAMED]) + (", …" if len(partly) > _MOST_NAMED else "")
            yield (
                f"not all of the code was read of {listed}: nothing is concluded from the rest"
                " (`kinspect analyze` says what it is)"
            )
        idle = [o.settings for n, o in enumerate(self._plan.overrides) if n not in self._applied]
        if idle and self._kernels:
            listed = ", ".join(f"{o.label} (match = {o.match!r})" for o in idle)
            yield f"no kernel of this run matches {listed}"


def _refused(report: LintReport) -> ErrorRecord:
    n = len(report.gone)
    return ErrorRecord(
        report.baseline,
        None,
        "baseline",
        f"not written: {n} of its findings were not found, but part of the run failed",
        "mend what failed, and update again",
    )


def _accepted(report: LintReport, compared: Compared) -> LintReport:
    """The report after its findings have been taken into the baseline."""
    new = sum(len(kernel.findings) for kernel in report.kernels)
    gone = sum(entry.count for entry in compared.gone)
    unseen_note = (
        f"; {compared.unseen} of kernels or rules not looked at stay" if compared.unseen else ""
    )
    note = f"{report.baseline}: findings: {new} added, {gone} removed{unseen_note}"
    kernels = tuple(
        replace(k, findings=(), known=by_severity((*k.known, *k.findings))) for k in report.kernels
    )
    return replace(report, kernels=kernels, gone=(), notes=(*report.notes, note))


# --------------------------------------------------------------------------- comments

_MARK = "kinspect:"


class Comments:
    """The suppressions of the files that a run's kernels came from."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names: dict[tuple[str, str], str | None] = {}
        self._marks: dict[str, Marks] = {}
        self._without: set[str] = set()
        self._used: dict[str, set[tuple[int, str]]] = {}
        self._lines: dict[str, set[int]] = {}

    def applied(self, judged: Judged) -> CheckedKernel:
        """A kernel with its findings, those left out apart."""
        kernel = judged.kernel
        headers = list(self._headers(kernel))
        for file, lines in judged.source_lines.items():
            name = self._look(file, kernel)
            if name is not None:
                self._lines.setdefault(name, set()).update(lines)
        for name, line in headers:
            self._lines.setdefault(name, set()).add(line)
        findings, left_out = [], []
        for placed in judged.findings:
            places = [(self._look(file, kernel), line) for file, line in placed.places]
            known_places = [(name, line) for name, line in places if name is not None]
            if placed.of_kernel:
                known_places += headers
            by = (
                self._match(placed.finding, known_places) if known_places else None
            ) or placed.setting
            if by is None:
                findings.append(placed.finding)
            else:
                left_out.append(Suppressed(placed.finding, by))
        return replace(kernel, findings=tuple(findings), suppressed=tuple(left_out))

    def _match(self, finding: Finding, places: Sequence[tuple[str, int]]) -> Suppression | None:
        from ..lint.suppress import match

        text = self._plan.rules[finding.rule].text
        return match((text.id, text.name), places, self._marks, self._used)

    def unused(self, request: Request, errors: Sequence[ErrorRecord]) -> Iterator[Suppression]:
        """The suppressions that left nothing out, by file and line."""
        if not self._marks:
            return
        from ..lint.suppress import Coverage, unused

        rule_names = {n for r in self._plan.rules.values() for n in (r.text.id, r.text.name)}
        whole = _whole(request, errors)
        for name, marks in sorted(self._marks.items()):
            yield from unused(
                marks,
                self._used.get(name, set()),
                Coverage(_below(name, whole), frozenset(self._lines.get(name, ()))),
                rule_names,
                self._plan.words.unnamed,
                narrowed=self._plan.narrowed,
            )

    def _headers(self, kernel: CheckedKernel) -> Iterator[tuple[str, int]]:
        """The lines by which the kernel as a whole is meant."""
        places = [(kernel.source.file, kernel.source.line)] if kernel.source is not None else []
        for file, line in (*places, *([(kernel.file, None)] if _own_listing(kernel) else [])):
            name = self._look(file, kernel)
            if name is not None:
                yield from ((name, n) for n in self._marks[name].header(line, kernel.name))

    def _look(self, file: str, kernel: CheckedKernel) -> str | None:
        """Reads a file's comments, once; its name from here, None where there are none.

        Only what users write is read: not the compiler's own listings.
        """
        key = (file, kernel.file)
        if key not in self._names:
            own = file != kernel.artifact or _own_listing(kernel)
            name = _local_name(file, kernel.file) if own else None
            self._names[key] = name if name is not None and self._has_marks(name) else None
        return self._names[key]

    def _has_marks(self, name: str) -> bool:
        if name not in self._marks and name not in self._without:
            marks = _marks(name)
            if marks is None:
                self._without.add(name)
            else:
                self._marks[name] = marks
        return name in self._marks


def _own_listing(kernel: CheckedKernel) -> bool:
    """Whether the assembly is the user's file, not one that the compiler made on the way."""
    return kernel.artifact is not None and kernel.artifact == kernel.file


def _local_name(file: str, named: str) -> str | None:
    """A source file's name from here; None where there is none.

    A report that was saved in another checkout names the files of that; the same file here is the
    one by which its target was named.
    """
    for name in (file, named) if file.endswith(f"/{named}") else (file,):
        try:
            if Path(name).is_file():
                return analysis.portable(name)
        except (OSError, ValueError):
            continue
    return None


def _marks(name: str) -> Marks | None:
    try:
        if Path(name).stat().st_size > MOST_TEXT_BYTES:
            return None
        text = Path(name).read_text("utf-8", "replace")
    except OSError:
        return None  # not readable: it asks for nothing
    if _MARK not in text:
        return None
    from ..lint.suppress import NO_MARKS, in_text

    marks = in_text(text, name)
    return None if marks == NO_MARKS else marks


def _whole(request: Request, errors: Sequence[ErrorRecord]) -> list[Path]:
    """The files and folders that a run has looked at without leaving anything out."""
    if request.kernel is not None:
        return []
    failed = {Path(e.file).resolve() for e in errors if e.file}
    paths = [Path(text).resolve() for text in request.targets if "::" not in text]
    return [p for p in paths if not any(p == f or p in f.parents for f in failed)]


def _below(file: str, targets: Sequence[Path]) -> bool:
    path = Path(file).resolve()
    return any(path == target or target in path.parents for target in targets)
