"""The parts of the passes page: messages from its threads, the list and the diff."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from ....inspector.compile.passes import PassDump
from ....inspector.errors import KinspectError
from ...widgets.code import CodeView
from .child import PassText
from .choose import Rows


class Read(Message):
    """A dump has been read; which passes changed something may still be unknown."""

    def __init__(self, path: Path, dump: PassDump) -> None:
        super().__init__()
        self.path, self.dump = path, dump


class Compared(Message):
    """The text of a span of states has been computed.

    Args:
        path: the dump.
        span: two states whose diff was computed, or twice the state whose module was read; None:
            the dump cannot be read.
        result: the text, or why there is none.
    """

    def __init__(
        self, path: Path, span: tuple[int, int] | None, result: PassText | KinspectError
    ) -> None:
        super().__init__()
        self.path, self.span, self.result = path, span, result


class PassList(Rows):
    """The list of passes, which never scrolls sideways: the right key goes to the diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,enter", "choose", "Diff", show=False),
        Binding("left,h", "nothing", show=False),
    ]

    def action_nothing(self) -> None:
        """Does nothing, since there is no pane left of the list."""


class DiffView(CodeView):
    """The diff; at its left edge the left key goes back to the list."""

    class Left(Message):
        """The focus is to go back to the list."""

    def action_shift(self, columns: int) -> None:
        """Scrolls sideways, or goes back."""
        if columns < 0 and self.scroll_offset.x == 0:
            self.post_message(self.Left())
        else:
            super().action_shift(columns)
