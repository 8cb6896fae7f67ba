"""Writes the figures of a run of `analyze` or `lint` into the history.

Reports are large: a process that reads targets for `lint` sends back only what a transform makes
of each report. So the history's figures are taken in that process as well, by `WithHistoryFigures`,
and travel with lint's own result; `HistoryRecorder.record_events` parts the two again.

The git commit of a folder, which names a run in the history where the user gives no label.

A checkout's own configuration may name commands: filters, hooks, monitors, transports. None of them
is run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...base.lifetimes import run_to_end
from ...base.programs import absolute_folders, find_program
from ...base.version import VERSION
from ...lint.lint_results import LintReport
from ...lint.ranking import SEVERITIES
from ...model import Finding, KernelReport, Report
from ...pipeline.reading import Transformed
from .analyses import AnalysedKernel, Analysis, analysed
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


GIT_SECONDS = 10.0
_MEMORY = 1 << 30
"""Bytes of data: a setting may name a file without end."""
_SETTINGS = (
    "core.attributesFile=",
    "core.excludesFile=",
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "diff.external=",
    "submodule.recurse=false",
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # for git before 2.39.4, which fetches what a checkout lacks
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_NAME = re.compile(r"filter\.([\w.-]+)\.\w+")


def commit(folder: Path | None = None) -> str | None:
    """The commit that a folder's checkout stands at, with `+` where files differ from it.

    Args:
        folder: None for the current one.

    Returns:
        Ten digits or more; None outside of a checkout, without git, or where it cannot be told
        whether files differ: in time, or without a filter whose name cannot be passed to git.
    """
    commit_hash = _git(folder, _SETTINGS, "rev-parse", "--short=10", "HEAD")
    if not commit_hash:
        return None
    settings = _without_filters(folder)
    if settings is None:
        return None
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    changed = _git(folder, settings, *status)
    if changed is None:
        return None
    return f"{commit_hash}+" if changed else commit_hash


def _without_filters(folder: Path | None) -> Sequence[str] | None:
    """`_SETTINGS`, and such as switch off each filter of the checkout; None if one cannot be."""
    names = _git(folder, _SETTINGS, "config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    matches = [_NAME.fullmatch(name) for name in (names or "").split("\0") if name]
    settings = list(_SETTINGS)
    for match in matches:
        if match is None:
            return None
        settings += (f"filter.{match[1]}.{key}=" for key in ("clean", "smudge", "process"))
        settings.append(f"filter.{match[1]}.required=false")
    return settings


def _git(folder: Path | None, settings: Sequence[str], *arguments: str) -> str | None:
    """Returns git's output; None if it fails, is missing or takes too long."""
    git = find_program("git")
    if git is None:
        return None
    words = [word for setting in settings for word in ("-c", setting)]
    try:
        process = run_to_end(
            [git, "--no-pager", "--no-optional-locks", *words, *arguments],
            GIT_SECONDS,
            folder=folder,
            environment={**os.environ, **_ENVIRONMENT, "PATH": absolute_folders()},
            memory=_MEMORY,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if process.returncode:
        return None
    return process.stdout.decode("utf-8", "replace").strip()
