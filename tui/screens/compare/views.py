"""The code of two kernels side by side: two views that move, scroll and fold as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from ...widgets.code import CodeView, Text
from .align import Aligned, Row, Side, Sign

_GUTTER = 9
_MNEMONIC = 24
_SIGNS: Mapping[Sign, str] = MappingProxyType({"-": "removed", "+": "added", "~": "dim", " ": ""})


class SideView(CodeView):
    """One of the two views; tells the other where it stands."""

    class Scrolled(Message):
        """The view was scrolled, by whatever."""

        def __init__(self, view: SideView) -> None:
            super().__init__()
            self.view = view

    class FoldedAt(Message):
        """A stretch is to be folded or opened."""

        def __init__(self, view: SideView, line: int) -> None:
            super().__init__()
            self.view = view
            self.line = line

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tells the page."""
        super().watch_scroll_y(old_value, new_value)
        if old_value != new_value:
            self.post_message(self.Scrolled(self))

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Tells the page."""
        super().watch_scroll_x(old_value, new_value)
        if old_value != new_value:
            self.post_message(self.Scrolled(self))

    def action_fold(self) -> None:
        """Folds on both sides."""
        self.post_message(self.FoldedAt(self, self.cursor))


class SideBySide(Horizontal):
    """Both views with what they are called above them."""

    DEFAULT_CSS = """
    SideBySide { height: 1fr; }
    SideBySide Vertical { width: 1fr; height: 100%; }
    SideBySide .title { height: 1; padding: 0 1; text-style: bold; background: $panel; }
    SideBySide #title-left { color: $error; }
    SideBySide #title-right { color: $success; }
    SideBySide #side-right { border-left: solid $panel; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._aligned = Aligned(())
        self._open: set[int] = set()

    def compose(self) -> ComposeResult:
        """Left, right."""
        with Vertical(id="side-left"):
            yield Static(id="title-left", classes="title", markup=False)
            yield SideView(id="code-left")
        with Vertical(id="side-right"):
            yield Static(id="title-right", classes="title", markup=False)
            yield SideView(id="code-right")

    @property
    def views(self) -> tuple[SideView, SideView]:
        """Left, right."""
        return self.query_one("#code-left", SideView), self.query_one("#code-right", SideView)

    @property
    def cursor(self) -> int:
        """The row of the cursor, the same in both."""
        return self.views[0].cursor

    def show(self, aligned: Aligned, titles: tuple[str, str]) -> None:
        """Shows the rows; long stretches without a difference are folded.

        Args:
            aligned: the rows.
            titles: what the sides are called.
        """
        self._aligned = aligned
        rows = aligned.rows
        self._open.clear()
        for name, title in zip(("left", "right"), titles, strict=True):
            self.query_one(f"#title-{name}", Static).update(title)
        folds = dict(aligned.folds)
        for view, sides in zip(self.views, _sides(rows), strict=True):
            lines = [_text(side) for side in sides] or [aligned.note]
            coloured = sides or [None]
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
            self._go(aligned.differences[0], quiet=True)

    def next_difference(self, by: int) -> int | None:
        """Goes to the next difference, or the one before.

        Returns:
            Which one it is, counted from 1; None where there is none that way.
        """
        places = self._aligned.differences
        cursor = self.cursor
        ahead = [n for n, row in enumerate(places) if (row > cursor if by > 0 else row < cursor)]
        if not ahead:
            return None
        index = ahead[0] if by > 0 else ahead[-1]
        self._go(places[index])
        return index + 1

    def fold_all(self) -> None:
        """Opens every fold, or closes all where all are open."""
        starts = {first for first, _ in self._aligned.folds}
        shut = self._open == starts
        self._open = set() if shut else set(starts)
        for view in self.views:
            view.fold(starts, shut)

    def _go(self, row: int, *, quiet: bool = False) -> None:
        for view in self.views:
            view.move_to(row, quiet=quiet, centre=True)

    def on_code_view_moved(self, event: CodeView.Moved) -> None:
        """The other view's cursor follows."""
        for view in self.views:
            if view is not event.view:
                view.move_to(event.line, quiet=True)

    def on_side_view_scrolled(self, event: SideView.Scrolled) -> None:
        """The other view scrolls along."""
        event.stop()
        offset = event.view.scroll_offset
        for view in self.views:
            if view is not event.view and view.scroll_offset != offset:
                view.scroll_to(x=offset.x, y=offset.y, animate=False, force=True)

    def on_side_view_folded_at(self, event: SideView.FoldedAt) -> None:
        """Folds or opens the stretch under the cursor, in both."""
        event.stop()
        around = [a for a, b in self._aligned.folds if a <= event.line <= b]
        if not around:
            return
        start = around[-1]
        shut = start in self._open
        self._open ^= {start}
        for view in self.views:
            view.fold([start], shut)
            view.move_to(start, quiet=True)


def _sides(rows: Sequence[Row]) -> tuple[list[Side | None], list[Side | None]]:
    return [row.left for row in rows], [row.right for row in rows]


def _text(side: Side | None) -> str:
    return side.text if side is not None else ""


def _gutter(sides: Sequence[Side | None], line: int) -> list[tuple[str, str]]:
    """The line in the assembly and the sign."""
    side = sides[line]
    if side is None or side.line is None:
        return [(" " * _GUTTER if side is None else "", "dim")]
    return [(f"{side.line:>6} ", "number"), (f"{side.sign} ", _SIGNS[side.sign] or "dim")]


def _spans(
    rows: Sequence[Row], sides: Sequence[Side | None], line: int
) -> list[tuple[int, int, str]]:
    side = sides[line]
    if side is None:
        return []
    size = len(side.text)
    if rows[line].kind == "loop":
        return [(0, size, "name")]
    if rows[line].kind == "place":
        head = len(side.text.partition("  ")[0])
        return [(0, head, "label"), (head, size, "comment")]
    if side.sign != " ":
        return [(0, size, _SIGNS[side.sign])]
    return [(0, min(size, _MNEMONIC), side.style)]
