"""Dialogues of the history page: which metric to draw, and one run in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from ...widgets.table import Table
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
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Back")]

    def __init__(self, title: str, run_table: RunTable) -> None:
        super().__init__()
        self._title_text = title
        self._run_table = run_table

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            entitle(box, self._title_text)
            yield Table()

    def on_mount(self) -> None:
        table = self.query_one(Table)
        rows = [(((name, "name"),), texts) for name, *texts in self._run_table.rows]
        table.show_texts(self._run_table.titles, rows)
        table.focus()

    def on_table_opened(self) -> None:
        """There is nothing to open: back."""
        self.dismiss(None)
