"""Keeps the figures of a run of `analyze` or `lint` in the history."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...lint.results import SEVERITIES, LintReport
from ...model import Finding, KernelReport, Report
from ...pipeline.reading import Transformed
from ...version import VERSION
from .analyses import AnalysedKernel, Analysis, analysed
from .store import History

E = TypeVar("E")

GIT_SECONDS = 10.0


class Noted(Struct, frozen=True):
    """The part of a report that the history stores, with the run's own result for it."""

    value: Any
    id: str
    kernel: AnalysedKernel
    units: Mapping[str, str]
    triton: str | None


class Noting(Struct, frozen=True):
    """Takes the history's figures of a report; a `transform` for any process."""

    judge: Callable[[KernelReport], Any]

    def __call__(self, report: KernelReport) -> Noted:
        kernel, units = analysed(report, _tally(report.findings))
        triton = report.variant.triton_version if report.variant is not None else None
        return Noted(
            value=self.judge(report), id=report.id, kernel=kernel, units=units, triton=triton
        )


class Keeper:
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

    def add(self, report: KernelReport) -> None:
        """Takes in one kernel."""
        self._take(Noting(_nothing)(report))

    def noting(self, judge: Callable[[KernelReport], Any]) -> Noting:
        """A function to replace `judge`: it also keeps the report's figures, for `watched`."""
        return Noting(judge)

    def watched(self, events: Iterable[Transformed | E]) -> Iterator[Transformed | E]:
        """The events of a run for which a `Noting` made something of each report.

        Takes in what it noted, and passes on what was made.
        """
        for event in events:
            if isinstance(event, Transformed):
                self._take(event.value)
                yield Transformed(event.order, event.value.value)
            else:
                yield event

    def _take(self, noted: Noted) -> None:
        self._kernels[noted.id] = noted.kernel
        self._units.update(noted.units)
        if noted.triton is not None:
            self._tritons[noted.triton] = None

    def keep_report(self, report: Report) -> int | None:
        """Writes a run of `analyze`; see `keep`."""
        for kernel in report.kernels:
            self.add(kernel)
        return self.keep(report.target)

    def keep_lint(self, report: LintReport) -> int | None:
        """Writes a run of `lint`, of which the kernels were taken in; see `keep`.

        Its findings, known ones included, stand in place of those that the reports had.
        """
        for checked in report.kernels:
            kernel = self._kernels.get(checked.id)
            if kernel is not None:
                counts = _tally((*checked.findings, *checked.known))
                self._kernels[checked.id] = replace(kernel, findings=counts)
        return self.keep(report.target)

    def keep(self, target: str) -> int | None:
        """Writes the run.

        Args:
            target: the target as the user named it.

        Returns:
            Its number in the history; None if there was no kernel.

        Raises:
            KinspectError: the history cannot be written.
        """
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


def _nothing(report: KernelReport) -> None:
    return None


def commit(folder: Path | None = None) -> str | None:
    """The commit that a folder's checkout stands at, with `+` where files differ from it.

    Returns:
        Ten digits or more; None outside of a checkout, or without git.
    """
    number = _git(folder, "rev-parse", "--short=10", "HEAD")
    if not number:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{number}+" if changed else number


def _git(folder: Path | None, *arguments: str) -> str | None:
    """Returns git's output; None if it fails, is missing or takes too long."""
    try:
        process = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None


def _tally(findings: Iterable[Finding]) -> dict[str, int]:
    severities = [f.severity for f in findings]
    return {severity: severities.count(severity) for severity in SEVERITIES}
