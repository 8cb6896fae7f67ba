"""The dialogue that tries the cures of findings: a row for each change, as it is compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Static

from ...inspector.base.errors import KinspectError
from ...inspector.explain import trials_view
from ...inspector.explain.time_view import amount
from ...inspector.explain.view import kib, plural
from ...inspector.model import Change, Finding, KernelReport, Scalar, Trial, Variant
from ...inspector.pipeline.jobs import Request
from ..child_process import MessagingChild
from ..key_table import bind
from ..session import SessionKernel
from ..widgets.bars import Piece
from ..widgets.table import ColumnHead, Table, TableRow
from .dialogue import Dialogue, entitle
from .recompile import RECOMPILE

if TYPE_CHECKING:
    from ...inspector.compare.trials.trial_results import TrialRow
    from ..application import Application

_FIGURES = (
    ("time.us", "µs", 9),
    ("vgpr_spill_count", "spills", 6),
    ("vgpr_count", "VGPRs", 5),
    ("lds_bytes", "LDS", 9),
    ("occupancy.waves_per_eu", "waves/SIMD", 8),
)
"""Metric, heading and cells of the columns."""
_BETTER = {"vgpr_spill_count": -1, "occupancy.waves_per_eu": 1}
"""Metrics of which less (-1) or more (1) is better."""
_CHANGE = 30  # cells of the changes


def try_cures(app: Application, entry: SessionKernel, findings: Iterable[Finding]) -> None:
    """Opens the dialogue for findings of a kernel; says why where nothing can be tried."""
    rules = frozenset(finding.rule for finding in findings)
    request = app.session.request_of(entry) or Request(())
    if why := _why_none(entry.report, rules, request):
        app.notify(f"nothing can be tried: {why}", severity="warning", markup=False)
    else:
        app.push_screen(TrialsScreen(entry, rules, request))


def _why_none(report: KernelReport, rules: frozenset[str], request: Request) -> str:
    """Why nothing can be tried; "" where something can: on a HIP source whatever was found."""
    from ...inspector.compare.trials.hip_changes import is_hip
    from ...inspector.compare.trials.planning import is_compilable
    from ..recompiling import targets_of

    if is_hip(report):
        try:
            targets_of(report, request)
        except KinspectError as error:
            return str(error)
        return ""
    if not is_compilable(report):
        return "it was compiled already: open the .py file that launches it, or its .ttir"
    return "" if rules else "it has no finding; r compiles it with other options"


class TrialsScreen(Dialogue[None]):
    """The trials of one kernel.

    Args:
        request: the run of the kernel.
    """

    DEFAULT_CSS = """
    TrialsScreen > Vertical { width: 96%; max-width: 150; height: 80%; }
    TrialsScreen #outcome { height: 3; color: $foreground 80%; }
    TrialsScreen #state { height: 1; color: $foreground 60%; }
    TrialsScreen #state.failed { color: $error; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("back", "cancel", "Stop; then close", show=False),
        bind("close", "cancel", "Stop; then close", show=False),
    ]

    def __init__(self, entry: SessionKernel, rules: frozenset[str], request: Request) -> None:
        super().__init__()
        self._entry = entry
        self._rules = rules
        self._request = request
        self._child: MessagingChild | None = None
        self._compile: MessagingChild | None = None
        self._planned = 0
        self._rows: tuple[TrialRow, ...] = ()
        self._variants: dict[tuple[Change, ...], Variant] = {}
        self._is_running = True
        self._failure = ""
        self._stage = ""  # of the compile that is to be compared; "" for none

    def compose(self) -> ComposeResult:
        """A table of the changes, what came of the one under the cursor, and how far it is."""
        with Vertical() as box:
            tried = f"Cures of {', '.join(sorted(self._rules))}" if self._rules else "Changes"
            title = f"{tried} tried on {self._entry.report.name}"
            entitle(box, title, "enter compares with the baseline  esc stops, then closes")
            yield Table(id="trials", least_first=_CHANGE)
            yield Static("", id="outcome", markup=False)
            yield Static("", id="state", markup=False)

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self._show()
        self.run_worker(self._try, thread=True, group="trials")

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def _try(self) -> None:
        work = self._entry.report, self._rules, self._request
        self._child = child = MessagingChild("kinspect.tui.trials_child:try_changes", work)
        failure = ""
        try:
            for kind, payload in child.messages():
                self._call(self._take, kind, payload)
        except KinspectError as error:
            failure = f"{error.message}; {error.hint}" if error.hint else error.message
        self._call(self._ended, failure)

    def _call(self, function: Any, *arguments: Any) -> None:
        """Calls a function in the UI's thread, unless the application has ended meanwhile."""
        with contextlib.suppress(RuntimeError):
            self.app.call_from_thread(function, *arguments)

    def _take(self, kind: str, payload: Any) -> None:
        if kind == "planned":
            self._planned = payload
        elif kind == "variant":
            changes, variant = payload
            self._variants[changes] = variant
        elif kind == "rows":
            self._rows = payload
        elif kind == "findings":
            app: Application = self.app  # type: ignore[assignment]
            app.session.take_trials(self._entry, payload)
        self._show()

    def _ended(self, failure: str) -> None:
        stopped, self._is_running = not self._is_running, False
        if not stopped:
            self._failure = failure
        self._show()

    def _show(self) -> None:
        """Shows the rows and how far the trials are; the cursor stays where it is."""
        if not self.is_attached:
            return
        heads = [ColumnHead("change", " tried", 0), ColumnHead("gone", "cures", 11)]
        heads += [ColumnHead(name, title, cells, True) for name, title, cells in _FIGURES]
        table = self.query_one(Table)
        empty = "compiling the first change …" if self._is_running else "nothing was tried"
        table.show(heads, len(self._rows), self._row, cursor=None, empty=empty)
        self._explain(table.cursor)
        done = max(0, len(self._rows) - 1)
        if self._failure or self._stage:
            text = self._failure or self._stage
        elif self._is_running:
            text = f"tried {done} of {self._planned} …"
        else:
            missing = max(0, self._planned - done)
            text = f"{plural(done, 'change')} tried" + (f", {missing} not" if missing else "")
            unknown = {row.trial.no_time for row in self._rows if row.trial.no_time}
            text += f"; time unknown: {min(unknown)}" if unknown else ""
        self._show_state(text, failed=bool(self._failure))

    def _show_state(self, text: str, *, failed: bool = False) -> None:
        state = self.query_one("#state", Static)
        state.set_class(failed, "failed")
        state.update(text)

    def _row(self, index: int) -> TableRow:
        row = self._rows[index]
        trial, name = row.trial, trials_view.changes_text(row.change)
        mark: Piece = (" ✓ ", "good") if row.cures else ("   ", "")
        cures: Piece = (" ".join(row.cures), "good")
        cells = [((_figure(name, trial.metrics.get(name)), _style(name, trial)),) for name, _, _ in
                 _FIGURES]  # fmt: skip
        return TableRow(
            (mark, (name, "name" if row.cures or not index else "")), ((cures,), *cells)
        )

    def _explain(self, index: int) -> None:
        text = ""
        if index < len(self._rows):
            trial = self._rows[index].trial
            text = trials_view.remark(trial) or trials_view.outcome_text(trial)
        self.query_one("#outcome", Static).update(text)

    def on_table_moved(self, message: Table.Moved) -> None:
        """Shows what came of the change under the cursor."""
        self._explain(message.row)

    def on_table_opened(self, message: Table.Opened) -> None:
        """Compiles the change and compares it with the baseline, the kernel without changes."""
        message.stop()
        if message.row >= len(self._rows) or self._compile is not None:
            return
        changes = self._rows[message.row].change
        variant = self._variants.get(changes)
        if variant is None:
            self._show_state(
                "this is the baseline itself" if not changes else "it was not compiled"
            )
            return
        self._stop()
        self._failure, self._stage = "", f"{trials_view.changes_text(changes)}: being read …"
        self._show()
        from ..recompiling import changed_run

        run = changed_run(self._entry.report, changes, self._request)
        work = self._entry.report, variant, run
        self._compile = job = MessagingChild(RECOMPILE, work)

        def compile_change() -> None:
            try:
                report = job.run()
            except KinspectError as error:
                self._call(self._compiled, changes, error, run)
            else:
                self._call(self._compiled, changes, report, run)

        self.run_worker(compile_change, thread=True, group="compile")

    def _compiled(
        self, changes: tuple[Change, ...], result: KernelReport | KinspectError, run: Request
    ) -> None:
        """Compares a change with the baseline, or shows why it cannot."""
        self._compile, self._stage = None, ""
        if not self.is_attached:
            return
        if isinstance(result, KinspectError):
            self._failure = str(result)
            self._show()
            return
        app: Application = self.app  # type: ignore[assignment]
        app.session.add_tried(result, self._entry, trials_view.changes_text(changes), run)
        self.dismiss()
        app.compare(self._entry.report, result)

    def unfinished(self) -> str:
        return "cures are being tried" if self._is_running or self._compile is not None else ""

    def action_cancel(self) -> None:
        """Stops what runs; the second time, closes the dialogue."""
        if self._is_running:
            self._stop()
            self._show()
        else:
            self.dismiss()

    def on_unmount(self) -> None:
        self._stop()
        if self._compile is not None:
            self._compile.stop()

    def _stop(self) -> None:
        self._is_running = False
        if self._child is not None:
            self._child.stop()


def _figure(name: str, value: Scalar) -> str:
    if value is None:
        return ""
    if name == "lds_bytes" and isinstance(value, int):
        return kib(value)
    if name == "time.us" and isinstance(value, float):
        return amount(value).removesuffix(" µs")
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _style(name: str, trial: Trial) -> str:
    """Figures that differ from the baseline's stand out, in the colour of better or worse ones."""
    if name == "time.us" and trial.time is not None:
        return {"faster": "better", "equal": "", "slower": "worse"}[trial.time.verdict]
    before, after = trial.diff.get(name, (None, None))
    if name not in trial.diff:
        return ""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return "other"
    return {-1: "worse", 0: "other", 1: "better"}[_BETTER.get(name, 0) * ((after > before) or -1)]
