"""The application: runs the pipeline, passes its results to the pages and owns the global keys."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from ..inspector.base.errors import KinspectError
from ..inspector.model import ErrorRecord, KernelReport
from .application import Application, Opening
from .key_table import bind
from .page_table import PAGES
from .pages import Page, page_class
from .preferences import State
from .screens.dialogue import Choice, Dialogue, LeaveScreen
from .session import Session
from .themes import THEMES

if TYPE_CHECKING:
    # The pipeline's vocabulary takes longer to import than the first page takes to paint.
    from textual.theme import Theme
    from textual.timer import Timer

    from ..inspector.pipeline.jobs import Request
    from .feed import Feed
    from .watching import Watcher

_UPDATE_SECONDS = 0.1
"""The least time between two updates of a page while a run sends events."""
_LOSS_SECONDS = 10
"""How long it is shown that a run dropped recompiled kernels, or that a file was removed."""
_LEAST_PAUSE = 0.01
"""Textual's timers divide by their seconds."""
_FIRST_PAINT = 0.15
"""Seconds that the first page has for painting before a run starts."""


class KinspectApp(Application):
    """The terminal UI.

    Attributes:
        session: the kernels, failures and notes of the run so far.
        state: the user's settings, loaded and saved across starts.
        feed: the run that is under way; None when there is none.
        watcher: watches the run's files; None without `--watch`.
        exporting: the files that exports are writing now.
        compared: the two kernels that were compared last.
    """

    TITLE = "kinspect"
    CSS_PATH = "kinspect.tcss"
    ENABLE_COMMAND_PALETTE = False  # Textual's; `CommandList` has our commands alone
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(spec.key, f"page('{name}')", spec.title, show=False)
            for name, spec in PAGES.items()
            if spec.key
        ),
        Binding("f1", "help", "Help", id="help"),
        bind("commands", "commands", "All commands; a number goes to that line", show=False),
        bind("export", "export", "Export", show=False),
        bind("theme", "next_theme", "Theme", show=False),
        bind("quit", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(self, opening: Opening) -> None:
        super().__init__()
        self.opening = opening
        self.session = Session(None if callable(opening.request) else opening.request)
        self.session.progress.running = opening.request is not None
        self.session.on_change = self._update_soon
        self.state = State.load() if opening.remember else State()
        self.feed: Feed | None = None
        self.watcher: Watcher | None = None
        self._pending_request = opening.request
        self._next_page: str | None = None  # the page that replaces the first one when that closes
        self._updated_at = 0.0  # of the monotonic clock
        self._update: Timer | None = None  # the next update
        self.suspended = False
        self.last_kernel: str | None = None
        self.exporting: set[Path] = set()
        self.compared: tuple[KernelReport, KernelReport] | None = None
        self._leaves_after_export = False

    @property
    def own_themes(self) -> tuple[Theme, ...]:
        return (*THEMES, *self.opening.preferences.made_themes())

    def on_mount(self) -> None:
        preferences = self.opening.preferences
        self.set_keymap(dict(preferences.keys))
        for theme in self.own_themes:
            self.register_theme(theme)
        wanted = preferences.theme or self.state.theme
        self.theme = wanted if wanted in self.available_themes else THEMES[0].name
        first = self.opening.page or ("kernels" if self.opening.request else "history")
        if self.opening.text is not None and self.opening.page is None:
            self._next_page = first  # made when the text is closed, so that the text shows sooner
            self._show(partial(self._text_page, self.opening.text))
        if len(self.screen_stack) < 2:
            self._next_page = None
            self.push_screen(page_class(first)())
        if self.opening.request is not None:
            # Imports would hold up the first page. If that page fails, its refresh never comes:
            # the second timer starts the run all the same.
            self.call_after_refresh(self.set_timer, _FIRST_PAINT, self._start_run)
            self.set_timer(4 * _FIRST_PAINT, self._start_run)

    def _text_page(self, path: Path) -> Page:
        from .screens.kernel.kernel_page import KernelPage

        return KernelPage.of_file(path)

    def _start_run(self) -> None:
        request, self._pending_request = self._pending_request, None
        if callable(request):
            self.run_worker(partial(self._make_request, request), thread=True, group="request")
        elif request is not None:
            self.run_request(request)

    def _make_request(self, make_request: Callable[[], Request]) -> None:
        """Makes the request and starts its run; called in a thread."""
        # Imported in the thread, so that no key has to wait for it.
        from . import feed, watching  # noqa: F401

        try:
            request = make_request()
        except KinspectError as error:
            self.call_from_thread(self._request_failed, error)
            return
        self.call_from_thread(self.run_request, request)

    def _request_failed(self, error: KinspectError) -> None:
        self.session.progress.running = False
        self.session.errors.append(ErrorRecord(None, None, "open", error.message, error.hint))
        self.session.changed()

    def run_request(self, request: Request) -> None:
        """Starts a run; one that is under way is stopped."""
        from .feed import Feed

        if self.feed is not None:
            self.feed.stop(0)
        self.session.begin(request)
        if dropped := self.session.dropped:
            which = "; ".join(dropped)
            self.notify(
                f"dropped what was recompiled from the text before the save: {which}",
                severity="warning",
                timeout=_LOSS_SECONDS,
                markup=False,
            )
        self._watch_files(request)
        self.feed = Feed(request, self._notified)
        self.feed.start()

    def _watch_files(self, request: Request) -> None:
        if not self.opening.watch:
            return
        if self.watcher is not None:
            if self.watcher.request == request:
                return
            self.watcher.stop()
        from .watching import Watcher

        self.watcher = Watcher(request, self._notified)
        self.watcher.start()

    def _notified(self) -> None:
        """Has new events shown; called in the threads that bring them."""
        self.call_later(self._update_soon)

    def _update_soon(self) -> None:
        """Updates the page once, at the earliest `_UPDATE_SECONDS` after the last update."""
        if self._update is None and self.is_running:
            since_update = time.monotonic() - self._updated_at
            pause = max(_LEAST_PAUSE, _UPDATE_SECONDS - since_update)
            self._update = self.set_timer(pause, self._update_page)

    def _update_page(self) -> None:
        """Adds the run's new events to the session and lets the page show them."""
        try:
            if self.feed is not None:
                self._take_events(self.feed)
            if self.watcher is not None:
                self._take_removed(self.watcher.removed)
                if self.watcher.changed():
                    self.run_request(self.watcher.request)
            for screen in reversed(self.screen_stack):
                if isinstance(screen, Page):
                    screen.refresh_from_session()
                    break
        finally:  # not before: the changes of the session here are shown already
            self._update, self._updated_at = None, time.monotonic()

    def _take_removed(self, removed: frozenset[Path]) -> None:
        """Marks the kernels of watched files that were removed, and says that these are gone."""
        if removed == self.session.removed:
            return
        names = ", ".join(sorted(path.name for path in removed - self.session.removed))
        self.session.removed = removed
        self.session.changed()
        if names:
            self.notify(
                f"removed: {names}; the figures are those of the last run",
                severity="warning",
                timeout=_LOSS_SECONDS,
                markup=False,
            )

    def _take_events(self, feed: Feed) -> None:
        """Adds the events of a run to the session; opens the profile page for a recording."""
        from .feed import RunEnded

        profile = self.session.profile
        for event in feed.new_events():
            if not isinstance(event, RunEnded):
                self.session.take(event)
                continue
            self.feed = None
            self.session.end()
            if self.watcher is not None:
                self.watcher.watch_sources_of(e.report for e in self.session.entries.values())
        if self.session.profile is not profile and self.opening.page is None:
            self.action_page("profile")

    def action_leave(self) -> None:
        """Leaves; where something would be lost, asks first."""
        self.leave_or_ask()

    def leave_or_ask(self) -> bool:
        """Ends the application, or asks what to do with what would be lost.

        Returns:
            Whether it ends now: nothing would be lost, or this is asked already.
        """
        ends = isinstance(self.screen, LeaveScreen) or not self._losses()
        if ends:
            self.leave(0)
        else:
            self.call_later(self._ask_before_leaving)
        return ends

    def _ask_before_leaving(self) -> None:
        if isinstance(self.screen, LeaveScreen):
            return
        save = "save to a file, then leave" if self.session.unsaved() else ""
        if self.exporting:
            save = "wait for the export, then leave"
        self.push_screen(LeaveScreen(self._losses(), save), self._leave_chosen)

    def _leave_chosen(self, choice: Choice | None) -> None:
        """Does what the user chose to do with what would be lost."""
        if choice == "discard":
            self.leave(0)
        elif choice == "save":
            self._leaves_after_export = True
            if not self.exporting:
                self._export(reports=True)

    def _losses(self) -> list[str]:
        """What would be lost if the application ended now, as clauses."""
        from ..inspector.explain.view import plural  # not needed for the first page

        clauses = [
            clause
            for screen in self.screen_stack
            if isinstance(screen, Dialogue) and (clause := screen.unfinished())
        ]
        if self.exporting:
            clauses.append("an export is being written")
        if unsaved := len(self.session.unsaved()):
            are = "is" if unsaved == 1 else "are"
            kernels = plural(unsaved, "recompiled kernel")
            clauses.append(f"{kernels} {are} in no file yet")
        return clauses

    def export_ended(self, path: Path, *, written: bool) -> None:
        """Forgets an export in progress; leaves where the user waits for it to do so."""
        self.exporting.discard(path)
        saved = written and not self.exporting and not self.session.unsaved()
        if saved and self._leaves_after_export:
            self.leave(0)
        self._leaves_after_export = self._leaves_after_export and bool(self.exporting)

    def leave(self, status: int) -> None:
        """Ends the run and the application, and saves the settings."""
        if self.feed is not None:
            self.session.progress.interrupted = True
            self.feed.stop(0)
        if self.watcher is not None:
            self.watcher.stop()
        self.keep_state()
        self.exit(status, return_code=status)

    def keep_state(self) -> None:
        """Saves the settings, as soon as one changes: a killed session keeps them too."""
        self.state.theme = self.theme
        if self.opening.remember:
            # A folder that cannot be written does not stop the user.
            with contextlib.suppress(OSError):
                self.state.save()

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        """Hands the terminal to an editor; while that runs, Ctrl-C does not end this process."""
        self.suspended = True
        try:
            with super().suspend():
                yield
        finally:
            self.suspended = False

    def first_closable_depth(self) -> int:
        """The first page can be closed only where another one replaces it."""
        return 1 if self._next_page else 2

    def replace_first_page(self) -> None:
        self.action_close()

    def _show(self, make: Callable[[], Page]) -> None:
        """Makes a page and shows it; an exception while it is made is shown as a message."""
        try:
            page = make()
        except Exception as error:
            if self.raises_faults and not isinstance(error, KinspectError):
                raise
            self.notify_error(error)
        else:
            self.open_page(page)

    def open_page(self, page: Page) -> None:
        """Shows a page above the current one; a page of the same class is replaced."""
        while len(self.screen_stack) > 2 and not isinstance(self.screen, Page):
            self.pop_screen()
        if isinstance(self.screen, type(page)) and len(self.screen_stack) > 2:
            self.switch_screen(page)
        else:
            self.push_screen(page)

    def action_page(self, name: str) -> None:
        for depth, screen in enumerate(self.screen_stack):
            if isinstance(screen, Page) and name == screen.NAME:
                while len(self.screen_stack) > depth + 1:
                    self.pop_screen()
                return
        self._show(lambda: page_class(name)())

    def action_close(self) -> None:
        """Closes the page; on the first page, leaves the application."""
        if len(self.screen_stack) > 2:
            self.pop_screen()
        elif self._next_page is not None:
            name, self._next_page = self._next_page, None
            self.switch_screen(page_class(name)())
        else:
            self.action_leave()

    def open_kernel(self, key: str, *, line: int | None = None, text: str = "amdgcn") -> None:
        from .screens.kernel.kernel_page import KernelPage

        self.last_kernel = key
        self._show(lambda: KernelPage(key, line=line, text=text))

    def open_passes(self, key: str, thing: str) -> None:
        """Shows the passes that made, changed or removed a line of a kernel or an operation."""
        from .screens.passes.passes_page import PassesPage

        self.last_kernel = key
        self._show(lambda: PassesPage(key, thing))

    def compare(self, left: KernelReport, right: KernelReport) -> None:
        """Shows two kernels side by side."""
        from .screens.compare.compare_page import ComparePage

        self._show(lambda: ComparePage(left, right))

    def action_help(self) -> None:
        from .screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_commands(self) -> None:
        from .screens.list_chooser import CommandList, commands

        if not isinstance(self.screen, Dialogue):
            listed = CommandList(tuple(commands(self, self.screen)))
            self.push_screen(listed, listed.run)

    def action_export(self) -> None:
        """Asks for a file and exports the screen or the report to it."""
        self._export()

    def _export(self, *, reports: bool = False) -> None:
        """Asks for a file; one for `reports` is suggested where those are to be kept."""
        from .screens.export import ExportScreen, Picture

        def closed(_: None) -> None:
            self._leaves_after_export = self._leaves_after_export and bool(self.exporting)

        if not isinstance(self.screen, ExportScreen):
            # The picture is taken before the dialogue covers the page.
            self.push_screen(ExportScreen(Picture.of(self), reports=reports), closed)

    def action_next_theme(self) -> None:
        """Switches to the next of kinspect's and the user's themes."""
        names = [theme.name for theme in self.own_themes]
        index = names.index(self.theme) + 1 if self.theme in names else 0
        self.theme = names[index % len(names)]
