"""The lines at the top and bottom of every page: the page, the other pages and the run's progress;
the keys that work now.

The line of keys is a single text, because it changes with every move of the focus: with a widget
for each key, drawing it would take most of the time of a key press.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from msgspec import Struct
from rich.text import Text
from textual.binding import Binding
from textual.events import Click
from textual.screen import Screen

from ...inspector.base.long_names import shortened
from ..page_table import PAGES
from .styles import PartedWidget

if TYPE_CHECKING:
    from textual.signal import Signal

    from ..application import Application
    from ..session import Session


_WHOLE, _SHORT = 99, 3  # letters of a page's name
_MOST_BASELINE = 28  # cells of the baseline's name
_LEAST_WIDTH = 60  # columns of the terminal from which on the pages' digits are always there


def _gap(letters: int) -> int:
    return 2 if letters == _WHOLE else 1


def _length(letters: int) -> int:
    """Cells of all pages with that many letters of their names."""
    titles = [f"{spec.title:.{letters}}" for spec in PAGES.values() if spec.key]
    return sum(_gap(letters) + 2 + len(title) for title in titles)


class Headed(Protocol):
    """What the heading shows of a page: see `pages.Page`."""

    NAME: ClassVar[str]

    @property
    def drawn_signal(self) -> Signal[Any]:
        """Sent after the page has drawn something."""

    @property
    def kinspect(self) -> Application:
        """The application."""

    @property
    def session(self) -> Session:
        """The kernels, failures and notes that the pages show."""

    @property
    def kernel_key(self) -> str | None:
        """The session's key of the one kernel that the page is about."""

    def crumb(self) -> str:
        """The text after the page's title."""


class Heading(PartedWidget):
    """Shows the page's title and crumb, the other pages and, on the right, the progress.

    A click on a page opens it. Where there is too little room for the pages' names they are
    abbreviated, or their digits stand alone.
    """

    PREFIX = "heading"
    DEFAULT_CSS = """
    Heading {
        dock: top;
        height: 1;
        background: $panel;
        color: $foreground;
    }
    Heading > .heading--here { text-style: bold; }
    Heading > .heading--other { color: $foreground 65%; }
    Heading > .heading--failed { color: $error; text-style: bold; }
    Heading > .heading--stale { color: $warning; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._spots: list[tuple[range, str]] = []  # columns of the widget, and the page there

    def on_click(self, event: Click) -> None:
        for columns, name in self._spots:
            if event.x in columns:
                event.stop()
                if name != self._page.NAME:
                    self._page.kinspect.action_page(name)

    def on_mount(self) -> None:
        self._shown = ""
        self._page.drawn_signal.subscribe(self, self._update, immediate=True)

    @property
    def _page(self) -> Headed:
        return cast("Headed", self.screen)

    def _update(self, page: Headed) -> None:
        text = f"{self._stale()}  {self._baseline()}  {page.crumb()}  {self._progress()}"
        if text != self._shown:
            self._shown = text
            self.refresh()

    def render(self) -> Text:
        current = self._page.NAME
        width = self.size.width
        current_style, other_style = self.part_style("here"), self.part_style("other")
        title = PAGES[current].title if current in PAGES else "kinspect"
        left = Text(no_wrap=True).append(f" {title}", current_style)
        if stale := self._stale():  # first: a long crumb is cut at its end
            left.append(f"  {stale}", self.part_style("stale"))
        if baseline := self._baseline():
            left.append(f"  {baseline}", other_style)
        crumb = self._page.crumb()
        head = left.cell_len
        if crumb:
            left.append(f"  {crumb}")
        progress = self._progress()
        room = width - left.cell_len - progress.cell_len - 4
        letters = next((n for n in (_WHOLE, _SHORT) if _length(n) <= room), 0)
        pages = Text(no_wrap=True)
        ends: list[tuple[int, int, str]] = []
        if letters or width >= _LEAST_WIDTH:
            for name, spec in PAGES.items():
                if spec.key:
                    here = current_style if name == current else other_style
                    first = pages.cell_len + _gap(letters)
                    pages.append(
                        f"{' ' * _gap(letters)}{spec.key}", other_style if letters else here
                    )
                    if letters:
                        pages.append(f" {spec.title:.{letters}}", here)
                    ends.append((first, pages.cell_len, name))
        start = width - pages.cell_len - progress.cell_len - 2
        self._spots = [(range(start + first, start + last), name) for first, last, name in ends]
        room = max(0, start if ends else width - progress.cell_len)
        if left.cell_len > room > head + 2:  # options differ at the end of the crumb
            left = left[:head].append(f"  {shortened(crumb, room - head - 2)}")
        left.truncate(room, overflow="ellipsis", pad=True)
        return Text.assemble(left, pages, "  " if ends else "", progress)

    def _stale(self) -> str:
        """Why the page's kernel is not one of the last run, if so."""
        key = self._page.kernel_key
        return self._page.session.stale_text(key) if key is not None else ""

    def _baseline(self) -> str:
        """The kernel that others are shown against, if there is one."""
        baseline = self._page.session.baseline
        return f"± {shortened(baseline.label, _MOST_BASELINE)}" if baseline is not None else ""

    def _progress(self) -> Text:
        """The numbers of reported, expected and failed kernels; empty without any."""
        text, session = Text(no_wrap=True), self._page.session
        progress, failed = session.progress, len(session.errors)
        if progress.running and not (progress.done or progress.expected):
            text.append("starting … ")
        elif progress.running:
            total = f"/{progress.expected}" if progress.expected else ""
            text.append(f"{progress.done}{total} … ")
        if failed:
            text.append(f"{failed} failed ", self.part_style("failed"))
        return text


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
