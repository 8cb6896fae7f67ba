"""The bases of all dialogues: a frame in the middle of the screen, over the page."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget

from ..key_table import bind


class Dialogue(ModalScreen[ScreenResultType]):
    """A dialogue whose only child is its frame."""

    DEFAULT_CSS = """
    Dialogue { align: center middle; }
    Dialogue > * {
        width: 90%; height: auto; max-height: 90%; padding: 0 1; scrollbar-size: 1 1;
        background: $surface; border: round $primary; border-title-color: $primary;
        border-subtitle-color: $foreground 60%;
    }
    Dialogue Table, Dialogue CodeView { background: $surface; }
    """

    def unfinished(self) -> str:
        """What would be lost if the application ended now, as a clause; "" for nothing."""
        return ""


def entitle(frame: Widget, title: str, keys: str = "") -> None:
    """Writes a title, and what keys do, on a dialogue's frame; neither is read as markup."""
    frame.border_title = Content(title)
    frame.border_subtitle = Content(keys) if keys else None


class TextDialogue(Dialogue[None]):
    """A dialogue with a scrolling text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("back", "close", "Close", show=False),
        bind("close", "close", "Close", show=False),
        bind("open", "close", "Close", show=False),
        bind("help", "close", "Close", show=False),
        bind("down", "scroll(1)", "Down", show=False, priority=True),
        bind("up", "scroll(-1)", "Up", show=False, priority=True),
        bind("page_down", "page(1)", "Page down", show=False, priority=True),
        bind("page_up", "page(-1)", "Page up", show=False, priority=True),
        Binding("space", "page(1)", "Page down", show=False),
        bind("first", "go(0)", "Top", show=False, priority=True),
        bind("last", "go(-1)", "Bottom", show=False, priority=True),
    ]

    def action_close(self) -> None:
        self.dismiss()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_scroll(pages * max(1, self.query_one(VerticalScroll).size.height - 2))

    def action_go(self, end: int) -> None:
        """Scrolls to the top (0) or the bottom (-1)."""
        box = self.query_one(VerticalScroll)
        box.scroll_to(y=box.max_scroll_y if end else 0, animate=False)
