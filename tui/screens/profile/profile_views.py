"""The lower half of the page: one kernel's details or dispatches, in the order in which they began,
the roofline, the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ....inspector.explain import profile_view, quantities
from ....inspector.model import KernelReport
from ....inspector.model.recording import NONE, KernelProfile, Profile, Recording
from ....inspector.present.document import Section
from ...widgets.bars import Piece
from ...widgets.document_text import DIM, content
from ...widgets.roofline import Roofline, RooflinePoint
from ...widgets.table import ColumnHead, Table, TableRow
from . import profile_details
from .measured_kernels import KernelRow

DETAIL, DISPATCHES, ROOFLINE, RECORDING = "detail", "dispatches", "roofline", "recording"
VIEWS = (DISPATCHES, ROOFLINE, RECORDING)
"""The views besides the details, in their order."""
_WIDE = 150  # columns from which on the roofline stands beside the detail
_THREADED = 200_000  # dispatches that are looked through in a thread
_TABS = {DETAIL: "kernel", DISPATCHES: "dispatches", ROOFLINE: "roofline", RECORDING: "recording"}


class LowerState(Struct, frozen=True):
    """The state of the page that the lower half shows.

    Attributes:
        row: the kernel under the cursor; None in an empty table.
        profile: the open recording; None without one.
        report: the analysed kernel of the row; None without one.
        tried: whether the table includes kernels that a tuner tried.
        points: key of a kernel -> its point in the roofline plot, for those that have one.
    """

    rows: Sequence[KernelRow]
    row: KernelRow | None
    profile: Profile | None
    report: KernelReport | None
    tried: bool
    points: Mapping[str, RooflinePoint]


class Lower(Vertical):
    """One of four views below a line with their titles."""

    DEFAULT_CSS = """
    Lower { height: 1fr; }
    Lower #tabs { height: 1; background: $panel; color: $foreground; }
    Lower #views { height: 1fr; }
    Lower #detail { width: 1fr; padding: 0 1; scrollbar-size: 1 1; scrollbar-gutter: stable; }
    Lower #dispatches { width: 1fr; }
    Lower.-beside Roofline { width: 2fr; border-left: solid $panel; }
    Lower.-beside #detail, Lower.-beside #dispatches { width: 3fr; }
    Lower.-roofline Roofline { width: 1fr; border-left: none; }
    """
    _NONE: ClassVar[LowerState] = LowerState((), None, None, None, False, {})

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self.view = DETAIL
        self._shown = self._NONE
        self._points: list[tuple[KernelRow, RooflinePoint]] = []
        self._drawn: list[RooflinePoint] = []
        self._dispatches: tuple[str, DispatchList] | None = None  # with the kernel's key
        self._query_number = 0  # of the latest search for dispatches; results of others are dropped

    def compose(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        with Horizontal(id="views"):
            with VerticalScroll(id="detail"):
                yield Static(id="text", markup=False)
            yield Table(id="dispatches", least_first=20)
            yield Roofline()

    def forget(self) -> None:
        """Drops the cached dispatches, since another recording was opened."""
        self._dispatches = None
        self._query_number += 1

    def show(self, state: LowerState) -> None:
        """Shows a state in the user's view, or another if that has nothing to show."""
        if state.rows is not self._shown.rows:
            points = state.points
            self._points = [(row, points[row.key]) for row in state.rows if row.key in points]
            self._drawn = [point for _, point in self._points]
        self._shown = state
        current = state.row
        view = self.view if current is not None and self.offers(self.view) else DETAIL
        if current is None:
            view = RECORDING
        beside = bool(self._points) and self.app.size.width >= _WIDE
        self.set_class(beside, "-beside")
        self.set_class(view == ROOFLINE, "-roofline")
        is_text = view in (DETAIL, RECORDING)
        plot = self.query_one(Roofline)
        for widget, visible in (
            (self.query_one("#detail"), is_text),
            (self.query_one("#dispatches"), view == DISPATCHES),
            (plot, beside or view == ROOFLINE),
        ):
            if widget.display != visible:
                widget.display = visible
        if plot.display:
            index = next((n for n, (row, _) in enumerate(self._points) if row is current), None)
            plot.show(self._drawn, index)
        self._show_tabs(view)
        if is_text:
            self._show_text(view, beside)
        elif view == DISPATCHES and current is not None:
            self._show_dispatches(current)

    def offers(self, view: str) -> bool:
        profile = self._shown.profile
        if view == ROOFLINE:
            return bool(self._points)
        if view == DISPATCHES:
            return profile is not None and len(profile.recording.dispatches) > 0
        return view == DETAIL or profile is not None

    def row_of(self, point: int) -> KernelRow | None:
        """The kernel of a point in the plot, by its index; None if there is no such point."""
        return self._points[point][0] if point < len(self._points) else None

    def _show_tabs(self, view: str) -> None:
        """Shows the titles of the views that have content, the current one highlighted."""
        profile = self._shown.profile
        pieces: list[Piece] = [(" ", "")]
        for name, label in _TABS.items():
            if self.offers(name) and (name != DETAIL or self._shown.row is not None):
                pieces.append((f" {label} ", "bold reverse" if name == view else DIM))
        autotuned = profile_view.autotune_text(profile) if profile is not None else ""
        if autotuned and not self._shown.tried:
            pieces.append((f"   {autotuned}: f shows them", DIM))
        unbroken(self.query_one("#tabs", Static), [pieces])

    def _show_text(self, view: str, beside: bool) -> None:
        """Shows the detail or the recording; `beside` is whether the roofline is next to it."""
        # Computed from the window's width, since the widget's is unknown before its layout.
        state = self._shown
        width = self.app.size.width * (3 if beside else 5) // 5 - 4
        document: Iterable[Section] = ()
        if view == RECORDING and state.profile is not None:
            document = profile_details.of_recording(state.profile)
        elif state.row is not None and state.row.entry is not None:
            document = profile_details.of_report(state.row.entry.report)
        elif state.row is not None and state.row.kernel is not None and state.profile is not None:
            document = profile_details.of_kernel(state.row.kernel, state.profile, state.report)
        self.query_one("#text", Static).update(content(document, width))
        self.query_one("#detail").scroll_home(animate=False)

    def _show_dispatches(self, row: KernelRow) -> None:
        """Lists a kernel's dispatches; looks for them in a thread if the recording is large."""
        profile, kernel = self._shown.profile, row.kernel
        if profile is None or kernel is None:
            return
        if self._dispatches is not None and self._dispatches[0] == row.key:
            self._fill_dispatches(row.key, self._dispatches[1])
            return
        self._query_number += 1
        list_dispatches = partial(dispatch_list, kernel, profile.recording)
        if len(profile.recording.dispatches) <= _THREADED:
            self._fill_dispatches(row.key, list_dispatches())
            return
        table, turn = self.query_one("#dispatches", Table), self._query_number
        table.show(HEADS, 0, lambda index: TableRow(()), empty="looking for them …")

        def work() -> None:
            listing = list_dispatches()
            self.app.call_from_thread(self._receive_dispatches, turn, row.key, listing)

        self.run_worker(work, thread=True, exclusive=True, group="dispatches")

    def _receive_dispatches(self, turn: int, key: str, listing: DispatchList) -> None:
        if turn == self._query_number and self.is_attached:
            self._fill_dispatches(key, listing)

    def _fill_dispatches(self, key: str, listing: DispatchList) -> None:
        """Fills the table of dispatches; the cursor stays if the kernel is the same."""
        profile = self._shown.profile
        if profile is None:
            return
        unchanged = self._dispatches is not None and self._dispatches[0] == key
        self._dispatches = key, listing
        run = profile.recording
        self.query_one("#dispatches", Table).show(
            heads(listing),
            len(listing.rows),
            lambda index: row(listing, run, index),
            cursor=None if unchanged else 0,
            empty="no dispatch of it was recorded",
        )

    def scroll_by(self, lines: int) -> None:
        """Scrolls the text, or moves the cursor in the table of dispatches."""
        listed = self.query_one("#dispatches", Table)
        if listed.display:
            listed.action_move(lines)
        else:
            self.query_one("#detail").scroll_relative(y=lines, animate=False)

    def take_focus(self) -> bool:
        """Focuses the table of dispatches or the text; returns whether one of them is shown."""
        for name in ("#dispatches", "#detail"):
            if self.query_one(name).display:
                self.query_one(name).focus()
                return True
        return False


