"""Documents, as reports print them, in the colours of the theme; nothing is cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from textual.content import Content

from ...inspector.base.long_names import with_short_names
from ...inspector.present.document import Block, Section, Table, Tone, plain
from ...inspector.present.text import lines_of, wrapped
from .bars import Piece

DIM = "$foreground 60%"
_TONES: Mapping[Tone, str] = {
    "": "",
    "strong": "bold",
    "weak": DIM,
    "good": "$success",
    "bad": "bold $error",
    "error": "bold $error",
    "warning": "$warning",
    "info": "$primary",
}
_STYLES: Mapping[str, str] = {
    "": "",
    "bold": "bold",
    "dim": DIM,
    "green": "$success",
    "bold red": "bold $error",
    "yellow": "$warning",
    "cyan": "$primary",
}
"""Style of a report's line -> the theme's."""
_LEAST = 24
"""Cells that lines take where there is less room."""
_LEAST_COLUMN = 10
"""Cells that a column keeps that may shrink."""
_MARGIN = "  "
_INDENT = " " * 6
"""Before what a row of a table goes on with that is still too wide."""


def content(document: Iterable[Section], width: int) -> Content:
    """A document in so many cells; sections without blocks are left out."""
    return Content.assemble(*_pieces(document, max(_LEAST, width))).rstrip()


def _pieces(document: Iterable[Section], width: int) -> Iterator[Piece | str]:
    told = [section for section in document if section.blocks]
    for number, section in enumerate(told):
        if number:
            yield "\n"
        if section.title:
            for line in textwrap.wrap(with_short_names(plain(section.title)), width):
                yield f"{line}\n", "bold $primary"
        for block in section.blocks:
            yield from (piece for piece in _block(block, width) if piece[0])


def _block(block: Block, width: int) -> Iterator[Piece]:
    if isinstance(block, Table) and (widths := _widths(block, width)) is not None:
        yield from _table(block, widths)
        return
    for whole in lines_of(block, width, fits=False):
        for line in wrapped(whole, width, _INDENT):
            yield from ((text, _STYLES[style]) for text, style in line.spans)
            yield "\n", ""


def _widths(table: Table, width: int) -> list[int] | None:
    """The columns' cells, once those that may are narrower; None where that does not do."""
    widths = [max(map(len, cells)) for cells in zip(*_rows(table), strict=True)]
    while len(_MARGIN) + sum(widths) + 2 * (len(widths) - 1) > width:
        shrinking = [n for n, column in enumerate(table.columns) if column.shrinks]
        longest = max(shrinking, key=lambda n: (widths[n], n), default=None)
        if longest is None or widths[longest] <= _LEAST_COLUMN:
            return None
        widths[longest] -= 1
    return widths


def _rows(table: Table) -> Iterator[tuple[str, ...]]:
    yield tuple(column.title for column in table.columns)
    yield from table.rows


def _table(table: Table, widths: list[int]) -> Iterator[Piece]:
    """Rows of cells, each of which goes on below itself."""
    tones: list[Tone] = ["strong"]
    tones += table.tones or [""] * len(table.rows)
    for tone, row in zip(tones, _rows(table), strict=True):
        if not any(row):
            continue
        cells = (
            textwrap.wrap(text, max(1, width)) for text, width in zip(row, widths, strict=True)
        )
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (
                part.rjust(width) if column.right else part.ljust(width)
                for part, width, column in zip(parts, widths, table.columns, strict=True)
            )
            yield f"{_MARGIN}{'  '.join(padded)}".rstrip(), _TONES[tone]
            yield "\n", ""
