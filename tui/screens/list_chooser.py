"""The dialogue in which the user chooses one row of a list, which typing narrows.

The dialogue in which the user chooses one of the session's kernels. The list of all commands that
work now, and a way to a line by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Input, Static

from ...inspector.explain.view import configuration, worst_first
from ...inspector.model import KernelReport
from ..key_table import own_bindings
from ..page_table import PAGES
from ..pages import Page
from ..session import Session, SessionKernel
from ..widgets.code import RowList, Span, Text, word_filter
from .dialogue import Dialogue, entitle

if TYPE_CHECKING:
    from ..application import Application


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


def worst_kernel(
    session: Session, is_preferred: Callable[[KernelReport], bool] = lambda kernel: True
) -> str | None:
    """The id of the kernel with the worst findings; None if there is no kernel."""
    kernels = worst_first([entry.report for entry in session.ordered()])
    return next((k.id for k in kernels if is_preferred(k)), kernels[0].id if kernels else None)


def kernel_chooser(
    entries: Sequence[SessionKernel],
    current: str | None,
    mark: Callable[[KernelReport], str] = lambda kernel: "",
) -> ListChooser:
    """A list of kernels; its result is the chosen kernel's key."""

    def choice(entry: SessionKernel) -> Choice:
        kernel = entry.report
        about = f"{configuration(kernel)}  {entry.tried}"
        text = f"{mark(kernel):<1} {kernel.name}  {kernel.arch or '-'}  {about}"
        end = 2 + len(kernel.name)
        spans = ((0, 1, "literal"), (2, end, "name"), (end, len(text), "comment"))
        return Choice(entry.key, text, spans, f"{text} {kernel.id}")

    return ListChooser("kernel", [choice(entry) for entry in entries], current)


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
