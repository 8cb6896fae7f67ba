"""A pane of the kernel page: one of its texts under a title, or why it is not there."""

from __future__ import annotations

from collections.abc import Callable

from kinspect.inspector.browse.texts import TITLES
from kinspect.tui.widgets.code import CodeView, Text
from rich.text import Text as Line
from textual.app import ComposeResult, RenderResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static


class PaneTitle(Widget):
    """What the gutter's columns are, which text it is, and where the cursor stands."""

    DEFAULT_CSS = """
    PaneTitle { height: 1; background: $panel; color: $foreground 70%; }
    Pane:focus-within PaneTitle { background: $primary 45%; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.heading, self.title, self.file, self.position = "", "", "", ""

    def render(self) -> RenderResult:
        """The line; the file's name gives way first."""
        width = self.size.width
        left = Line(no_wrap=True)
        left.append(self.heading or " ", "dim")
        left.append(self.title, "bold")
        right = Line(f" {self.position} ", no_wrap=True)
        room = width - left.cell_len - right.cell_len - 2
        if len(self.file) <= room:
            left.append(f"  {self.file}")
        if left.cell_len + right.cell_len > width:
            left = Line(f" {self.title}", "bold")
        left.truncate(max(0, width - right.cell_len), pad=True)
        return Line.assemble(left, right)


class Missing(Static, can_focus=True):
    """Why there is no such text."""

    DEFAULT_CSS = """
    Missing { height: 1fr; width: 1fr; padding: 1 2; color: $foreground 60%; display: none; }
    """


class _View(CodeView):
    """Tells its cursor's moves at once, so that all panes are painted once for a key."""

    def __init__(self, told: Callable[[], None]) -> None:
        super().__init__()
        self._told = told

    def moved(self, line: int) -> None:
        self._told()


class Pane(Vertical):
    """One text of the kernel.

    Args:
        kind: the text that belongs here; another may take its place.
        moved: called with the pane when its cursor has moved.
    """

    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; }
    Pane.missing CodeView { display: none; }
    Pane.missing Missing { display: block; }
    """

    def __init__(self, kind: str, moved: Callable[[Pane], None]) -> None:
        super().__init__(id=f"pane-{kind}")
        self.own = kind
        self.kind = kind
        self.title = PaneTitle()
        self.code: CodeView = _View(lambda: moved(self))
        self.code.styles.scrollbar_size_horizontal = 0  # a row of text is worth more
        self.missing = Missing(markup=False)

    def compose(self) -> ComposeResult:
        """Title and text."""
        yield self.title
        yield self.code
        yield self.missing

    @property
    def target(self) -> Widget:
        """What takes the keys."""
        return self.missing if self.is_missing else self.code

    @property
    def is_missing(self) -> bool:
        """Whether there is no such text."""
        return self.has_class("missing")

    def show(
        self,
        kind: str,
        text: Text,
        *,
        heading: str,
        file: str,
        cursor: int | None = None,
        keep_folds: bool = False,
    ) -> None:
        """Shows a text."""
        had_focus = self.missing.has_focus
        self.kind = kind
        self.set_class(False, "missing")
        self.title.heading, self.title.title, self.title.file = heading, TITLES[kind], file
        self.code.show(text, cursor, keep_folds=keep_folds)
        self.tell()
        self.title.refresh()
        if had_focus:
            self.code.focus()

    def show_missing(self, kind: str, why: str) -> None:
        """Shows why there is no text."""
        had_focus = self.code.has_focus
        self.kind = kind
        self.title.heading, self.title.title, self.title.file = "", TITLES[kind], ""
        self.title.position = ""
        self.missing.update(why)
        self.set_class(True, "missing")
        self.title.refresh()
        if had_focus:
            self.missing.focus()

    def tell(self) -> None:
        """Where the cursor stands."""
        code = self.code
        lines = len(code.shown.lines)
        first, last = code.selection
        at = f"{first + 1}–{last + 1}" if last > first else f"{code.cursor + 1}"
        position = f"{at}/{lines}" if lines else "empty"
        if position != self.title.position:
            self.title.position = position
            self.title.refresh()
