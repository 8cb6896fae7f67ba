"""The session: the kernels, failures and notes of a run so far.

It takes the pipeline's events and holds what the pages show. Nothing is computed from a report:
every figure shown is one of its metrics.

When a request is run again (a file was saved), the last run's kernels stay until the new run
replaces them, and `before` returns the last run's report of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ..inspector.model import ErrorRecord, Finding, KernelReport, MetricValue, Report
from ..inspector.pipeline.events import Captured, Compiled, Failed, Happening, Profiled, Reported

if TYPE_CHECKING:  # it imports the whole pipeline, which the first page does not need
    from ..inspector.model.recording import Profile
    from ..inspector.pipeline.jobs import Request

SEVERITIES = ("error", "warning", "info")


class SessionKernel(Struct, frozen=True):
    """A kernel of the session.

    Attributes:
        order: its position in the run: number of the target, number within the target.
        nth: numbers the kernels whose reports have the same id, from 0.
        tried: the settings that the user changed to compile it, as text; "" for a kernel of the
            run.
        request: the run that compiles it with them; None for the session's.
    """

    order: tuple[int, int]
    report: KernelReport
    nth: int = 0
    tried: str = ""
    request: Request | None = None

    @property
    def key(self) -> str:
        """The kernel's name in the session: its report's id, numbered where that is not unique."""
        return f"{self.report.id}~{self.nth + 1}" if self.nth else self.report.id

    @property
    def label(self) -> str:
        """Its name with its case, for people."""
        return f"{self.report.name} {self.case or self.report.arch or ''}".rstrip()

    @property
    def path(self) -> str:
        """The file that the kernel was read or captured from, as its id names it."""
        return self.report.file

    @property
    def case(self) -> str:
        """The case and the settings changed by the user, which tell a kernel's entries apart."""
        variant = self.report.variant
        case = (variant.case or "") if variant is not None else ""
        return ", ".join(part for part in (case, self.tried) if part)

    def metric(self, name: str) -> MetricValue:
        """The value of a metric of the main loop, else of the kernel; None if neither has it."""
        for loop in self.report.loops:
            if loop.id == self.report.main_loop and name in loop.metrics:
                return loop.metrics[name].value
        metric = self.report.metrics.get(name)
        return metric.value if metric is not None else None

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.report.findings)


class RunProgress(Struct):
    """The progress of a run, in kernels.

    Attributes:
        expected: kernels to report; grows while scripts are captured.
        captured: targets whose capture has ended.
        done: kernels that were reported, and failures.
        running: whether the run is under way.
    """

    expected: int = 0
    captured: int = 0
    compiled: int = 0
    done: int = 0
    running: bool = False
    interrupted: bool = False


