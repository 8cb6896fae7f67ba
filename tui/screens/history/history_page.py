"""The history page: kernels of earlier runs, one figure plotted over the runs, and the runs.

Dialogues of the history page: which metric to draw, and one run in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.widgets import ContentSwitcher, Input, Static

from ....inspector.base.errors import KinspectError
from ....inspector.base.long_names import shortened
from ....inspector.bench.history.store import History
from ....inspector.explain import view
from ....inspector.explain.plot import MARKS
from ...key_table import bind
from ...pages import Page
from ...widgets.code import RowList, Text, word_filter
from ...widgets.filter_line import FilterLine
from ...widgets.table import Table
from ..dialogue import Dialogue, entitle
from ..list_chooser import Choice, ListChooser
from . import history_queries
from .history_queries import HistoryMetric, RunTable
from .run_plot import RunPlot, drawn, legend

_MOST_SERIES = 4
"""How many series get a column in the table of runs."""
_MOST_LABEL = 24
"""Characters that are shown of a run's label."""
_HOW_TO_KEEP = (
    "Nothing was kept yet.",
    "",
    "These keep their figures, and this page shows them over time:",
    "",
    "  kinspect analyze --history TARGET    registers, occupancy, hot loops",
    "  kinspect lint --history TARGET       the same, and its findings",
    "  kinspect bench KERNEL                times on the GPU",
    "",
    "A run is called by the commit that is checked out, or as --label says.",
)


