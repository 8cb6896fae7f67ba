"""The dialogue that asks before something is lost at the end of the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from .dialogue import Dialogue, entitle

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
