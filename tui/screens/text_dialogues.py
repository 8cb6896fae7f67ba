"""Dialogues that show a text in a frame: an explanation, or a failure in full."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from ...inspector.model import ErrorRecord
from ..key_table import bind
from .dialogue import TextDialogue, entitle


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
