"""Lines of coloured pieces: what the lower half of the page says, laid out to its width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from ...widgets.bars import Piece

Line = Sequence[Piece]
BLANK: Line = ()
GAP = 2
_ROOM = 44  # columns that a long last one needs to stand beside the others
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
"""How a piece of each style looks; with the theme's colours."""


def content(lines: Iterable[Line]) -> Content:
    """The lines as Textual takes them."""
    parts: list[str | tuple[str, str]] = []
    for line in lines:
        parts += [(text, STYLES[style]) if style else text for text, style in line]
        parts.append("\n")
    return Content.assemble(*parts)


def wrapped(text: str, width: int, style: str = "", first: str = "", rest: str = "") -> list[Line]:
    """A sentence in as many lines as it takes.

    Args:
        text: the sentence.
        width: of a line.
        style: of all of it.
        first: what the first line begins with.
        rest: what the others begin with.
    """
    lines = textwrap.wrap(
        text, max(12, width), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return [((line, style),) for line in lines or [first]]


def gridded(
    heads: Sequence[str],
    rows: Sequence[Sequence[Piece]],
    width: int,
    *,
    right: Iterable[int] = (),
    indent: str = "  ",
) -> list[Line]:
    """Rows in columns, each as wide as its widest cell; the last one is wrapped to what is left.

    Columns without any text are left out.

    Args:
        heads: titles; empty ones for columns that need none.
        rows: their cells.
        width: of all.
        right: which columns stand at the right edge.
        indent: before every row.
    """
    if not rows:
        return []
    columns = [n for n in range(len(heads)) if any(row[n][0].strip() for row in rows)]
    to_right = {columns.index(n) for n in right if n in columns}
    table = [[row[n] for n in columns] for row in rows]
    titles = [(heads[n], "head") for n in columns]
    if any(text for text, _ in titles):
        table.insert(0, titles)
    widths = [max(cell_len(row[n][0]) for row in table) for n in range(len(columns))]
    lead = len(indent) + sum(widths[:-1]) + GAP * (len(widths) - 1)
    room = width - lead
    # Where the last column would be next to nothing it goes on lines of its own.
    below = room < min(widths[-1], _ROOM)
    lines: list[Line] = []
    for row in table:
        pieces: list[Piece] = [(indent, "")]
        for n, (text, style) in enumerate(row[:-1]):
            pad = " " * (widths[n] - cell_len(text))
            gap = " " * GAP if n < len(row) - 2 or not below else ""
            pieces.append(((pad + text if n in to_right else text + pad) + gap, style))
        text, style = row[-1]
        if len(row) - 1 in to_right:
            text = " " * (widths[-1] - cell_len(text)) + text
        if below:
            lines.append(_cut(pieces, width))
            if text.strip() and style != "head":
                lines += wrapped(text, width, style, indent * 3, indent * 3)
            continue
        cell_lines = (
            textwrap.wrap(text, max(1, room), drop_whitespace=False) if text.strip() else []
        )
        for number, part in enumerate(cell_lines or [""]):
            start = pieces if number == 0 else [(" " * lead, "")]
            lines.append([*start, (part if number == 0 else part.lstrip(), style)])
    return lines


def _cut(pieces: Sequence[Piece], width: int) -> Line:
    left, fitted = width, []
    for text, style in pieces:
        if left <= 0:
            break
        size = cell_len(text)
        fitted.append((text if size <= left else set_cell_size(text, left), style))
        left -= size
    return fitted
