"""The rows of a table as they are drawn: heads, cells and their layout in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from .bars import Piece
from .code_text import cut

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
            text = cut(text, free) if middle else _shortened(text, free, always=True)
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
