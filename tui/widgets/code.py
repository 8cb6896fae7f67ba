"""A view of a text of any length, with a gutter, a cursor, folds and marks.

Only visible lines are coloured and drawn, so that 100,000 lines cost no more than 50.

A list whose rows can be opened and folded, and the test that its filter makes of words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec.structs import replace
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message

from ..key_table import bind
from .code_rows import Cell, CodeRows, Hit, Hits, Span, Text, VisibleRows, no_hits

__all__ = ["Cell", "CodeView", "Hit", "Hits", "Span", "Text"]


_ROWS = 40  # of a view that has no size yet
_CONTEXT = 2  # rows that are kept visible above and below the cursor


class CodeView(CodeRows, can_focus=True):
    """Shows a `Text`. Lines are counted from 0 here; the screen shows them from 1."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("down", "move(1)", "Down", show=False),
        bind("up", "move(-1)", "Up", show=False),
        bind("page_down", "page(1)", "Page down", show=False),
        bind("page_up", "page(-1)", "Page up", show=False),
        bind("first", "go(0)", "First line", show=False),
        bind("last", "go(-1)", "Last line", show=False),
        bind("left", "shift(-8)", "Left", show=False),
        bind("right", "shift(8)", "Right", show=False),
        bind("fold", "fold", "Fold", show=False),
        bind("shift_down", "select(1)", "Select down", show=False),
        bind("shift_up", "select(-1)", "Select up", show=False),
    ]
    DEFAULT_CSS = """
    CodeView > .code--selected { background: $accent 30%; }
    CodeView > .code--loop { color: $foreground 60%; }
    CodeView > .code--loop-hot { color: $accent; text-style: bold; }
    CodeView > .code--count { color: $foreground 60%; }
    CodeView > .code--read { background: $primary; color: $background; }
    CodeView > .code--written { background: $warning; color: $background; }
    """

    class Moved(Message):
        """The cursor moved to another line."""

        def __init__(self, view: CodeView, line: int) -> None:
            super().__init__()
            self.view = view
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._longest = 0
        self._laid_out = False  # whether the view has had a size

    @property
    def shown(self) -> Text:
        return self._text

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def linked(self) -> frozenset[int]:
        """The lines highlighted because they are linked to another view's cursor."""
        return self._linked

    @property
    def selecting(self) -> bool:
        return self._anchor is not None

    def deselect(self) -> None:
        if self._anchor is not None:
            self._refresh_lines(range(self.selection[0], self.selection[1] + 1))
            self._anchor = None

    def show(
        self,
        text: Text,
        cursor: int | None = None,
        *,
        keep_folds: bool = False,
        folded: Iterable[int] = (),
    ) -> None:
        """Shows another text, or the same one with more known about it."""
        still_folded = self._rows.folded if keep_folds else set[int]()
        if text.lines is not self._text.lines:
            self._longest = text.width()
            self._anchor = None
            self._linked = frozenset()
            self._matches = no_hits
        self._text = text
        self._rows = VisibleRows(len(text.lines), text.folds, still_folded.union(folded))
        self._strips.clear()
        self._lay_out()
        self.move_to(self._cursor if cursor is None else cursor, quiet=True)
        self.refresh()

    def update_folds(self, folds: Mapping[int, int], closed: Iterable[int]) -> None:
        """Replaces the folds of the same text, without moving what the user looks at."""
        old_folds, cursor = self._text.folds or {}, self._cursor
        newly_closed = {
            start
            for start in closed
            if start not in old_folds and not start < cursor <= folds[start]
        }
        anchor = self._scroll_anchor()
        self._text = replace(self._text, folds=folds)
        self._rows = VisibleRows(len(self._text.lines), folds, self._rows.folded | newly_closed)
        self._lay_out()
        self._scroll_to_anchor(*anchor)
        self.refresh()

    def lines_seen(self, above: int = 0) -> list[int]:
        """The lines on the screen, and so many visible ones above them."""
        first = self.scroll_offset.y if self._laid_out else self._rows.row_of(self._cursor)
        last = min(first + (self._height or _ROWS), len(self._rows))
        return [self._rows.line_at(row) for row in range(max(0, first - above), last)]

    def link(self, lines: Iterable[int]) -> None:
        """Highlights the lines linked to the cursor of another view."""
        linked = frozenset(lines)
        if linked != self._linked:
            changed, self._linked = linked ^ self._linked, linked
            self._refresh_lines(changed)

    def mark(self, matches: Hits) -> None:
        """Highlights columns of lines, such as the matches of a search."""
        old_matches = self._matches
        new_matches: Callable[[int], Sequence[Hit] | None] = no_hits
        if matches:
            new_matches = matches.get if isinstance(matches, Mapping) else matches
        if old_matches is new_matches:
            return
        self._matches = new_matches
        rows = range(self.scroll_offset.y, self.scroll_offset.y + self._height + 1)
        for row in rows[: max(0, len(self._rows) - rows.start)]:
            line = self._rows.line_at(row)
            if tuple(old_matches(line) or ()) != tuple(new_matches(line) or ()):
                self.refresh_line(row)

    def show_heat(self, figures: Mapping[int, float]) -> None:
        """Shows beside the scrollbar where a text's lines are hot; nothing without figures.

        Args:
            figures: line -> its figure; the largest is the hottest.
        """
        largest = max(figures.values(), default=0)
        self._heat = {n: figure / largest for n, figure in figures.items()} if largest else {}
        self._heat_strip = ((0, 0), [])
        self.refresh()

    def jump_rows(self) -> Iterable[int]:
        return range(min(self._height, len(self._rows) - self.scroll_offset.y))

    def jump_to(self, row: int) -> None:
        self.deselect()
        self.move_to(self._rows.line_at(self.scroll_offset.y + row))

    def _hottest_beside(self, y: int) -> int | None:
        """The hottest line that a row of the strip of heat stands for; None for none."""
        height = self.size.height
        rows = max(len(self._rows), height)
        lines = (line for line in self._heat if self._rows.row_of(line) * height // rows == y)
        return max(lines, key=lambda line: (self._heat[line], -line), default=None)

    def move_to(self, line: int, *, quiet: bool = False, centre: bool = False) -> None:
        """Puts the cursor on a line and brings it into view; opens folds that hide it."""
        line = max(0, min(line, len(self._text.lines) - 1))
        if self._rows.reveal(line):
            self._lay_out()
            self.refresh()
        old_line, self._cursor = self._cursor, line
        moved = line != old_line
        self._bring_into_view(line, centre)
        if moved and self._anchor is not None:
            self._refresh_lines(range(min(old_line, line), max(old_line, line) + 1))
        elif moved:  # only two rows, so that a slow connection need not send the whole view
            self._refresh_lines((old_line, line))
        if moved and not quiet:
            self.moved(line)

    def moved(self, line: int) -> None:
        self.post_message(self.Moved(self, line))

    def action_move(self, lines: int) -> None:
        self._step(lines)

    def action_select(self, lines: int) -> None:
        """Moves the cursor and extends the selection to it."""
        if self._anchor is None:
            self._anchor = self._cursor
        self._step(lines)

    def action_page(self, pages: int) -> None:
        self._step(pages * max(1, self.size.height - 2))

    def action_go(self, line: int) -> None:
        """Moves the cursor to the first (0) or last (-1) line."""
        self.move_to(line if line >= 0 else len(self._text.lines) - 1)

    def action_shift(self, columns: int) -> None:
        self.scroll_to(x=max(0, self.scroll_offset.x + columns), animate=False)

    def action_fold(self) -> None:
        """Closes or opens the fold that the cursor's line belongs to."""
        start = self._rows.fold_of(self._cursor)
        if start is None:
            return
        self.fold([start], start not in self._rows.folded)
        self.move_to(start)

    @property
    def folded(self) -> frozenset[int]:
        return frozenset(self._rows.folded)

    def fold(self, starts: Iterable[int], folded: bool = True) -> None:
        anchor = self._scroll_anchor()
        self._rows.fold(starts, folded)
        self._lay_out()
        self._scroll_to_anchor(*anchor)
        self._bring_into_view(self._cursor, False)
        self.refresh()

    def _scroll_anchor(self) -> tuple[int, int]:
        """The line to keep in place, and its row in the view.

        It is the cursor's line or, if that is not visible, the first visible one.
        """
        first_row = self.scroll_offset.y
        row = self._rows.row_of(self._cursor)
        if not first_row <= row < first_row + max(1, self._height):
            row = first_row
        return self._rows.line_at(row), row - first_row

    def _scroll_to_anchor(self, line: int, row_in_view: int) -> None:
        first_row = min(self._rows.row_of(line) - row_in_view, len(self._rows) - self._height)
        if max(0, first_row) != self.scroll_offset.y:
            self.scroll_to(y=max(0, first_row), animate=False, force=True)

    def _step(self, rows: int) -> None:
        row = max(0, self._rows.row_of(self._cursor) + rows)
        self.move_to(self._rows.line_at(row))

    def _bring_into_view(self, line: int, centre: bool) -> None:
        """Scrolls so that a line is visible, with some lines around it; `centre` for a third."""
        row, height = self._rows.row_of(line), max(1, self._height)
        first_row = self.scroll_offset.y
        margin = min(_CONTEXT, (height - 1) // 3)
        if centre and not first_row <= row < first_row + height:
            first_row = row - height // 3
        elif row < first_row + margin:
            first_row = row - margin
        elif row >= first_row + height - margin:
            first_row = row - height + 1 + margin
        first_row = max(0, min(first_row, max(0, len(self._rows) - height)))
        if first_row != self.scroll_offset.y:
            self.scroll_to(y=first_row, animate=False, force=True)

    def _refresh_lines(self, lines: Iterable[int]) -> None:
        # There may be thousands of lines, so check the visible ones instead of each of them.
        changed = lines if isinstance(lines, frozenset | range) else frozenset(lines)
        first_row = self.scroll_offset.y
        for row in range(first_row, min(first_row + self._height + 1, len(self._rows))):
            if self._rows.line_at(row) in changed:
                self.refresh_line(row)

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    def _lay_out(self) -> None:
        self._take_rows(Size(self._text.gutter_width + self._longest + 1, len(self._rows)))

    def on_resize(self, event: Resize) -> None:
        self._bring_into_view(self._cursor, not self._laid_out)
        self._laid_out = True

    def on_click(self, event: Click) -> None:
        """Puts the cursor on the line under the mouse, or the hottest that the strip has there."""
        strip = self.size.width - self.scrollbar_size_vertical - 1
        if self._heat and event.x == strip and (line := self._hottest_beside(event.y)) is not None:
            self.deselect()
            self.move_to(line, centre=True)
        elif event.y < self._height:
            row = self.scroll_offset.y + event.y
            if row < len(self._rows):
                self.deselect()
                self.move_to(self._rows.line_at(row))

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._refresh_lines((self._cursor,))


def word_filter(typed: str) -> Callable[[str], bool]:
    """A test of texts: whether they contain all words of a filter, in any letter case."""
    words = typed.lower().split()

    def has_words(text: str) -> bool:
        lowered = text.lower()
        return all(word in lowered for word in words)

    return has_words


class RowList(CodeView):
    """A list with one line for each row; enter or a double click opens a row, space folds it."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("open", "open", "Open")]

    class Opened(Message):
        """The user opened a row."""

        def __init__(self, rows: RowList, line: int) -> None:
            super().__init__()
            self.rows, self.line = rows, line

    class Folded(Opened):
        """The user folded or unfolded the group of a row."""

    def action_open(self) -> None:
        """Reports that the row under the cursor was opened."""
        if self.shown.lines:
            self.post_message(self.Opened(self, self.cursor))

    def action_fold(self) -> None:
        """Reports that the row's group was folded or unfolded; only the page knows the groups."""
        if self.shown.lines:
            self.post_message(self.Folded(self, self.cursor))

    def on_click(self, event: Click) -> None:
        if event.chain == 2:
            self.action_open()
