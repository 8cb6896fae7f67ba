"""Jumping to any row that is on the screen, by the two letters that are put over its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.events import Blur, Key
from textual.strip import Strip

from ..key_table import bind
from .styled import Styled

_LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""The row under the fingers first."""


class Jumping(Styled):
    """A view whose rows have letters while the user chooses one: in all such views of the page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("jump", "jump", "To any row by its two letters", show=False)
    ]
    DEFAULT_CSS = """
    Jumping > .code--jump { background: $accent; color: $background; text-style: bold; }
    Jumping > .table--jump { background: $accent; color: $background; text-style: bold; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._labels: dict[int, str] = {}  # row of the view -> its letters
        self._targets: Mapping[str, tuple[Jumping, int]] = {}
        self._typed = ""

    def jump_rows(self) -> Iterable[int]:
        """The rows of the view, counted from its top, that can be jumped to."""
        raise NotImplementedError

    def jump_to(self, row: int) -> None:
        raise NotImplementedError

    def action_jump(self) -> None:
        views = [view for view in self.screen.query(Jumping) if view.is_on_screen and view.size]
        places = [(view, row) for view in views for row in view.jump_rows()]
        self._targets = {
            a + b: place for (a, b), place in zip(product(_LETTERS, repeat=2), places, strict=False)
        }
        for label, (view, row) in self._targets.items():
            view._labels[row] = label
        for view in views:
            view.refresh()

    async def _on_key(self, event: Key) -> None:
        """Takes the letters while they are shown; another key ends it."""
        if not self._targets:
            return
        event.stop()
        event.prevent_default()
        typed = self._typed + (event.character or "").lower()
        place = self._targets.get(typed)
        left = {label: place for label, place in self._targets.items() if label.startswith(typed)}
        self._end_jump()
        if place is not None:
            view, row = place
            view.focus()
            view.jump_to(row)
        elif left and typed and event.key != "escape":
            self._targets, self._typed = left, typed
            for label, (view, row) in left.items():
                view._labels[row] = label

    def on_blur(self, event: Blur) -> None:
        self._end_jump()

    def _end_jump(self) -> None:
        for view in {view for view, _ in self._targets.values()}:
            view._labels.clear()
            view.refresh()
        self._targets, self._typed = {}, ""

    def _labelled(self, row: int, strip: Strip) -> Strip:
        label = self._labels.get(row)
        if label is None:
            return strip
        letters = Segment(label, self._style_over("", "jump"))
        return Strip([letters, *strip.crop(len(label))], strip.cell_length)
