"""Plain aligned tables: text in, padded lines out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct


class Column(Struct, frozen=True):
    """A column: its heading, how to get a row's text, and its alignment."""

    title: str
    text: Callable[[Any], str]
    right: bool = False


def rows_of(columns: Sequence[Column], items: Iterable[Any], gap: str = "  ") -> list[str]:
    """The heading and one line per item, columns padded to their widest cell.

    A column in which every cell is empty is left out.
    """
    cells = [[column.text(item) for column in columns] for item in items]
    filled = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    titles = [column.title for column in columns]
    widths = {i: max(len(titles[i]), *(len(row[i]) for row in cells)) for i in filled}

    def line(row: Sequence[str]) -> str:
        padded = (
            row[i].rjust(widths[i]) if columns[i].right else row[i].ljust(widths[i]) for i in filled
        )
        return gap.join(padded).rstrip()

    return [line(titles), *(line(row) for row in cells)]
