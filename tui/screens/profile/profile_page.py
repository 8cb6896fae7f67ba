"""The page of measured kernels, beside the figures of the compiler's output."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Input, Static

from ....inspector.explain import profile_view, quantities
from ....inspector.explain.view import plural
from ....inspector.model import KernelReport
from ....inspector.model.recording import Profile
from ....inspector.profile.placing.stalls import stalls
from ...key_table import bind
from ...pages import Page
from ...widgets.document_text import content
from ...widgets.filter_line import FilterLine
from ...widgets.roofline import Roofline, RooflinePoint
from ...widgets.table import ColumnHead, Table, TableRow
from . import profile_details
from .measured_kernels import (
    NAME,
    KernelRow,
    ProfileColumn,
    columns,
    filtered,
    is_text,
    of_profile,
    of_reports,
    ordered,
    point,
    table_row,
)
from .profile_views import DETAIL, VIEWS, Lower, LowerState, unbroken

_DEFAULT_SORT = "measured.share_of_time"


class ProfilePage(Page):
    """Lists measured kernels, most time first, and details the one under the cursor."""

    NAME = "profile"
    PALETTE = False
    LEGEND = (
        ("≡", "the code object of an analysed kernel"),
        ("≈", "one analysed kernel agrees in all that was recorded"),
        ("?", "several analysed kernels agree"),
        ("·", "no analysed kernel agrees"),
    )
    DEFAULT_CSS = """
    ProfilePage #nothing { height: 1fr; padding: 1 2; }
    ProfilePage #recording { height: 2; background: $surface; }
    ProfilePage #table { height: 1fr; min-height: 3; }
    ProfilePage #below { height: 1fr; }
    ProfilePage.-high #below { height: 3fr; }
    ProfilePage.-high #table { height: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("open", "open", "Open kernel"),
        bind("search", "filter", "Filter"),
        bind("sort", "sort", "Sort"),
        bind("reverse", "reverse", "Reverse the order", show=False),
        bind("view", "view", "View"),
        bind("only", "tried", "Tuned"),
        bind("beside_down", "scroll_detail(3)", "Detail down", show=False),
        bind("beside_up", "scroll_detail(-3)", "Detail up", show=False),
        Binding("tab", "other", "To the lower half, and back", show=False),
        bind("copy", "copy", "Copy the kernel's name", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]
        self._all_rows: list[KernelRow] = []
        self._rows: list[KernelRow] = []  # those that pass the filter, in order
        self._columns: list[ProfileColumn] = []
        self._points: dict[str, RooflinePoint] = {}
        self._filter_text = ""
        self._shows_tried = False

    def content(self) -> ComposeResult:
        with VerticalScroll(id="nothing"):
            yield Static(id="why", markup=False)
        with Vertical(id="measured"):
            yield Static(id="recording", markup=False)
            yield FilterLine("words: kernel, exact, likely, ambiguous, none", "Table", id="filter")
            yield Table(id="table", least_first=24)
            yield Lower(id="below")

    @property
    def _profile(self) -> Profile | None:
        return self.session.profile

    @property
    def _table(self) -> Table:
        return self.query_one("#table", Table)

    @property
    def _row(self) -> KernelRow | None:
        index = self._table.cursor
        return self._rows[index] if index < len(self._rows) else None

    @property
    def _has_measurements(self) -> bool:
        return self._profile is not None or bool(self._all_rows)

    def crumb(self) -> str:
        if self._profile is None:
            count = len(self._all_rows)
            return f"{count} of {len(self.session.entries)} kernels measured" if count else ""
        kernels = plural(len(profile_view.main_kernels(self._profile)), "kernel")
        total_ns = self._profile.total_ns
        return f"{kernels} in {quantities.duration(total_ns)}" if total_ns is not None else kernels

    def session_changed(self) -> None:
        profile = self._profile
        self._all_rows = of_profile(profile) if profile else of_reports(self.session.ordered())
        self._columns = columns(self._all_rows)
        candidates = ((row.key, point(row)) for row in self._all_rows)
        self._points = {key: candidate for key, candidate in candidates if candidate is not None}
        self.query_one(Lower).forget()
        for name, visible in (
            ("nothing", not self._has_measurements),
            ("measured", self._has_measurements),
        ):
            self.query_one(f"#{name}").display = visible
        self.query_one("#recording").display = profile is not None
        if not self._has_measurements:
            self._show_introduction()
            if self.focused is None:
                self.query_one("#nothing").focus()
        else:
            self._show_header()
            self._fill_table()
            if self.focused is None or self.focused.id == "nothing":
                self._table.focus()
        self.refresh_bindings()

    def on_resize(self, event: Resize) -> None:
        if self._has_widgets():
            self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        if not self._has_widgets():
            return
        if self._has_measurements:
            self._show_header()
            self._show_lower()
        else:
            self._show_introduction()

    def _show_introduction(self) -> None:
        width = max(20, self.app.size.width - 6)
        self.query_one("#why", Static).update(
            content(profile_details.HOW_TO_RECORD, min(width, 110))
        )

    def _show_header(self) -> None:
        if self._profile is not None:
            unbroken(self.query_one("#recording", Static), profile_details.header(self._profile))

    @property
    def _sort(self) -> tuple[str, bool] | None:
        """(column, descending); None: the default, also where the kept column is not shown."""
        state = self.kinspect.state
        if state.measured_sort not in [column.name for column in (NAME, *self._columns)]:
            return None
        return state.measured_sort, state.measured_falling

    def _sort_to(self, name: str, *, falling: bool) -> None:
        state = self.kinspect.state
        state.measured_sort, state.measured_falling = name, falling
        self.kinspect.keep_state()
        self._fill_table()

    def _fill_table(self) -> None:
        """Filters and sorts the rows; the cursor stays with its kernel."""
        former_row = self._row
        sort_name, down = self._sort or (_DEFAULT_SORT, True)
        column = next((c for c in (NAME, *self._columns) if c.name == sort_name), None)
        matching = filtered(self._all_rows, self._filter_text, tried=self._shows_tried)
        rows = self._rows = ordered(matching, column if self._sort else None, down=down)
        kept_names = {row.name for row in rows if not row.tried}
        shown_columns = self._columns

        def draw(index: int) -> TableRow:
            row = rows[index]
            return table_row(row, shown_columns, folded=row.tried and row.name in kept_names)

        heads = [
            ColumnHead(NAME.name, " kernel", 0),
            *(shown_column.head() for shown_column in shown_columns),
        ]
        self._table.styles.max_height = max(3, len(rows) + 1)  # the lower half has the rest
        keys = [row.key for row in rows]
        cursor = (
            keys.index(former_row.key)
            if former_row is not None and former_row.key in keys
            else None
        )
        self._table.show(
            heads,
            len(rows),
            draw,
            sorted_by=(sort_name, down),
            cursor=0 if cursor is None and former_row is not None else cursor,
            empty=self._why_empty(),
        )
        self._show_lower()

    def _why_empty(self) -> str:
        if self._filter_text:
            return f"no kernel has the words {self._filter_text!r}"
        profile = self._profile
        if profile is not None and profile.recording.summary:
            return "no dispatches were kept: below stands the profiler's own summary"
        return "no dispatches were recorded: below stands what is known of the recording"

    def on_table_moved(self, message: Table.Moved) -> None:
        """Shows the details of the kernel under the cursor."""
        if message.table.id == "table":
            self._show_lower()

    def on_table_opened(self, message: Table.Opened) -> None:
        if message.table.id == "table":
            self.action_open()

    def on_table_head_clicked(self, message: Table.HeadClicked) -> None:
        """Sorts by the column; reverses the order if the rows are sorted by it already."""
        if message.table.id != "table":
            return
        if self._sort is not None and self._sort[0] == message.name:
            self.action_reverse()
        else:
            self._sort_by(message.name)

    def on_roofline_picked(self, message: Roofline.Picked) -> None:
        row = self.query_one(Lower).row_of(message.point)
        if row in self._rows:
            self._table.move_to(self._rows.index(row))

    def _show_lower(self) -> None:
        row = self._row
        report = self._report(row) if row is not None else None
        profile, with_tried = self._profile, self._shows_tried
        self.query_one(Lower).show(
            LowerState(self._rows, row, profile, report, with_tried, self._points)
        )

    def _report(self, row: KernelRow) -> KernelReport | None:
        """The analysed kernel of a row; None without one."""
        if row.entry is not None:
            return row.entry.report
        if row.kernel is None or self._profile is None:
            return None
        return profile_view.report_of(row.kernel, self._profile)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("open", "filter", "sort", "reverse", "tried", "other", "copy"):
            offered = action != "tried" or any(row.tried for row in self._all_rows)
            return self._has_widgets() and bool(self._all_rows) and offered
        if action == "view":
            lower = self.query_one(Lower) if self._has_widgets() else None
            return (
                lower is not None
                and self._has_measurements
                and any(lower.offers(name) for name in VIEWS)
            )
        return True

    def action_open(self) -> None:
        """Opens the analysed kernel, at the line that stalls most."""
        row = self._row
        if row is None:
            return
        report = self._report(row)
        if row.entry is not None:
            key: str | None = row.entry.key
        else:
            key = report.id if report is not None and report.id in self.session.entries else None
        if key is None:
            self.app.notify(self._why_not_opened(row), severity="warning", markup=False)
            return
        stall_costs = stalls(report) if report is not None else []
        self.kinspect.open_kernel(key, line=stall_costs[0].line if stall_costs else None)

    def _why_not_opened(self, row: KernelRow) -> str:
        kernel, profile = row.kernel, self._profile
        if kernel is None or profile is None or not profile.reports:
            return profile_details.UNJOINED
        if kernel.match.is_decided:
            return "the analysed kernel is not open yet"
        return profile_view.match_text(kernel, profile) or "no analysed kernel is this one"

    def action_view(self) -> None:
        """Shows the next view in the lower half, after the last the kernel's details."""
        lower = self.query_one(Lower)
        offered = [name for name in VIEWS if lower.offers(name)]
        following = offered[offered.index(lower.view) + 1 :] if lower.view in offered else offered
        self._show_view(following[0] if following else DETAIL)

    def _show_view(self, name: str) -> None:
        self.query_one(Lower).view = name
        self._show_lower()

    def action_tried(self) -> None:
        """Shows or hides kernels that an autotuner only tried."""
        self._shows_tried = not self._shows_tried
        self._fill_table()

    def action_sort(self) -> None:
        """Sorts by the next column; after the last comes the kernel's name."""
        names = [column.name for column in (NAME, *self._columns)]
        sort_name = self._sort[0] if self._sort is not None else _DEFAULT_SORT
        index = names.index(sort_name) + 1 if sort_name in names else 0
        self._sort_by(names[index % len(names)])

    def _sort_by(self, name: str) -> None:
        column = next(column for column in (NAME, *self._columns) if column.name == name)
        self._sort_to(name, falling=not is_text(column, self._all_rows))

    def action_reverse(self) -> None:
        sort_name, descending = self._sort or (_DEFAULT_SORT, True)
        self._sort_to(sort_name, falling=not descending)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self._fill_table()

    def action_scroll_detail(self, lines: int) -> None:
        self.query_one(Lower).scroll_by(lines)

    def action_other(self) -> None:
        """Moves the focus to the lower half, or back to the table."""
        if not (self._table.has_focus and self.query_one(Lower).take_focus()):
            self._table.focus()

    def action_copy(self) -> None:
        row = self._row
        if row is not None:
            self.app.copy_to_clipboard(row.name)
            self.app.notify("copied", timeout=1)

    def close_top(self) -> bool:
        if super().close_top():
            return True
        has_view = self._has_measurements and self.query_one(Lower).view != DETAIL
        if has_view:
            self._show_view(DETAIL)
        return has_view