def unbroken(widget: Static, lines: Sequence[Sequence[Piece]]) -> None:
    """Shows lines without wrapping them; those that are too long are cut."""
    widget.styles.text_wrap, widget.styles.text_overflow = "nowrap", "ellipsis"
    text = Content("\n").join(Content.assemble(*filter(itemgetter(0), line)) for line in lines)
    widget.update(text.rstrip())


MAX_LISTED = 1_000
"""At most this many dispatches of a kernel are listed, the earliest ones."""
HEADS = (
    ColumnHead("number", " dispatch", 0),
    ColumnHead("start", "start", 12, right=True),
    ColumnHead("duration", "duration", 10, right=True),
    ColumnHead("grid", "grid", 18, right=True),
    ColumnHead("queue", "queue", 6, right=True),
    ColumnHead("part", "pass", 18),
)


class DispatchList(Struct, frozen=True):
    """The listed dispatches of a kernel.

    Attributes:
        warmups: the rows that are warm-up.
        total: the number of the kernel's dispatches, listed or not.
        origin: the start of the recording's first dispatch, ns.
    """

    rows: Sequence[int]
    warmups: frozenset[int]
    total: int
    origin: int


def heads(dispatches: DispatchList) -> tuple[ColumnHead, ...]:
    """The columns' titles, the first with the numbers of listed and of all dispatches."""
    left_out = (
        f" (first {len(dispatches.rows):,} of {dispatches.total:,})"
        if dispatches.total > len(dispatches.rows)
        else ""
    )
    return (ColumnHead("number", f" dispatch{left_out}", 0), *HEADS[1:])