class HistoryPage(Page):
    """Shows the figures of kernels over the runs that kept them."""

    NAME = "history"
    LEGEND = (
        ("● ○ …", "a target and case: its line in the plot, its column in the table"),
        ("runs", "newest first, by commit or label; analyze --history and bench keep them"),
    )
    DEFAULT_CSS = """
    HistoryPage ContentSwitcher { height: 1fr; }
    HistoryPage #nothing { padding: 1 2; color: $foreground 80%; height: 1fr; }
    HistoryPage #kept { height: 1fr; }
    HistoryPage #state { height: 1; padding: 0 1; color: $foreground 70%; }
    HistoryPage #top { height: 3fr; }
    HistoryPage #names { width: 24; height: 100%; }
    HistoryPage.-wide #names { width: 36; }
    HistoryPage #drawn { width: 1fr; height: 100%; border-left: solid $panel; }
    HistoryPage #title { height: 1; padding: 0 1; text-style: bold; color: $accent; }
    HistoryPage #legend { height: auto; max-height: 7; padding: 0 1; }
    HistoryPage #runs { height: 2fr; min-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("search", "filter", "Filter"),
        bind("columns", "metric", "Metric"),
        bind("next_part", "next_metric(1)", "Next"),
        bind("previous_part", "next_metric(-1)", "Previous", show=False),
        bind("another", "target", "Target"),
        bind("reset", "read", "Read again", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
        self._overview: history_queries.Overview | None = None
        self._kernel_history: history_queries.KernelHistory | None = (
            None  # the kernel under the cursor
        )
        self._names: list[str] = []  # the kernels that the filter leaves
        self._filter_words = ""
        self._metric: str | None = None  # None: the first that the kernel has
        self._target: str | None = None  # None: all targets

    def content(self) -> ComposeResult:
        """Puts kernels beside the plot, above the runs; or explains how to keep runs."""
        with ContentSwitcher(initial="nothing"):
            yield Static(id="nothing", markup=False)
            with Vertical(id="kept"):
                yield Static(id="state", markup=False)
                yield FilterLine("words of a kernel's name", "#kernels", id="filter")
                with Horizontal(id="top"):
                    with Container(id="names"):
                        yield RowList(id="kernels")
                    with Vertical(id="drawn"):
                        yield Static(id="title", markup=False)
                        yield RunPlot(id="plot")
                        yield Static(id="legend", markup=False)
                yield Table(id="runs", least_first=46)

    def on_mount(self) -> None:
        self.query_one("#nothing", Static).update("reading the history …")
        self.action_read()

    def crumb(self) -> str:
        return self._kernel_history.kernel if self._kernel_history is not None else ""

    @property
    def _history(self) -> History:
        return history_queries.history_at(self.kinspect.opening.history)

    def action_read(self) -> None:
        """Rereads the file, to which other processes may have added runs."""
        history = self._history
        read = partial(history_queries.overview, history)
        self.in_thread("overview", read, self._take_overview, self._failed)

    def _failed(self, error: KinspectError) -> None:
        self._overview = self._kernel_history = None
        message = f"The history cannot be read.\n\n{error}\n\nr reads it again."
        self.query_one("#nothing", Static).update(message)
        self.query_one(ContentSwitcher).current = "nothing"
        self.refresh_bindings()

    def _take_overview(self, overview: history_queries.Overview) -> None:
        self._overview = overview
        self.refresh_bindings()
        if not overview.kernels:
            self.query_one("#nothing", Static).update(
                "\n".join((*_HOW_TO_KEEP, "", f"File: {overview.path}"))
            )
            self.query_one(ContentSwitcher).current = "nothing"
            return
        switcher = self.query_one(ContentSwitcher)
        if switcher.current != "kept":
            switcher.current = "kept"
            self.query_one("#kernels", RowList).focus()
        self._show_kernels()

    def _show_kernels(self) -> None:
        overview = self._overview
        if overview is None:
            return
        has_words = word_filter(self._filter_words)
        current = self._kernel_history.kernel if self._kernel_history is not None else ""
        self._names = list(filter(has_words, overview.kernels))
        cursor = self._names.index(current) if current in self._names else 0
        names = self._names
        self.query_one("#kernels", RowList).show(
            Text(names, lambda line: ((0, len(names[line]), "name"),)), cursor
        )
        shown_of = f"{len(names)} of " if len(names) < len(overview.kernels) else ""
        self.query_one("#state", Static).update(
            f"{shown_of}{view.plural(len(overview.kernels), 'kernel')}  ·  "
            f"{view.plural(overview.runs, 'run')} from {history_queries.when(overview.first)} "
            f"to {history_queries.when(overview.last)} UTC"
        )
        self._read_kernel()

    def _read_kernel(self) -> None:
        line = self.query_one("#kernels", RowList).cursor
        if line >= len(self._names):
            self._take_kernel_history(None)
            return
        history, kernel = self._history, self._names[line]
        read = partial(history_queries.kernel_history, history, kernel, self._metric, self._target)
        self.in_thread("kernel_history", read, self._take_kernel_history, self._failed)

    def _take_kernel_history(self, kernel_history: history_queries.KernelHistory | None) -> None:
        self._kernel_history = kernel_history
        chart = kernel_history.chart if kernel_history is not None else None
        title = ""
        if chart is not None:
            unit = f" ({chart.unit})" if chart.unit else ""
            target = f" on {self._target}" if self._target else ""
            title = f"{chart.metric}{unit} over {view.plural(len(chart.runs), 'run')}{target}"
        self.query_one("#title", Static).update(title)
        self.query_one(RunPlot).show(
            chart, kernel_history.why_no_chart if kernel_history is not None else "no such kernel"
        )
        self._show_runs()

    def _show_runs(self) -> None:
        """Shows the table of the kernel's runs, with a column for each plotted series."""
        kernel_history = self._kernel_history
        runs = kernel_history.runs if kernel_history is not None else ()
        chart = kernel_history.chart if kernel_history is not None else None
        series = drawn(chart)[:_MOST_SERIES] if chart is not None else ()
        ticks = chart.runs if chart is not None else ()
        index_of_run = {tick.run: n for n, tick in enumerate(ticks)}
        first = f" {'run':>4}  {'date (UTC)':<16}  commit or label"
        titles = (first, "what", *MARKS[: len(series)], "on", "Triton", "kernels")
        rows = [
            (
                (
                    (f" {row.run:>4}  {history_queries.when(row.date)}  ", ""),
                    (shortened(row.label, _MOST_LABEL), "group"),
                ),
                (
                    row.what,
                    *(
                        history_queries.number(curve.values[index_of_run[row.run]])
                        if row.run in index_of_run
                        else "-"
                        for curve in series
                    ),
                    row.on,
                    row.triton,
                    str(row.kernels),
                ),
            )
            for row in runs
        ]
        self.query_one("#runs", Table).show_texts(titles, rows, cursor=0)
        self._point()

    def _point(self) -> None:
        """Marks the run under the cursor in the plot."""
        kernel_history = self._kernel_history
        line = self.query_one("#runs", Table).cursor
        run = (
            kernel_history.runs[line].run
            if kernel_history is not None and line < len(kernel_history.runs)
            else None
        )
        self.query_one(RunPlot).point_at(run)
        chart = kernel_history.chart if kernel_history is not None else None
        legend_text = legend(chart, run) if chart is not None else Content("")
        self.query_one("#legend", Static).update(legend_text)

    def on_code_view_moved(self) -> None:
        self._read_kernel()

    def on_table_moved(self) -> None:
        """Marks the run that the cursor moved to."""
        self._point()

    def on_row_list_opened(self) -> None:
        self.query_one("#runs", Table).focus()

    def on_table_opened(self, event: Table.Opened) -> None:
        if self._kernel_history is None:
            return
        row = self._kernel_history.runs[event.row]
        parts = (f"run {row.run}", history_queries.when(row.date), row.what, row.label)
        title = "  ".join(part for part in parts if part)
        read = partial(history_queries.shown_run, self._history, row.run)
        self.in_thread("run", read, partial(self._show_run, title), self._failed)

    def _show_run(self, title: str, run_table: history_queries.RunTable) -> None:
        self.app.push_screen(RunScreen(title, run_table))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        needs_kernels = action in ("filter", "metric", "next_metric", "target")
        return not needs_kernels or bool(self._overview and self._overview.kernels)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_words = event.value.strip()
        self._show_kernels()

    def action_metric(self) -> None:
        """Lets the user choose the figure that is plotted."""
        if self._kernel_history is None:
            return
        chart = self._kernel_history.chart
        chosen = chart.metric if chart is not None else ""
        self.app.push_screen(
            metric_chooser(self._kernel_history.metrics, chosen), self._take_metric
        )

    def _take_metric(self, name: str | None) -> None:
        if name is not None:
            self._metric = name
            self._read_kernel()

    def action_next_metric(self, by: int) -> None:
        """Plots the next metric (1) or the one before (-1)."""
        if self._kernel_history is None or not self._kernel_history.metrics:
            return
        names = [metric.name for metric in self._kernel_history.metrics]
        chart = self._kernel_history.chart
        # Where no known metric is plotted, `-by` makes the step land on the first one.
        index = names.index(chart.metric) if chart is not None and chart.metric in names else -by
        self._take_metric(names[(index + by) % len(names)])

    def action_target(self) -> None:
        """Switches from all targets to each one alone, in turn."""
        if self._kernel_history is None:
            return
        targets: list[str | None] = [None, *self._kernel_history.targets]
        index = targets.index(self._target) if self._target in targets else 0
        self._target = targets[(index + 1) % len(targets)]
        self._read_kernel()


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
