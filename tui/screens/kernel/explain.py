"""The dialogue that explains the instruction or finding under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Static


class ExplainScreen(ModalScreen[None]):
    """A text in a frame.

    Args:
        title: what is explained.
        text: plain lines.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
        Binding("ctrl+d,pagedown,space", "scroll(10)", "Page down", show=False),
        Binding("ctrl+u,pageup", "scroll(-10)", "Page up", show=False),
    ]
    DEFAULT_CSS = """
    ExplainScreen { align: center middle; background: $background 60%; }
    ExplainScreen > VerticalScroll {
        width: 90%; max-width: 100; height: auto; max-height: 85%;
        border: round $primary; background: $surface; padding: 0 1;
        border-title-color: $primary; border-title-style: bold;
        border-subtitle-color: $foreground 60%;
        scrollbar-size: 1 1;
    }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """The frame."""
        with VerticalScroll() as frame:
            frame.border_title = escape(self._title)
            frame.border_subtitle = "escape closes"
            yield Static(self._text, markup=False)

    def action_scroll(self, by: int) -> None:
        """Moves the text."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)
