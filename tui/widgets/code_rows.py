"""How a view of code draws its rows: gutter, coloured text, marks, the cursor's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip

from .code_text import Hit, Rows, Text, merged
from .styled import Styled

_Key = tuple[int, int, int, str, int, tuple[Hit, ...]]
_MOST_STRIPS = 1000
_MANY = 10  # lines folded away that are worth words
_CUT = "…"


def no_hits(line: int) -> Sequence[Hit]:
    """Nothing is marked."""
    return ()


class CodeRows(Styled):
    """Draws a `Text`; what is shown and where the cursor stands is for others to say."""

    PREFIX = "code"
    BARS = frozenset({"cursor", "cursor-blurred", "selected"})
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "code--number",
        "code--cursor",
        "code--cursor-blurred",
        "code--linked",
        "code--match",
        "code--fold",
        "code--comment",
        "code--directive",
        "code--label",
        "code--keyword",
        "code--name",
        "code--string",
        "code--literal",
        "code--register",
        "code--type",
        "code--matrix",
        "code--memory",
        "code--lds",
        "code--scratch",
        "code--wait",
        "code--vector",
        "code--scalar",
        "code--branch",
        "code--other",
        "code--error",
        "code--warning",
        "code--info",
        "code--dim",
        "code--added",
        "code--removed",
        "code--heat",
        "code--selected",
        "code--loop",
        "code--loop-hot",
        "code--count",
        "code--read",
        "code--written",
    }

    def __init__(
        self,
        *,
        name: str | None = None,
        id: str | None = None,  # Textual's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._text = Text(())
        self._rows = Rows(0)
        self._cursor = 0
        self._anchor: int | None = None  # where the selection began
        self._linked: frozenset[int] = frozenset()
        self._matches: Callable[[int], Sequence[Hit] | None] = no_hits
        self._cursor_bar = True
        self._strips: dict[_Key, Strip] = {}  # rows drawn lately

    @property
    def selection(self) -> tuple[int, int]:
        """First and last line of the selection; the cursor's line where nothing is selected."""
        anchor = self._cursor if self._anchor is None else self._anchor
        return min(anchor, self._cursor), max(anchor, self._cursor)

    def _forget(self) -> None:
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """One row of the view."""
        self._make_sure()
        width = self.size.width - self.scrollbar_size_vertical
        row = self.scroll_offset.y + y
        if row >= len(self._rows):
            return Strip.blank(width, self._base)
        line = self._rows.line_at(row)
        state = self._state(line)
        # A strip that is used again keeps what Textual has worked out for it: scrolling by a row
        # costs a tenth of drawing all rows anew.
        hidden, hits = self._rows.hidden(line), tuple(self._matches(line) or ())
        key = (line, self.scroll_offset.x, width, state, hidden, hits)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= _MOST_STRIPS:
                self._strips.clear()
            strip = self._strips[key] = self._strip(line, width, state, hits)
        return strip

    def _strip(self, line: int, width: int, state: str, hits: Sequence[Hit]) -> Strip:
        pieces = self._gutter(line, state)
        room = max(0, width - sum(len(piece.text) for piece in pieces))
        pieces += self._code(line, room, state, hits)
        return Strip(pieces).adjust_cell_length(width, self._over(state, ""))

    def _state(self, line: int) -> str:
        """The style of a whole row; "" for most."""
        if line == self._cursor and self._cursor_bar:
            return "cursor" if self.has_focus else "cursor-blurred"
        if self._anchor is not None and self.selection[0] <= line <= self.selection[1]:
            return "selected"
        return "linked" if line in self._linked else ""

    def _gutter(self, line: int, state: str) -> list[Segment]:
        if self._text.gutter is None:
            return []
        return [Segment(text, self._over(state, name)) for text, name in self._text.gutter(line)]

    def _code(self, line: int, room: int, state: str, hits: Sequence[Hit]) -> list[Segment]:
        text = self._text.drawn(line)
        first = self.scroll_offset.x
        hidden = self._rows.hidden(line)
        fold_note = f" ⋯ {hidden} lines" if hidden >= _MANY else f" ⋯{hidden}" if hidden else ""
        cut = _CUT if len(text) > first + max(0, room - len(fold_note)) and room > 1 else ""
        stop = first + max(0, room - len(fold_note) - len(cut))
        plain = self._over(state, "")
        segments: list[Segment] = []
        at = first
        spans = self._text.spans(line)
        for start, end, name in merged(spans, hits) if hits else spans:
            start, end = max(start, at), min(end, stop)
            if start >= end:
                continue
            if start > at:
                segments.append(Segment(text[at:start], plain))
            segments.append(Segment(text[start:end], self._over(state, name)))
            at = end
        if at < stop:
            segments.append(Segment(text[at:stop], plain))
        if cut:
            segments.append(Segment(cut, self._over(state, "fold")))
        if fold_note:
            segments.append(Segment(fold_note, self._over(state, "fold")))
        return segments
