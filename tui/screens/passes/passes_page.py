"""The page of passes: what each pass of the compiler did to one kernel."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import Resize
from textual.widgets import Static
from textual.worker import get_current_worker

from ....inspector.base.errors import KinspectError
from ....inspector.compare.passhistory import History
from ....inspector.compile.passes import PassDump
from ....inspector.explain.view import configuration
from ....inspector.model import KernelReport
from ...key_table import bind
from ...pages import Page
from ...widgets.filter_line import FilterLine
from ...widgets.find import FindLine
from ...widgets.table import ColumnHead, Table, TableRow
from ..dialogue import ExplainScreen
from ..list_chooser import kernel_chooser, worst_kernel
from .diff_pane import DiffPane
from .diff_view import DiffView, whole_line
from .dump_reading import HistoryResult, PassText, Result, Span, results_from_child
from .pass_list import PassLine, PassList
from .pass_timeline import Listed, Timeline, thing_title, why_no_dump

# Least columns for list and diff side by side; least rows for the taller line of sizes.
_WIDE_COLUMNS, _TALL_ROWS = 110, 32


class PassesPage(Page):
    """Lists the passes of one kernel beside what each changed.

    Args:
        key: the kernel; None: the one last looked at, or else the worst that has a dump.
        thing: a line of the source (`42`) or an operation of a line (`tt.load@42`): the passes that
            made, changed or removed it are listed, and the diff shows where; "" for all passes.
    """

    NAME = "passes"
    LEGEND = (
        ("●", "the pass changed the module: lines added and removed"),
        ("▸", "the pass or the lines that changed what is followed"),
        ("3→7", "how many convert_layout there were before and after the pass"),
        ("▂▅▇", "the module's size before each pass, logarithmic"),
    )
    DEFAULT_CSS = """
    PassesPage > #about { height: 1; padding: 0 1; color: $foreground 70%; text-wrap: nowrap;
        text-overflow: ellipsis; }
    PassesPage > #body { height: 1fr; layout: vertical; }
    PassesPage > #body > #left { height: 40%; }
    PassesPage > #body > #right { height: 60%; }
    PassesPage.-wide > #body { layout: horizontal; }
    PassesPage.-wide > #body > #left { width: 48%; min-width: 62; max-width: 100; height: 100%; }
    PassesPage.-wide > #body > #right { width: 1fr; height: 100%; }
    PassesPage.-tall > PassLine { height: 4; }
    PassesPage #title { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap;
        text-overflow: ellipsis; }
    PassesPage #none { padding: 1 2; display: none; }
    PassesPage.-none #none { display: block; }
    PassesPage.-none #body, PassesPage.-none PassLine { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("only", "only", "Changed"),
        bind("previous_part", "changed(-1)", "Change before", show=False),
        bind("next_part", "changed(1)", "Change"),
        bind("mark", "mark", "Mark"),
        bind("search", "search", "Search"),
        bind("another", "choose", "Kernel"),
        bind("view", "module", "Module", show=False),
        bind("next", "match(1)", "Next"),
        bind("previous", "match(-1)", "Previous match or change", show=False),
        bind("code", "open", "Its code", show=False),
    ]

    def __init__(self, key: str | None = None, thing: str = "") -> None:
        super().__init__()
        self._key = key
        self._thing = thing
        self._path: Path | None = None
        self._timeline: Timeline | None = None
        self._index = 0  # the pass under the cursor
        self._mark: int | None = None  # the marked pass, the diff's other end
        self._shown: list[int] = []  # the passes that the filter leaves
        self._listed: Listed = "all"
        self._show_module = False  # the module before the pass, in place of the diff

    def content(self) -> ComposeResult:
        yield Static(id="about", markup=False)
        yield PassLine()
        yield Static(id="none", markup=False)
        with Container(id="body"):
            with Vertical(id="left"):
                yield PassList(least_first=39)
                yield FilterLine("a part of the pass's name", "PassList", id="filter")
            yield DiffPane(self._compute, id="right")

    @property
    def kernel_key(self) -> str | None:
        return self._key

    def crumb(self) -> str:
        kernel = self._kernel()
        if kernel is None:
            return ""
        return "  ".join((kernel.name, kernel.arch or "-", configuration(kernel)))

    def on_mount(self) -> None:
        self.query_one(PassList).focus()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width >= _WIDE_COLUMNS, "-wide")
        self.set_class(event.size.height >= _TALL_ROWS, "-tall")
        self.call_after_refresh(self._update_list)

    def _kernel(self) -> KernelReport | None:
        entry = self.session.entries.get(self._key or "")
        return entry.report if entry is not None else None

    def session_changed(self) -> None:
        """Chooses a kernel if there is none yet; reads its dump if that is a new one."""
        if self._kernel() is None:
            last_kernel = self.kinspect.last_kernel
            open_key = last_kernel if last_kernel in self.session.entries else None
            self._key = open_key or worst_kernel(self.session, lambda k: "passes" in k.artifacts)
        kernel = self._kernel()
        if kernel is None:
            running = self.session.progress.running
            self._show_sentences("No kernel yet …" if running else "No kernel is open.", "")
            return
        artifact = kernel.artifacts.get("passes")
        if artifact is None:
            self._show_sentences(*why_no_dump(kernel), "a chooses another kernel.")
        elif artifact.path != self._path:
            self._open(artifact.path)

    def _show_sentences(self, *lines: str) -> None:
        self._path, self._timeline = None, None
        self.set_class(True, "-none")
        self.query_one("#about", Static).update("", layout=False)
        self.query_one("#none", Static).update("\n".join(lines))

    def _open(self, path: Path) -> None:
        self._path, self._timeline, self._mark, self._index = path, None, None, 0
        self._listed = "changed" if self._listed == "changed" else "all"
        self.set_class(False, "-none")
        self.query_one("#about", Static).update("reading the pass dump …", layout=False)
        self.query_one(PassLine).show(None, 0, None)
        self.query_one(PassList).show((ColumnHead("", "", 0),), 0, lambda row: TableRow(()))
        self.query_one(DiffPane).clear()
        self.run_worker(partial(self._read, path), thread=True, exclusive=True, group="read")

    def action_choose(self) -> None:
        chooser = kernel_chooser(
            self.session.ordered(), self._key, lambda k: "●" if "passes" in k.artifacts else ""
        )
        self.app.push_screen(chooser, self._show_kernel)

    def _show_kernel(self, key: str | None) -> None:
        if key is not None:
            self._key = self.kinspect.last_kernel = key
            self.session_changed()

    def action_open(self) -> None:
        if self._kernel() is not None and self._key is not None:
            self.kinspect.open_kernel(self._key)

    def _read(self, path: Path, span: Span | None = None) -> None:
        """Reads the dump and computes each pass's diff, or only the diff of `span`."""
        worker = get_current_worker()
        thing = "" if span else self._thing
        for result in results_from_child(path, span, lambda: worker.is_cancelled, thing):
            if worker.is_cancelled:
                return
            self.call_later(self._take, path, result)

    def _take(self, path: Path, result: Result) -> None:
        """Shows what was read, unless it is of another dump."""
        if path != self._path:
            return
        if isinstance(result, PassDump):
            self._take_dump(result)
        elif isinstance(result, HistoryResult):
            self._take_history(result.result)
        else:
            self._take_text(result.span, result.result)

    def _take_dump(self, dump: PassDump) -> None:
        """Shows the passes; which of them changed something may still be unknown."""
        history = None
        if self._timeline is None:
            self._index = 0
        else:
            history = self._timeline.history
        self._timeline = Timeline(dump, history=history)
        self._update_list()

    def _take_history(self, result: History | KinspectError) -> None:
        """Lists the passes that changed what is followed, with the cursor on the first."""
        if self._timeline is None:
            return
        if isinstance(result, KinspectError) or not result.events:
            about = f"no pass over TTIR or TTGIR changed {thing_title(self._thing)}: all are listed"
            self.notify(about, timeout=6)
            return
        self._timeline.history = result
        self._listed, self._index = "history", result.events[0].index
        self._update_list()

    def _take_text(self, span: Span | None, result: PassText | KinspectError) -> None:
        """Records how much a pass changed, and shows its diff if the page waits for it."""
        if span is None or self._timeline is None:
            if isinstance(result, KinspectError):
                path = self._path
                self._show_sentences(result.message, result.hint)
                self._path = path  # else every change of the session would read it again
            return
        self.query_one(DiffPane).take(span, result)
        first, last = span
        if isinstance(result, KinspectError) or result.change is None:
            return
        if last == first + 1 and self._timeline.passes[first].changed:
            self._timeline.changes[first] = result.change
            self._update_list()

    def _update_summary(self) -> None:
        if self._timeline is None:
            return
        about = self._timeline.summary()
        needle = self.query_one("#filter", FilterLine).value
        limits = [f"/{needle}"] * bool(needle)
        if self._listed != "all":
            only = "changed" if self._listed == "changed" else f"of {thing_title(self._thing)}"
            limits.insert(0, f"only {only}")
        if limits:
            about = f"{len(self._shown)} shown ({', '.join(limits)}) · {about}"
        self.query_one("#about", Static).update(about, layout=False)

    def _update_list(self) -> None:
        """Lists the passes that the filter leaves, with the cursor on the same one or the next."""
        if self._timeline is None:
            return
        view = self.query_one(PassList)
        needle = self.query_one("#filter", FilterLine).value
        self._shown = self._timeline.shown(self._listed, needle)
        if self._shown:
            following = [n for n in self._shown if n >= self._index] or self._shown[-1:]
            self._index = following[0]
        cursor = self._shown.index(self._index) if self._shown else 0
        view.show_passes(self._timeline, self._shown, self._mark, cursor)
        self._update_summary()
        self._follow_cursor()

    def _follow_cursor(self) -> None:
        if self._timeline is None:
            return
        self.query_one(PassLine).show(self._timeline, self._index, self._mark)
        pane = self.query_one(DiffPane)
        pane.show(self._timeline, self._index, self._mark, module=self._show_module)

    def _compute(self, span: Span) -> None:
        if self._path is not None:
            work = partial(self._read, self._path, span)
            self.run_worker(work, thread=True, exclusive=True, group="diff")

    def on_table_moved(self, event: Table.Moved) -> None:
        """Follows the list's cursor."""
        self._index = self._shown[event.row]
        self._follow_cursor()

    def on_table_opened(self) -> None:
        """Gives the diff the focus."""
        self.query_one(DiffView).focus()

    def on_pass_line_picked(self, event: PassLine.Picked) -> None:
        self._go_to(event.index)

    def _go_to(self, index: int) -> None:
        self._index = index
        if index not in self._shown:  # a filter hides it
            self.query_one("#filter", FilterLine).value = ""
            self._listed = "all"
        self._update_list()

    def action_changed(self, direction: int) -> None:
        """Goes to the next (1) or previous (-1) listed pass that changed something."""
        if self._timeline is None:
            return
        index = self._timeline.next_changed(self._index, direction)
        while index is not None and index not in self._shown:
            index = self._timeline.next_changed(index, direction)
        if index is not None:
            self.query_one(PassList).move_to(self._shown.index(index))

    def action_only(self) -> None:
        """Lists only passes that changed something, all, or those that changed what is followed."""
        if self._listed == "all":
            has_history = self._timeline is not None and self._timeline.history is not None
            self._listed = "history" if has_history else "changed"
        else:
            self._listed = "changed" if self._listed == "history" else "all"
        self._update_list()

    def action_mark(self) -> None:
        """Marks the pass as the other end of the diff, or removes its mark."""
        if self._timeline is not None:
            self._mark = None if self._mark == self._index else self._index
            self._update_list()

    def action_module(self) -> None:
        self._show_module = not self._show_module
        self._follow_cursor()

    def action_search(self) -> None:
        """Searches the diff if that has the focus, else filters the passes."""
        if self._timeline is None:
            return
        if self.query_one(DiffView).has_focus:
            self.query_one(FindLine).ask()
        else:
            self.query_one("#filter", FilterLine).ask()

    def action_match(self, direction: int) -> None:
        """Goes to the next match in the diff, without a search to the next change."""
        self.query_one(FindLine).step_or(direction, self.action_changed)

    def on_input_changed(self) -> None:
        self._update_list()

    def on_diff_view_opened(self, event: DiffView.Opened) -> None:
        """Shows a line of the diff in full: what changed is often beyond the right edge."""
        lines = self.query_one(DiffView).shown.lines
        title = f"line {event.line + 1} of {len(lines)}"
        self.app.push_screen(ExplainScreen(title, whole_line(lines, event.line)))

    def on_diff_view_left(self) -> None:
        self.query_one(PassList).focus()
