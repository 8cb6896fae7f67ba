"""Writes the figures of a run of `analyze` or `lint` into the history.

Reports are large: a process that reads targets for `lint` sends back only what a transform makes
of each report. So the history's figures are taken in that process as well, by `WithHistoryFigures`,
and travel with lint's own result; `HistoryRecorder.record_events` parts the two again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...base.version import VERSION
from ...lint.ranking import SEVERITIES
from ...lint.results import LintReport
from ...model import Finding, KernelReport, Report
from ...pipeline.reading import Transformed
from .analyses import AnalysedKernel, Analysis, analysed
from .git import commit
from .store import History

E = TypeVar("E")
R = TypeVar("R")


class HistoryFigures(Struct, frozen=True):
    """The part of a kernel's report that the history stores."""

    report_id: str
    kernel: AnalysedKernel
    units: Mapping[str, str]  # metric -> unit, of those figures
    triton: str | None  # version of the Triton that compiled it; None where none did


class ResultWithFigures(Struct, Generic[R], frozen=True):
    """What a run makes of a report, and the history's figures of the same report."""

    result: R
    figures: HistoryFigures


class WithHistoryFigures(Struct, Generic[R], frozen=True):
    """A transform of reports that calls another one and takes the history's figures besides."""

    transform: Callable[[KernelReport], R]

    def __call__(self, report: KernelReport) -> ResultWithFigures[R]:
        return ResultWithFigures(self.transform(report), history_figures(report))


def history_figures(report: KernelReport) -> HistoryFigures:
    """Takes what the history stores from a report."""
    kernel, units = analysed(report, _count_by_severity(report.findings))
    triton = report.variant.triton_version if report.variant is not None else None
    return HistoryFigures(report_id=report.id, kernel=kernel, units=units, triton=triton)


class HistoryRecorder:
    """Collects the history's figures of a run, kernel by kernel, and writes them at the end.

    The file is opened once before the run, so that a damaged one is an error before the work.

    Args:
        command: `analyze` or `lint`.
        label: the user's name for the run; None for the commit of the current folder.
        history: None for the user's own.

    Raises:
        KinspectError: the history cannot be used.
    """

    def __init__(
        self, command: str, label: str | None = None, history: History | None = None
    ) -> None:
        self._history = history or History()
        self._history.check_readable()
        self._command = command
        self._label = label or commit()
        self._kernels: dict[str, AnalysedKernel] = {}
        self._units: dict[str, str] = {}
        self._tritons: dict[str, None] = {}

    def record_events(self, events: Iterable[Transformed | E]) -> Iterator[Transformed | E]:
        """Collects the figures of each kernel as its event passes.

        Args:
            events: of a run whose transform is a `WithHistoryFigures`.

        Yields:
            The events as that transform's own `transform` would have made them.
        """
        for event in events:
            if isinstance(event, Transformed):
                with_figures: ResultWithFigures[object] = event.value
                self._add(with_figures.figures)
                yield Transformed(event.order, with_figures.result)
            else:
                yield event

    def write_report(self, report: Report) -> int | None:
        """Writes a run of `analyze`; returns and raises as `_write` does."""
        for kernel in report.kernels:
            self._add(history_figures(kernel))
        return self._write(report.target)

    def write_lint(self, report: LintReport) -> int | None:
        """Writes a run of `lint` whose events were recorded; returns and raises as `_write` does.

        Its findings, known ones included, stand in place of those that the reports had.
        """
        for checked in report.kernels:
            kernel = self._kernels.get(checked.id)
            if kernel is not None:
                counts = _count_by_severity((*checked.findings, *checked.known))
                self._kernels[checked.id] = replace(kernel, findings=counts)
        return self._write(report.target)

    def _add(self, figures: HistoryFigures) -> None:
        """Adds a kernel to the run; a later report of the same id replaces it."""
        self._kernels[figures.report_id] = figures.kernel
        self._units.update(figures.units)
        if figures.triton is not None:
            self._tritons[figures.triton] = None

    def _write(self, target: str) -> int | None:
        """Writes the run."""
        return self._history.add_analysis(
            Analysis(
                date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                label=self._label,
                command=self._command,
                target=target,
                versions={"kinspect": VERSION, "triton": ", ".join(self._tritons) or None},
                units=self._units,
                kernels=tuple(self._kernels.values()),
            )
        )


def _count_by_severity(findings: Iterable[Finding]) -> dict[str, int]:
    """Severity -> number of findings; every severity has an entry."""
    severities = [finding.severity for finding in findings]
    return {severity: severities.count(severity) for severity in SEVERITIES}
