"""A pane of the kernel page: one of its texts under a title, or why it is not there."""

from __future__ import annotations

from collections.abc import Callable, Collection

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from ....inspector.explain.code.texts import TITLES
from ...widgets.code import CodeView, Text


class PaneTitle(Widget):
    """A pane's title: the gutter's columns, the text's name and file, the cursor's position."""

    DEFAULT_CSS = """
    PaneTitle { height: 1; background: $panel; color: $foreground 70%; }
    Pane:focus-within PaneTitle { background: $primary 45%; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.heading, self.title, self.file, self.position = "", "", "", ""

    def render_line(self, y: int) -> Strip:
        """Renders the line; the file's name is left out first if there is little room.

        The line is redrawn at every key, so that building a `Text` would be too slow.
        """
        width, base = self.size.width, self.rich_style
        left, right = f"{self.heading or ' '}{self.title}", f" {self.position} "
        room = width - len(left) - len(right) - 2
        pieces = [Segment(self.heading or " ", base), Segment(self.title, base + Style(bold=True))]
        if len(self.file) <= room:
            pieces.append(Segment(f"  {self.file}", base))
        elif len(left) + len(right) > width:
            pieces = [Segment(f" {self.title}", base + Style(bold=True))]
        strip = Strip(pieces).adjust_cell_length(max(0, width - len(right)), base)
        return Strip([*strip, Segment(right, base)]).adjust_cell_length(width, base)


class MissingText(Static, can_focus=True):
    """Shown in place of a text that is missing, with the reason."""

    DEFAULT_CSS = """
    MissingText { height: 1fr; width: 1fr; padding: 1 2; color: $foreground 60%; }
    """


class _View(CodeView):
    """A view that reports cursor moves by a call, so that all panes are redrawn once per key."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__()
        self._on_change = on_change

    def moved(self, line: int) -> None:
        self._on_change()


class Pane(Vertical):
    """A view of one of the kernel's texts.

    Args:
        moved: called with the pane after its cursor has moved.
    """

    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; }
    """

    def __init__(self, kind: str, moved: Callable[[Pane], None]) -> None:
        super().__init__(id=f"pane-{kind}")
        self.own_kind = kind
        self.kind = kind
        self.title = PaneTitle()
        self.code: CodeView = _View(lambda: moved(self))
        self.code.styles.scrollbar_size_horizontal = 0  # a row of text is worth more
        self.missing = MissingText(markup=False)
        self.missing.display = False
        self.is_missing = False  # whether there is no such text

    def compose(self) -> ComposeResult:
        yield self.title
        yield self.code
        yield self.missing

    @property
    def target(self) -> Widget:
        return self.missing if self.is_missing else self.code

    def show(
        self,
        kind: str,
        text: Text,
        *,
        heading: str,
        file: str,
        folded: Collection[int] | None = None,
    ) -> None:
        """Shows a text; `folded` are the lines whose folds are closed, None: as they were."""
        had_focus = self.missing.has_focus
        self.kind = kind
        self._show_text(True)
        self.title.heading, self.title.title, self.title.file = heading, TITLES[kind], file
        self.code.show(text, keep_folds=folded is None, folded=folded or ())
        self.show_position()
        self.title.refresh()
        if had_focus:
            self.code.focus()

    def show_missing(self, kind: str, why: str) -> None:
        had_focus = self.code.has_focus
        self.kind = kind
        self.title.heading, self.title.title, self.title.file = "", TITLES[kind], ""
        self.title.position = ""
        self.missing.update(why)
        self._show_text(False)
        self.title.refresh()
        if had_focus:
            self.missing.focus()

    def _show_text(self, present: bool) -> None:
        # Not by a rule of the style sheet, which would double the time of a key press.
        if self.is_missing is present:
            self.is_missing = not present
            self.code.display, self.missing.display = present, not present

    def show_position(self) -> None:
        """Shows the cursor's position or the selection in the title."""
        code = self.code
        lines = len(code.shown.lines)
        first, last = code.selection
        lines_text = f"{first + 1}–{last + 1}" if last > first else f"{code.cursor + 1}"
        position = f"{lines_text}/{lines}" if lines else "empty"
        if position != self.title.position:
            self.title.position = position
            self.title.refresh()
