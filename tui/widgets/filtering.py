"""A line to type a filter into, and a list of rows that can be opened and folded."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.widgets import Input

from .code import CodeView


class FilterLine(Input):
    """Shown while a filter is typed or holds; enter keeps it, escape drops it.

    Args:
        placeholder: what can be typed.
        id: Textual's name for it.
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
        """Typing is over: the list shall have the focus."""

    def __init__(self, placeholder: str, *, id: str | None = None) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True, select_on_focus=False)

    def ask(self) -> None:
        """Shows the line and takes the keys."""
        self.add_class("-shown")
        self.focus()

    def action_drop(self) -> None:
        """Forgets the filter."""
        self.value = ""
        self.action_keep()

    def action_keep(self) -> None:
        """Goes back to the list; the filter holds."""
        self.set_class(bool(self.value), "-shown")
        self.post_message(self.Left())

    async def action_submit(self) -> None:
        """Enter keeps the filter."""
        self.action_keep()


class RowList(CodeView):
    """A list: one line a row. Enter or a second click opens a row, space folds its group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
    ]

    class Opened(Message):
        """A row is to be opened."""

        def __init__(self, rows: RowList, line: int) -> None:
            super().__init__()
            self.rows = rows
            self.line = line

        @property
        def control(self) -> RowList:
            return self.rows

    class Folded(Message):
        """The group of a row is to be closed, or opened."""

        def __init__(self, rows: RowList, line: int) -> None:
            super().__init__()
            self.rows = rows
            self.line = line

        @property
        def control(self) -> RowList:
            return self.rows

    def action_open(self) -> None:
        """Opens the row of the cursor."""
        if self.shown.lines:
            self.post_message(self.Opened(self, self.cursor))

    def action_fold(self) -> None:
        """Folds the group of the cursor: what is in a group, only the page knows."""
        if self.shown.lines:
            self.post_message(self.Folded(self, self.cursor))

    def on_click(self, event: Click) -> None:
        """The second click opens."""
        if event.chain == 2:
            self.action_open()
