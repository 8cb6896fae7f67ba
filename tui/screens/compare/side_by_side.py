"""The code of two kernels in two views that move, scroll and fold together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from ...widgets.code import CodeView, Text
from .comparison import MNEMONIC_WIDTH, Aligned, AlignedCell, AlignedRow, Sign

_GUTTER = 9
_SIGNS: Mapping[Sign, str] = MappingProxyType({"-": "alone", "+": "alone", "~": "dim", " ": ""})


class SideView(CodeView):
    """The view of one side, which reports scrolling and folding for the other to follow."""

    DEFAULT_CSS = "SideView > .code--alone { color: $accent; }"

    class Scrolled(Message):
        """The view was scrolled."""

        def __init__(self, view: SideView) -> None:
            super().__init__()
            self.view = view

    class FoldedAt(Message):
        """The user folds or unfolds the stretch at a line."""

        def __init__(self, view: SideView, line: int) -> None:
            super().__init__()
            self.view = view
            self.line = line

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if old_value != new_value:
            self.post_message(self.Scrolled(self))

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        if old_value != new_value:
            self.post_message(self.Scrolled(self))

    def action_fold(self) -> None:
        """Reports that the stretch under the cursor is to be folded or unfolded."""
        self.post_message(self.FoldedAt(self, self.cursor))


class SideBySide(Horizontal):
    """The left and the right view, each below its title."""

    DEFAULT_CSS = """
    SideBySide { height: 1fr; }
    SideBySide Vertical { width: 1fr; height: 100%; }
    SideBySide .title { height: 1; padding: 0 1; text-style: bold; background: $panel; }
    SideBySide #side-right { border-left: solid $panel; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._aligned = Aligned(())
        self._open: set[int] = set()

    def compose(self) -> ComposeResult:
        with Vertical(id="side-left"):
            yield Static(id="title-left", classes="title", markup=False)
            yield SideView(id="code-left")
        with Vertical(id="side-right"):
            yield Static(id="title-right", classes="title", markup=False)
            yield SideView(id="code-right")

    @property
    def views(self) -> tuple[SideView, SideView]:
        return self.query_one("#code-left", SideView), self.query_one("#code-right", SideView)

    @property
    def cursor(self) -> int:
        """The row of the cursor, which is the same in both views."""
        return self.views[0].cursor

    def show(self, aligned: Aligned, titles: tuple[str, str]) -> None:
        """Shows the rows; long stretches without a difference are folded."""
        self._aligned = aligned
        rows = aligned.rows
        self._open.clear()
        for name, title in zip(("left", "right"), titles, strict=True):
            self.query_one(f"#title-{name}", Static).update(title)
        folds = dict(aligned.folds)
        for view, cells in zip(self.views, _cells_by_side(rows), strict=True):
            lines = [_text(cell) for cell in cells] or [aligned.note]
            coloured = cells or [None]
            view.show(
                Text(
                    lines,
                    partial(_spans, rows, coloured),
                    partial(_gutter, coloured),
                    _GUTTER,
                    folds,
                ),
                0,
            )
            view.fold(folds)
        if aligned.differences:
            self._move_to(aligned.differences[0], quiet=True)

    def next_difference(self, direction: int) -> int | None:
        """Moves the cursor to the next difference (1) or the previous one (-1).

        Returns:
            The difference's number, counted from 1; None if there is none in that direction.
        """
        starts = self._aligned.differences
        cursor = self.cursor
        index = bisect_right(starts, cursor) if direction > 0 else bisect_left(starts, cursor) - 1
        if not 0 <= index < len(starts):
            return None
        self._move_to(starts[index])
        return index + 1

    def fold_all(self) -> None:
        starts = {first for first, _ in self._aligned.folds}
        is_closed = self._open == starts
        self._open = set() if is_closed else set(starts)
        for view in self.views:
            view.fold(starts, is_closed)

    def _move_to(self, row: int, *, quiet: bool = False) -> None:
        for view in self.views:
            view.move_to(row, quiet=quiet, centre=True)

    def on_code_view_moved(self, event: CodeView.Moved) -> None:
        """Moves the other view's cursor to the same row."""
        for view in self.views:
            if view is not event.view:
                view.move_to(event.line, quiet=True)

    def on_side_view_scrolled(self, event: SideView.Scrolled) -> None:
        """Scrolls the other view to the same offset."""
        event.stop()
        offset = event.view.scroll_offset
        for view in self.views:
            if view is not event.view and view.scroll_offset != offset:
                view.scroll_to(x=offset.x, y=offset.y, animate=False, force=True)

    def on_side_view_folded_at(self, event: SideView.FoldedAt) -> None:
        """Folds or unfolds the stretch in both views."""
        event.stop()
        around = [a for a, b in self._aligned.folds if a <= event.line <= b]
        if not around:
            return
        start = around[-1]
        is_closed = start in self._open
        self._open ^= {start}
        for view in self.views:
            view.fold([start], is_closed)
            view.move_to(start, quiet=True)


def _cells_by_side(
    rows: Sequence[AlignedRow],
) -> tuple[list[AlignedCell | None], list[AlignedCell | None]]:
    return [row.left for row in rows], [row.right for row in rows]


def _text(cell: AlignedCell | None) -> str:
    return cell.text if cell is not None else ""


def _gutter(cells: Sequence[AlignedCell | None], line: int) -> list[tuple[str, str]]:
    """The gutter of a row: the line in the assembly and the sign."""
    cell = cells[line]
    if cell is None or cell.line is None:
        return [(" " * _GUTTER if cell is None else "", "dim")]
    return [(f"{cell.line:>6} ", "number"), (f"{cell.sign} ", _SIGNS[cell.sign] or "dim")]


def _spans(
    rows: Sequence[AlignedRow], cells: Sequence[AlignedCell | None], line: int
) -> list[tuple[int, int, str]]:
    """The styled parts of a row, as (start, end, style)."""
    cell = cells[line]
    if cell is None:
        return []
    size = len(cell.text)
    if rows[line].kind == "loop":
        return [(0, size, "name")]
    if rows[line].kind == "place":
        head = len(cell.text.partition("  ")[0])
        return [(0, head, "label"), (head, size, "comment")]
    if cell.sign != " ":
        return [(0, size, _SIGNS[cell.sign])]
    return [(0, min(size, MNEMONIC_WIDTH), cell.style)]
