"""Makes the `LintReport` of a lint run from its events.

Runs the targets of a lint run, each kernel judged where it is analysed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..base import named_files
from ..capture.resolving import resolve, split
from ..capture.targets import kind_of
from ..lint.lint_results import CheckedKernel, LintReport
from ..lint.rule import NO_RULES
from ..model import ErrorRecord, KernelReport
from . import analysis
from .analysis_options import RESIDENT, AnalysisOptions
from .collecting import transformed_reports
from .events import Captured, Compiled, Failed, until_interrupted
from .jobs import Request, beside, timing, with_archs
from .lint_comments import Comments
from .lint_judge import Judged
from .lint_plan import LintPlan
from .reading import READ, Transformed

if TYPE_CHECKING:
    from ..lint.baseline import Baseline, Compared


LintEvent = Transformed | Captured | Compiled | Failed
"""An event of a run that `lint` takes."""
_MAX_NAMED = 5
"""How many kernels a note names at most."""


def lint(
    events: Iterable[LintEvent], request: Request, plan: LintPlan
) -> tuple[LintReport, Baseline | None]:
    """Makes the report of a run.

    Args:
        events: as they come; the value of a `Transformed` is a `Judged` of the same plan.

    Returns:
        The report, and the baseline to write; None if none is to be written.

    Raises:
        KinspectError: the request itself is wrong (no such file, unknown target).
        KeyboardInterrupt: interrupted before there was anything to report.
    """
    kernels = _Kernels(plan)
    errors: list[tuple[tuple[int, int], ErrorRecord]] = []
    notes: dict[str, None] = {}
    for event in until_interrupted(events):
        if isinstance(event, Transformed):
            kernels.add(event.order, event.value)
            if event.value.kernel.arch is None:
                errors.append((event.order, _no_target(event.value.kernel)))
        elif isinstance(event, Failed):
            errors.append((event.order, event.error))
        elif isinstance(event, Captured):
            notes.update(dict.fromkeys(event.notes))
    errors.sort(key=lambda item: item[0])
    failed = tuple(error for _, error in errors)
    left_out = named_files.left_out(sorted(kernels.comments.source_files))
    report = LintReport(
        target=" ".join(request.targets),
        tool=analysis.tool_versions(),
        packs=plan.packs,
        rules=plan.rules,
        fail_on=plan.fail_on,
        kernels=tuple(kernels.in_order()),
        errors=failed,
        unused=tuple(kernels.comments.unused(request, failed)),
        notes=(*plan.notes, *notes, *kernels.notes(), *filter(None, [left_out])),
    )
    if plan.accepted is None:
        return report, None
    return _with_baseline(report, plan, plan.accepted)


def _no_target(kernel: CheckedKernel) -> ErrorRecord:
    return ErrorRecord(
        file=kernel.file,
        kernel=kernel.name,
        stage="lint",
        message="the target is unknown: rules about waits, registers and occupancy were not asked",
        hint="pass --arch",
    )


def _with_baseline(
    report: LintReport, plan: LintPlan, accepted: Baseline
) -> tuple[LintReport, Baseline | None]:
    """Divides the findings into new and known ones; returns the baseline to write as well."""
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
        # Findings that are gone may be in the part that failed: the baseline keeps them.
        return replace(report, errors=(*report.errors, _update_refused(report))), None
    return _after_update(report, compared), updated(accepted, compared)


class _Kernels:
    """The kernels of a run and their findings."""

    def __init__(self, plan: LintPlan) -> None:
        self.comments = Comments(plan)
        self._plan = plan
        self._kernels: list[tuple[tuple[int, int], CheckedKernel]] = []
        self._matched_overrides: set[int] = set()
        self._unknown: Counter[tuple[str, str]] = Counter()  # (metric, budget) -> kernels

    def add(self, order: tuple[int, int], judged: Judged) -> None:
        """Adds a kernel, by its place in the run."""
        self._kernels.append((order, self.comments.apply(judged)))
        self._matched_overrides.update(judged.overrides)
        self._unknown.update(judged.unknown)

    def in_order(self) -> list[CheckedKernel]:
        """Returns the kernels in the order of the targets."""
        return [kernel for _, kernel in sorted(self._kernels, key=lambda item: item[0])]

    def notes(self) -> Iterator[str]:
        """Yields notes on what could not be judged, and on settings that match no kernel."""
        for (metric, label), count in sorted(self._unknown.items()):
            kernels = "1 kernel" if count == 1 else f"{count} kernels"
            yield f"{metric} is not known of {kernels}: the budget of {label} was not checked there"
        incomplete = [kernel.name for _, kernel in self._kernels if not kernel.all_read]
        if incomplete:
            listed = ", ".join(incomplete[:_MAX_NAMED]) + (
                ", …" if len(incomplete) > _MAX_NAMED else ""
            )
            yield (
                f"not all of the code was read of {listed}: nothing is concluded from the rest"
                " (`kinspect analyze` says what it is)"
            )
        unmatched = [
            override.settings
            for index, override in enumerate(self._plan.overrides)
            if index not in self._matched_overrides
        ]
        if unmatched and self._kernels:
            listed = ", ".join(f"{s.label} (match = {s.match!r})" for s in unmatched)
            yield f"no kernel of this run matches {listed}"


def _update_refused(report: LintReport) -> ErrorRecord:
    count = len(report.gone)
    return ErrorRecord(
        file=report.baseline,
        kernel=None,
        stage="baseline",
        message=f"not written: {count} of its findings were not found, but part of the run failed",
        hint="mend what failed, and update again",
    )


def _after_update(report: LintReport, compared: Compared) -> LintReport:
    """Returns the report after its findings were added to the baseline: all are known."""
    new_count = sum(len(kernel.findings) for kernel in report.kernels) - compared.worse
    gone_count = sum(entry.count for entry in compared.gone)
    note = f"{report.baseline}: findings: {new_count} added, {gone_count} removed"
    if compared.worse:
        note += f", {compared.worse} worse"
    if compared.unchecked:
        note += f"; {compared.unchecked} of kernels or rules not looked at stay"
    kernels = tuple(replace(k, findings=(), known=k.findings) for k in compared.found)
    return replace(report, kernels=kernels, gone=(), notes=(*report.notes, note))


_MOST_TARGETS = 1 << 32
"""More than a run has: the offset that sorts a later run's events behind an earlier one's."""
_FEW_RULES = 20
"""More of them read nearly all figures; to know which, each rule has to be compiled whole."""
_ARTIFACTS = frozenset({"amdgcn"})  # what findings point into


def analysis_for(
    plan: LintPlan, *, whole: bool = False, arguments: str | None = None
) -> AnalysisOptions:
    """How much of each kernel a plan needs to know.

    Args:
        plan: it judges each report: the analysis applies its rules where launches are timed, which
            says what cures save.
        whole: whether all metrics are needed: where they are kept, or cures are looked for.
    """
    few = len(plan.rules) <= _FEW_RULES
    asked = plan.asked if few and not whole else None
    options = AnalysisOptions(rules=NO_RULES, values=False, asked=asked)
    if not plan.needs_time:
        return options
    options = replace(options, rules=plan.pack, judges_all=False)
    if asked is not None:
        metrics = tuple(sorted({*asked.metrics, RESIDENT}))
        options = replace(options, asked=replace(asked, metrics=metrics))
    return timing(options, **beside(arguments))


def judged_events(
    request: Request, judge: Callable[[KernelReport], Any], archs: tuple[str, ...] = ()
) -> Iterator[LintEvent]:
    """Yields the events of a run, each report replaced by what `judge` makes of it.

    Args:
        archs: of the settings: what targets are compiled for if the request does not say. Saved
            code has its own arch.
    """
    if request.archs or not archs:
        yield from transformed_reports(request, judge, artifacts=_ARTIFACTS)
        return
    # Each group of adjacent compiled or saved targets, in the order of the command line.
    for number, (compiled, targets) in enumerate(groupby(request.targets, _is_compiled)):
        part = with_archs(replace(request, targets=tuple(targets)), archs if compiled else ())
        for event in transformed_reports(part, judge, artifacts=_ARTIFACTS):
            if isinstance(event, Transformed | Failed):
                index, number_in_target = event.order
                order = (index + number * _MOST_TARGETS, number_in_target)
                event = replace(event, order=order)
            yield event


def _is_compiled(text: str) -> bool:
    """Tells whether a target, or some file of a folder, is compiled; else it is saved code."""
    path, _ = split(text)
    if path.is_dir():
        return any(target.kind not in READ for target in resolve(text))
    kind = kind_of(path) if path.is_file() else None
    return kind is not None and kind not in READ
