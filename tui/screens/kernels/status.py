"""The status line above the kernels' table."""

from __future__ import annotations

from msgspec import Struct
from rich.text import Text

from ....inspector.explain.view import plural
from ...session import RunProgress
from ...widgets.bars import bar
from ...widgets.styles import PartedWidget

_MAX_BAR_CELLS = 20


class RunStatus(Struct, frozen=True):
    """The content of the status line.

    Attributes:
        progress: of the run.
        stage: what the run does before the first kernel is captured, such as "reading".
        failures: kernels and files that failed.
        shown: kernels and failures that pass the filter.
        total: kernels and failures without the filter.
        kernels: the table's outermost rows that hold kernels.
        filter_text: the filter as typed; "" without one.
        filter_error: why the filter cannot be understood; "" if it can.
        sort: the name of the order.
        marked: kernels that the user marked.
        watching: whether files are analysed again when they are saved.
        runs: the number of runs started.
    """

    progress: RunProgress
    stage: str
    failures: int
    shown: int
    total: int
    kernels: int
    filter_text: str
    filter_error: str
    sort: str
    marked: int
    watching: bool
    runs: int


class Status(PartedWidget):
    """Shows the progress of the run, the number of rows, the filter and the order."""

    PREFIX = "status"
    DEFAULT_CSS = """
    Status { height: 1; padding: 0 1; color: $foreground 70%; }
    Status > .status--bar { color: $success; }
    Status > .status--track { color: $foreground 25%; }
    Status > .status--bad { color: $error; text-style: bold; }
    Status > .status--filter { color: $accent; }
    Status > .status--mark { color: $secondary; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._run_status: RunStatus | None = None

    def show(self, status: RunStatus) -> None:
        """Shows another status."""
        self._run_status = status
        self.refresh()

    def render(self) -> Text:
        """The line, cut to the widget's width."""
        status = self._run_status
        if status is None:
            return Text("")
        width = self.content_size.width
        right = self._right(status)
        left = self._run(status, width) if status.progress.running else self._counts(status)
        left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis", pad=True)
        line = Text.assemble(left, " ", right)
        line.truncate(width, overflow="ellipsis")
        return line

    def _run(self, status: RunStatus, width: int) -> Text:
        """The left half during a run: its progress."""
        progress = status.progress
        line = Text(no_wrap=True)
        if progress.expected:
            share = min(1.0, progress.done / progress.expected)
            for cells, name in bar(share, min(_MAX_BAR_CELLS, max(4, width // 8))):
                line.append(cells, self.part_style(name))
            line.append(f" captured {progress.expected:,} · compiled {progress.compiled:,}")
        elif progress.compiled:
            line.append(f"{status.stage} … · compiled {progress.compiled:,}")
        else:
            line.append(f"{status.stage} …")
        reported = max(0, progress.done - status.failures)
        line.append(f"{' · ' if line else ''}{reported:,} done")
        self._add_failed(line, status)
        return line

    def _counts(self, status: RunStatus) -> Text:
        """The left half after a run: the numbers of kernels, configurations and failures."""
        line = Text(no_wrap=True)
        if status.filter_text:
            line.append(f"{status.shown:,} of {status.total:,}")
        else:
            line.append(plural(status.kernels, "kernel"))
            if status.total - status.failures > status.kernels:
                line.append(f" · {plural(status.total - status.failures, 'specialisation')}")
        self._add_failed(line, status)
        if status.progress.interrupted:
            line.append(" · interrupted")
        if status.watching:
            line.append(f" · run {status.runs}, watching for saves")
        return line

    def _add_failed(self, line: Text, status: RunStatus) -> None:
        if status.failures:
            line.append(" · ")
            line.append(f"{status.failures:,} failed", self.part_style("bad"))

    def _right(self, status: RunStatus) -> Text:
        line = Text(no_wrap=True)
        if status.filter_error:
            line.append(f"{status.filter_error}  ", self.part_style("bad"))
        elif status.filter_text:
            line.append(f"/{status.filter_text}  ", self.part_style("filter"))
        if status.marked:
            line.append(f"{status.marked} marked  ", self.part_style("mark"))
        line.append(f"by {status.sort}")
        return line
