"""The base class of the pages, whose modules are imported when they are first opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.signal import Signal
from textual.worker import get_current_worker

from ..inspector.base.errors import KinspectError
from .key_table import bind
from .widgets.heading import Heading, Keys

if TYPE_CHECKING:
    from .application import Application
    from .session import Session, SessionKernel

Result = TypeVar("Result")
Legend = tuple[tuple[str, str], ...]
"""Marks or terms, each with its meaning."""


def page_class(name: str) -> type[Page]:
    """Imports a page's module and returns the page's class.

    Args:
        name: a key of `PAGES`.

    Raises:
        TypeError: the class is not a `Page`.
    """
    module = import_module(f"kinspect.tui.screens.{name}.{name}_page")
    page_cls: Any = getattr(module, f"{name.title()}Page")
    if not issubclass(page_cls, Page):
        raise TypeError(f"{name} is no page")
    return cast("type[Page]", page_cls)


class Page(Screen[None]):
    """A full screen of the application.

    Attributes:
        NAME: the page's key in `PAGES`.
        LEGEND: what the page's marks and terms mean, for its help.
        PALETTE: whether the line of keys has room for the palette's.
    """

    NAME: ClassVar[str] = ""
    LEGEND: ClassVar[Legend] = ()
    PALETTE: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("back", "escape", "Close what is on top; q goes back", show=False),
        bind("close", "app.close", "Back; from the first page leave", show=False),
        bind("help", "app.help", "Help"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.drawn_signal: Signal[Page] = Signal(self, "drawn")
        self._shown_revision = -1  # of the session; -1 makes the next refresh draw the page anew

    @property
    def kinspect(self) -> Application:
        return cast("Application", self.app)

    @property
    def session(self) -> Session:
        """The kernels, failures and notes that the pages show."""
        return self.kinspect.session

    def compose(self) -> ComposeResult:
        """What the page shows, between the heading and the line of keys."""
        yield Heading()
        yield from self.content()
        yield Keys(palette=self.PALETTE)

    def content(self) -> ComposeResult:
        """The page's own widgets."""
        yield from ()

    def legend(self) -> Legend:
        """What the marks and terms mean that the page shows."""
        return self.LEGEND

    def go_to_line(self, line: int) -> bool:
        """Moves the cursor of the list or text with the focus.

        Returns:
            Whether there is one to move.
        """
        move_to = getattr(self.focused, "move_to", None)
        if move_to is not None:
            move_to(line - 1)
        return move_to is not None

    def crumb(self) -> str:
        """The header's text after the page's title, such as the kernel's name."""
        return ""

    @property
    def kernel_key(self) -> str | None:
        """The session's key of the one kernel that the page is about; None on other pages."""
        return None

    @property
    def kernel_at_hand(self) -> SessionKernel | None:
        """The kernel under the cursor, or that the page is about."""
        return self.session.entries.get(self.kernel_key or "")

    def session_changed(self) -> None:
        """Shows the session's new state.

        Called when the page is opened or shown again, and at most ten times a second while the
        session changes.
        """

    def _has_widgets(self) -> bool:
        """Whether the page's widgets exist; they do not while it is being opened or closed."""
        return self.is_mounted and self.is_running and len(self.children) > 0

    def refresh_from_session(self) -> None:
        """Calls `session_changed` if the session has changed and the page has its widgets."""
        if self._has_widgets() and self._shown_revision != self.session.revision:
            self._shown_revision = self.session.revision
            self.session_changed()
            self.drawn_signal.publish(self)  # the heading, where the page draws nothing

    def on_idle(self) -> None:
        self.drawn_signal.publish(self)

    def in_thread(
        self,
        group: str,
        read: Callable[[], Result],
        on_done: Callable[[Result], object],
        on_error: Callable[[KinspectError], object],
    ) -> None:
        """Calls `read` in a thread, and then one of the others unless the page was left."""

        def work() -> None:
            worker = get_current_worker()
            try:
                result = read()
            except KinspectError as error:
                hand_over = partial(on_error, error)
            else:
                hand_over = partial(on_done, result)
            if not worker.is_cancelled:
                self.app.call_from_thread(lambda: hand_over() if self.is_attached else None)

        self.run_worker(work, thread=True, exclusive=True, group=group)

    def action_filter(self) -> None:
        """Opens the filter's input line, on pages that have one."""
        from .widgets.filter_line import FilterLine

        self.query_one("#filter", FilterLine).ask()

    def close_top(self) -> bool:
        """Closes what lies on top of the page, such as a filter; returns whether there was any."""
        from .widgets.filter_line import FilterLine

        line = next((line for line in self.query(FilterLine) if line.value), None)
        if line is not None:
            line.action_drop()
        return line is not None

    def action_escape(self) -> None:
        """Closes what lies on top of the page, never the page itself."""
        if not self.close_top() and len(self.app.screen_stack) > 2:
            self.notify("q goes back", timeout=2)

    def action_baseline(self) -> None:
        """Makes the kernel at hand the baseline, or no kernel if it is that already."""
        entry = self.kernel_at_hand
        if entry is None:
            self.notify("the baseline is one kernel: go to it first", timeout=3)
        else:
            self.session.choose_baseline(entry)

    def on_screen_resume(self) -> None:
        """Brings a page up to date that is shown again."""
        self._shown_revision = -1
        self.refresh_from_session()
        self.call_after_refresh(self._drop_hidden_focus)

    def _drop_hidden_focus(self) -> None:
        focused = self.focused
        if focused is not None and not all(node.display for node in focused.ancestors_with_self):
            self.set_focus(None)
