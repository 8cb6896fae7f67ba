"""The parts of the page of passes: what its threads bring, list, diff, the filter's line."""

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
    """The dump has been split; which passes changed something may still be unknown."""

    def __init__(self, path: Path, dump: PassDump) -> None:
        super().__init__()
        self.path, self.dump = path, dump


class Compared(Message):
    """Two states have been compared; where both are one, it has been read.

    Without a span it says why the dump cannot be read.
    """

    def __init__(
        self, path: Path, span: tuple[int, int] | None, made: PassText | KinspectError
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
