"""The last gate before the screen: nothing that a stranger wrote steers the terminal."""

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
    """Takes what steers a terminal out of every line that is drawn.

    Textual passes escape sequences through as it was given them. What takes a column is replaced by
    U+FFFD, what takes none is dropped: the line stays as wide as it was laid out.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments of one line, harmless."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(_harmless(segment.text), segment.style)
            for segment in segments
        ]


class HarmlessApp(App[int]):
    """An application that shows what strangers wrote as it is, and lets none of it act."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Whatever a widget draws, no line steers the terminal."""
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
        """Shows a message as it is: paths and names in it are no markup, whoever asks for it."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)


def _harmless(text: str) -> str:
    # A tab or a line feed, which no line has, would move the cursor too.
    return "".join(
        c if c.isprintable() or (is_printable(c) and c not in "\t\n\r") else "\ufffd" * cell_len(c)
        for c in text
    )


_HARMLESS = Harmless()
