"""The lower half of the page: what is known of one kernel, its dispatches, the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from ....inspector.explain import profile_view as words
from ....inspector.model import KernelReport
from ....inspector.recording import Profile
from ...widgets.roofline import Point, Roofline
from ...widgets.table import Row, Table
from . import detail, dispatches, recorded
from .lines import Line
from .said import Line as Said
from .said import content

DETAIL, DISPATCHES, ROOFLINE, RECORDING = "detail", "dispatches", "roofline", "recording"
_WIDE = 150  # columns from which on the roofline stands beside the detail
_BIG = 200_000  # dispatches that are looked through in a thread
_TABS = {
    DETAIL: "kernel",
    DISPATCHES: "d dispatches",
    ROOFLINE: "R roofline",
    RECORDING: "e recording",
}


class LowerState(Struct, frozen=True):
    """What the page stands at.

    Attributes:
        rows: the kernels in sight.
        line: the one under the cursor.
        profile: the recording, if one is open.
        report: the analysed kernel of the line, where there is one.
        tried: whether kernels that a tuner tried are in sight.
        points: those of all kernels that can be drawn under a roof, by key.
    """

    rows: Sequence[Line]
    line: Line | None
    profile: Profile | None
    report: KernelReport | None
    tried: bool
    points: Mapping[str, Point]


class Lower(Vertical):
    """One of four views, and a line that says which there are."""

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

    def __init__(self, *, id: str | None = None) -> None:  # Textual's name for it
        super().__init__(id=id)
        self.view = DETAIL
        self._shown = self._NONE
        self._points: list[tuple[Line, Point]] = []
        self._drawn: list[Point] = []
        self._listed: tuple[str, dispatches.Listed] | None = None  # whose dispatches they are
        self._turn = 0  # grows with every kernel whose dispatches are looked for

    def compose(self) -> ComposeResult:
        """The line, and the views below it."""
        yield Static(id="tabs", markup=False)
        with Horizontal(id="views"):
            with VerticalScroll(id="detail"):
                yield Static(id="said", markup=False)
            yield Table(id="dispatches", least=20)
            yield Roofline()

    # ------------------------------------------------------------------ what is shown

    def forget(self) -> None:
        """What was open is another."""
        self._listed = None
        self._turn += 1

    def show(self, state: LowerState) -> None:
        """Shows what is known of the kernel under the cursor, in the way that was asked for."""
        if state.rows is not self._shown.rows:
            points = state.points
            self._points = [(row, points[row.key]) for row in state.rows if row.key in points]
            self._drawn = [point for _, point in self._points]
        self._shown = state
        line = state.line
        view = self.view if line is not None and self.offers(self.view) else DETAIL
        if line is None:
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
            index = next((n for n, (row, _) in enumerate(self._points) if row is line), None)
            plot.show(self._drawn, index)
        self._tabs(view)
        if is_text:
            self._say(view, beside)
        elif view == DISPATCHES and line is not None:
            self._list(line)

    def offers(self, view: str) -> bool:
        """Whether there is something to be seen that way."""
        profile = self._shown.profile
        if view == ROOFLINE:
            return bool(self._points)
        if view == DISPATCHES:
            return profile is not None and len(profile.recording.dispatches) > 0
        return view == DETAIL or profile is not None

    def line_of(self, at: int) -> Line | None:
        """The kernel of a point in the plot."""
        return self._points[at][0] if at < len(self._points) else None

    def _tabs(self, view: str) -> None:
        """Which ways there are to look at it; the present one stands out."""
        profile = self._shown.profile
        pieces: list[tuple[str, str]] = [(" ", "")]
        for name, label in _TABS.items():
            if self.offers(name) and (name != DETAIL or self._shown.line is not None):
                pieces.append((f" {label} ", "here" if name == view else "dim"))
        autotuned = words.autotuned(profile) if profile is not None else ""
        if autotuned and not self._shown.tried:
            pieces.append((f"   {autotuned}: a shows them", "dim"))
        unbroken(self.query_one("#tabs", Static), [pieces])

    def _say(self, view: str, beside: bool) -> None:
        # The room is not yet known while it is laid out: it follows from the window's.
        state = self._shown
        width = self.app.size.width * (3 if beside else 5) // 5 - 4
        lines: list[Said] = []
        if view == RECORDING and state.profile is not None:
            lines += recorded.whole(state.profile, width)
        elif state.line is not None and state.line.entry is not None:
            lines += detail.of_report(state.line.entry.report, width)
        elif state.line is not None and state.profile is not None:
            lines += detail.of_kernel(state.line, state.profile, state.report, width)
        self.query_one("#said", Static).update(content(lines))
        self.query_one("#detail").scroll_home(animate=False)

    # ------------------------------------------------------------------ dispatches

    def _list(self, line: Line) -> None:
        profile, kernel = self._shown.profile, line.kernel
        if profile is None or kernel is None:
            return
        if self._listed is not None and self._listed[0] == line.key:
            self._show_listed(line.key, self._listed[1])
            return
        self._turn += 1
        look = partial(dispatches.listed, kernel, profile.recording)
        if len(profile.recording.dispatches) <= _BIG:
            self._show_listed(line.key, look())
            return
        table, turn = self.query_one("#dispatches", Table), self._turn
        table.show(dispatches.HEADS, 0, lambda at: Row(()), empty="looking for them …")

        def work() -> None:
            listing = look()
            self.app.call_from_thread(self._take, turn, line.key, listing)

        self.run_worker(work, thread=True, exclusive=True, group="dispatches")

    def _take(self, turn: int, key: str, listing: dispatches.Listed) -> None:
        if turn == self._turn and self.is_attached:
            self._show_listed(key, listing)

    def _show_listed(self, key: str, listing: dispatches.Listed) -> None:
        profile = self._shown.profile
        if profile is None:
            return
        unchanged = self._listed is not None and self._listed[0] == key
        self._listed = key, listing
        run = profile.recording
        self.query_one("#dispatches", Table).show(
            dispatches.heads(listing),
            len(listing.rows),
            lambda at: dispatches.row(listing, run, at),
            cursor=None if unchanged else 0,
            empty="no dispatch of it was recorded",
        )

    # ------------------------------------------------------------------ keys

    def scroll_by(self, lines: int) -> None:
        """Scrolls what is said, or moves along the dispatches."""
        listed = self.query_one("#dispatches", Table)
        if listed.display:
            listed.action_move(lines)
        else:
            self.query_one("#detail").scroll_relative(y=lines, animate=False)

    def take_focus(self) -> bool:
        """Takes the keys, if anything is shown that can be moved."""
        for name in ("#dispatches", "#detail"):
            if self.query_one(name).display:
                self.query_one(name).focus()
                return True
        return False


def unbroken(widget: Static, lines: Sequence[Said]) -> None:
    """Shows lines that are cut where the room ends."""
    widget.styles.text_wrap, widget.styles.text_overflow = "nowrap", "ellipsis"
    widget.update(content(lines).rstrip())
