"""Dialogues of the history page: which metric to draw, and one run in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from ...widgets.code import Text
from ...widgets.filtered_list import RowList
from ..dialogue import Dialogue, entitle
from ..list_chooser import Choice, ListChooser
from .queries import HistoryMetric, RunTable


def metric_chooser(metrics: Sequence[HistoryMetric], chosen: str) -> ListChooser:
    """A list of metrics; its result is the chosen one's name."""
    names = max((len(metric.name) for metric in metrics), default=0)
    units = max((len(metric.unit) for metric in metrics), default=0)
    spans = ((0, names, "name"), (names + 2, names + 2 + units, "literal"))
    choices = [
        Choice(m.name, f"{m.name:<{names}}  {m.unit:<{units}}  {m.about}", spans) for m in metrics
    ]
    return ListChooser("metric over the runs", choices, chosen)


class RunScreen(Dialogue[None]):
    """A dialogue that shows a run in full."""

    DEFAULT_CSS = """
    RunScreen > Vertical { max-width: 180; height: 80%; }
    RunScreen .titles { height: 1; color: $foreground 60%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]

    def __init__(self, title: str, run_table: RunTable) -> None:
        super().__init__()
        self._title_text = title
        self._run_table = run_table

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            entitle(box, self._title_text)
            yield Static(classes="titles", markup=False)
            yield RowList()

    def on_mount(self) -> None:
        table = text_table(self._run_table.titles, self._run_table.rows)
        self.query_one(Static).update(table.heads)
        rows = self.query_one(RowList)
        width = max((len(row[0]) for row in self._run_table.rows), default=0)
        rows.show(Text(table.lines, lambda line: ((0, width, "name"),)))
        rows.focus()

    def on_row_list_opened(self) -> None:
        self.dismiss(None)


class TextTable(Struct, frozen=True):
    """A table as lines of text.

    Attributes:
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
