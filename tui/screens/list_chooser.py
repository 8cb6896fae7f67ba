"""The dialogue in which the user chooses one row of a list, which typing narrows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from ..widgets.code import Span, Text
from ..widgets.filtered_list import RowList, word_filter
from .dialogue import Dialogue, entitle


class Choice(Struct, frozen=True):
    """A row of the list.

    Attributes:
        key: the dialogue's result if it is chosen.
        searched: what is searched for the words that are typed; "" for the text.
    """

    key: str
    text: str
    spans: Sequence[Span] = ()
    searched: str = ""


class ListChooser(Dialogue[str | None]):
    """A filtered list; its result is the key of the chosen row, or None."""

    DEFAULT_CSS = """
    ListChooser > Vertical { max-width: 120; height: 80%; min-height: 5; }
    ListChooser Input { border: none; height: 1; padding: 0; background: $panel; }
    ListChooser Static { height: 1; color: $foreground 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
    ]

    PLACEHOLDER: ClassVar[str] = "type to narrow the list"

    def __init__(self, title: str, choices: Sequence[Choice], current: str | None = None) -> None:
        super().__init__()
        self._heading = title
        self._choices = choices
        self._current = current
        self._shown: list[Choice] = []

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            entitle(box, self._heading)
            yield Input(placeholder=self.PLACEHOLDER, compact=True)
            yield RowList()
            yield Static("Enter takes it · Esc goes back", markup=False)

    def on_mount(self) -> None:
        self._filter("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter(event.value)

    def on_input_submitted(self) -> None:
        cursor = self.query_one(RowList).cursor
        self.dismiss(self._shown[cursor].key if cursor < len(self._shown) else None)

    def on_row_list_opened(self) -> None:
        self.on_input_submitted()

    def action_move(self, lines: int) -> None:
        """Moves the cursor of the list while the input line has the focus."""
        self.query_one(RowList).action_move(lines)

    def matching(self, typed: str) -> list[Choice]:
        """The rows that contain all words of a filter."""
        has_words = word_filter(typed)
        return [choice for choice in self._choices if has_words(choice.searched or choice.text)]

    def _filter(self, typed: str) -> None:
        shown = self._shown = self.matching(typed)
        lines = [choice.text for choice in shown] or ["nothing has these words"]
        text = Text(lines, lambda line: shown[line].spans if line < len(shown) else ())
        keys = [choice.key for choice in shown]
        rows = self.query_one(RowList)
        rows.show(text, 0)
        if self._current in keys:
            rows.move_to(keys.index(self._current), centre=True)
