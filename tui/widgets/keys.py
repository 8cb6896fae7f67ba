"""The line at the bottom of every page: the keys that work now.

It is a single text, because it changes with every move of the focus: with a widget for each key,
drawing it would take most of the time of a key press.
"""

from __future__ import annotations

from msgspec import Struct
from rich.text import Text
from textual.binding import Binding
from textual.events import Click
from textual.screen import Screen

from .styles import PartedWidget


class _Hint(Struct, frozen=True):
    keys: tuple[tuple[str, str], ...]  # (label, key to press)
    description: str


class Keys(PartedWidget):
    """Shows the keys of the page and of the focused widget; a click presses one."""

    PREFIX = "keys"
    DEFAULT_CSS = """
    Keys {
        dock: bottom;
        height: 1;
        background: $panel;
        color: $foreground;
    }
    Keys > .keys--key { color: $accent; text-style: bold; }
    """
    ALLOW_SELECT = False

    def __init__(self, *, palette: bool = True) -> None:
        super().__init__()
        self._palette = palette
        self._click_regions: list[tuple[int, int, str]] = []  # (start, end column, key to press)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._redraw)

    def _redraw(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.refresh()

    def render(self) -> Text:
        style = self.part_style("key")
        text, width = Text(no_wrap=True), self.size.width
        self._click_regions = []
        for hint in self._hints():
            piece = Text(" ")
            spots = []
            for label, pressed in hint.keys:
                start = piece.cell_len
                piece.append(label, style)
                spots.append((start, piece.cell_len, pressed))
                piece.append(" ")
            piece.append(f"{hint.description} ")
            if text.cell_len + piece.cell_len > width:
                break
            start = text.cell_len
            last = len(spots) - 1
            self._click_regions += [
                (start + a, start + (piece.cell_len if n == last else b), key)
                for n, (a, b, key) in enumerate(spots)
            ]
            text.append_text(piece)
        palette = self._palette_binding()
        if palette is None:
            return text
        palette_hint = Text.assemble((self.app.get_key_display(palette), style), " commands ")
        if text.cell_len + palette_hint.cell_len + 1 <= width:
            text.pad_right(width - text.cell_len - palette_hint.cell_len)
            self._click_regions.append((text.cell_len, width, palette.key))
            text.append_text(palette_hint)
        return text

    def _palette_binding(self) -> Binding | None:
        if not self._palette:
            return None
        bindings = (active.binding for active in self.screen.active_bindings.values())
        return next((binding for binding in bindings if binding.id == "commands"), None)

    def _hints(self) -> list[_Hint]:
        """The shown bindings that work now; those of one action or group share a hint."""
        keys_of: dict[tuple[object, str], list[tuple[str, str]]] = {}
        descriptions: dict[tuple[object, str], str] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if not binding.show or not enabled:
                continue
            group = binding.group
            name = (group, "") if group is not None else (None, binding.action)
            label = self.app.get_key_display(binding)
            keys = keys_of.setdefault(name, [])
            if group is not None or not keys:
                keys.append((label, binding.key))
            descriptions.setdefault(
                name, group.description if group is not None else binding.description
            )
        return [_Hint(tuple(keys), descriptions[name]) for name, keys in keys_of.items()]

    def on_click(self, event: Click) -> None:
        for start, stop, key in self._click_regions:
            if start <= event.x < stop:
                self.app.simulate_key(key)
                return
