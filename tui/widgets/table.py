"""A table of any number of rows, of which only the visible ones are drawn.

The first column is fixed and takes the width that the others leave. Where the others do not fit,
they can be scrolled sideways.

The rows of a table as they are drawn: heads, cells and their layout in columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from ...inspector.base.long_names import shortened
from ..key_table import bind
from .bars import Piece
from .styled import Jumping

GAP = 1  # cells between two columns

StyleOf = Callable[[str, str], Style]
"""(state of the row, name of a style) -> the style of a piece; the state is "" or a cursor's."""


class ColumnHead(Struct, frozen=True):
    """The head of a column.

    Attributes:
        name: the column's name in messages and for sorting.
        width: in cells; 0 for the first column, which takes the width that the others leave.
        right: whether its cells are aligned right.
    """

    name: str
    title: str
    width: int
    right: bool = False


class TableRow(Struct, frozen=True):
    """A row as it is drawn.

    Attributes:
        first: the first column's text, in styled pieces.
        cells: the other columns' texts, in the order of the heads.
        message: a text that spans the other columns, in place of `cells`.
        faded: whether the row is dimmed, as out of date.
    """

    first: tuple[Piece, ...]
    cells: tuple[tuple[Piece, ...], ...] = ()
    message: tuple[Piece, ...] | None = None
    faded: bool = False


class ColumnLayout(Struct, frozen=True):
    """The columns that fit a table's width at a sideways scroll position.

    Attributes:
        width: of the table, in cells.
        first_width: of the first column, in cells.
        heads: of the columns that fit beside the first.
        hidden_left: the number of columns scrolled out of view.
        hidden_right: the number of columns that do not fit.
    """

    width: int
    first_width: int
    first_head: ColumnHead
    heads: tuple[ColumnHead, ...]
    hidden_left: int
    hidden_right: int


def column_layout(
    heads: Sequence[ColumnHead], width: int, *, least_first: int, shift: int
) -> ColumnLayout:
    """Fits columns into a table's width."""
    room = width - least_first
    fitting: list[ColumnHead] = []
    for head in heads[1 + shift :]:
        room -= head.width + GAP
        if room < 0:
            break
        fitting.append(head)
    return ColumnLayout(
        width=width,
        first_width=max(1, width - sum(head.width + GAP for head in fitting)),
        first_head=heads[0],
        heads=tuple(fitting),
        hidden_left=shift,
        hidden_right=len(heads) - 1 - shift - len(fitting),
    )


def title_segments(
    layout: ColumnLayout, sorted_by: tuple[str, bool], style_of: StyleOf
) -> list[Segment]:
    """The columns' titles, with a mark on the sorted one and the number of hidden columns."""
    sorted_column, descending = sorted_by
    segments = []
    for index, head in enumerate((layout.first_head, *layout.heads)):
        title = head.title
        is_sorted = bool(sorted_column) and head.name == sorted_column
        if is_sorted:
            title = title.rstrip() + ("▾" if descending else "▴")
        room = layout.first_width if index == 0 else head.width
        text = _shortened(title, room)
        pad = " " * (room - cell_len(text))
        gap = " " * GAP if index else ""
        text = gap + (pad + text if head.right else text + pad)
        segments.append(Segment(text, style_of("", "sorted" if is_sorted else "head")))
    left = f"‹{layout.hidden_left}" if layout.hidden_left else ""
    right = f"{layout.hidden_right}›" if layout.hidden_right > 0 else ""
    hidden = " ".join(part for part in (left, right) if part)
    if hidden:
        room = max(0, layout.first_width - len(hidden) - 1)
        segments[:1] = [
            Segment(set_cell_size(segments[0].text, room), segments[0].style),
            Segment(f"{hidden} ", style_of("", "empty")),
        ]
    return segments


def row_segments(
    row: TableRow, layout: ColumnLayout, state: str, style_of: StyleOf
) -> list[Segment]:
    style = partial(style_of, state)
    segments = _fitted(row.first, layout.first_width, False, row.faded, style, is_name=True)
    if row.message is not None:
        room = layout.width - layout.first_width - GAP
        segments.append(Segment(" ", style("")))
        return segments + _fitted(row.message, room, False, row.faded, style)
    for head, pieces in zip(layout.heads, row.cells[layout.hidden_left :], strict=False):
        segments.append(Segment(" " * GAP, style("")))
        segments += _fitted(pieces, head.width, head.right, row.faded, style)
    return segments


def _fitted(
    pieces: Sequence[Piece],
    width: int,
    right: bool,
    faded: bool,
    style: Callable[[str], Style],
    *,
    is_name: bool = False,
) -> list[Segment]:
    """Pieces of text in exactly `width` cells: cut, or padded (on the left if `right`).

    A name is cut in its middle.
    """
    size = sum(cell_len(text) for text, _ in pieces)
    segments = []
    if right and size < width:
        segments.append(Segment(" " * (width - size), style("")))
    free = width
    for text, name in pieces:
        if free <= 0:
            break
        piece_size = cell_len(text)
        if piece_size > free or (piece_size == free and size > width):
            middle = is_name and len(text) == piece_size > free
            text = shortened(text, free) if middle else _shortened(text, free, always=True)
        segments.append(Segment(text, style("faded" if faded else name)))
        free -= cell_len(text)
    if not right and free > 0:
        segments.append(Segment(" " * free, style("")))
    return segments


def _shortened(text: str, width: int, *, always: bool = False) -> str:
    """A text of at most `width` cells, with an ellipsis in place of what does not fit."""
    if width <= 0:
        return ""
    if cell_len(text) <= width and not always:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


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
