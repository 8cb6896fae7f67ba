"""A list whose rows can be opened and folded, the line in which its filter is typed, the filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.widgets import Input

from ..key_table import bind
from .code import CodeView


def word_filter(typed: str) -> Callable[[str], bool]:
    """A test of texts: whether they contain all words of a filter, in any letter case.

    Args:
        typed: the words, separated by blanks; without any, all texts pass.
    """
    words = typed.lower().split()

    def has_words(text: str) -> bool:
        lowered = text.lower()
        return all(word in lowered for word in words)

    return has_words


class FilterLine(Input):
    """An input line that is visible while it has a filter; enter keeps that, escape clears it.

    Args:
        placeholder: a hint at what can be typed.
        id: Textual's id of the widget.
    """

    DEFAULT_CSS = """
    FilterLine {
        height: 1;
        border: none;
        padding: 0 1;
        background: $panel;
        display: none;
    }
    FilterLine:focus { border: none; background: $primary 20%; }
    FilterLine.-shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "Drop the filter", show=False),
        Binding("down", "keep", "To the list", show=False),
    ]

    class Left(Message):
        """The user has finished typing, so that the list should get the focus."""

    def __init__(self, placeholder: str, *, id: str | None = None) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True, select_on_focus=False)

    def ask(self) -> None:
        """Shows the line and focuses it."""
        self.add_class("-shown")
        self.focus()

    def action_drop(self) -> None:
        """Clears the filter and leaves the line."""
        self.value = ""
        self.action_keep()

    def action_keep(self) -> None:
        """Leaves the line with its filter."""
        self.set_class(bool(self.value), "-shown")
        self.post_message(self.Left())

    async def action_submit(self) -> None:
        """Leaves the line with its filter, at Enter."""
        self.action_keep()


class RowList(CodeView):
    """A list with one line for each row; enter or a double click opens a row, space folds it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("open", "open", "Open"),
    ]

    class Opened(Message):
        """The user opened a row."""

        def __init__(self, rows: RowList, line: int) -> None:
            super().__init__()
            self.rows = rows
            self.line = line

        @property
        def control(self) -> RowList:
            return self.rows

    class Folded(Message):
        """The user folded or unfolded the group of a row."""

        def __init__(self, rows: RowList, line: int) -> None:
            super().__init__()
            self.rows = rows
            self.line = line

        @property
        def control(self) -> RowList:
            return self.rows

    def action_open(self) -> None:
        """Reports that the row under the cursor was opened."""
        if self.shown.lines:
            self.post_message(self.Opened(self, self.cursor))

    def action_fold(self) -> None:
        """Reports that the row's group was folded or unfolded; only the page knows the groups."""
        if self.shown.lines:
            self.post_message(self.Folded(self, self.cursor))

    def on_click(self, event: Click) -> None:
        """Opens a row that was double-clicked."""
        if event.chain == 2:
            self.action_open()
