"""The content of a `CodeView`: a text, and which of its lines are visible."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

Span = tuple[int, int, str]
"""Columns `start` to `stop` of a line in the style of that name (`code--NAME`)."""
Cell = tuple[str, str]
"""A piece of the gutter: text and the name of its style."""
Hit = tuple[int, int] | Span
"""A mark on some columns, in the style `code--match` or one of its own."""
Hits = Mapping[int, Sequence[Hit]] | Callable[[int], Sequence[Hit]]
"""Line -> its marks; a function where most lines are never drawn."""

# A text may hold anything; what would move the terminal's cursor is drawn as a dot.
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], "·")


class Text(Struct, frozen=True):
    """A text with colours, a gutter and folds.

    Attributes:
        spans: line -> its coloured pieces, in order and disjoint.
        gutter: line -> the pieces left of it, always of `gutter_width` columns.
        folds: line -> the last of the lines that can be folded away under it.
        tab: columns between tab stops; columns of spans and marks are those of the drawn line.
    """

    lines: Sequence[str]
    spans: Callable[[int], Sequence[Span]] = lambda line: ()
    gutter: Callable[[int], Sequence[Cell]] | None = None
    gutter_width: int = 0
    folds: Mapping[int, int] | None = None
    tab: int = 8

    def drawn(self, line: int) -> str:
        """A line as it is drawn: one character a column."""
        return drawn(self.lines[line], self.tab)

    def width(self) -> int:
        """Columns of the longest line as it is drawn."""
        longest = max(map(len, self.lines), default=0)
        if "\t" not in "".join(self.lines):
            return longest
        return max(len(line.expandtabs(self.tab)) for line in self.lines)


def drawn(text: str, tab: int = 8) -> str:
    """A line with tabs as blanks and control characters as dots."""
    return text if text.isprintable() else text.expandtabs(tab).translate(_CONTROLS)


def cut(text: str, width: int) -> str:
    """A name of at most `width` characters, with an ellipsis in place of its middle.

    Names of kernels and cases often begin alike and differ at their ends.
    """
    if len(text) <= width:
        return text
    tail = max(0, width - 1) // 2
    return f"{text[: max(0, width - 1 - tail)]}…{text[len(text) - tail :]}"


def merged(spans: Sequence[Span], hits: Sequence[Hit]) -> list[Span]:
    """Coloured pieces with marks over them, in order and disjoint."""
    pieces: list[Span] = [hit if len(hit) == 3 else (hit[0], hit[1], "match") for hit in hits]
    marked = sorted((hit[0], hit[1]) for hit in hits)
    for start, end, name in spans:
        column = start  # up to here the span is coloured or marked
        for first, stop in marked:
            if first > column:
                pieces.append((column, min(first, end), name))
            column = max(column, stop)
        if column < end:
            pieces.append((column, end, name))
    return sorted(piece for piece in pieces if piece[0] < piece[1])


class VisibleRows:
    """The visible lines of a text: all but those folded away.

    Args:
        folds: line -> the last of the lines that can be folded away under it.
    """

    def __init__(
        self, lines: int, folds: Mapping[int, int] | None = None, folded: Iterable[int] = ()
    ) -> None:
        self._lines = lines
        self._folds = folds or {}
        self.folded = {line for line in folded if line in self._folds}
        self._visible: list[int] | None = None  # None: all lines
        self._starts: list[int] | None = None  # the folds' first lines in order, once needed
        self._lay_out()

    def __len__(self) -> int:
        return self._lines if self._visible is None else len(self._visible)

    def line_at(self, row: int) -> int:
        """The line on a row; for a row beyond the ends the first or last."""
        row = max(0, min(row, len(self) - 1))
        return row if self._visible is None else self._visible[row]

    def row_of(self, line: int) -> int:
        """The row of a line; for a hidden one, the row of the fold that hides it."""
        if self._visible is None:
            return line
        return max(0, bisect.bisect_right(self._visible, line) - 1)

    def hidden(self, start: int) -> int:
        """The number of lines folded away under a line."""
        return self._folds[start] - start if start in self.folded else 0

    def fold(self, starts: Iterable[int], folded: bool) -> None:
        toggled = {start for start in starts if start in self._folds}
        toggled = toggled - self.folded if folded else toggled & self.folded
        if folded:
            self.folded |= toggled
        else:
            self.folded -= toggled
        if toggled:
            self._lay_out()

    def fold_of(self, line: int) -> int | None:
        """The first line of the innermost fold that a line belongs to; None for no fold."""
        if line in self._folds:
            return line
        if self._starts is None:
            self._starts = sorted(self._folds)
        last = bisect.bisect_left(self._starts, line) - 1
        before = (self._starts[index] for index in range(last, -1, -1))
        return next((start for start in before if self._folds[start] >= line), None)

    def reveal(self, line: int) -> bool:
        """Opens the folds that hide a line; returns whether there were any."""
        if self._visible is None or self.line_at(self.row_of(line)) == line:
            return False  # the usual case, which must be fast however many folds there are
        hiding = {start for start in self.folded if start < line <= self._folds[start]}
        self.fold(hiding, False)
        return bool(hiding)

    def _lay_out(self) -> None:
        if not self.folded:
            self._visible = None
            return
        self._visible = []
        line = 0
        for start in sorted(self.folded):
            if start >= line:  # else within another fold
                self._visible.extend(range(line, start + 1))
                line = self._folds[start] + 1
        self._visible.extend(range(line, self._lines))
