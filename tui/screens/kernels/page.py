"""The kernels' page: a table that fills while kernels are captured, compiled and analysed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.events import Resize
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from ....inspector.capture.targets import SUFFIXES
from ....inspector.model import KernelReport
from ...pages import Page
from ...session import Entry
from ...widgets.heading import Heading
from ...widgets.keys import Keys
from ...widgets.table import Row, Table
from .columns import fitting
from .detail import Detail, FailureScreen
from .listing import Listing
from .menu import ColumnsMenu
from .rows import Node, fronts
from .status import FilterLine, RunStatus, Status

WIDE = 110
"""From this width on, bars have twice the cells."""
_COMPILED = frozenset({"script", "inductor", "ttir", "trace"})  # targets; others are read
_PAUSE = 4.0  # times what a rebuild took: so long at least until the next, while a run goes on


class KernelsPage(Page):
    """Every kernel with its figures."""

    NAME = "kernels"
    HELP = (
        "Every kernel that was captured, compiled or read, with its figures; failures are rows"
        " too. Configurations and targets of a kernel are folded under it, and a folded row shows"
        " the best and the worst of each figure. A star marks configurations on the Pareto front:"
        " no other one is at least as good in every figure and better in one.\n\n"
        "The filter takes words of names, files, targets, configurations and rules, and"
        " conditions: vgpr>128  occ<=2  lds>32K  BLOCK_M=64  sev:error  arch:gfx95  is:failed "
        " is:front  is:changed  is:marked; a minus before any of them turns it round. After a file"
        " was saved (--watch) arrows show which figures rose or fell."
    )
    DEFAULT_CSS = """
    KernelsPage .hidden { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse the order", show=False),
        Binding("o", "columns", "Columns"),
        Binding("m", "mark", "Mark"),
        Binding("c", "compare", "Compare"),
        Binding("r", "recompile", "Recompile"),
        Binding("space", "fold", "Fold or unfold", show=False),
        Binding("z", "fold_all", "Fold or unfold all", show=False),
        Binding("n", "next(1)", "Next with errors, warnings or a failure", show=False),
        Binding("p", "next(-1)", "Previous one", show=False),
        Binding("y", "copy", "Copy the kernel's id", show=False),
        Binding("escape", "escape", "Clear the filter, or back", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._listing: Listing | None = None
        self._asked: list[tuple[str, KernelReport]] = []  # what the stars were worked out from
        self._at = ""  # the key of the row under the cursor, once it was moved
        self._placed = 0  # where the cursor was put when the rows were worked out
        self._rebuilt = (0.0, 0.0)  # when, and how long it took

    @property
    def listing(self) -> Listing:
        """The rows and why they are what they are."""
        if self._listing is None:
            self._listing = Listing(self.kinspect.state)
        return self._listing

    # ------------------------------------------------------------------ layout

    def compose(self) -> ComposeResult:
        """Heading, state of the run, table, details, filter, keys."""
        yield Heading()
        yield Status()
        yield Table(id="kernels")
        yield Detail()
        yield FilterLine(id="filter", classes="hidden")
        yield Keys()

    def on_mount(self) -> None:
        """The table has the keys from the start."""
        self.query_one(Table).focus()
        self._fit()
        self.rebuild()

    def on_resize(self, event: Resize) -> None:
        """Gives up what there is no room for, and wider bars."""
        self._fit()
        self.rebuild()

    def _fit(self) -> None:
        width, height = self.size
        try:
            detail, status = self.query_one(Detail), self.query_one(Status)
        except NoMatches:
            return
        detail.set_class(height < 14 or width < 40, "hidden")
        detail.styles.height = max(5, min(14, height // 4))
        status.set_class(height < 8, "hidden")

    def crumb(self) -> str:
        """What they are of."""
        session = self.session
        return " ".join(session.request.targets) if session.request is not None else ""

    # ------------------------------------------------------------------ content

    def session_changed(self) -> None:
        """Shows what the run has brought; not more often than the machine can bear."""
        last, took = self._rebuilt
        running = self.session.progress.running
        if running and time.monotonic() - last < took * _PAUSE:
            self._shown_revision = -1  # so that the next poll tries again
            return
        self.rebuild()

    def rebuild(self, at: str | None = None) -> None:
        """Works out the rows and shows them; the cursor stays on its row.

        Args:
            at: the key of the row to put it on instead.
        """
        try:
            table = self.query_one(Table)
        except NoMatches:
            return
        started = time.monotonic()
        listing = self.listing
        node = self._node()
        if at is not None:
            self._at = at
        elif node is not None and table.cursor != self._placed:
            self._at = node.key  # moved, and the table's message is still on its way
        listing.update(self.session, self.size.width, self._bars)
        cursor = listing.find(self._at) if self._at else 0  # at the top until it was moved
        table.show(
            listing.heads(self._bars),
            len(listing.rows),
            self._row,
            sorted_by=listing.sorted_by,
            cursor=cursor,
            empty=self._nothing(),
        )
        self._placed = table.cursor
        self._tell()
        self._ask_for_stars()
        finished = time.monotonic()
        self._rebuilt = (finished, finished - started)

    @property
    def _bars(self) -> int:
        return 8 if self.size.width >= WIDE else 4

    def _row(self, at: int) -> Row:
        return self.listing.row(at, self._bars)

    def _nothing(self) -> str:
        session = self.session
        if self.listing.leaves:
            return f"no row meets the filter {self.listing.text!r}: escape clears it"
        if session.progress.running:
            return f"{self._doing()} …"
        if session.request is None:
            return "nothing is open: start with `kinspect tui TARGET`"
        return "no kernels in it"

    def _doing(self) -> str:
        """What a run does first with its targets."""
        request = self.session.request
        names = [text.partition("::")[0] for text in request.targets] if request else []
        kinds = {SUFFIXES.get(Path(name).suffix, "script") for name in names}
        return "reading" if names and not kinds & _COMPILED else "capturing"

    def _tell(self) -> None:
        listing = self.listing
        status = RunStatus(
            progress=self.session.progress,
            doing=self._doing(),
            failed=len(self.session.errors),
            shown=listing.shown,
            of=len(listing.leaves),
            kernels=listing.kernels,
            text=listing.text,
            fault=listing.fault,
            sort=listing.sort_title,
            marked=sum(key in self.session.entries for key in listing.marked),
            watching=self.kinspect.opening.watch,
            runs=self.session.runs,
        )
        self.query_one(Status).show(status)
        self.query_one(Detail).show(self._node(), listing.stars)

    def _node(self) -> Node | None:
        """The row of the cursor."""
        cursor, rows = self.query_one(Table).cursor, self.listing.rows
        return rows[cursor] if 0 <= cursor < len(rows) else None

    # ------------------------------------------------------------------ the Pareto front

    def _ask_for_stars(self) -> None:
        """Works out in a thread which configurations are on a front; it can take a while."""
        tuned = self.listing.tuned
        if tuned is self._asked or any(w.group == "front" for w in self.workers if w.is_running):
            return
        unchanged = len(tuned) == len(self._asked) and all(
            new[0] == old[0] and new[1] is old[1]
            for new, old in zip(tuned, self._asked, strict=True)
        )
        self._asked = tuned
        if not unchanged:
            self.run_worker(lambda: fronts(tuned), thread=True, group="front", name="front")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """The front is known."""
        if event.worker.group == "front" and event.state is WorkerState.SUCCESS:
            front = event.worker.result
            assert isinstance(front, frozenset)
            self.listing.stars = front
            self.rebuild()

    # ------------------------------------------------------------------ moving and opening

    def on_table_moved(self, message: Table.Moved) -> None:
        """The details follow the cursor."""
        node = self._node()
        self._at = node.key if node is not None else ""
        self._tell()

    def on_table_opened(self, message: Table.Opened) -> None:
        """A kernel is opened, a failure shown in full, a fold unfolded."""
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
        """A click on a title sorts by it; a second one turns the order round."""
        if message.name == self.listing.sort:
            self.action_reverse()
        else:
            self.listing.sort_by(message.name)
            self.rebuild()

    def action_next(self, by: int) -> None:
        """Goes to the next row with something wrong."""
        table, rows = self.query_one(Table), self.listing.rows
        for step in range(1, len(rows) + 1):
            at = (table.cursor + by * step) % len(rows)
            leaf = rows[at].leaf
            if leaf is None:
                continue
            entry = leaf.entry
            if entry is None or entry.count("error") or entry.count("warning"):
                table.move_to(at)
                return

    def action_fold(self) -> None:
        """Folds or unfolds what belongs to the row; within a fold, that fold."""
        folded = self.listing.fold(self.query_one(Table).cursor)
        if folded is not None:
            self.rebuild(folded)

    def action_fold_all(self) -> None:
        """Unfolds everything, or folds it if something is unfolded."""
        self.listing.fold_all()
        self.rebuild()

    # ------------------------------------------------------------------ filter, order, columns

    def action_filter(self) -> None:
        """Opens the line in which the filter is typed."""
        line = self.query_one(FilterLine)
        line.remove_class("hidden")
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The table follows what is typed."""
        event.stop()
        self.listing.text = event.value.strip()
        self.rebuild()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the table, which stays filtered."""
        event.stop()
        self.query_one(Table).focus()
        self.query_one(FilterLine).set_class(not self.listing.text, "hidden")

    def action_escape(self) -> None:
        """Clears the filter; without one, goes back."""
        line = self.query_one(FilterLine)
        if self.listing.text or line.has_focus:
            line.value = ""
            line.add_class("hidden")
            self.query_one(Table).focus()
        else:
            self.kinspect.action_back()

    def action_sort(self) -> None:
        """Sorts by the next of: name, the columns shown, the run's order."""
        self.listing.sort_by_next()
        self.rebuild()

    def action_reverse(self) -> None:
        """Turns the order round."""
        self.kinspect.state.reverse = not self.kinspect.state.reverse
        self.rebuild()

    def action_columns(self) -> None:
        """Asks which columns are shown."""

        def done(names: list[str] | None) -> None:
            if names is not None:
                self.kinspect.state.columns = names
                self.rebuild()

        column_names = [column.name for column in self.listing.columns]
        self.app.push_screen(ColumnsMenu(column_names, fitting(self.size.width, self._bars)), done)

    # ------------------------------------------------------------------ marks and variants

    def _entry(self) -> Entry | None:
        """The kernel under the cursor."""
        node = self._node()
        return node.leaf.entry if node is not None and node.leaf is not None else None

    def action_mark(self) -> None:
        """Marks the kernel under the cursor, or takes its mark away."""
        entry, marked = self._entry(), self.listing.marked
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
        """Compares the two that are marked, or the one that is with that under the cursor."""
        entries = self.session.entries
        keys = [key for key in self.listing.marked if key in entries]
        entry = self._entry()
        if len(keys) == 1 and entry is not None and entry.key not in keys:
            keys.append(entry.key)
        if len(keys) != 2:
            many = f"{len(keys)} are marked" if keys else "none is marked"
            self.notify(f"mark two kernels with m, then c compares them; {many}", timeout=4)
            return
        self.kinspect.compare(entries[keys[0]].report, entries[keys[1]].report)

    def action_copy(self) -> None:
        """Copies the id of the kernel under the cursor."""
        entry = self._entry()
        if entry is not None:
            self.app.copy_to_clipboard(entry.report.id)
            self.notify("copied", timeout=2)

    def action_recompile(self) -> None:
        """Asks what to change of the kernel, compiles that and compares the two."""
        entry = self._entry()
        if entry is None:
            self.notify("recompiling goes by one kernel: unfold the row with space", timeout=3)
            return
        from ..recompile import recompile

        recompile(self.kinspect, entry)
