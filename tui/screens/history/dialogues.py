"""Dialogues of the history page: which metric to draw, and one run in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...widgets.code import Text
from ...widgets.filtered_list import RowList, word_filter
from .queries import HistoryMetric, RunTable

_CSS = """
    {name} {{ align: center middle; background: $background 60%; }}
    {name} > Vertical {{
        width: 90%; max-width: {width}; height: 80%; background: $surface;
        border: round $primary; padding: 0 1;
    }}
    {name} CodeView {{ background: $surface; }}
    {name} Input {{ height: 1; border: none; padding: 0; background: $panel; }}
    {name} .titles {{ height: 1; color: $foreground 60%; text-style: bold; }}
"""


class MetricScreen(ModalScreen[str | None]):
    """Chooses a metric: typing narrows, enter takes.

    Args:
        figures: what there is.
        chosen: what is drawn now.
    """

    DEFAULT_CSS = _CSS.format(name="MetricScreen", width=110)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
    ]

    def __init__(self, figures: Sequence[HistoryMetric], chosen: str) -> None:
        super().__init__()
        self._figures = figures
        self._chosen = chosen
        self._filtered: list[HistoryMetric] = []

    def compose(self) -> ComposeResult:
        """Stacks the input line and the list."""
        with Vertical() as box:
            box.border_title = "metric over the runs"
            yield Input(placeholder="words of its name or meaning", compact=True)
            yield RowList(id="metrics")

    def on_mount(self) -> None:
        """Lists all metrics, with the current one under the cursor."""
        self.query_one(RowList).can_focus = False
        self._show("")
        self.query_one(Input).focus()

    def _show(self, typed: str) -> None:
        """Lists the metrics that contain all words of a filter."""
        has_words = word_filter(typed)
        self._filtered = [
            figure
            for figure in self._figures
            if has_words(f"{figure.name} {figure.unit} {figure.about}")
        ]
        names = max((len(figure.name) for figure in self._filtered), default=0)
        units = max((len(figure.unit) for figure in self._filtered), default=0)
        lines = [f"{f.name:<{names}}  {f.unit:<{units}}  {f.about}" for f in self._filtered]
        spans = ((0, names, "name"), (names + 2, names + 2 + units, "literal"))
        cursor = next((n for n, f in enumerate(self._filtered) if f.name == self._chosen), 0)
        self.query_one(RowList).show(Text(lines, lambda line: spans), cursor)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters the list while the user types."""
        self._show(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Chooses the metric under the cursor."""
        self._take(self.query_one(RowList).cursor)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Chooses a metric that was double-clicked."""
        self._take(event.line)

    def _take(self, line: int) -> None:
        self.dismiss(self._filtered[line].name if line < len(self._filtered) else None)

    def action_move(self, by: int) -> None:
        """Moves the cursor of the list while the input line has the focus."""
        self.query_one(RowList).action_move(by)

    def action_leave(self) -> None:
        """Closes the dialogue without a choice."""
        self.dismiss(None)


class RunScreen(ModalScreen[None]):
    """A dialogue that shows a run in full.

    Args:
        title: names the run.
        run_table: its kernels or cases.
    """

    DEFAULT_CSS = _CSS.format(name="RunScreen", width=180)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "leave", "Back")]

    def __init__(self, title: str, run_table: RunTable) -> None:
        super().__init__()
        self._title_text = title
        self._run_table = run_table

    def compose(self) -> ComposeResult:
        """A table."""
        with Vertical() as box:
            box.border_title = escape(self._title_text)
            yield Static(classes="titles", markup=False)
            yield RowList()

    def on_mount(self) -> None:
        """Fills the table."""
        table = text_table(self._run_table.titles, self._run_table.rows)
        self.query_one(Static).update(table.heads)
        rows = self.query_one(RowList)
        width = max((len(row[0]) for row in self._run_table.rows), default=0)
        rows.show(Text(table.lines, lambda line: ((0, width, "name"),)))
        rows.focus()

    def on_row_list_opened(self) -> None:
        """There is nothing to open: back."""
        self.dismiss(None)

    def action_leave(self) -> None:
        """Back to the page."""
        self.dismiss(None)


class TextTable(Struct, frozen=True):
    """A table as lines of text.

    Attributes:
        heads: the line of titles.
        lines: a line for each row.
        columns: number of a column -> its first and last + 1 character; without those left out.
    """

    heads: str
    lines: Sequence[str]
    columns: Mapping[int, tuple[int, int]]


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> TextTable:
    """Titles and rows as aligned lines: figures to the right, texts to the left.

    A column in which every cell is empty is left out.
    """
    shown = [n for n in range(len(titles)) if not rows or any(row[n] for row in rows)]
    right = {n: bool(rows) and all(_is_figure(row[n]) for row in rows) for n in shown}
    widths = {n: max(len(line[n]) for line in (titles, *rows)) for n in shown}
    heads, *lines = (
        "  ".join(
            line[n].rjust(widths[n]) if right[n] else line[n].ljust(widths[n]) for n in shown
        ).rstrip()
        for line in (titles, *rows)
    )
    columns: dict[int, tuple[int, int]] = {}
    start = 0
    for n in shown:
        columns[n] = start, start + widths[n]
        start += widths[n] + 2
    return TextTable(heads, lines, columns)


def _is_figure(cell: str) -> bool:
    return cell == "-" or cell.lstrip("-+").replace(",", "").replace(".", "").isdigit()
