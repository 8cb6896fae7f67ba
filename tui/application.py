"""What the pages need of the application, which itself imports them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from .preferences import Preferences
from .robust_app import RobustApp
from .session import Session
from .state import State

if TYPE_CHECKING:
    # The pipeline's vocabulary takes longer to import than the first page takes to paint.
    from textual.theme import Theme

    from ..inspector.model import KernelReport
    from ..inspector.pipeline.jobs import Request


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
