"""What is open: the kernels, failures and notes that a run has brought so far.

Events of the pipeline come in here and rows of the table come out. Nothing is computed from a
report: every figure shown is one of its metrics.

When a request is run again (a file was saved), what the last run brought stays until the new run
replaces it, and can be asked for as what there was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ..inspector.model import ErrorRecord, Finding, KernelReport, MetricValue, Report
from ..inspector.pipeline.events import Captured, Compiled, Failed, Happening, Profiled, Reported

if TYPE_CHECKING:  # it imports the whole pipeline, which the first page does not need
    from ..inspector.pipeline.jobs import Request
    from ..inspector.recording import Profile

SEVERITIES = ("error", "warning", "info")


class Entry(Struct, frozen=True):
    """A kernel of the session: its report and its place in the run.

    Attributes:
        order: its place: target, and number in it.
        report: of the kernel.
        nth: 0; of kernels whose reports have one id the second has 1, and so on.
        tried: what was changed by hand for it: it is no kernel of the run.
    """

    order: tuple[int, int]
    report: KernelReport
    nth: int = 0
    tried: str = ""

    @property
    def key(self) -> str:
        """What the session calls it."""
        return f"{self.report.id}~{self.nth + 1}" if self.nth else self.report.id

    @property
    def path(self) -> str:
        """The file that it was read or captured from, as its id names it."""
        return self.report.id.partition("::")[0]

    @property
    def case(self) -> str:
        """What tells it from the others of its kernel: the case, and what was changed by hand."""
        variant = self.report.variant
        case = (variant.case or "") if variant is not None else ""
        return ", ".join(part for part in (case, self.tried) if part)

    def metric(self, name: str) -> MetricValue:
        """A metric of the main loop, else of the kernel; None where neither has it."""
        for loop in self.report.loops:
            if loop.id == self.report.main_loop and name in loop.metrics:
                return loop.metrics[name].value
        metric = self.report.metrics.get(name)
        return metric.value if metric is not None else None

    def count(self, severity: str) -> int:
        """Findings of that severity."""
        return sum(finding.severity == severity for finding in self.report.findings)


class Progress(Struct):
    """How far the run is: `expected` grows while scripts are captured."""

    expected: int = 0
    compiled: int = 0
    done: int = 0
    running: bool = False
    interrupted: bool = False


class Session(Struct):
    """Everything that is open.

    Attributes:
        request: the run; None where only the history is open.
        entries: kernels by id, in the order in which they came.
        errors: what could not be reported.
        notes: of the run as a whole, each once.
        revision: grows with every change, so that views see cheaply whether they are current.
        runs: how often a run was begun.
        stale: keys of kernels that the present run has not brought yet, or could not.
        profile: a profiler's recording that is open, joined to the kernels.
    """

    request: Request | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    errors: list[ErrorRecord] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    revision: int = 0
    runs: int = 0
    stale: set[str] = field(default_factory=set)
    profile: Profile | None = None
    _previous: dict[str, Entry] = field(default_factory=dict)
    _previous_by_name: dict[tuple[str, str, str | None, str], Entry] = field(default_factory=dict)

    # ------------------------------------------------------------------ a run

    def begin(self, request: Request) -> None:
        """A run begins: of something else, or of the same once more."""
        if self.request is not None and request != self.request:
            self.entries.clear()
            self.profile = None
        self.request = request
        # What was not replaced by an interrupted or failed run is still what there was before.
        fresh = {k: e for k, e in self.entries.items() if k not in self.stale and not e.tried}
        self._previous = {**{k: e for k, e in self._previous.items() if k in self.entries}, **fresh}
        self._previous_by_name = {_called(entry): entry for entry in self._previous.values()}
        self.entries = {key: entry for key, entry in self.entries.items() if not entry.tried}
        self.stale = set(self.entries)
        self.errors.clear()
        self.notes.clear()
        self.progress = Progress(running=True)
        self.runs += 1
        self.revision += 1

    def take(self, event: Happening) -> None:
        """Takes in what the pipeline says."""
        if isinstance(event, Captured):
            self.progress.expected += len(event.variants)
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
        self.revision += 1

    def end(self) -> None:
        """The run is over: what it did not bring again is gone, unless its file failed."""
        self.progress.running = False
        failed = {_file(error.file) for error in self.errors if error.file is not None}
        # Where nothing could be opened or told, nothing is known to be gone.
        everything = any(e.stage == "open" or e.file is None for e in self.errors)
        gone = [k for k in self.stale if _file(self.entries[k].path) not in failed]
        for key in () if everything else gone:
            del self.entries[key]
            self.stale.discard(key)
        self.revision += 1

    def _add(self, event: Reported) -> None:
        entry = Entry(event.order, event.report)
        while entry.key in self.entries and entry.key not in self.stale:
            if self.entries[entry.key].order == event.order:
                break
            entry = Entry(event.order, event.report, entry.nth + 1)
        self.entries[entry.key] = entry
        self.stale.discard(entry.key)

    def add_tried(self, report: KernelReport, like: Entry, changed: str) -> Entry:
        """Takes in a kernel that was compiled by hand, beside the one that it was made from."""
        changes = ", ".join(part for part in (like.tried, changed) if part)
        entry = Entry(like.order, report, 0, changes)
        while entry.key in self.entries and self.entries[entry.key].tried != changes:
            entry = Entry(like.order, report, entry.nth + 1, changes)
        self.entries[entry.key] = entry
        self.revision += 1
        return entry

    # ------------------------------------------------------------------ what there is

    def before(self, entry: Entry) -> Entry | None:
        """What the run before had of this kernel; None: nothing, or it is the same report."""
        if not self._previous or entry.tried or entry.key in self.stale:
            return None
        previous = self._previous.get(entry.key) or self._previous_by_name.get(_called(entry))
        return previous if previous is not None and previous.report is not entry.report else None

    def ordered(self) -> list[Entry]:
        """The kernels in the order of the targets."""
        return sorted(self.entries.values(), key=lambda entry: (entry.order, bool(entry.tried)))

    def findings(self) -> Iterator[tuple[Entry, Finding]]:
        """Every finding with its kernel."""
        for entry in self.ordered():
            for finding in entry.report.findings:
                yield entry, finding

    def report(self, tool: Mapping[str, str]) -> Report:
        """What is open as one report, to be exported."""
        target = " ".join(self.request.targets) if self.request is not None else ""
        kernels = tuple(entry.report for entry in self.ordered())
        return Report(target, tool, kernels, tuple(self.errors), tuple(self.notes))


def _file(text: str) -> Path:
    """A file as it is named here or there: from the current folder, in full, with a kernel."""
    return Path(text.partition("::")[0]).absolute()


def _called(entry: Entry) -> tuple[str, str, str | None, str]:
    """How a kernel is recognised whose options, and so its id, have changed."""
    return entry.path, entry.report.name, entry.report.arch, entry.case
