"""What was measured, beside what the compiler's output says."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import ClassVar

from kinspect.tui.pages import Page
from kinspect.tui.screens.profile.rows import (
    STATIC,
    Point,
    Roof,
    columns,
    detail,
    has_measured,
    points,
    roof,
    row,
)
from kinspect.tui.session import Entry
from kinspect.tui.widgets.heading import Heading
from kinspect.tui.widgets.keys import Keys
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Static
from textual_plotext import PlotextPlot

NOTHING = """
Every figure on the other pages is read off the compiler's output or computed from it. This page
sets beside them what a device says: durations and counters of each dispatch, stalls of each loop,
and where a kernel stands under the roofline."""
TODAY = (
    "A saved report whose metrics have the origin `measured`: kinspect tui REPORT.json",
    "`kinspect bench NAME` checks a kernel and times it on the GPU that torch sees, with TFLOP/s "
    "and GB/s of its useful work. Its results are on the page History (7).",
)
_LEAST = (24, 8)
_MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
_PREFIXES = ("", " k", " M", " G", " T", " P", " E")
PLANNED = (
    "Reading runs of rocprofv3 (CSV, JSON, rocpd), of rocprof-compute and of the PyTorch profiler.",
    "Running rocprofv3 on a command, with counters in as many passes as they need.",
    "Measured stalls on the lines of the assembly, beside the findings about them.",
)


def nothing() -> Table:
    """What the page says while there is nothing to show: how to get it, and what is planned."""
    words = Table.grid()
    words.add_row(Text("Nothing was measured of what is open.\n", "bold"))
    words.add_row(Text(" ".join(NOTHING.split()) + "\n"))
    for title, lines in (("What there is today", TODAY), ("What is planned", PLANNED)):
        words.add_row(Text(title, "bold"))
        table = Table.grid(padding=(0, 1))
        for line in lines:
            table.add_row(Text("•"), Text(line))
        table.add_row("", "")
        words.add_row(table)
    return words


class Roofline(PlotextPlot):
    """Kernels under the roof of their device, both axes logarithmic."""

    def render(self) -> RenderResult:
        """The plot, where there is room for its axes."""
        if self.size.width < _LEAST[0] or self.size.height < _LEAST[1]:
            return Text("a larger window shows the roofline", "italic")
        return super().render()

    def draw(self, found: list[Point], top: Roof | None) -> None:
        """Draws them, each as a digit or letter; the border says whose it is.

        Args:
            found: the kernels.
            top: what the device can do at most; None: not known.
        """
        # Logarithms are taken here: plotext takes them again whenever it draws.
        plot = self.plt
        plot.clear_data()
        plot.clear_figure()
        x = [log10(point.intensity) for point in found]
        y = [log10(point.rate) for point in found]
        for across, up, mark in zip(x, y, _MARKS, strict=False):
            plot.scatter([across], [up], marker=mark)
        if top is not None:
            ridge, roof = log10(top.rate / top.bandwidth), log10(top.rate)
            low, high = min(*x, ridge) - 0.3, max(*x, ridge) + 0.3
            plot.plot([low, ridge, high], [low + log10(top.bandwidth), roof, roof])
            x, y = [*x, low, high], [*y, low + log10(top.bandwidth), roof]
        plot.xticks(*_ticks(x))
        plot.yticks(*_ticks(y))
        names = (f"{mark} {point.name}" for point, mark in zip(found, _MARKS, strict=False))
        self.border_title = Text("operations per second over operations per byte")
        self.border_subtitle = Text(" · ".join(names))
        self.refresh()


def _ticks(logarithms: list[float]) -> tuple[list[float], list[str]]:
    """The powers of ten among these values, as people write them: 100 G, 1 T."""
    powers = list(range(floor(min(logarithms)), ceil(max(logarithms)) + 1))
    return [float(power) for power in powers], [_power(power) for power in powers]


def _power(power: int) -> str:
    index, rest = divmod(power, 3)
    if 0 <= index < len(_PREFIXES):
        return f"{10**rest}{_PREFIXES[index]}"
    return f"1e{power}"


class ProfilePage(Page):
    """Measured figures beside static ones, kernel by kernel."""

    NAME = "profile"
    HELP = """
    What a device measured beside what the compiler's output says: one kernel a row, measured
    figures first, then static ones. Below the table stands everything that was measured of the
    kernel under the cursor and of its loops, with the loop's instruction mix.

    Only figures whose origin is "measured" count as such; nothing here is estimated. Where a run
    tells operations and bytes, kernels stand in a roofline plot.
    """
    DEFAULT_CSS = """
    ProfilePage #nothing { height: 1fr; padding: 1 2; }
    ProfilePage #table { height: 1fr; min-height: 4; scrollbar-size: 1 1; }
    ProfilePage #below { height: 1fr; border-top: solid $panel; }
    ProfilePage #detail { width: 1fr; padding: 0 1; scrollbar-size: 1 1; }
    ProfilePage Roofline { width: 1fr; display: none; border: round $panel; }
    ProfilePage.-roofline Roofline { display: block; }
    ProfilePage.-measured #nothing { display: none; }
    ProfilePage #table, ProfilePage #below { display: none; }
    ProfilePage.-measured #table, ProfilePage.-measured #below { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open kernel"),
        Binding("j", "move('down')", "Down", show=False),
        Binding("k", "move('up')", "Up", show=False),
        Binding("g", "move('scroll_top')", "First", show=False),
        Binding("G", "move('scroll_bottom')", "Last", show=False),
        Binding("ctrl+d", "move('page_down')", "Page down", show=False),
        Binding("ctrl+u", "move('page_up')", "Page up", show=False),
    ]

    def compose(self) -> ComposeResult:
        """The table with its detail, or the words that say why there is none."""
        yield Heading()
        with VerticalScroll(id="nothing"):
            yield Static(nothing())
        table: DataTable[str | Text] = DataTable(id="table", cursor_type="row", zebra_stripes=True)
        table.fixed_columns = 1
        yield table
        with Horizontal(id="below"):
            with VerticalScroll(id="detail"):
                yield Static(id="lines")
            yield Roofline()
        yield Keys(palette=False)

    def crumb(self) -> str:
        """How many kernels were measured."""
        found = len(self._entries())
        return f"{found} of {len(self.session.entries)} kernels measured" if found else ""

    def _entries(self) -> list[Entry]:
        return [entry for entry in self.session.ordered() if has_measured(entry.report)]

    @property
    def _table(self) -> DataTable[str | Text]:
        return self.query_one("#table", DataTable)

    def session_changed(self) -> None:
        """Fills the table anew; the cursor stays on its kernel."""
        entries = self._entries()
        self.set_class(bool(entries), "-measured")
        self.refresh_bindings()
        if not entries:
            if self.focused is None:
                self.query_one("#nothing").focus()
            return
        table = self._table
        first = not table.row_count
        chosen = self._chosen()
        table.clear(columns=True)
        seen = columns(entries)
        table.add_column("kernel", key="kernel")
        table.add_column("arch")
        for name, unit in seen.items():
            table.add_column(Text(f"{name}\n[{unit}]" if unit else name, "bold"))
        for title, _ in STATIC:
            table.add_column(title)
        table.add_column("findings")
        table.header_height = 2
        for entry in entries:
            name, arch, *figures, findings = row(entry, seen)
            cells = [Text(figure, justify="right") for figure in figures]
            table.add_row(name, arch, *cells, findings, key=entry.key)
        keys = [entry.key for entry in entries]
        table.move_cursor(row=keys.index(chosen) if chosen in keys else 0)
        found = points(entries)
        self.set_class(bool(found), "-roofline")
        if found:
            self.query_one(Roofline).draw(found, roof(entries))
        if first:
            table.focus()
        self._show_detail()

    def _chosen(self) -> str | None:
        table = self._table
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def on_data_table_row_highlighted(self, event: Message) -> None:
        """Another kernel's figures."""
        self._show_detail()

    def on_data_table_row_selected(self, event: Message) -> None:
        """Opens the kernel."""
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to open without kernels."""
        return action != "open" or self.has_class("-measured")

    def action_open(self) -> None:
        """Opens the kernel under the cursor."""
        chosen = self._chosen()
        if chosen is not None and chosen in self.session.entries:
            self.kinspect.open_kernel(chosen)

    def action_move(self, how: str) -> None:
        """Moves the cursor of the table, or scrolls the words."""
        if self.has_class("-measured"):
            table = self._table
            {
                "down": table.action_cursor_down,
                "up": table.action_cursor_up,
                "scroll_top": table.action_scroll_top,
                "scroll_bottom": table.action_scroll_bottom,
                "page_down": table.action_page_down,
                "page_up": table.action_page_up,
            }[how]()
            return
        words = self.query_one("#nothing", VerticalScroll)
        {
            "down": words.action_scroll_down,
            "up": words.action_scroll_up,
            "scroll_top": words.action_scroll_home,
            "scroll_bottom": words.action_scroll_end,
            "page_down": words.action_page_down,
            "page_up": words.action_page_up,
        }[how]()

    def _show_detail(self) -> None:
        entry = self.session.entries.get(self._chosen() or "")
        if entry is None:
            return
        styles = {"title": "bold", "static": "$foreground 65%"}
        lines = [(f"{line}\n", styles.get(style, "")) for style, line in detail(entry)]
        self.query_one("#lines", Static).update(Content.assemble(*lines))
