"""The line in which a list's filter is typed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class FilterLine(Input):
    """An input line that is visible while it has a filter; enter keeps that, escape clears it."""

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
        Binding("down,tab", "keep", "To the list", show=False),
    ]

    def __init__(self, placeholder: str, target: str, *, id: str | None = None) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True, select_on_focus=False)
        self._target = target

    def ask(self) -> None:
        self.add_class("-shown")
        self.focus()

    def action_drop(self) -> None:
        self.value = ""
        self.action_keep()

    def action_keep(self) -> None:
        self.set_class(bool(self.value), "-shown")
        self.screen.query_one(self._target).focus()

    async def action_submit(self) -> None:
        self.action_keep()
