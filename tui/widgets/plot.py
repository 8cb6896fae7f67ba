"""What plots have in common: rows of styled pieces, drawn once for each size and theme."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from .styles import PartStyles

Piece = tuple[str, str]
"""Text of a row, and the part of the plot in whose style it stands."""


class Plot(Widget):
    """A plot in any size; `draw` makes its rows.

    Attributes:
        PREFIX: the first part of the names of its styles in the style sheet, `PREFIX--PART`.
    """

    PREFIX: ClassVar[str] = ""

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._rows: Sequence[Sequence[Piece]] | None = None  # None: to be drawn
        self._part_styles = PartStyles(self, self.PREFIX)

    def draw(self) -> Sequence[Sequence[Piece]]:
        """The rows for the present size."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Shows that something has changed."""
        self._rows = None
        self.refresh()

    def on_resize(self) -> None:
        """Redraws the plot in the new size."""
        self._rows = None

    def render_line(self, y: int) -> Strip:
        """Renders a row."""
        width, base = self.size.width, self.rich_style
        if self._rows is None:
            self._rows = self.draw()
        if y >= len(self._rows):
            return Strip.blank(width, base)
        runs = groupby(self._rows[y], key=lambda piece: piece[1])
        segments = [
            Segment("".join(text for text, _ in run), base + self._part_styles[part])
            for part, run in runs
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def notify_style_update(self) -> None:
        """Drops cached styles after the theme has changed."""
        self._part_styles.drop()
        super().notify_style_update()