def dispatch_list(kernel: KernelProfile, recording: Recording) -> DispatchList:
    """The first `MAX_LISTED` dispatches of a kernel in the order in which they began."""
    table = recording.dispatches
    shapes = frozenset(kernel.shapes)
    rows = [row for row, shape in enumerate(table.shape) if shape in shapes]
    began = table.start
    rows.sort(key=lambda row: (began[row] == NONE, began[row], row))
    origin = min((time for time in began if time != NONE), default=0)
    warmups = _warmups(kernel, recording, rows)
    return DispatchList(rows[:MAX_LISTED], warmups, len(rows), origin)


def _warmups(kernel: KernelProfile, recording: Recording, rows: Sequence[int]) -> frozenset[int]:
    """The dispatches that figures leave out: the first few of each process and pass.

    The profile states only their total. If no number for each process and pass gives that total,
    none is marked.
    """
    table, shapes = recording.dispatches, recording.shapes
    lanes: dict[tuple[int, int | None], list[int]] = {}
    for row in rows:
        lanes.setdefault((table.part[row], shapes[table.shape[row]].process), []).append(row)
    longest = max((len(lane) for lane in lanes.values()), default=0)
    for per_lane in range(1, longest):
        candidates = [lane[: min(per_lane, len(lane) - 1)] for lane in lanes.values()]
        count = sum(map(len, candidates))
        if count == kernel.warmups:
            return frozenset(row for lane in candidates for row in lane)
        if count > kernel.warmups:
            break
    return frozenset()


def row(dispatches: DispatchList, recording: Recording, index: int) -> TableRow:
    table, number = recording.dispatches, dispatches.rows[index]
    shape = recording.shapes[table.shape[number]]
    start, end, queue = table.start[number], table.end[number], table.queue[number]
    is_timed = NONE not in (start, end)
    part = table.part[number]
    is_warmup = number in dispatches.warmups
    label = table.number[number]
    name_cell: tuple[Piece, ...] = (
        (f" {label if label != NONE else quantities.UNKNOWN}", "name"),
        ("  warm-up" if is_warmup else "", "warning"),
    )
    cells = (
        f"+{quantities.duration(start - dispatches.origin)}"
        if start != NONE
        else quantities.UNKNOWN,
        quantities.duration(end - start) if is_timed else quantities.UNKNOWN,
        quantities.dimensions(shape.grid, shape.grid_size),
        str(queue) if queue != NONE else quantities.UNKNOWN,
        recording.parts[part].name if 0 <= part < len(recording.parts) else "",
    )
    return TableRow(name_cell, tuple(((text, ""),) for text in cells))
