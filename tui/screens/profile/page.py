"""What was measured, beside what the compiler's output says."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Input, Static

from ....inspector.explain import profile_view as words
from ....inspector.explain.view import plural
from ....inspector.model import KernelReport
from ....inspector.profile.placing.stalls import stalls
from ....inspector.recording import Profile
from ...pages import Page
from ...widgets.filtering import FilterLine
from ...widgets.heading import Heading
from ...widgets.keys import Keys
from ...widgets.roofline import Point, Roofline
from ...widgets.table import Head, Row, Table
from . import recorded
from .lines import (
    NAME,
    Column,
    Line,
    chosen,
    columns,
    of_profile,
    of_reports,
    ordered,
    point,
    row,
)
from .lower import DETAIL, Lower, LowerState, unbroken
from .said import content

_FIRST = "measured.share_of_time"


class ProfilePage(Page):
    """Measured kernels, most time first, and all that is known of the one under the cursor."""

    NAME = "profile"
    HELP = """
    What a device measured beside what the compiler's output says: one kernel a row, most time
    first. Below the table stands what is known of the kernel under the cursor: how it was
    launched, which analysed kernel it is and why, where it stalls with what static analysis says
    of the same place, measured figures with their formulas, counters.

    Before a name: ≡ its code object is that of an analysed kernel, ≈ one analysed kernel agrees in
    all that was recorded, ? several do and none is chosen, · none does. Enter opens the analysed
    kernel at the line that stalls most.

    d lists the dispatches of the kernel, R draws all kernels under the roofline, e shows the
    recording: its passes, errors and notes. The same key, or escape, leads back.

    Figures are over dispatches that are neither warm-up nor left out; nothing here is estimated.
    What an autotuner tried and did not keep is hidden until a shows it, under its kernel.
    """
    DEFAULT_CSS = """
    ProfilePage #nothing { height: 1fr; padding: 1 2; }
    ProfilePage #recording { height: 2; background: $surface; }
    ProfilePage #table { height: 1fr; min-height: 3; }
    ProfilePage #below { height: 1fr; }
    ProfilePage.-high #below { height: 3fr; }
    ProfilePage.-high #table { height: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open kernel"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse the order", show=False),
        Binding("d", "view('dispatches')", "Dispatches"),
        Binding("R", "view('roofline')", "Roofline"),
        Binding("e", "view('recording')", "Recording"),
        Binding("a", "tried", "Tuned"),
        Binding("J", "scroll_detail(3)", "Detail down", show=False),
        Binding("K", "scroll_detail(-3)", "Detail up", show=False),
        Binding("tab", "other", "To the lower half, and back", show=False),
        Binding("y", "copy", "Copy the kernel's name", show=False),
        Binding("escape", "escape", "Back", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]
        self._lines: list[Line] = []  # all there are
        self._rows: list[Line] = []  # those in sight
        self._columns: list[Column] = []
        self._points: dict[str, Point] = {}
        self._sort: tuple[str, bool] | None = None  # a column and whether downwards
        self._words = ""
        self._tried = False

    def compose(self) -> ComposeResult:
        """The recording, its kernels, and what is known of one; or why there is nothing."""
        yield Heading()
        with VerticalScroll(id="nothing"):
            yield Static(id="why", markup=False)
        with Vertical(id="measured"):
            yield Static(id="recording", markup=False)
            yield FilterLine("words: kernel, exact, likely, ambiguous, none", id="filter")
            yield Table(id="table", least=24)
            yield Lower(id="below")
        yield Keys(palette=False)

    # ------------------------------------------------------------------ what there is

    @property
    def _profile(self) -> Profile | None:
        return self.session.profile

    @property
    def _table(self) -> Table:
        return self.query_one("#table", Table)

    @property
    def _line(self) -> Line | None:
        at = self._table.cursor
        return self._rows[at] if at < len(self._rows) else None

    @property
    def _measured(self) -> bool:
        return self._profile is not None or bool(self._lines)

    def crumb(self) -> str:
        """How many kernels were measured."""
        if self._profile is None:
            count = len(self._lines)
            return f"{count} of {len(self.session.entries)} kernels measured" if count else ""
        total = words.duration(self._profile.total_ns)
        kernels = plural(len(words.main_kernels(self._profile)), "kernel")
        return f"{kernels} in {total}" if total != words.UNKNOWN else kernels

    def session_changed(self) -> None:
        """Fills the table anew; the cursor stays on its kernel."""
        profile = self._profile
        self._lines = of_profile(profile) if profile else of_reports(self.session.ordered())
        self._columns = columns(self._lines)
        candidates = ((line.key, point(line)) for line in self._lines)
        self._points = {key: at for key, at in candidates if at is not None}
        self.query_one(Lower).forget()
        for name, visible in (("nothing", not self._measured), ("measured", self._measured)):
            self.query_one(f"#{name}").display = visible
        self.query_one("#recording").display = profile is not None
        if not self._measured:
            self._say_nothing()
            if self.focused is None:
                self.query_one("#nothing").focus()
        else:
            self._head()
            self._fill()
            if self.focused is None or self.focused.id == "nothing":
                self._table.focus()
        self.refresh_bindings()

    def on_resize(self, event: Resize) -> None:
        """Another width is filled by other lines."""
        if self._has_widgets():
            self.call_after_refresh(self._laid_out)

    def _laid_out(self) -> None:
        if not self._has_widgets():
            return
        if self._measured:
            self._head()
            self._show_lower()
        else:
            self._say_nothing()

    def _say_nothing(self) -> None:
        width = max(20, self.app.size.width - 6)
        self.query_one("#why", Static).update(content(recorded.nothing(min(width, 110))))

    def _head(self) -> None:
        if self._profile is not None:
            unbroken(self.query_one("#recording", Static), recorded.header(self._profile))

    # ------------------------------------------------------------------ the table

    def _fill(self) -> None:
        """Works out the rows; the cursor stays with its kernel."""
        former_line = self._line
        by, down = self._sort or (_FIRST, True)
        column = next((c for c in (NAME, *self._columns) if c.name == by), None)
        lines = chosen(self._lines, self._words, tried=self._tried)
        self._rows = ordered(lines, column if self._sort else None, down=down)
        mains = {line.name for line in self._rows if not line.tried}
        rows, shown_columns = self._rows, self._columns

        def draw(at: int) -> Row:
            line = rows[at]
            return row(line, shown_columns, folded=line.tried and line.name in mains)

        heads = [
            Head(NAME.name, " kernel", 0),
            *(shown_column.head() for shown_column in shown_columns),
        ]
        self._table.styles.max_height = max(3, len(rows) + 1)  # the rest is for what is below
        keys = [line.key for line in rows]
        cursor = (
            keys.index(former_line.key)
            if former_line is not None and former_line.key in keys
            else None
        )
        self._table.show(
            heads,
            len(rows),
            draw,
            sorted_by=(by, down),
            cursor=0 if cursor is None and former_line is not None else cursor,
            empty=f"no kernel has the words {self._words!r}" if self._words else self._empty(),
        )
        self._show_lower()

    def _empty(self) -> str:
        profile = self._profile
        if profile is not None and profile.recording.summary:
            return "no dispatches were kept: below stands the profiler's own summary"
        return "no dispatches were recorded: below stands what is known of the recording"

    def on_table_moved(self, message: Table.Moved) -> None:
        """Another kernel is under the cursor."""
        if message.table.id == "table":
            self._show_lower()

    def on_table_opened(self, message: Table.Opened) -> None:
        """Opens the kernel."""
        if message.table.id == "table":
            self.action_open()

    def on_table_head_clicked(self, message: Table.HeadClicked) -> None:
        """A click on a title sorts by it; a second one turns the order round."""
        if message.table.id != "table":
            return
        if self._sort is not None and self._sort[0] == message.name:
            self.action_reverse()
        else:
            self._sort_by(message.name)

    def on_roofline_picked(self, message: Roofline.Picked) -> None:
        """Goes to the kernel of a point."""
        line = self.query_one(Lower).line_of(message.point)
        if line in self._rows:
            self._table.move_to(self._rows.index(line))

    # ------------------------------------------------------------------ the lower half

    def _show_lower(self) -> None:
        line = self._line
        report = self._report(line) if line is not None else None
        profile, with_tried = self._profile, self._tried
        self.query_one(Lower).show(
            LowerState(self._rows, line, profile, report, with_tried, self._points)
        )

    def _report(self, line: Line) -> KernelReport | None:
        """The analysed kernel of a row."""
        if line.entry is not None:
            return line.entry.report
        if line.kernel is None or self._profile is None:
            return None
        return words.report_of(line.kernel, self._profile)

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What there is nothing for is not offered."""
        if action in ("open", "filter", "sort", "reverse", "tried", "other", "copy"):
            offered = action != "tried" or any(line.tried for line in self._lines)
            return self._has_widgets() and bool(self._lines) and offered
        if action == "view":
            return (
                self._has_widgets()
                and self._measured
                and self.query_one(Lower).offers(str(parameters[0]))
            )
        return True

    def action_open(self) -> None:
        """Opens the analysed kernel, at the line that stalls most."""
        line = self._line
        if line is None:
            return
        report = self._report(line)
        if line.entry is not None:
            key: str | None = line.entry.key
        else:
            key = report.id if report is not None and report.id in self.session.entries else None
        if key is None:
            self.app.notify(self._why_not(line), severity="warning", markup=False)
            return
        stall_costs = stalls(report) if report is not None else []
        self.kinspect.open_kernel(key, line=stall_costs[0].line if stall_costs else None)

    def _why_not(self, line: Line) -> str:
        kernel, profile = line.kernel, self._profile
        if kernel is None or profile is None or not profile.reports:
            return "nothing was analysed beside this recording: kinspect tui RUN TARGET"
        if kernel.match.is_decided:
            return "the analysed kernel is not open yet"
        return words.matched(kernel, profile) or "no analysed kernel is this one"

    def action_view(self, name: str) -> None:
        """Shows that in the lower half, or the kernel again."""
        lower = self.query_one(Lower)
        lower.view = DETAIL if lower.view == name else name
        self._show_lower()

    def action_tried(self) -> None:
        """Shows or hides what a tuner tried."""
        self._tried = not self._tried
        self._fill()

    def action_sort(self) -> None:
        """Sorts by the next column; behind the last comes the kernel's name."""
        names = [column.name for column in (NAME, *self._columns)]
        by = self._sort[0] if self._sort is not None else _FIRST
        at = names.index(by) + 1 if by in names else 0
        self._sort_by(names[at % len(names)])

    def _sort_by(self, name: str) -> None:
        self._sort = name, name not in (NAME.name, "match")
        self._fill()

    def action_reverse(self) -> None:
        """Turns the order round."""
        by, down = self._sort or (_FIRST, True)
        self._sort = by, not down
        self._fill()

    def action_filter(self) -> None:
        """Asks for words."""
        self.query_one(FilterLine).ask()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters while it is typed."""
        self._words = event.value.strip()
        self._fill()

    def on_filter_line_left(self) -> None:
        """Back to the table."""
        self._table.focus()

    def action_scroll_detail(self, lines: int) -> None:
        """Scrolls what is said in the lower half."""
        self.query_one(Lower).scroll_by(lines)

    def action_other(self) -> None:
        """To the lower half, or back to the table."""
        if not (self._table.has_focus and self.query_one(Lower).take_focus()):
            self._table.focus()

    def action_copy(self) -> None:
        """Copies the kernel's name."""
        line = self._line
        if line is not None:
            self.app.copy_to_clipboard(line.name)
            self.app.notify("copied", timeout=1)

    def action_escape(self) -> None:
        """Gives up the filter, else the view, else the page."""
        if self._words:
            self.query_one(FilterLine).action_drop()
        elif self._measured and self.query_one(Lower).view != DETAIL:
            self.action_view(DETAIL)
        else:
            self.kinspect.action_back()
