"""The parts of the page of passes: what its threads bring, list, diff, the filter's line."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from kinspect.inspector.compiler.passes import PassDump
from kinspect.inspector.errors import KinspectError
from kinspect.tui.screens.passes.child import Made
from kinspect.tui.screens.passes.choose import Rows
from kinspect.tui.widgets.code import CodeView
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class Read(Message):
    """The dump has been split; which passes changed something may still be unknown."""

    def __init__(self, path: Path, dump: PassDump) -> None:
        super().__init__()
        self.path, self.dump = path, dump


class Compared(Message):
    """Two states have been compared; where both are one, it has been read.

    Without a span it says why the dump cannot be read.
    """

    def __init__(
        self, path: Path, span: tuple[int, int] | None, made: Made | KinspectError
    ) -> None:
        super().__init__()
        self.path, self.span, self.made = path, span, made


class PassList(Rows):
    """The passes; it is as wide as its pane, so that sideways means the diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,enter", "choose", "Diff", show=False),
        Binding("left,h", "nothing", show=False),
    ]

    def action_nothing(self) -> None:
        """There is nothing left of the list."""


class DiffView(CodeView):
    """The diff; at its left edge the left key goes back to the list."""

    class Left(Message):
        """The keys shall go to the list."""

    def action_shift(self, columns: int) -> None:
        """Scrolls sideways, or goes back."""
        if columns < 0 and self.scroll_offset.x == 0:
            self.post_message(self.Left())
        else:
            super().action_shift(columns)


class NameFilter(Input):
    """Shown while a filter is typed or holds: Enter keeps it, Escape drops it."""

    DEFAULT_CSS = """
    NameFilter {
        height: 1; border: none; padding: 0 1; background: $panel; display: none;
    }
    NameFilter:focus { border: none; background: $primary 20%; }
    NameFilter.-shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "Drop the filter", show=False),
        Binding("down", "keep", "To the list", show=False),
    ]

    class Left(Message):
        """The keys shall go to the list."""

    def __init__(self) -> None:
        super().__init__(placeholder="a part of the pass's name", compact=True)

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
