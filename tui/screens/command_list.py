"""The list of all commands that work now, and a way to a line by its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from textual.screen import Screen

from ..key_table import own_bindings
from ..page_table import PAGES
from ..pages import Page
from .list_chooser import Choice, ListChooser

if TYPE_CHECKING:
    from ..application import Application

_TITLE = 28
"""Columns of a command's name and the blanks after it."""


class Command(Struct, frozen=True):
    """A command.

    Attributes:
        run: does it; what it returns may have to be awaited.
    """

    title: str
    about: str
    run: Callable[[], Any]


def commands(app: Application, screen: Screen[object]) -> Iterator[Command]:
    """Yields the page's own keys, then the pages, help, export, themes and quitting."""
    keymap = app.opening.preferences.keys
    for active in screen.active_bindings.values():
        binding, node = active.binding, active.node
        is_page = isinstance(node, Screen)
        named = len(binding.description) > 1 and not binding.action.startswith("app.")
        offered = active.enabled and node is not app and named and (is_page or binding.show)
        if offered and any(binding.key == own.key for own in own_bindings(node, keymap)):
            run = partial(app.run_action, binding.action, node)
            yield Command(binding.description, f"key {app.get_key_display(binding)}", run)
    for name, spec in PAGES.items():
        if spec.key:
            yield Command(f"Go to {spec.title}", spec.about, partial(app.action_page, name))
    for title, about, action in (
        ("Help", "marks and keys of this page", "help"),
        ("Export", "the screen or the report, to a file", "export"),
        ("Quit", "leave kinspect", "leave"),
    ):
        yield Command(title, about, partial(app.run_action, action, app))
    for theme in app.own_themes:
        yield Command(f"Theme: {theme.name}", "colours", partial(setattr, app, "theme", theme.name))


class CommandList(ListChooser):
    """The commands; a number in place of a name goes to that line."""

    PLACEHOLDER: ClassVar[str] = "a command, or the number of a line"

    def __init__(self, offered: Sequence[Command]) -> None:
        super().__init__("command", [_choice(n, command) for n, command in enumerate(offered)])
        self._offered = offered

    def matching(self, typed: str) -> list[Choice]:
        if typed.strip().isdecimal():
            return [Choice(f"line {typed.strip()}", f"go to line {typed.strip()}")]
        return super().matching(typed)

    async def run(self, key: str | None) -> None:
        word, _, line = (key or "").partition(" ")
        page = self.app.screen
        if word == "line" and not (isinstance(page, Page) and page.go_to_line(int(line))):
            self.app.notify("nothing here has lines", timeout=2)
        elif word.isdecimal():
            result = self._offered[int(word)].run()
            if result is not None:
                await result


def _choice(number: int, command: Command) -> Choice:
    text = f"{command.title:<{_TITLE}}  {command.about}"
    end = len(command.title)
    return Choice(str(number), text, ((0, end, "name"), (end, len(text), "comment")))
