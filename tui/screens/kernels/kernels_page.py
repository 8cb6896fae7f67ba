"""The kernels' page: a table that fills while kernels are captured, compiled and analysed."""

from __future__ import annotations

import time
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.events import Resize
from textual.timer import Timer
from textual.widgets import Input

from ....inspector.model import KernelReport
from ...key_table import bind
from ...pages import Legend, Page
from ...session import SessionKernel
from ...widgets.bars import BETTER, WORSE
from ...widgets.filter_line import FilterLine
from ...widgets.table import Table, TableRow
from ..columns_menu import ColumnsMenu
from ..dialogue import FailureScreen
from .kernel_columns import COLUMNS
from .kernel_details import Detail, Status, first_stage
from .kernel_rows import Listing, on_fronts
from .kernel_tree import Node

WIDE = 110
"""Columns of the terminal from which on bars have twice the cells."""
_FILTER_HINT = "spills>0 arch:gfx95   also words, sev:error, is:failed, -word"
_REBUILD_PAUSE = 4.0
"""The least time between two rebuilds during a run, as a multiple of what the last one took."""


class KernelsPage(Page):
    """Every kernel with its figures."""

    NAME = "kernels"
    LEGEND = (
        ("▸ ▾", "a group, folded or open; its figures go from the best to the worst"),
        ("★", "no other configuration is as good in all figures and better in one"),
        ("● ○", "marked; some of the folded rows are"),
        (f"{BETTER} {WORSE} ~", "after a figure: better, worse, different"),
        ("✗ NAME", "it failed; enter shows all of it"),
        ("a word", "filter: it is in a name, file, target, case or rule"),
        ("vgpr>128", "filter: a figure, a constexpr, an option or a metric; lds>32K"),
        ("arch:gfx95", "filter: also name: file: case: rule: sev:error"),
        ("is:failed", "filter: also is:front is:changed is:marked"),
        ("-word", "filter: what does not match"),
    )
    DEFAULT_CSS = """
    KernelsPage .hidden { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("search", "filter", "Filter"),
        bind("sort", "sort", "Sort"),
        bind("reverse", "reverse", "Reverse the order", show=False),
        bind("columns", "columns", "Columns"),
        bind("mark", "mark", "Mark"),
        bind("baseline", "baseline", "Baseline"),
        bind("compare", "compare", "Compare"),
        bind("recompile", "recompile", "Recompile"),
        bind("fold", "fold", "Fold or unfold", show=False),
        bind("fold_all", "fold_all", "Fold or unfold all", show=False),
        bind("next", "next(1)", "Next with errors, warnings or a failure", show=False),
        bind("previous", "next(-1)", "Previous one", show=False),
        bind("copy", "copy", "Copy the kernel's id", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._listing: Listing | None = None
        self._ranked_kernels: list[tuple[str, KernelReport]] = []  # the input of the last front
        self._cursor_key = ""  # of the row under the cursor; "" until the user moves it
        self._cursor_set = 0  # the row on which the last rebuild put the cursor
        self._rebuilt_at = 0.0  # of the monotonic clock
        self._rebuild_seconds = 0.0  # that the last rebuild took
        self._later_rebuild: Timer | None = None

    @property
    def listing(self) -> Listing:
        """The rows, with their filter, order and folds."""
        if self._listing is None:
            self._listing = Listing(self.kinspect.state)
        return self._listing

    def legend(self) -> Legend:
        return (*self.LEGEND, *((column.title, column.about) for column in self.listing.columns))

    def content(self) -> ComposeResult:
        yield Status(self.session, self.listing, watching=self.kinspect.opening.watch)
        yield Table(id="kernels")
        yield Detail()
        yield FilterLine(_FILTER_HINT, "Table", id="filter")

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self._fit_to_size()
        self.rebuild()

    def on_resize(self, event: Resize) -> None:
        self._fit_to_size()
        self.rebuild()

    def _fit_to_size(self) -> None:
        width, height = self.size
        try:
            detail, status = self.query_one(Detail), self.query_one(Status)
        except NoMatches:
            return
        detail.set_class(height < 14 or width < 40, "hidden")
        detail.styles.height = max(5, min(14, height // 4))
        status.set_class(height < 8, "hidden")

    def crumb(self) -> str:
        session = self.session
        return " ".join(session.request.targets) if session.request is not None else ""

    def session_changed(self) -> None:
        """Rebuilds the table; during a run, not so often that rebuilding takes most of the time."""
        since_rebuild = time.monotonic() - self._rebuilt_at
        pause = self._rebuild_seconds * _REBUILD_PAUSE - since_rebuild
        if not self.session.progress.running or pause <= 0:
            self.rebuild()
        elif self._later_rebuild is None:
            self._later_rebuild = self.set_timer(pause, self.rebuild)

    def rebuild(self, cursor_key: str | None = None) -> None:
        """Computes the rows and shows them.

        Args:
            cursor_key: the key of the row to put the cursor on; None: it stays on its row.
        """
        try:
            table = self.query_one(Table)
        except NoMatches:
            return
        if self._later_rebuild is not None:
            self._later_rebuild.stop()
            self._later_rebuild = None
        started = time.monotonic()
        listing = self.listing
        node = self._node()
        if cursor_key is not None:
            self._cursor_key = cursor_key
        elif node is not None and table.cursor != self._cursor_set:
            self._cursor_key = node.key  # moved, and the table's message has yet to arrive
        listing.update(self.session, self.size.width, self._bar_cells)
        # A cursor that was never moved stays at the top while rows are added above its row.
        cursor = listing.find(self._cursor_key) if self._cursor_key else 0
        table.show(
            listing.heads(self._bar_cells),
            len(listing.rows),
            self._row,
            sorted_by=listing.sorted_by,
            cursor=cursor,
            empty=self._why_empty(),
        )
        self._cursor_set = table.cursor
        self._show_status()
        self._update_front()
        self._rebuilt_at = time.monotonic()
        self._rebuild_seconds = self._rebuilt_at - started

    @property
    def _bar_cells(self) -> int:
        if self.session.baseline is not None:
            return 0  # what differs from the baseline takes their place
        return 8 if self.size.width >= WIDE else 4

    def _row(self, index: int) -> TableRow:
        return self.listing.row(index, self._bar_cells)

    def _why_empty(self) -> str:
        session = self.session
        if self.listing.leaves:
            return f"no row meets the filter {self.listing.filter_text!r}: escape clears it"
        if session.progress.running:
            return f"{first_stage(session)} …"
        if session.request is None:
            return "nothing is open: start with `kinspect tui TARGET`"
        return "no kernels in it"

    def _show_status(self) -> None:
        """Shows the state of the run and the details of the row under the cursor."""
        self.query_one(Status).refresh()
        self.query_one(Detail).show(self._node(), self.listing.stars, self.session.baseline)

    def _node(self) -> Node | None:
        """The row under the cursor; None in an empty table."""
        cursor, rows = self.query_one(Table).cursor, self.listing.rows
        return rows[cursor] if 0 <= cursor < len(rows) else None

    def _update_front(self) -> None:
        tuned = self.listing.tuned
        running = any(w.group == "front" for w in self.workers if w.is_running)
        if running or tuned is self._ranked_kernels:
            return
        unchanged = len(tuned) == len(self._ranked_kernels) and all(
            new[0] == old[0] and new[1] is old[1]
            for new, old in zip(tuned, self._ranked_kernels, strict=True)
        )
        self._ranked_kernels = tuned
        if not unchanged:
            read = partial(on_fronts, tuned)
            self.in_thread("front", read, self._take_front, self.kinspect.notify_error)

    def _take_front(self, front: frozenset[str]) -> None:
        self.listing.stars = front
        self.rebuild()

    def on_table_moved(self, message: Table.Moved) -> None:
        """Shows the details of the row under the cursor."""
        node = self._node()
        self._cursor_key = node.key if node is not None else ""
        self._show_status()

    def on_table_opened(self, message: Table.Opened) -> None:
        """Opens a kernel, shows a failure in full, or folds or unfolds a group."""
        node = self._node()
        if node is None:
            return
        if node.leaf is None:
            self.action_fold()
        elif node.leaf.error is not None:
            self.app.push_screen(FailureScreen(node.leaf.error))
        else:
            self.kinspect.open_kernel(node.leaf.key)

    def on_table_head_clicked(self, message: Table.HeadClicked) -> None:
        """Sorts by the column; reverses the order if the rows are sorted by it already."""
        if message.name == self.listing.sort:
            self.action_reverse()
        else:
            self.listing.sort_by(message.name)
            self.kinspect.keep_state()
            self.rebuild()

    def action_next(self, direction: int) -> None:
        """Goes to the next (1) or previous (-1) row with an error, warning or failure."""
        table, rows = self.query_one(Table), self.listing.rows
        for distance in range(1, len(rows) + 1):
            index = (table.cursor + direction * distance) % len(rows)
            leaf = rows[index].leaf
            if leaf is None:
                continue
            entry = leaf.entry
            if entry is None or entry.count("error") or entry.count("warning"):
                table.move_to(index)
                return

    def action_fold(self) -> None:
        """Folds or unfolds the group that the row heads or belongs to."""
        group_key = self.listing.fold(self.query_one(Table).cursor)
        if group_key is not None:
            self.rebuild(group_key)

    def action_fold_all(self) -> None:
        self.listing.fold_all()
        self.rebuild()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.listing.filter_text = event.value.strip()
        self.rebuild()

    def action_sort(self) -> None:
        """Sorts by the next of: name, the columns shown, the run's order."""
        self.listing.sort_by_next()
        self.kinspect.keep_state()
        self.rebuild()

    def action_reverse(self) -> None:
        self.kinspect.state.reverse = not self.kinspect.state.reverse
        self.kinspect.keep_state()
        self.rebuild()

    def action_columns(self) -> None:
        def show_columns(names: list[str] | None) -> None:
            if names is not None:
                self.kinspect.state.columns = names
                self.kinspect.keep_state()
                self.rebuild()

        shown = [column.name for column in self.listing.columns]
        titles = {name: (column.title, column.about) for name, column in COLUMNS.items()}
        menu = ColumnsMenu(titles, shown, self.listing.default_columns)
        self.app.push_screen(menu, show_columns)

    @property
    def kernel_at_hand(self) -> SessionKernel | None:
        node = self._node()
        return node.leaf.entry if node is not None and node.leaf is not None else None

    def action_mark(self) -> None:
        entry, marked = self.kernel_at_hand, self.listing.marked
        if entry is None:
            self.notify("a mark goes to one kernel: unfold the row with space", timeout=3)
            return
        if entry.key in marked:
            del marked[entry.key]
        else:
            marked[entry.key] = None
        self.rebuild()
        self.query_one(Table).action_move(1)

    def action_compare(self) -> None:
        """Compares the two marked kernels, or a marked one or the baseline with the row's."""
        entries, baseline = self.session.entries, self.session.baseline
        keys = [key for key in self.listing.marked if key in entries]
        entry = self.kernel_at_hand
        if not keys and baseline is not None and entry is not None:
            self.kinspect.compare(baseline.report, entry.report)
            return
        if len(keys) == 1 and entry is not None and entry.key not in keys:
            keys.append(entry.key)
        if len(keys) != 2:
            marked = f"{len(keys)} are marked" if keys else "none is marked"
            self.notify(f"mark two kernels with m, then c compares them; {marked}", timeout=4)
            return
        self.kinspect.compare(entries[keys[0]].report, entries[keys[1]].report)

    def action_copy(self) -> None:
        entry = self.kernel_at_hand
        if entry is not None:
            self.app.copy_to_clipboard(entry.report.id)
            self.notify("copied", timeout=2)

    def action_recompile(self) -> None:
        """Opens the form that compiles the kernel with changed settings."""
        entry = self.kernel_at_hand
        if entry is None:
            self.notify("recompiling goes by one kernel: unfold the row with space", timeout=3)
            return
        from ..recompile import recompile

        recompile(self.kinspect, entry)
