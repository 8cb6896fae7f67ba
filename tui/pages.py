"""What every page has; a page's module is imported when it is first opened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.screen import Screen

from .page_table import PAGES

if TYPE_CHECKING:
    from .app import KinspectApp
    from .session import Session


def page_class(name: str) -> type[Page]:
    """The class of a page; its module is imported now."""
    spec = PAGES[name]
    page_cls: Any = getattr(import_module(f"kinspect.tui.screens.{spec.module}.page"), spec.cls)
    if not issubclass(page_cls, Page):
        raise TypeError(f"{spec.cls} is no page")
    return cast("type[Page]", page_cls)


class Page(Screen[None]):
    """A full screen of the application.

    Attributes:
        NAME: of the page, a key of `PAGES`.
        HELP: what the help screen says above the keys, a few plain sentences.
    """

    NAME: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.back", "Back", show=False),
        Binding("q", "app.close", "Back; from the first page leave", show=False),
        Binding("f1", "app.help", "Help"),
        Binding("question_mark", "app.help", "Help", show=False, key_display="?"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._seen = -1  # the session's revision that was shown last

    @property
    def kinspect(self) -> KinspectApp:
        """The application."""
        return cast("KinspectApp", self.app)

    @property
    def session(self) -> Session:
        """What is open."""
        return self.kinspect.session

    def crumb(self) -> str:
        """What the header says after the page's title: which kernel, how many, ..."""
        return ""

    def session_changed(self) -> None:
        """Called when the session has changed, at most ten times a second, and once when shown."""

    def _is_whole(self) -> bool:
        """Whether its widgets are there: not yet, or no longer, while it is opened or closed."""
        return self.is_mounted and self.is_running and len(self.children) > 0

    def refresh_from_session(self) -> None:
        """Shows what is new, if anything is; not before the page has all of its widgets."""
        if self._is_whole() and self._seen != self.session.revision:
            self._seen = self.session.revision
            self.session_changed()

    def on_screen_resume(self) -> None:
        """A page that is shown again may have missed something."""
        self._seen = -1
        self.refresh_from_session()
        self.call_after_refresh(self._see_focus)

    def _see_focus(self) -> None:
        """A hidden field that Textual gave the focus would swallow the keys."""
        focused = self.focused
        if focused is not None and not all(node.display for node in focused.ancestors_with_self):
            self.set_focus(None)