class Session(Struct):
    """The kernels, failures and notes of the current run.

    Attributes:
        request: the targets and options; None where only the history is open.
        entries: kernels by key, in the order in which they were reported.
        errors: failures of files and kernels.
        notes: the run's notes, each once (the values are None).
        revision: grows with every change, so that views can tell cheaply whether they are current.
        on_change: called after every change.
        stale: keys of the last run's kernels that the current run has not reported (yet).
        exported: recompiled kernels that were written to a file.
        removed: watched files that were removed; their kernels stay, with their last figures.
        dropped: what the user changed for kernels that the present run dropped, as texts.
        profile: the open profiler's recording, joined to the kernels; None without one.
        baseline: the kernel that others are shown against, as it was when it was chosen.
    """

    request: Request | None = None
    entries: dict[str, SessionKernel] = field(default_factory=dict)
    errors: list[ErrorRecord] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    progress: RunProgress = field(default_factory=RunProgress)
    revision: int = 0
    on_change: Callable[[], None] = lambda: None
    runs: int = 0
    stale: set[str] = field(default_factory=set)
    exported: list[SessionKernel] = field(default_factory=list)
    removed: frozenset[Path] = frozenset()
    dropped: tuple[str, ...] = ()
    profile: Profile | None = None
    baseline: SessionKernel | None = None
    _previous: dict[str, SessionKernel] = field(default_factory=dict)
    _previous_by_name: dict[tuple[str, str, str | None, str], SessionKernel] = field(
        default_factory=dict
    )

    def begin(self, request: Request) -> None:
        """Starts a run of new targets, or of the same ones again."""
        if self.request is not None and request != self.request:
            self.entries.clear()
            self.profile = self.baseline = None
        self.request = request
        # Entries that an interrupted or failed run did not replace stay in `_previous`.
        fresh = {k: e for k, e in self.entries.items() if k not in self.stale and not e.tried}
        self._previous = {**{k: e for k, e in self._previous.items() if k in self.entries}, **fresh}
        self._previous_by_name = {_identity(entry): entry for entry in self._previous.values()}
        self.dropped = tuple(entry.tried for entry in self.tried())
        self.entries = {key: entry for key, entry in self.entries.items() if not entry.tried}
        self.stale = set(self.entries)
        self.errors.clear()
        self.notes.clear()
        self.progress = RunProgress(running=True)
        self.runs += 1
        self.changed()

    def take(self, event: Happening) -> None:
        if isinstance(event, Captured):
            self.progress.expected += len(event.variants)
            self.progress.captured += 1
            self.notes.update(dict.fromkeys(event.notes))
        elif isinstance(event, Compiled):
            self.progress.compiled += 1
        elif isinstance(event, Reported):
            self._add(event)
            self.progress.done += 1
        elif isinstance(event, Failed):
            self.errors.append(event.error)
            self.progress.done += 1
        elif isinstance(event, Profiled):
            self.profile = event.profile
            self.notes.update(dict.fromkeys(event.profile.notes))
            self.progress.expected += len(event.profile.reports)
        self.changed()

    @property
    def total_known(self) -> bool:
        """Whether all kernels of the run are known, as all of its targets have been captured."""
        targets = len(self.request.targets) if self.request is not None else 0
        return 0 < targets <= self.progress.captured

    def changed(self) -> None:
        """Has the views show the new state."""
        self.revision += 1
        self.on_change()

    def end(self) -> None:
        """Ends the run: drops kernels that it lacks, unless their file failed or was removed."""
        self.progress.running = False
        failed = {_file(error.file) for error in self.errors if error.file is not None}
        # A failure to open the targets, or one of no file, may concern any kernel.
        any_may_have_failed = any(e.stage == "open" or e.file is None for e in self.errors)
        if not any_may_have_failed:
            for key in sorted(self.stale):
                entry = self.entries[key]
                if _file(entry.path) not in failed and self.removed_file(entry) is None:
                    del self.entries[key]
                    self.stale.discard(key)
        self.changed()

    def _add(self, event: Reported) -> None:
        entry = SessionKernel(event.order, event.report)
        while entry.key in self.entries and entry.key not in self.stale:
            if self.entries[entry.key].order == event.order:
                break
            entry = SessionKernel(event.order, event.report, entry.nth + 1)
        self.entries[entry.key] = entry
        self.stale.discard(entry.key)

    def add_tried(
        self,
        report: KernelReport,
        like: SessionKernel,
        changed: str,
        request: Request | None = None,
    ) -> SessionKernel:
        """Adds a kernel that the user compiled with other settings.

        Args:
            request: the run that compiles it with them; None for the session's.

        Returns:
            The new entry, which replaces an earlier one with the same changes.
        """
        changes = ", ".join(part for part in (like.tried, changed) if part)
        entry = SessionKernel(like.order, report, 0, changes, request)
        while entry.key in self.entries and self.entries[entry.key].tried != changes:
            entry = replace(entry, nth=entry.nth + 1)
        self.entries[entry.key] = entry
        self.changed()
        return entry

    def request_of(self, entry: SessionKernel) -> Request | None:
        """The run that compiles a kernel; None: the default options do."""
        return entry.request if entry.request is not None else self.request

    def take_trials(self, entry: SessionKernel, findings: Iterable[Finding]) -> None:
        """Gives a kernel its findings as they are told once changes were tried for them."""
        if self.entries.get(entry.key) is not entry:
            return
        tried = {finding.fingerprint: finding for finding in findings if finding.trials}
        told = (tried.get(finding.fingerprint, finding) for finding in entry.report.findings)
        report = replace(entry.report, findings=tuple(told))
        self.entries[entry.key] = replace(entry, report=report)
        self.changed()

    def choose_baseline(self, entry: SessionKernel) -> None:
        """Makes a kernel the baseline; if it is that already, there is none."""
        is_baseline = self.baseline is not None and self.baseline.report is entry.report
        self.baseline = None if is_baseline else entry
        self.changed()

    def before(self, entry: SessionKernel) -> SessionKernel | None:
        """The previous run's entry of a kernel; None if there is none or the report is the same."""
        if not self._previous or entry.tried or entry.key in self.stale:
            return None
        previous = self._previous.get(entry.key) or self._previous_by_name.get(_identity(entry))
        return previous if previous is not None and previous.report is not entry.report else None

    def ordered(self) -> list[SessionKernel]:
        return sorted(self.entries.values(), key=lambda entry: (entry.order, bool(entry.tried)))

    def tried(self) -> list[SessionKernel]:
        """The kernels that the user compiled with other settings, in the order of the targets."""
        return [entry for entry in self.ordered() if entry.tried]

    def unsaved(self) -> list[SessionKernel]:
        """The kernels that the user compiled with other settings and that are in no file."""
        saved = {id(entry) for entry in self.exported}
        return [entry for entry in self.tried() if id(entry) not in saved]

    def left_over(self, key: str) -> bool:
        """Whether a kernel is an earlier run's that the last one has ended without replacing."""
        return key in self.stale and not self.progress.running

    def removed_file(self, entry: SessionKernel) -> Path | None:
        if not self.removed:
            return None
        source = entry.report.source
        paths = (entry.path, source.file) if source is not None else (entry.path,)
        return next((path for path in map(_file, paths) if path in self.removed), None)

    def stale_text(self, key: str) -> str:
        """Why a kernel's figures are not those of the last run, in a few words; "" if they are."""
        entry = self.entries.get(key)
        if entry is not None and (path := self.removed_file(entry)) is not None:
            return f"{path.name} was removed: last figures"
        return "old, of a run before" if self.left_over(key) else ""

    def findings(self, *, leads: bool = False) -> Iterator[tuple[SessionKernel, Finding]]:
        """Yields every finding with its kernel, in the order of the targets; leads where asked."""
        for entry in self.ordered():
            for finding in entry.report.facts if leads else entry.report.findings:
                yield entry, finding

    def report(self, tool: Mapping[str, str]) -> Report:
        """All kernels and failures as one report, for export."""
        target = " ".join(self.request.targets) if self.request is not None else ""
        kernels = tuple(entry.report for entry in self.ordered())
        return Report(target, tool, kernels, tuple(self.errors), tuple(self.notes))


def _file(text: str) -> Path:
    """The absolute path of a file named by a target, an error or a kernel's id."""
    return Path(text.partition("::")[0]).absolute()


def _identity(entry: SessionKernel) -> tuple[str, str, str | None, str]:
    """A kernel's file, name, arch and case, which stay when its options, and so its id, change."""
    return entry.path, entry.report.name, entry.report.arch, entry.case
