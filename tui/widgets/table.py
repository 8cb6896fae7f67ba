"""A table of any number of rows, of which only the visible ones are drawn.

The first column is fixed and takes the width that the others leave. Where the others do not fit,
they can be scrolled sideways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from ..key_table import bind
from .bars import Piece
from .jumping import Jumping
from .table_rows import (
    GAP,
    ColumnHead,
    ColumnLayout,
    TableRow,
    column_layout,
    row_segments,
    title_segments,
)

LEAST_FIRST = 26
"""Default least width of the first column, in cells."""

_MOST_TEXT = 48  # cells of a column of texts

Draw = Callable[[int], TableRow]
"""Number of a row, from 0 -> the row."""


class Table(Jumping, can_focus=True):
    """A list of rows with a cursor, below the titles of the columns.

    Args:
        least_first: the least width of the first column, in cells.
    """

    PREFIX = "table"
    BARS = frozenset({"cursor", "cursor-blurred"})
    DEFAULT_CSS = """
    Table { height: 1fr; width: 1fr; background: $background; scrollbar-size: 1 1; }
    Table > .table--head { color: $foreground 60%; text-style: bold; background: $surface; }
    Table > .table--sorted { color: $accent; text-style: bold; background: $surface; }
    Table > .table--cursor { background: $primary 30%; }
    Table > .table--cursor-blurred { background: $primary 15%; }
    Table > .table--empty { color: $foreground 60%; }
    Table > .table--faded { color: $foreground 60%; }
    Table > .table--dim { color: $foreground 60%; }
    Table > .table--name { color: $foreground; text-style: bold; }
    Table > .table--group { color: $primary; text-style: bold; }
    Table > .table--bar { color: $primary; }
    Table > .table--good { color: $success; }
    Table > .table--track { color: $foreground 20%; }
    Table > .table--error { color: $error; text-style: bold; }
    Table > .table--warning { color: $warning; }
    Table > .table--info { color: $primary; }
    Table > .table--star { color: $accent; text-style: bold; }
    Table > .table--mark { color: $secondary; text-style: bold; }
    Table > .table--better { color: $success; text-style: bold; }
    Table > .table--worse { color: $error; text-style: bold; }
    Table > .table--other { color: $accent; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("down", "move(1)", "Down", show=False),
        bind("up", "move(-1)", "Up", show=False),
        bind("page_down", "page(1)", "Page down", show=False),
        bind("page_up", "page(-1)", "Page up", show=False),
        bind("first", "go(0)", "First row", show=False),
        bind("last", "go(-1)", "Last row", show=False),
        bind("left", "shift(-1)", "Columns left", show=False),
        bind("right", "shift(1)", "Columns right", show=False),
        bind("open", "open", "Open"),
    ]

    class Moved(Message):
        """The cursor moved to another row."""

        def __init__(self, table: Table, row: int) -> None:
            super().__init__()
            self.table, self.row = table, row

    class Opened(Message):
        """A row was chosen."""

        def __init__(self, table: Table, row: int) -> None:
            super().__init__()
            self.table, self.row = table, row

    class HeadClicked(Message):
        """A column's title was clicked."""

        def __init__(self, table: Table, name: str) -> None:
            super().__init__()
            self.table, self.name = table, name

    def __init__(self, *, id: str | None = None, least_first: int = LEAST_FIRST) -> None:
        super().__init__(id=id)
        self._least_first = least_first
        self._heads: tuple[ColumnHead, ...] = (ColumnHead("", "", 0),)
        self._count = 0
        self._draw: Draw = lambda row: TableRow(())
        self._sorted: tuple[str, bool] = ("", False)
        self._empty = ""
        self._cursor = 0
        self._shift = 0
        self._column_layout: ColumnLayout | None = None
        self._drawn_width = 0
        self._strips: dict[tuple[int, str], Strip] = {}  # (row, its state) -> the drawn line

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def count(self) -> int:
        return self._count

    def show(
        self,
        heads: Sequence[ColumnHead],
        count: int,
        draw: Draw,
        *,
        sorted_by: tuple[str, bool] = ("", False),
        cursor: int | None = None,
        empty: str = "",
    ) -> None:
        self._heads, self._count, self._draw = tuple(heads), count, draw
        self._sorted, self._empty = sorted_by, empty
        self._shift = max(0, min(self._shift, len(self._heads) - 2))
        self._column_layout = None
        self._take_rows(Size(0, count + 1))
        self._set_cursor(self._cursor if cursor is None else cursor, quiet=True)
        self._redraw()

    def show_texts(
        self,
        titles: Sequence[str],
        rows: Sequence[tuple[Sequence[Piece], Sequence[str]]],
        *,
        cursor: int | None = None,
    ) -> None:
        """Replaces the rows by texts, figures to the right, without columns that are empty.

        Args:
            titles: of the columns.
            rows: the first cell of each, and the texts of the others.
            cursor: the row to put the cursor on; None leaves it where it is.
        """
        columns = [tuple(texts[n] for _, texts in rows) for n in range(len(titles) - 1)]
        shown = [n for n, cells in enumerate(columns) if any(cells) or not rows]
        heads = [ColumnHead(titles[0], titles[0], 0)]
        for n in shown:
            title, cells = titles[n + 1], columns[n]
            width = min(_MOST_TEXT, max(map(len, (title, *cells))))
            heads.append(ColumnHead(title, title, width + 1, right=all(map(_is_figure, cells))))

        def draw(row: int) -> TableRow:
            first, texts = rows[row]
            return TableRow(tuple(first), tuple(((texts[n], ""),) for n in shown))

        self.show(heads, len(rows), draw, cursor=cursor)

    def move_to(self, row: int) -> None:
        """Puts the cursor on a row and brings it into view."""
        self._set_cursor(row, quiet=False)

    def jump_rows(self) -> Iterable[int]:
        return range(1, 1 + min(self.size.height - 1, self._count - self.scroll_offset.y))

    def jump_to(self, row: int) -> None:
        self.move_to(self.scroll_offset.y + row - 1)

    def _set_cursor(self, row: int, *, quiet: bool) -> None:
        """Puts the cursor on a row and brings it into view; posts `Moved` unless `quiet`."""
        row = max(0, min(row, self._count - 1))
        previous, self._cursor = self._cursor, row
        height = max(1, self.size.height - 1)
        first_row = self.scroll_offset.y
        first_row = min(first_row, row) if row < first_row + height else row - height + 1
        first_row = max(0, min(first_row, self._count - height))
        if first_row != self.scroll_offset.y:
            self.scroll_to(y=first_row, animate=False, force=True)
        for changed in {previous, row}:
            self.refresh(Region(0, changed - self.scroll_offset.y + 1, self.size.width, 1))
        if previous != row and not quiet:
            self.post_message(self.Moved(self, row))

    def _redraw(self) -> None:
        self._strips.clear()
        self.refresh()

    def action_move(self, rows: int) -> None:
        self.move_to(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        self.move_to(self._cursor + pages * max(1, self.size.height - 2))

    def action_go(self, row: int) -> None:
        """Moves the cursor to the first (0) or last (-1) row."""
        self.move_to(row if row >= 0 else self._count - 1)

    def action_shift(self, columns: int) -> None:
        if columns < 0 or self._columns().hidden_right > 0:
            self._shift = max(0, self._shift + columns)
            self._column_layout = None
            self._redraw()

    def action_open(self) -> None:
        if self._count:
            self.post_message(self.Opened(self, self._cursor))

    def on_click(self, event: Click) -> None:
        """Moves the cursor; a double click opens the row, a click on a title reports it."""
        if event.y == 0:
            end = self._columns().first_width
            if event.x < end:
                self.post_message(self.HeadClicked(self, self._heads[0].name))
            for head in self._columns().heads:
                end += GAP + head.width
                if end - head.width <= event.x < end:
                    self.post_message(self.HeadClicked(self, head.name))
            return
        row = self.scroll_offset.y + event.y - 1
        if 0 <= row < self._count:
            self.move_to(row)
            if event.chain == 2:
                self.action_open()

    def on_resize(self, event: Resize) -> None:
        self._set_cursor(self._cursor, quiet=True)
        width = self.scrollable_content_region.width
        if width != self._drawn_width:
            self._drawn_width = width
            self._redraw()

    def _columns(self) -> ColumnLayout:
        """The columns that fit at the current width and sideways scroll position."""
        width = self.scrollable_content_region.width
        if self._column_layout is None or self._column_layout.width != width:
            self._column_layout = column_layout(
                self._heads, width, least_first=self._least_first, shift=self._shift
            )
        return self._column_layout

    def _drop_drawn(self) -> None:
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        self._check_styles()
        width = self.size.width
        row = self.scroll_offset.y + y - 1
        if y == 0:
            titles = title_segments(self._columns(), self._sorted, self._style_over)
            return Strip(titles).adjust_cell_length(width, self._style_over("", "head"))
        if row >= self._count:
            message = self._empty if not self._count and y == 2 else ""
            strip = Strip([Segment(f"  {message}", self._style_over("", "empty"))])
            return strip.adjust_cell_length(width, self._base)
        state = ""
        if row == self._cursor:
            state = "cursor" if self.has_focus else "cursor-blurred"
        cached = self._strips.get((row, state))
        if cached is None:
            strip = Strip(row_segments(self._draw(row), self._columns(), state, self._style_over))
            cached = strip.adjust_cell_length(width, self._style_over(state, ""))
            self._strips[row, state] = cached
        return self._labelled(y, cached)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.refresh(Region(0, self._cursor - self.scroll_offset.y + 1, self.size.width, 1))


def _is_figure(cell: str) -> bool:
    return cell == "-" or cell.lstrip("-+").replace(",", "").replace(".", "").isdigit()
