"""What plots have in common: rows of styled pieces, drawn once for each size and theme."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.segment import Segment
from textual.strip import Strip

from .styles import PartedWidget

Piece = tuple[str, str]
"""Text of a row, and the part of the plot in whose style it stands."""


class Plot(PartedWidget):
    """A plot in any size; `draw` makes its rows."""

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._rows: Sequence[Sequence[Piece]] | None = None  # None: to be drawn

    def draw(self) -> Sequence[Sequence[Piece]]:
        """The rows for the present size."""
        raise NotImplementedError

    def redraw(self) -> None:
        self._rows = None
        self.refresh()

    def on_resize(self) -> None:
        """Redraws the plot in the new size."""
        self._rows = None

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        if self._rows is None:
            self._rows = self.draw()
        if y >= len(self._rows):
            return Strip.blank(width, base)
        runs = groupby(self._rows[y], key=lambda piece: piece[1])
        segments = [
            Segment("".join(text for text, _ in run), base + self.part_style(part))
            for part, run in runs
        ]
        return Strip(segments).adjust_cell_length(width, base)
