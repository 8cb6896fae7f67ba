"""The bases of all dialogues: a frame in the middle of the screen, over the page.

Dialogues that show a text in a frame: an explanation, or a failure in full. The dialogue that asks
before something is lost at the end of the application.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Static

from ...inspector.model import ErrorRecord
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


class ExplainScreen(TextDialogue):
    """An explanation of the instruction or finding under the cursor."""

    DEFAULT_CSS = """
    ExplainScreen > VerticalScroll {
        max-width: 100; max-height: 85%; border-title-style: bold;
    }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll() as frame:
            entitle(frame, self._title, "escape closes")
            yield Static(self._text, markup=False)


class FailureScreen(TextDialogue):
    """A failure in full, with the end of the user's code's output."""

    DEFAULT_CSS = """
    FailureScreen > VerticalScroll { border: round $error; border-title-color: $error; }
    FailureScreen .hint { color: $accent; margin-top: 1; }
    FailureScreen .head { color: $foreground 60%; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [bind("copy", "copy", "Copy", show=False)]

    def __init__(self, error: ErrorRecord) -> None:
        super().__init__()
        self._error = error

    def compose(self) -> ComposeResult:
        error = self._error
        with VerticalScroll() as scroll:
            entitle(scroll, f"failed to {error.stage}", "y copies  esc closes")
            where = "  ".join(part for part in (error.kernel, error.file) if part)
            yield Static(where, markup=False, classes="where")
            yield Static(error.message, markup=False, classes="message")
            if error.hint:
                yield Static(f"→ {error.hint}", markup=False, classes="hint")
            if error.output:
                yield Static("what it printed:", markup=False, classes="head")
                yield Static(error.output.rstrip(), markup=False, classes="output")

    def action_copy(self) -> None:
        error = self._error
        parts = (error.file, error.kernel, f"{error.stage}: {error.message}", error.hint)
        self.app.copy_to_clipboard("\n".join(part for part in (*parts, error.output) if part))
        self.notify("copied", timeout=2)


Choice = Literal["save", "discard", "stay"]


class LeaveScreen(Dialogue[Choice]):
    """Asks what to do with what would be lost.

    Args:
        save: what saves it, in words; "" where nothing can.
    """

    DEFAULT_CSS = "LeaveScreen > Vertical { max-width: 64; border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,enter", "dismiss('save')", "Save, then leave", show=False),
        Binding("d", "dismiss('discard')", "Discard and leave", show=False),
        Binding("escape,q", "dismiss('stay')", "Stay", show=False),
    ]

    def __init__(self, losses: Sequence[str], save: str) -> None:
        super().__init__()
        self._losses = losses
        self._save = save

    def compose(self) -> ComposeResult:
        choices = (("s", self._save), ("d", "leave without it"), ("esc", "stay"))
        text = Text("\n").join(Text(loss) for loss in self._losses)
        text.append("\n")
        for key, choice in choices:
            if choice:
                text.append(f"\n {key:<4}", "bold").append(choice)
        box = Vertical()
        entitle(box, "Leave kinspect?")
        with box:
            yield Static(text, markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self._save) or parameters != ("save",)
