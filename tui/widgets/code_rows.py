"""Draws the rows of a view of code: gutter, coloured text, marks and the cursor's line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.segment import Segment
from textual.strip import Strip

from .code_text import Hit, Text, VisibleRows, merged
from .jumping import Jumping

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
