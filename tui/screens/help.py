"""The help screen of a page: a legend of its marks and a table of its keys."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ..application import Application
from ..key_table import own_bindings
from ..page_table import PAGES
from ..pages import Page
from .dialogue import TextDialogue, entitle

_WIDTH = 78
_TWO_COLUMNS = 96
"""Columns of the terminal from which on the keys are set in two columns."""
_KEYS_WIDTH = 18
_TITLES = {"CodeView": "In a text", "Table": "In a table", "Input": "In a field"}
_EVERYWHERE = frozenset({"app.help", "app.close", "escape"})  # under "Everywhere"


class KeyHelp(Struct, frozen=True):
    """An action's keys and its description, or marks and their meaning."""

    keys: tuple[str, ...]
    description: str


class KeyGroup(Struct, frozen=True):
    """Marks, or keys that work in the same place."""

    title: str
    rows: tuple[KeyHelp, ...]


def groups_of(screen: Screen[object]) -> list[KeyGroup]:
    """The marks of a page, and its keys in groups: of the page, of its widgets, of every page."""
    app = screen.app
    keymap = app.opening.preferences.keys if isinstance(app, Application) else {}
    page_name = screen.NAME if isinstance(screen, Page) else ""
    title = f"On the page {PAGES[page_name].title}" if page_name in PAGES else "This screen"
    legend = screen.legend() if isinstance(screen, Page) else ()
    groups = [KeyGroup("Marks", tuple(KeyHelp((mark,), meaning) for mark, meaning in legend))]
    page = [b for b in own_bindings(screen, keymap) if b.action not in _EVERYWHERE]
    groups.append(KeyGroup(title, _rows(page, app)))
    seen_kinds: set[type[DOMNode]] = set()
    for widget in screen.query("*").results(Widget):
        kind = type(widget)
        if widget.focusable and kind not in seen_kinds:
            seen_kinds.add(kind)
            groups.append(KeyGroup(_title(widget), _rows(own_bindings(widget, keymap), app)))
    everywhere = [
        *(b for b in own_bindings(screen, keymap) if b.action in _EVERYWHERE),
        *own_bindings(app, keymap),
        Binding("tab", "", "Next part of the page"),
        Binding("shift+tab", "", "Part before"),
    ]
    groups.append(KeyGroup("Everywhere", _rows(everywhere, app)))
    return [group for group in _merged(groups) if group.rows]


def _merged(groups: Iterable[KeyGroup]) -> list[KeyGroup]:
    """Joins groups of the same title, which several kinds of widgets may have."""
    merged: dict[str, dict[KeyHelp, None]] = {}
    for group in groups:
        merged.setdefault(group.title, {}).update(dict.fromkeys(group.rows))
    return [KeyGroup(title, tuple(rows)) for title, rows in merged.items()]


def _title(widget: Widget) -> str:
    for kind in type(widget).__mro__:
        if kind.__name__ in _TITLES:
            return _TITLES[kind.__name__]
    if widget.BINDING_GROUP_TITLE:
        return widget.BINDING_GROUP_TITLE
    words = re.findall(r"[A-Z][a-z0-9]*", type(widget).__name__.lstrip("_"))
    return "In the " + " ".join(words).lower()


def _rows(bindings: Iterable[Binding], app: App[object]) -> tuple[KeyHelp, ...]:
    """A row with all its keys for each action; bindings without a description are left out."""
    keys: dict[tuple[str, str], list[str]] = {}
    for binding in bindings:
        meaning = binding.tooltip or binding.description
        if meaning and not binding.system:
            action = binding.action.removeprefix("app.")
            keys.setdefault((action, meaning), []).append(app.get_key_display(binding))
    return tuple(
        KeyHelp(tuple(dict.fromkeys(key_names)), meaning)
        for (_, meaning), key_names in keys.items()
    )


def help_text(groups: Sequence[KeyGroup], width: int) -> Text:
    text = Text()
    blocks = [
        _block(group, (width - 4) // 2 if width >= _TWO_COLUMNS else width) for group in groups
    ]
    if width < _TWO_COLUMNS:
        for block in blocks:
            text.append_text(_joined(block)).append("\n\n")
    else:
        text.append_text(_in_two_columns(blocks, (width - 4) // 2))
    text.rstrip()
    return text


def _block(group: KeyGroup, width: int) -> list[Text]:
    """A group's title and rows: keys in a column on the left, descriptions wrapped."""
    lines = [Text(group.title, "bold underline")]
    for row in group.rows:
        keys = "  ".join(row.keys)
        room = max(10, width - _KEYS_WIDTH - 2)
        wrapped = textwrap.wrap(row.description, room) or [""]
        if len(keys) > _KEYS_WIDTH:
            lines.append(Text(f" {keys}", "bold"))
            keys = ""
        for index, line in enumerate(wrapped):
            lines.append(
                Text.assemble((f" {keys if not index else '':<{_KEYS_WIDTH}} ", "bold"), line)
            )
    return lines


def _joined(block: Sequence[Text]) -> Text:
    return Text("\n").join(block)


def _in_two_columns(blocks: Sequence[Sequence[Text]], width: int) -> Text:
    """Sets blocks in two columns; each block is added to the shorter one."""
    columns: tuple[list[Text], list[Text]] = ([], [])
    for block in blocks:
        column = columns[0] if len(columns[0]) <= len(columns[1]) else columns[1]
        column.extend([*block, Text()])
    text = Text()
    for index in range(max(map(len, columns))):
        left = columns[0][index].copy() if index < len(columns[0]) else Text()
        left.truncate(width, pad=True)
        text.append_text(left).append("    ")
        text.append_text(columns[1][index] if index < len(columns[1]) else Text()).append("\n")
    return text


class HelpScreen(TextDialogue):
    """A dialogue that shows the help of the page below it."""

    DEFAULT_CSS = """
    HelpScreen > VerticalScroll { min-width: 78; max-width: 150; max-height: 100%; }
    """

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._groups = groups_of(screen)
        page_name = screen.NAME if isinstance(screen, Page) else ""
        spec = PAGES.get(page_name)
        self._title = f"{spec.title}: {spec.about}" if spec is not None else "Help"

    def compose(self) -> ComposeResult:
        box = VerticalScroll()
        entitle(box, self._title, "j/k scroll · Esc closes")
        with box:
            yield Static(id="text", markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self, event: Resize) -> None:
        width = min(max(_WIDTH, event.size.width * 9 // 10), 150, event.size.width) - 5
        self.query_one("#text", Static).update(help_text(self._groups, max(20, width)))
