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


class Told(Struct, frozen=True):
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
        self._told: Told | None = None

    def show(self, told: Told) -> None:
        """Says something else."""
        self._told = told
        self.refresh()

    def render(self) -> Text:
        """The line, cut to the width."""
        told = self._told
        if told is None:
            return Text("")
        width = self.content_size.width
        right = self._right(told)
        left = self._run(told, width) if told.progress.running else self._counts(told)
        left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis", pad=True)
        line = Text.assemble(left, " ", right)
        line.truncate(width, overflow="ellipsis")
        return line

    def _run(self, told: Told, width: int) -> Text:
        progress = told.progress
        line = Text(no_wrap=True)
        if progress.expected:
            share = min(1.0, progress.done / progress.expected)
            for text, name in bar(share, min(_BAR, max(4, width // 8))):
                line.append(text, self._style(name))
            line.append(f" captured {progress.expected} · compiled {progress.compiled}")
        elif progress.compiled:
            line.append(f"{told.doing} … · compiled {progress.compiled}")
        else:
            line.append(f"{told.doing} …")
        done = max(0, progress.done - told.failed)
        line.append(f"{' · ' if line else ''}{done} done")
        self._add_failed(line, told)
        return line

    def _counts(self, told: Told) -> Text:
        line = Text(no_wrap=True)
        if told.text:
            line.append(f"{told.shown} of {told.of}")
        else:
            line.append(plural(told.kernels, "kernel"))
            if told.of - told.failed > told.kernels:
                line.append(f" · {plural(told.of - told.failed, 'specialisation')}")
        self._add_failed(line, told)
        if told.progress.interrupted:
            line.append(" · interrupted")
        if told.watching:
            line.append(f" · run {told.runs}, watching for saves")
        return line

    def _add_failed(self, line: Text, told: Told) -> None:
        if told.failed:
            line.append(" · ")
            line.append(f"{told.failed} failed", self._style("bad"))

    def _right(self, told: Told) -> Text:
        line = Text(no_wrap=True)
        if told.fault:
            line.append(f"{told.fault}  ", self._style("bad"))
        elif told.text:
            line.append(f"/{told.text}  ", self._style("filter"))
        if told.marked:
            line.append(f"{told.marked} marked  ", self._style("mark"))
        line.append(f"by {told.sort}")
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
