"""The form that changes a kernel's settings, compiles it and compares the two."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input, Label, Static

from ...inspector.base.errors import KinspectError
from ...inspector.capture.sweep_axes import Value
from ...inspector.model import KernelReport
from ...inspector.pipeline.jobs import Request
from ..session import SessionKernel
from .dialogue import Dialogue, entitle

if TYPE_CHECKING:
    from ..application import Application
    from ..child_process import MessagingChild
    from ..recompiling import KernelSetting

_TICK = 0.2
RECOMPILE = "kinspect.tui.recompiling:recompile"
"""What a child process is to do."""
_HEADS = {
    "constexpr": "constexprs: the file is captured again",
    "macro": "macros that the source leaves open, and template parameters",
}
"""Kind of settings -> the line above them."""


def recompile(app: Application, entry: SessionKernel) -> None:
    """Opens the form for a kernel; adds the compiled kernel to the session and compares the two."""
    from ..recompiling import settings_of_kernel

    request = app.session.request_of(entry) or Request(())
    try:
        settings = settings_of_kernel(entry.report, request)
    except KinspectError as error:
        app.notify(str(error), severity="warning", markup=False)
        return

    def add_and_compare(outcome: tuple[KernelReport, str, Request] | None) -> None:
        if outcome is None:
            return
        report, changed, run = outcome
        app.session.add_tried(report, entry, changed, run)
        app.compare(entry.report, report)

    app.push_screen(RecompileScreen(entry, settings, request), add_and_compare)


class RecompileScreen(Dialogue[tuple[KernelReport, str, Request] | None]):
    """The form; its result is the new report, the changed settings as text, and their run.

    Args:
        request: the run of the kernel.
    """

    DEFAULT_CSS = """
    RecompileScreen > VerticalScroll { width: 64; max-width: 96%; }
    RecompileScreen Horizontal { height: 1; }
    RecompileScreen Label { width: 24; color: $foreground 80%; }
    RecompileScreen .head { color: $foreground 60%; width: 100%; }
    RecompileScreen Input { width: 1fr; background: $panel; }
    RecompileScreen Input:focus { background: $primary 25%; }
    RecompileScreen Input.changed { color: $accent; text-style: bold; }
    RecompileScreen .was { width: 14; padding-left: 1; color: $foreground 60%; }
    RecompileScreen #message { margin-top: 1; height: auto; }
    RecompileScreen #message.failed { color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("down,ctrl+n", "app.focus_next", "Next field", show=False),
        Binding("up,ctrl+p", "app.focus_previous", "Previous field", show=False, priority=True),
    ]

    def __init__(
        self, entry: SessionKernel, settings: list[KernelSetting], request: Request
    ) -> None:
        super().__init__()
        self._entry = entry
        self._request = request
        self._settings = settings
        self._compile_job: MessagingChild | None = None
        self._stage = ""  # of the compile that runs; empty if none does
        self._started_at = 0.0
        self._cancelled = False
        self._submitted: Input | None = None  # the field with the focus when it was submitted

    def compose(self) -> ComposeResult:
        report = self._entry.report
        with VerticalScroll(can_focus=False) as box:
            title = f"Recompile {report.name} for {report.arch}"
            entitle(box, title, "enter compiles and compares  esc cancels")
            if self._entry.case:
                yield Static(self._entry.case, markup=False, classes="head")
            kind = "option"
            for setting in self._settings:
                if setting.kind != kind:
                    kind = setting.kind
                    yield Static(_HEADS[kind], markup=False, classes="head")
                text = "" if setting.value is None else str(setting.value)
                with Horizontal():
                    yield Label(setting.name, markup=False)
                    yield Input(text, name=setting.name, compact=True, select_on_focus=True)
                    yield Static("", classes="was", markup=False)
            yield Static("", id="message", markup=False)

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        self.set_interval(_TICK, self._tick)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        setting = next(
            candidate for candidate in self._settings if candidate.name == event.input.name
        )
        old = "" if setting.value is None else str(setting.value)
        changed = event.value.strip() not in ("", old)
        event.input.set_class(changed, "changed")
        assert event.input.parent is not None
        was = event.input.parent.query_one(".was", Static)
        was.update(f"was {old or 'not set'}" if changed else "")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._stage:
            return
        from ..recompiling import changes

        typed = {field.name or "": field.value for field in self.query(Input)}
        try:
            changed = changes(self._settings, typed)
        except KinspectError as error:
            self._fail(error)
            return
        if not changed:
            self._show_message("nothing is changed: type another value", failed=True)
            return
        self._stage, self._started_at, self._cancelled = "starting", time.monotonic(), False
        self._show_message("")
        self._lock(event.input)
        self.run_worker(
            lambda: self._compile(changed), thread=True, exclusive=True, group="recompile"
        )

    def _compile(self, changed: Mapping[str, Value]) -> None:
        """Compiles, in a thread, and hands the report or the failure to the UI's thread."""
        from ..child_process import MessagingChild
        from ..recompiling import work_of

        def show_stage(stage: str) -> None:
            self._stage = stage

        report: KernelReport | None = None
        failure: KinspectError | None = None
        work = work_of(self._entry.report, changed, self._request)
        self._compile_job = job = MessagingChild(RECOMPILE, work)
        if self._cancelled:  # before there was a job to stop
            job.stop()
        try:
            report = job.run(show_stage)
        except KinspectError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the application has ended in the meantime
            self.app.call_from_thread(self._finish, report, failure, changed, work[2])

    def _finish(
        self,
        report: KernelReport | None,
        failure: KinspectError | None,
        changed: Mapping[str, Value],
        run: Request,
    ) -> None:
        """Closes the form with the new report, or shows why there is none."""
        self._stage = ""
        if self._cancelled:
            return
        if report is not None:
            self.dismiss((report, ", ".join(f"{k}={v}" for k, v in changed.items()), run))
        elif failure is not None:
            self._unlock()
            self._fail(failure)

    def _lock(self, field: Input) -> None:
        """Lets no field be changed while its values are compiled."""
        self._submitted = field
        for each in self.query(Input):
            each.disabled = True

    def _unlock(self) -> None:
        """Lets the fields be changed again, with the focus where it was."""
        for each in self.query(Input):
            each.disabled = False
        if self._submitted is not None:
            self._submitted.focus()

    def unfinished(self) -> str:
        if self._stage:
            return "a recompile is running"
        typed = any(field.has_class("changed") for field in self.query(Input))
        return "the settings typed are not compiled" if typed else ""

    def action_cancel(self) -> None:
        """Closes the form, and stops the compile if one is running."""
        self._abort()
        self.dismiss(None)

    def on_unmount(self) -> None:
        self._abort()

    def _abort(self) -> None:
        self._cancelled = True
        if self._compile_job is not None:
            self._compile_job.stop()

    def _tick(self) -> None:
        if self._stage:
            self._show_message(f"{self._stage} … {time.monotonic() - self._started_at:.0f} s")

    def _fail(self, error: KinspectError) -> None:
        text = f"{error.message}\n→ {error.hint}" if error.hint else error.message
        self._show_message(text, failed=True)

    def _show_message(self, text: str, *, failed: bool = False) -> None:
        line = self.query_one("#message", Static)
        line.set_class(failed, "failed")
        line.update(text)
