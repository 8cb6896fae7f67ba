"""The rows of a `CodeView`: its text, which lines are visible, and how they are drawn, with gutter,
coloured text, marks and the cursor's line.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from rich.segment import Segment
from textual.strip import Strip

from .styled import Jumping

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


_Key = tuple[int, int, int, str, int, tuple[Hit, ...], str]
_MAX_STRIPS = 1000
_MANY_LINES = 10  # the number of folded lines is followed by the word from here on
_ELLIPSIS = "…"
_HEAT_PARTS = (("█", 0.5), ("▌", 0.1), ("▏", 1e-9), (" ", 0.0))
"""Signs of the strip of heat, and from which part of the largest figure on they stand."""
_HEAT = {"█": "heat", "▌": "warning", "▏": "dim", " ": "number"}


def no_hits(line: int) -> Sequence[Hit]:
    return ()


class CodeRows(Jumping):
    """Draws a `Text`; the subclass sets the text and the cursor."""

    PREFIX = "code"
    BARS = frozenset({"cursor", "cursor-blurred", "selected"})

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._text = Text(())
        self._rows = VisibleRows(0)
        self._cursor = 0
        self._anchor: int | None = None  # where the selection began
        self._linked: frozenset[int] = frozenset()
        self._matches: Callable[[int], Sequence[Hit] | None] = no_hits
        self._heat: Mapping[int, float] = {}  # line -> its part of the hottest line's figure
        self._heat_strip: tuple[tuple[int, int], list[str]] = (
            (0, 0),
            [],
        )  # (height, rows) -> signs
        self._strips: dict[_Key, Strip] = {}  # rows drawn lately

    @property
    def selection(self) -> tuple[int, int]:
        """First and last line of the selection, or twice the cursor's line without one."""
        anchor = self._cursor if self._anchor is None else self._anchor
        return min(anchor, self._cursor), max(anchor, self._cursor)

    def _drop_drawn(self) -> None:
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        self._check_styles()
        width = self.size.width - self.scrollbar_size_vertical
        row = self.scroll_offset.y + y
        heat = self._heat_signs()[y : y + 1] if self._heat else []
        sign = heat[0] if heat else ""
        if row >= len(self._rows):
            blank = Strip.blank(width - len(sign), self._base)
            return Strip([*blank, *self._heat_cell(sign)])
        line = self._rows.line_at(row)
        state = self._state(line)
        # Strips cache what Textual computes for them: with reused strips, scrolling by a row takes
        # a tenth of the time.
        hidden, hits = self._rows.hidden(line), tuple(self._matches(line) or ())
        key = (line, self.scroll_offset.x, width, state, hidden, hits, sign)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= _MAX_STRIPS:
                self._strips.clear()
            strip = self._strip(line, width - len(sign), state, hits)
            strip = self._strips[key] = Strip([*strip, *self._heat_cell(sign)]) if sign else strip
        return self._labelled(y, strip)

    def _heat_cell(self, sign: str) -> list[Segment]:
        return [Segment(sign, self._style_over("", _HEAT[sign]))] if sign else []

    def _heat_signs(self) -> list[str]:
        """The strip beside the scrollbar: for each row of the view the hottest of its lines.

        The whole text is squeezed into the view's height, as it is in the scrollbar.
        """
        height, rows = self.size.height, len(self._rows)
        if self._heat_strip[0] != (height, rows):
            parts = [0.0] * height
            for line, part in self._heat.items():
                place = self._rows.row_of(line) * height // max(rows, height)
                if place < height:
                    parts[place] = max(parts[place], part)
            signs = [next(s for s, least in _HEAT_PARTS if part >= least) for part in parts]
            self._heat_strip = (height, rows), signs
        return self._heat_strip[1]

    def _strip(self, line: int, width: int, state: str, hits: Sequence[Hit]) -> Strip:
        pieces = self._gutter(line, state)
        room = max(0, width - sum(len(piece.text) for piece in pieces))
        pieces += self._code(line, room, state, hits)
        return Strip(pieces).adjust_cell_length(width, self._style_over(state, ""))

    def _state(self, line: int) -> str:
        """The style of a whole row; "" for most."""
        if line == self._cursor:
            return "cursor" if self.has_focus else "cursor-blurred"
        if self._anchor is not None and self.selection[0] <= line <= self.selection[1]:
            return "selected"
        return "linked" if line in self._linked else ""

    def _gutter(self, line: int, state: str) -> list[Segment]:
        if self._text.gutter is None:
            return []
        return [
            Segment(text, self._style_over(state, name)) for text, name in self._text.gutter(line)
        ]

    def _code(self, line: int, room: int, state: str, hits: Sequence[Hit]) -> list[Segment]:
        """The visible columns of a line, with marks, an ellipsis and the number of folded lines."""
        text = self._text.drawn(line)
        first = self.scroll_offset.x
        hidden = self._rows.hidden(line)
        fold_note = (
            f" ⋯ {hidden} lines" if hidden >= _MANY_LINES else f" ⋯{hidden}" if hidden else ""
        )
        ellipsis = (
            _ELLIPSIS if len(text) > first + max(0, room - len(fold_note)) and room > 1 else ""
        )
        stop = first + max(0, room - len(fold_note) - len(ellipsis))
        plain = self._style_over(state, "")
        segments: list[Segment] = []
        column = first
        spans = self._text.spans(line)
        for start, end, name in merged(spans, hits) if hits else spans:
            start, end = max(start, column), min(end, stop)
            if start >= end:
                continue
            if start > column:
                segments.append(Segment(text[column:start], plain))
            segments.append(Segment(text[start:end], self._style_over(state, name)))
            column = end
        if column < stop:
            segments.append(Segment(text[column:stop], plain))
        if ellipsis:
            segments.append(Segment(ellipsis, self._style_over(state, "fold")))
        if fold_note:
            segments.append(Segment(fold_note, self._style_over(state, "fold")))
        return segments
