"""The line at the bottom of every page: what can be pressed now.

Drawn as one text: the line changes with every move of the focus, and a widget for each key would
make that the dearest part of a key press.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual.app import RenderResult
from textual.binding import Binding
from textual.events import Click
from textual.screen import Screen
from textual.widget import Widget

from .styles import part_style


class _Hint(Struct, frozen=True):
    keys: tuple[tuple[str, str], ...]  # as shown, and as pressed
    what: str


class Keys(Widget):
    """Keys of the page and of what has the focus; a click presses one.

    Args:
        palette: whether the command palette's key stands at the right where there is room.
    """

    DEFAULT_CSS = """
    Keys {
        dock: bottom;
        height: 1;
        background: $panel;
        color: $foreground;
    }
    Keys > .keys--key { color: $accent; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key"}
    ALLOW_SELECT = False

    def __init__(self, *, palette: bool = True) -> None:
        super().__init__()
        self._palette = palette
        self._places: list[tuple[int, int, str]] = []  # columns -> the key to press

    def on_mount(self) -> None:
        """Follows the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.refresh()

    def render(self) -> RenderResult:
        """The hints that fit, the page's own before those of the application."""
        style = part_style(self, "keys--key")
        text, width = Text(no_wrap=True), self.size.width
        self._places = []
        for hint in self._hints():
            piece = Text(" ")
            spots = []
            for label, pressed in hint.keys:
                start = piece.cell_len
                piece.append(label, style)
                spots.append((start, piece.cell_len, pressed))
                piece.append(" ")
            piece.append(f"{hint.what} ")
            if text.cell_len + piece.cell_len > width:
                break
            at = text.cell_len
            last = len(spots) - 1
            self._places += [
                (at + a, at + (piece.cell_len if n == last else b), key)
                for n, (a, b, key) in enumerate(spots)
            ]
            text.append_text(piece)
        right = Text.assemble((self.app.get_key_display(_PALETTE), style), " palette ")
        if self._palette and text.cell_len + right.cell_len + 1 <= width:
            text.pad_right(width - text.cell_len - right.cell_len)
            self._places.append((text.cell_len, width, _PALETTE.key))
            text.append_text(right)
        return text

    def _hints(self) -> list[_Hint]:
        keys_of: dict[tuple[object, str], list[tuple[str, str]]] = {}
        words: dict[tuple[object, str], str] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if not binding.show or not enabled:
                continue
            group = binding.group
            name = (group, "") if group is not None else (None, binding.action)
            label = self.app.get_key_display(binding)
            keys = keys_of.setdefault(name, [])
            if group is not None or not keys:
                keys.append((label, binding.key))
            words.setdefault(name, group.description if group is not None else binding.description)
        return [_Hint(tuple(keys), words[name]) for name, keys in keys_of.items()]

    def on_click(self, event: Click) -> None:
        """Presses the key that was clicked."""
        for start, stop, key in self._places:
            if start <= event.x < stop:
                self.app.simulate_key(key)
                return


_PALETTE = Binding("ctrl+p", "command_palette", "Palette")
