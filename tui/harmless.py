"""Removes control sequences from every line that is drawn, whoever wrote its text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.notifications import SeverityLevel

from ..inspector.printable import is_printable


class Harmless(LineFilter):
    """Replaces control characters in every line that is drawn.

    Textual passes escape sequences on to the terminal. A control character that takes a column is
    replaced by U+FFFD and one that takes none is dropped, so that the line keeps its width.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Returns the segments of a line without control characters."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(_harmless(segment.text), segment.style)
            for segment in segments
        ]


class HarmlessApp(App[int]):
    """An application in which no text acts as a control sequence or as markup."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's line filters, and the one that removes control characters."""
        return [*super().get_line_filters(), _HARMLESS]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Shows a message without interpreting markup, whatever `markup` says.

        Paths and kernels' names in messages may contain square brackets.
        """
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)


def _harmless(text: str) -> str:
    # Tabs and line feeds are printable, but would move the cursor; no laid-out line has them.
    return "".join(
        c if c.isprintable() or (is_printable(c) and c not in "\t\n\r") else "\ufffd" * cell_len(c)
        for c in text
    )


_HARMLESS = Harmless()
