"""The list of passes (numbers, names, layout conversions, changes, stages, sizes), and a line of
the module's size over it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from ...widgets.bars import Piece
from ...widgets.styles import PartedWidget
from ...widgets.table import ColumnHead, Table, TableRow
from .pass_timeline import LEVELS, Timeline, bytes_of, levels, name_of

_STAGE_STYLES: Mapping[str, str] = {"ttir": "mark", "ttgir": "group", "llir": "star"}


class PassList(Table):
    """The list of passes, which never scrolls sideways: the right key goes to the diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,enter", "open", "Diff", show=False),
        Binding("left,h", "nothing", show=False),
    ]

    def action_nothing(self) -> None:
        """Does nothing, since there is no pane left of the list."""

    def show_passes(
        self, timeline: Timeline, listed: Sequence[int], mark: int | None, cursor: int
    ) -> None:
        """Shows passes; what changed nothing is dim.

        Args:
            timeline: the dump.
            listed: the passes to list.
            mark: the marked pass.
            cursor: the row to put the cursor on.
        """
        most = max((c.added + c.removed for c in timeline.changes.values()), default=1)
        changes = {n: _change(timeline, n, most) for n in listed}
        width = max((sum(len(text) for text, _ in cell) for cell in changes.values()), default=0)
        conversions = {n: "{}→{}".format(*c) for n in listed if (c := timeline.conversions(n))}
        columns: dict[str, ColumnHead] = {
            "conversions": ColumnHead("conversions", "converts", 8, right=True),
            "lines": ColumnHead("lines", "lines", max(5, width), right=True),
            "stage": ColumnHead("stage", "stage", 5),
            "size": ColumnHead("size", "size before", 11, right=True),
        }
        if not conversions:
            del columns["conversions"]

        def draw(row: int) -> TableRow:
            n = listed[row]
            compiler_pass = timeline.passes[n]
            stage = compiler_pass.stage
            sign = "●" if compiler_pass.changed else " "
            sign = "◆" if n == mark else "▸" if n in timeline.events else sign
            dim = "" if compiler_pass.changed else "dim"
            cells: dict[str, tuple[Piece, ...]] = {
                "conversions": ((conversions.get(n, ""), "warning"),),
                "lines": changes[n],
                "stage": ((stage, _STAGE_STYLES.get(stage, "")),),
                "size": ((bytes_of(compiler_pass.size), "dim"),),
            }
            first = ((f"{n:>4} ", "dim"), (f"{sign} ", "star"), (name_of(compiler_pass), dim))
            return TableRow(first, tuple(cells[name] for name in columns))

        heads = (ColumnHead("pass", "       pass", 0), *columns.values())
        self.show(heads, len(listed), draw, cursor=cursor, empty="no pass has these words")


def _change(timeline: Timeline, index: int, most: int) -> tuple[Piece, ...]:
    """The lines that a pass changed, with a bar; "?" or "changed" where they are not known."""
    change = timeline.changes.get(index)
    if change is not None:
        # Passes differ by orders of magnitude: the bar is logarithmic.
        lines = change.added + change.removed
        level = math.ceil(8 * math.log1p(lines) / math.log1p(max(most, 1)))
        bar = LEVELS[max(1, min(level, 8))]
        return (
            (f"+{change.added} ", "better"),
            (f"−{change.removed} ", "worse"),
            (bar, "error"),
        )
    if timeline.is_last(index):
        return (("?", "dim"),)
    return (("changed" if timeline.passes[index].changed else "", "dim"),)


class PassLine(PartedWidget):
    """A sparkline of the module's size above a band of the stages; a click chooses a pass."""

    PREFIX = "line"
    DEFAULT_CSS = """
    PassLine { height: 2; }
    PassLine > .line--ttir { color: $secondary; }
    PassLine > .line--ttgir { color: $primary; }
    PassLine > .line--llir { color: $accent; }
    PassLine > .line--still { color: $foreground 30%; }
    PassLine > .line--cursor { background: $primary 40%; }
    PassLine > .line--span { background: $secondary 25%; }
    """

    class Picked(Message):
        """A pass was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._timeline: Timeline | None = None
        self._cursor = 0
        self._mark: int | None = None

    def show(self, timeline: Timeline | None, cursor: int, mark: int | None) -> None:
        self._timeline, self._cursor, self._mark = timeline, cursor, mark
        self.refresh()

    def on_click(self, event: Click) -> None:
        if self._timeline is None:
            return
        for index, (start, stop) in enumerate(self._columns()):
            if start <= event.x < stop:
                self.post_message(self.Picked(index))
                return

    def _columns(self) -> list[tuple[int, int]]:
        """(first, last + 1) column of each pass; if there are too many, several share a column."""
        assert self._timeline is not None
        n, width = len(self._timeline.passes), max(1, self.size.width - 2)
        if n <= width:
            cell = width // n
            return [(1 + i * cell, 1 + (i + 1) * cell) for i in range(n)]
        return [(1 + i * width // n, 2 + i * width // n) for i in range(n)]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style
        if self._timeline is None or not self._timeline.passes:
            return Strip.blank(width, base)
        rows = self.size.height - 1
        cells = self._bars(rows, y) if y < rows else self._band()
        segments = [Segment(text, base + style) for text, style in cells]
        return Strip(segments).adjust_cell_length(width, base)

    def _bars(self, rows: int, y: int) -> list[tuple[str, Style]]:
        """The cells of a row of the bars, which are `rows` high."""
        assert self._timeline is not None
        passes = self._timeline.passes
        heights = levels([compiler_pass.size for compiler_pass in passes], rows * 8)
        first, last = sorted((self._cursor, self._cursor if self._mark is None else self._mark))
        row: list[tuple[str, Style]] = [(" ", Style())]
        filled = 1
        columns = self._columns()
        sharing: dict[int, list[int]] = {}
        for index, (start, _) in enumerate(columns):
            sharing.setdefault(start, []).append(index)
        for index, (start, stop) in enumerate(columns):
            if start < filled:  # several passes share the column
                if index == self._cursor:
                    row[-1] = (row[-1][0], row[-1][1] + self.part_style("cursor"))
                continue
            column = sharing[start]
            eighths = max(heights[n] for n in column)
            level = max(0, min(8, eighths - (rows - 1 - y) * 8))
            changed = any(passes[n].changed is not False for n in column)
            style = self.part_style(passes[index].stage if changed else "still")
            if index == self._cursor:
                style += self.part_style("cursor")
            elif first <= index <= last:
                style += self.part_style("span")
            row.append((LEVELS[level] * (stop - start), style))
            filled = stop
        return row

    def _band(self) -> list[tuple[str, Style]]:
        """The cells of the band: a named line for each stretch of passes of one stage."""
        assert self._timeline is not None
        passes, columns = self._timeline.passes, self._columns()
        cells: list[tuple[str, Style]] = [(" ", Style())]
        start = 0
        while start < len(passes):
            stop = start
            stretch = (passes[start].stage, passes[start].run)
            while stop < len(passes) and (passes[stop].stage, passes[stop].run) == stretch:
                stop += 1
            room = columns[stop - 1][1] - columns[start][0]
            name = f" {passes[start].stage} "
            text = f"╺{name:━^{room - 2}}╸" if room > len(name) + 2 else "━" * room
            cells.append((text[:room], self.part_style(passes[start].stage)))
            start = stop
        return cells
