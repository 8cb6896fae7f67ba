"""The application: which pages there are, what is open, and what a key does on every page."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct
from textual._context import active_message_pump
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.worker import WorkerFailed

from ..inspector.errors import KinspectError
from ..inspector.model import ErrorRecord, KernelReport
from .harmless import HarmlessApp
from .page_table import PAGES
from .pages import Page, page_class
from .session import Session
from .state import State
from .themes import THEMES

if TYPE_CHECKING:
    # The pipeline's vocabulary takes longer to import than the first page takes to paint.
    from textual.actions import ActionParseResult

    from ..inspector.pipeline.jobs import Request
    from .feed import Feed
    from .watching import Watcher

_LOOKS_PER_SECOND = 10
_FIRST_LOOK = 0.15
"""Seconds that the first page has for itself."""


class Opening(Struct, frozen=True):
    """What the application begins with.

    Attributes:
        request: what to analyse, or what gives it: making one imports what the first page does not
            need. None opens the history.
        page: the page to begin with; None: the kernels, or the history without a request.
        watch: whether files are analysed again when they are saved.
        history: the history's file; None: the user's.
        remember: whether themes, columns and the like are kept from one start to the next.
        text: a file of assembly or IR that is the only target: its text is shown at once, before
            anything of it is known.
    """

    request: Request | Callable[[], Request] | None = None
    page: str | None = None
    watch: bool = False
    history: Path | None = None
    remember: bool = True
    text: Path | None = None


class KinspectApp(HarmlessApp):
    """The terminal UI."""

    TITLE = "kinspect"
    CSS_PATH = "kinspect.tcss"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(spec.key, f"page('{name}')", spec.title, show=False)
            for name, spec in PAGES.items()
            if spec.key
        ),
        Binding("f1", "help", "Help"),
        Binding("ctrl+e", "export", "Export", show=False),
        Binding("f2", "next_theme", "Theme", show=False),
        Binding("ctrl+q,ctrl+c", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(self, opening: Opening) -> None:
        super().__init__()
        self.opening = opening
        self.session = Session(None if callable(opening.request) else opening.request)
        self.session.progress.running = opening.request is not None
        self.state = State.load() if opening.remember else State()
        self.feed: Feed | None = None
        self.watcher: Watcher | None = None
        self._awaited = opening.request
        self._under: str | None = None  # what comes when the first page is closed
        self.fault = ""
        self.suspended = False
        self.looked_at: str | None = None  # the kernel, by its key, that a page showed last

    # ------------------------------------------------------------------ life

    def on_mount(self) -> None:
        """Shows the first page; the run begins once it has been painted."""
        for theme in THEMES:
            self.register_theme(theme)
        available = self.state.theme in self.available_themes
        self.theme = self.state.theme if available else THEMES[0].name
        first = self.opening.page or ("kernels" if self.opening.request else "history")
        if self.opening.text is not None and self.opening.page is None:
            self._under = first  # made when it is gone back to: the text is there sooner
            self._show(partial(self._text_page, self.opening.text))
        if len(self.screen_stack) < 2:
            self._under = None
            self.push_screen(page_class(first)())
        self.set_interval(1 / _LOOKS_PER_SECOND, self._look)
        if self.opening.request is not None:
            # Imports would hold up the first page; one that fails takes this call with it.
            self.call_after_refresh(self.set_timer, _FIRST_LOOK, self._begin)
            self.set_timer(4 * _FIRST_LOOK, self._begin)

    def _text_page(self, path: Path) -> Page:
        from .screens.kernel.page import KernelPage

        return KernelPage.of_file(path)

    def _begin(self) -> None:
        awaited, self._awaited = self._awaited, None
        if callable(awaited):
            self.run_worker(partial(self._make, awaited), thread=True, group="request")
        elif awaited is not None:
            self.run_request(awaited)

    def _make(self, make_request: Callable[[], Request]) -> None:
        # Imported here, so that no key has to wait for it.
        from . import feed, watching  # noqa: F401

        try:
            request = make_request()
        except KinspectError as error:
            self.call_from_thread(self._not_begun, error)
            return
        self.call_from_thread(self.run_request, request)

    def _not_begun(self, error: KinspectError) -> None:
        self.session.progress.running = False
        self.session.errors.append(ErrorRecord(None, None, "open", error.message, error.hint))
        self.session.revision += 1

    def run_request(self, request: Request) -> None:
        """Begins a run; one that is under way is given up."""
        from .feed import Feed

        if self.feed is not None:
            self.feed.stop(0)
        self.session.begin(request)
        self._watch_files(request)
        self.feed = Feed(request)
        self.feed.start()

    def _watch_files(self, request: Request) -> None:
        if not self.opening.watch:
            return
        if self.watcher is not None:
            if self.watcher.request == request:
                return
            self.watcher.stop()
        from .watching import Watcher

        self.watcher = Watcher(request)
        self.watcher.start()

    def _look(self) -> None:
        """Takes what the run has brought and lets the page show it."""
        if self.feed is not None:
            from .feed import Ended

            profile = self.session.profile
            for event in self.feed.taken():
                if not isinstance(event, Ended):
                    self.session.take(event)
                    continue
                self.feed = None
                self.session.end()
                if self.watcher is not None:
                    self.watcher.watch_sources_of(e.report for e in self.session.entries.values())
            if self.session.profile is not profile and self.opening.page is None:
                self.action_page("profile")  # who opens a recording wants to see what was measured
        if self.watcher is not None and self.watcher.changed():
            self.run_request(self.watcher.request)
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Page):
                screen.refresh_from_session()
                break

    def action_leave(self) -> None:
        """Ends the run and the application; what was set is kept."""
        self.leave(0)

    def leave(self, status: int) -> None:
        """Ends the run and the application.

        Args:
            status: of the process.
        """
        if self.feed is not None:
            self.session.progress.interrupted = True
            self.feed.stop(0)
        if self.watcher is not None:
            self.watcher.stop()
        self.state.theme = self.theme
        if self.opening.remember:
            # A folder that cannot be written is no reason to stay.
            with contextlib.suppress(OSError):
                self.state.save()
        self.exit(status, return_code=status)

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        """Lends the terminal to another program, an editor: its Ctrl-C is not for us."""
        self.suspended = True
        try:
            with super().suspend():
                yield
        finally:
            self.suspended = False

    # ------------------------------------------------------------------ faults

    # Textual ends the application with a traceback at any fault. Here a fault costs as little as it
    # can: a key, a thread's work, a page; in the first page the application, which says so in one
    # line. Tests and KINSPECT_TRACEBACK get Textual's own way.

    @property
    def _plain_faults(self) -> bool:
        return self.is_headless or bool(os.environ.get("KINSPECT_TRACEBACK"))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Does what a key stands for; a fault in it is a message."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            if self._plain_faults:
                raise
            self._tell(error)
            return True

    def _handle_exception(self, error: Exception) -> None:
        """A fault in a page closes the page and says so; elsewhere it ends the application."""
        if self._plain_faults:
            super()._handle_exception(error)
            return
        if isinstance(error, WorkerFailed):
            self._tell(error.error)
            return
        pump = active_message_pump.get(None)
        screen = pump.screen if isinstance(pump, DOMNode) and pump is not self else None
        # Under the first page there may be nothing that could be shown in its place.
        if screen is not None and screen in self.screen_stack[1 if self._under else 2 :]:
            self.call_later(self._close_failed, screen, error)
        elif not self.fault:
            self.fault = _internal(error)
            self.exit(2, return_code=2)

    def _close_failed(self, screen: Screen[object], error: Exception) -> None:
        while screen in self.screen_stack[2:]:
            self.pop_screen()
        if screen in self.screen_stack:
            self.action_back()
        self._tell(error, "The page was closed")

    def _tell(self, error: BaseException, title: str = "") -> None:
        self.notify(
            str(error) if isinstance(error, KinspectError) else _internal(error),
            title=title,
            severity="error",
            timeout=15,
            markup=False,
        )

    # ------------------------------------------------------------------ pages

    def _show(self, make: Callable[[], Page]) -> None:
        """Shows a page that is made now; one that cannot be made is a message, not the end."""
        try:
            page = make()
        except Exception as error:
            if self._plain_faults and not isinstance(error, KinspectError):
                raise
            self._tell(error)
        else:
            self.open_page(page)

    def open_page(self, page: Page) -> None:
        """Shows a page over the present one; one of the same kind is replaced."""
        while len(self.screen_stack) > 2 and not isinstance(self.screen, Page):
            self.pop_screen()
        if isinstance(self.screen, type(page)) and len(self.screen_stack) > 2:
            self.switch_screen(page)
        else:
            self.push_screen(page)

    def action_page(self, name: str) -> None:
        """Shows the page of that name: the one that is open, or a new one."""
        for depth, screen in enumerate(self.screen_stack):
            if isinstance(screen, Page) and name == screen.NAME:
                while len(self.screen_stack) > depth + 1:
                    self.pop_screen()
                return
        self._show(lambda: page_class(name)())

    def action_back(self) -> None:  # type: ignore[override]  # pages call it too
        """Closes the page; the first one stays.

        Escape is pressed to get out of something: it does not end a run that took minutes.
        """
        if len(self.screen_stack) > 2:
            self.pop_screen()
        elif self._under is not None:
            name, self._under = self._under, None
            self.switch_screen(page_class(name)())

    def action_close(self) -> None:
        """Closes the page; the first one closes the application."""
        if len(self.screen_stack) > 2 or self._under is not None:
            self.action_back()
        else:
            self.action_leave()

    def open_kernel(self, key: str, *, line: int | None = None, text: str = "amdgcn") -> None:
        """Shows one kernel's texts.

        Args:
            key: the kernel's id in the session.
            line: where to put the cursor, counted from 1.
            text: in which text that line is: source, ttgir, llir or amdgcn.
        """
        from .screens.kernel.page import KernelPage

        self.looked_at = key
        self._show(lambda: KernelPage(key, line=line, text=text))

    def compare(self, left: KernelReport, right: KernelReport) -> None:
        """Shows two kernels side by side."""
        from .screens.compare.page import ComparePage

        self._show(lambda: ComparePage(left, right))

    # ------------------------------------------------------------------ everywhere

    def action_help(self) -> None:
        """What the page is for and what its keys do."""
        from .screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_export(self) -> None:
        """Asks for a file and writes the screen or the report to it."""
        from .export import Picture
        from .screens.export import ExportScreen

        if not isinstance(self.screen, ExportScreen):
            # Taken before the question covers it.
            self.push_screen(ExportScreen(Picture.of(self)))

    def action_next_theme(self) -> None:
        """Goes on to the next of our themes."""
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) + 1 if self.theme in names else 0
        self.theme = names[at % len(names)]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette offers: the keys of the present page, pages, themes."""
        for active in screen.active_bindings.values():
            binding = active.binding
            if active.node is not self and active.enabled and len(binding.description) > 1:
                yield SystemCommand(
                    binding.description,
                    binding.tooltip or f"this page's key {self.get_key_display(binding)}",
                    partial(self.run_action, binding.action, active.node),
                )
        for name, spec in PAGES.items():
            if spec.key:
                yield SystemCommand(
                    f"Go to {spec.title}", spec.about, partial(self.action_page, name)
                )
        yield SystemCommand("Help", "What the keys of this page do", self.action_help)
        yield SystemCommand("Export", "The screen or the report, to a file", self.action_export)
        for theme in THEMES:
            yield SystemCommand(
                f"Theme: {theme.name}", "Colours", partial(setattr, self, "theme", theme.name)
            )
        yield SystemCommand("Quit", "Leave kinspect", self.action_leave)


def _internal(error: BaseException) -> str:
    return f"internal error: {type(error).__name__}: {error}"
