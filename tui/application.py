"""The base of the application, which neither a text nor an exception in a page can break, and which
pages import: the application itself imports them.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual._context import active_message_pump
from textual.app import App
from textual.color import Color
from textual.dom import DOMNode
from textual.events import Event, MouseDown
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.worker import WorkerFailed

from ..inspector.base.errors import KinspectError
from ..inspector.base.printable import is_printable
from .preferences import Preferences, State
from .session import Session

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.theme import Theme

    from ..inspector.model import KernelReport
    from ..inspector.pipeline.jobs import Request


_SCROLLBAR_ACTIONS = ("grab", "scroll_up", "scroll_down")
"""What Textual's scrollbars name in their own styles."""


class ControlCharacters(LineFilter):
    """Removes control characters from every line that is drawn, whoever wrote its text.

    Textual passes escape sequences on to the terminal. A control character that takes a column is
    replaced by U+FFFD and one that takes none is dropped, so that the line keeps its width.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(_printable(segment.text), segment.style)
            for segment in segments
        ]


class RobustApp(App[int]):
    """An application in which no text acts as a control sequence or as markup.

    Textual ends the application with a traceback at any exception. Here an exception in a key's
    action or in a thread becomes a message, one in a page closes that page, and one in the first
    page ends the application with a one-line error. Tests and KINSPECT_TRACEBACK keep Textual's
    behaviour.

    Attributes:
        fault: one line on the internal error that ended the application; "" when none did.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's line filters, and the one that removes control characters."""
        return [*super().get_line_filters(), _CONTROL_CHARACTERS]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Shows a message without interpreting markup, whatever `markup` says.

        Paths and kernels' names in messages may contain square brackets.
        """
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)

    @property
    def raises_faults(self) -> bool:
        """Whether exceptions are left to Textual."""
        return self.is_headless or bool(os.environ.get("KINSPECT_TRACEBACK"))

    def first_closable_depth(self) -> int:
        """The depth in the stack of screens from which on a page that fails can be closed."""
        return 2

    def replace_first_page(self) -> None:
        """Puts another page in place of the first one, where `first_closable_depth` is below 2."""

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Runs a key's action; an exception in it is shown as a message."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            if self.raises_faults:
                raise
            self.notify_error(error)
            return True

    async def _broker_event(
        self, event_name: str, event: Event, default_namespace: DOMNode
    ) -> bool:
        """Runs no action that a style under the mouse names, except a scrollbar's on itself.

        The style may be that of a text from a file.
        """
        if not (isinstance(event, MouseDown) and isinstance(default_namespace, ScrollBar)):
            return False
        action = event.style.meta.get("@mouse.down")
        if action not in _SCROLLBAR_ACTIONS:
            return False
        event.stop()
        return await self.run_action(action, default_namespace)

    def _handle_exception(self, error: Exception) -> None:
        """Closes the page that raised an exception; ends the application where none did."""
        if self.raises_faults:
            super()._handle_exception(error)
            return
        if isinstance(error, WorkerFailed):
            self.notify_error(error.error)
            return
        pump = active_message_pump.get(None)
        screen = pump.screen if isinstance(pump, DOMNode) and pump is not self else None
        if screen is not None and screen in self.screen_stack[self.first_closable_depth() :]:
            self.call_later(self._close_failed_page, screen, error)
        elif not self.fault:
            self.fault = _internal_error(error)
            self.exit(2, return_code=2)

    def _close_failed_page(self, screen: Screen[object], error: Exception) -> None:
        while screen in self.screen_stack[2:]:
            self.pop_screen()
        if screen in self.screen_stack:
            self.replace_first_page()
        self.notify_error(error, "The page was closed")

    def notify_error(self, error: BaseException, title: str = "") -> None:
        """Shows an exception as a message."""
        self.notify(
            str(error) if isinstance(error, KinspectError) else _internal_error(error),
            title=title,
            severity="error",
            timeout=15,
        )


def _internal_error(error: BaseException) -> str:
    return f"internal error: {type(error).__name__}: {error}"


def _printable(text: str) -> str:
    """A text with U+FFFD for each column that a control character takes."""
    # Tabs and line feeds are printable, but would move the cursor; no laid-out line has them.
    return "".join(
        c if c.isprintable() or (is_printable(c) and c not in "\t\n\r") else "\ufffd" * cell_len(c)
        for c in text
    )


_CONTROL_CHARACTERS = ControlCharacters()


class Opening(Struct, frozen=True):
    """The application's starting state, from the command line.

    Attributes:
        request: the targets to analyse, or a function that makes the request: making one imports
            modules that the first page does not need. None opens the history.
        page: the page to begin with; None: the kernels, or the history without a request.
        watch: whether files are analysed again when they are saved.
        history: the history's file; None: the user's.
        remember: whether themes, columns and the like are loaded at the start and saved at the end.
        text: a file of assembly or IR that is the only target: its text is shown at once, before
            it has been analysed.
        preferences: the user's own keys and themes.
    """

    request: Request | Callable[[], Request] | None = None
    page: str | None = None
    watch: bool = False
    history: Path | None = None
    remember: bool = True
    text: Path | None = None
    preferences: Preferences = Preferences()


class Application(RobustApp):
    """See `app.KinspectApp`, which makes it.

    Attributes:
        session: the kernels, failures and notes of the run so far.
        state: the settings that outlive the session.
        last_kernel: the session's key of the kernel that was shown last.
        exporting: files that are being written.
        compared: the two kernels that were compared last; None before.
    """

    opening: Opening
    session: Session
    state: State
    last_kernel: str | None
    exporting: set[Path]
    compared: tuple[KernelReport, KernelReport] | None

    @property
    @abstractmethod
    def own_themes(self) -> tuple[Theme, ...]:
        """Kinspect's themes and the user's."""

    @abstractmethod
    def keep_state(self) -> None:
        """Saves the settings."""

    @abstractmethod
    def action_page(self, name: str) -> None:
        """Shows the open page of that name, or a new one."""

    @abstractmethod
    def open_kernel(self, key: str, *, line: int | None = None, text: str = "amdgcn") -> None:
        """Shows one kernel's texts."""

    @abstractmethod
    def open_passes(self, key: str, thing: str) -> None:
        """Shows the passes that made, changed or removed a line of a kernel or an operation."""

    @abstractmethod
    def compare(self, left: KernelReport, right: KernelReport) -> None:
        """Shows two kernels side by side."""

    @abstractmethod
    def export_ended(self, path: Path, *, written: bool) -> None:
        """Notes that a file was written, or not."""
