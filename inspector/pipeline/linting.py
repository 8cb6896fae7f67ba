"""Makes the `LintReport` of a lint run from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..base import named_files
from ..lint.results import CheckedKernel, LintReport
from ..model import ErrorRecord
from . import analysis
from .events import Captured, Compiled, Failed
from .jobs import Request
from .lint_comments import Comments
from .lint_judge import Judged
from .lint_plan import LintPlan
from .reading import Transformed

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
    try:
        for event in events:
            if isinstance(event, Transformed):
                kernels.add(event.order, event.value)
                if event.value.kernel.arch is None:
                    errors.append((event.order, _no_target(event.value.kernel)))
            elif isinstance(event, Failed):
                errors.append((event.order, event.error))
            elif isinstance(event, Captured):
                notes.update(dict.fromkeys(event.notes))
    except KeyboardInterrupt:
        # The results so far are still a report; its last error says what is missing.
        if not errors:
            raise
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
