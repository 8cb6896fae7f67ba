"""A list whose rows can be opened and folded, and the test that its filter makes of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.events import Click
from textual.message import Message

from ..key_table import bind
from .code import CodeView


def word_filter(typed: str) -> Callable[[str], bool]:
    """A test of texts: whether they contain all words of a filter, in any letter case."""
    words = typed.lower().split()

    def has_words(text: str) -> bool:
        lowered = text.lower()
        return all(word in lowered for word in words)

    return has_words


class RowList(CodeView):
    """A list with one line for each row; enter or a double click opens a row, space folds it."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("open", "open", "Open")]

    class Opened(Message):
        """The user opened a row."""

        def __init__(self, rows: RowList, line: int) -> None:
            super().__init__()
            self.rows, self.line = rows, line

    class Folded(Opened):
        """The user folded or unfolded the group of a row."""

    def action_open(self) -> None:
        """Reports that the row under the cursor was opened."""
        if self.shown.lines:
            self.post_message(self.Opened(self, self.cursor))

    def action_fold(self) -> None:
        """Reports that the row's group was folded or unfolded; only the page knows the groups."""
        if self.shown.lines:
            self.post_message(self.Folded(self, self.cursor))

    def on_click(self, event: Click) -> None:
        if event.chain == 2:
            self.action_open()
