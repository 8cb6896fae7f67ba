"""Lays out sentences and tables as lines of styled pieces, for the lower half of the page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from textual.content import Content

from ...widgets.bars import Piece

StyledLine = Sequence[Piece]
BLANK: StyledLine = ()
GAP = 2  # cells between two columns of a table
_LAST_COLUMN_WIDTH = 44  # cells below which a last column that needs more goes on lines of its own
STYLES: Mapping[str, str] = MappingProxyType(
    {
        "title": "bold $primary",
        "here": "bold reverse",
        "head": "bold $foreground 65%",
        "name": "bold",
        "dim": "$foreground 65%",
        "good": "$success",
        "info": "$primary",
        "warning": "$warning",
        "error": "bold $error",
        "bar": "$primary",
        "heat": "$error",
    }
)
"""Name of a style -> Textual's style, in the theme's colours."""


def content(lines: Iterable[StyledLine]) -> Content:
    """Joins lines into Textual's content."""
    parts: list[str | tuple[str, str]] = []
    for line in lines:
        parts += [(text, STYLES[style]) if style else text for text, style in line]
        parts.append("\n")
    return Content.assemble(*parts)


def wrapped(
    text: str, width: int, style: str = "", first_indent: str = "", indent: str = ""
) -> list[StyledLine]:
    """Wraps a sentence."""
    lines = textwrap.wrap(
        text,
        max(12, width),
        initial_indent=first_indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return [((line, style),) for line in lines or [first_indent]]


def gridded(
    heads: Sequence[str],
    rows: Sequence[Sequence[Piece]],
    width: int,
    *,
    right: Iterable[int] = (),
    indent: str = "  ",
) -> list[StyledLine]:
    """Lays out a table whose last column is wrapped to the width that the others leave.

    The other columns are as wide as their widest cell; columns without any text are left out.
    """
    if not rows:
        return []
    filled = [n for n in range(len(heads)) if any(row[n][0].strip() for row in rows)]
    table = [[row[n] for n in filled] for row in rows]
    if any(heads[n] for n in filled):
        table.insert(0, [(heads[n], "head") for n in filled])
    layout = _TableLayout(
        widths=[max(cell_len(row[n][0]) for row in table) for n in range(len(filled))],
        right=frozenset(filled.index(n) for n in right if n in filled),
        indent=indent,
        width=width,
    )
    return [line for row in table for line in layout.lines(row)]


class _TableLayout(Struct, frozen=True):
    """The layout of a table.

    Attributes:
        widths: of the columns' widest cells, in cells.
        width: of the table, in cells.
    """

    widths: Sequence[int]
    right: frozenset[int]
    indent: str
    width: int

    @property
    def lead(self) -> int:
        """The cells before the last column."""
        return len(self.indent) + sum(self.widths[:-1]) + GAP * (len(self.widths) - 1)

    @property
    def last_is_below(self) -> bool:
        """Whether the last column goes on lines of its own, for want of width."""
        return self.width - self.lead < min(self.widths[-1], _LAST_COLUMN_WIDTH)

    def lines(self, row: Sequence[Piece]) -> Iterator[StyledLine]:
        """Yields the lines of a row; only the last cell may take several."""
        last = len(row) - 1
        below = self.last_is_below
        pieces: list[Piece] = [(self.indent, "")]
        for n, cell in enumerate(row[:-1]):
            text, style = self._padded(n, cell)
            gap = " " * GAP if n < last - 1 or not below else ""
            pieces.append((text + gap, style))
        text, style = self._padded(last, row[-1]) if last in self.right else row[-1]
        if not below:
            yield from _hanging(pieces, (text, style), self.lead, self.width - self.lead)
            return
        yield _cut(pieces, self.width)
        if text.strip() and style != "head":
            yield from wrapped(text, self.width, style, self.indent * 3, self.indent * 3)

    def _padded(self, n: int, cell: Piece) -> Piece:
        text, style = cell
        pad = " " * (self.widths[n] - cell_len(text))
        return (pad + text if n in self.right else text + pad), style


def _hanging(pieces: Sequence[Piece], last: Piece, lead: int, room: int) -> Iterator[StyledLine]:
    """A row whose last cell is wrapped to `room` cells, `lead` cells from the left."""
    text, style = last
    parts = textwrap.wrap(text, max(1, room), drop_whitespace=False) if text.strip() else []
    for number, part in enumerate(parts or [""]):
        start = pieces if number == 0 else [(" " * lead, "")]
        yield [*start, (part if number == 0 else part.lstrip(), style)]


def _cut(pieces: Sequence[Piece], width: int) -> StyledLine:
    free, fitted = width, []
    for text, style in pieces:
        if free <= 0:
            break
        size = cell_len(text)
        fitted.append((text if size <= free else set_cell_size(text, free), style))
        free -= size
    return fitted
