"""The line above the kernels' table, and the one in which a filter is typed."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from ....inspector.explain.view import plural
from ...session import Progress
from ...widgets.bars import bar
from ...widgets.styles import part_style

_BAR = 20


class RunStatus(Struct, frozen=True):
    """What the line says."""

    progress: Progress
    doing: str
    failed: int
    shown: int
    of: int
    kernels: int
    text: str
    fault: str
    sort: str
    marked: int
    watching: bool
    runs: int


class Status(Widget):
    """How far the run is, how many rows are shown, and in which order."""

    DEFAULT_CSS = """
    Status { height: 1; padding: 0 1; color: $foreground 70%; }
    Status > .status--bar { color: $success; }
    Status > .status--track { color: $foreground 25%; }
    Status > .status--bad { color: $error; text-style: bold; }
    Status > .status--filter { color: $accent; }
    Status > .status--mark { color: $secondary; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "status--bar",
        "status--track",
        "status--bad",
        "status--filter",
        "status--mark",
    }

    def __init__(self) -> None:
        super().__init__()
        self._run_status: RunStatus | None = None

    def show(self, status: RunStatus) -> None:
        """Says something else."""
        self._run_status = status
        self.refresh()

    def render(self) -> Text:
        """The line, cut to the width."""
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
        progress = status.progress
        line = Text(no_wrap=True)
        if progress.expected:
            share = min(1.0, progress.done / progress.expected)
            for text, name in bar(share, min(_BAR, max(4, width // 8))):
                line.append(text, self._style(name))
            line.append(f" captured {progress.expected} · compiled {progress.compiled}")
        elif progress.compiled:
            line.append(f"{status.doing} … · compiled {progress.compiled}")
        else:
            line.append(f"{status.doing} …")
        done = max(0, progress.done - status.failed)
        line.append(f"{' · ' if line else ''}{done} done")
        self._add_failed(line, status)
        return line

    def _counts(self, status: RunStatus) -> Text:
        line = Text(no_wrap=True)
        if status.text:
            line.append(f"{status.shown} of {status.of}")
        else:
            line.append(plural(status.kernels, "kernel"))
            if status.of - status.failed > status.kernels:
                line.append(f" · {plural(status.of - status.failed, 'specialisation')}")
        self._add_failed(line, status)
        if status.progress.interrupted:
            line.append(" · interrupted")
        if status.watching:
            line.append(f" · run {status.runs}, watching for saves")
        return line

    def _add_failed(self, line: Text, status: RunStatus) -> None:
        if status.failed:
            line.append(" · ")
            line.append(f"{status.failed} failed", self._style("bad"))

    def _right(self, status: RunStatus) -> Text:
        line = Text(no_wrap=True)
        if status.fault:
            line.append(f"{status.fault}  ", self._style("bad"))
        elif status.text:
            line.append(f"/{status.text}  ", self._style("filter"))
        if status.marked:
            line.append(f"{status.marked} marked  ", self._style("mark"))
        line.append(f"by {status.sort}")
        return line

    def _style(self, name: str) -> Style:
        return part_style(self, f"status--{name}")


class FilterLine(Input):
    """The line in which a filter is typed; the table follows every key."""

    DEFAULT_CSS = """
    FilterLine { height: 1; border: none; padding: 0 1; background: $panel; }
    FilterLine:focus { border: none; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,tab", "leave", "Back to the table", show=False),
    ]

    def __init__(self, *, id: str, classes: str) -> None:  # Textual's name for it
        super().__init__(
            placeholder="words, sev:error, vgpr>128, occ<=2, arch:gfx95, is:failed, -word",
            id=id,
            classes=classes,
            compact=True,
        )

    def action_leave(self) -> None:
        """Back to the table, which stays filtered."""
        self.post_message(self.Submitted(self, self.value))
