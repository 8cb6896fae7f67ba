"""The panes of the kernel page, which of them there is room for, and where they lie.

A pane is one of the kernel's texts under a title, or why it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from ....inspector.explain.code.texts import TITLES
from ....inspector.model import KernelReport
from ...pages import Page
from ...widgets.code import CodeView, Text
from ...widgets.scorecard import ScoreCard
from .kernel_head import KernelHead

_CARD = 40  # columns of the card beside three panes
_PADDING = 2  # columns beside the head's text
_HEAD_ROWS = ((36, 8), (30, 5), (22, 3), (14, 1))
"""Rows of the terminal from which on the head has at most so many."""
_WIDE, _MIDDLE = 160, 100  # columns from which on three panes, or two, stand side by side
_STATUS_ROWS, _CARD_ROWS, _HIGH_ROWS, _TALL_ROWS = 12, 18, 24, 36
"""Rows of the terminal from which on there is a status line, a card below, a higher card, a quarter
of the rows for it where two panes stand side by side."""


class Panes:
    """Three panes with texts, a card beside them, a line for messages and one for questions.

    Args:
        follow: called with the pane whose line the others are to follow.
    """

    def __init__(self, page: Page, follow: Callable[[Pane], None]) -> None:
        self._page = page
        self._follow = follow
        source, ttgir, amdgcn = (Pane(k, self.moved) for k in ("source", "ttgir", "amdgcn"))
        self.slots = (source, ttgir, amdgcn)
        self._left = Container(*self.slots[:2], id="kernel-left")
        self.card = ScoreCard(id="kernel-card")
        self.status = Static(id="kernel-status", markup=False)
        self.head = KernelHead(id="kernel-head")
        self.head.display = False
        self.prompt = Input(id="kernel-prompt", select_on_focus=False)
        self.prompt.display = False
        self.current = amdgcn
        self._partner = source
        self.shows_one = False

    def compose(self) -> ComposeResult:
        self._place_all()  # before Textual works out the styles of all that is in it
        yield self.head
        with Container(id="kernel-body"):
            yield Horizontal(self._left, self.slots[2], id="kernel-panes")
            yield self.card
        yield self.status
        yield self.prompt

    def choose_first(self, kind: str) -> None:
        """Which text the keys act on when the page opens."""
        self.current = next(pane for pane in self.slots if pane.own_kind == kind)
        if self.current is self._partner:
            self._partner = self.slots[2]

    def pane_of(self, kind: str) -> Pane | None:
        return next((p for p in self.slots if p.kind == kind and not p.is_missing), None)

    def shows(self, kind: str) -> bool:
        return any(pane.kind == kind and pane.display for pane in self.slots)

    def focus_on(self, pane: Pane, *, follow: bool = True) -> None:
        if pane is not self.current:
            self._partner, self.current = self.current, pane
            self.lay_out()
            if follow:
                self._follow(pane)
        if not pane.target.has_focus:
            pane.target.focus()

    def moved(self, pane: Pane) -> None:
        """Moves the other panes' cursors to the lines linked to this pane's cursor."""
        pane.show_position()
        self._follow(pane)

    def show_message(self, text: str, *, bad: bool = False) -> None:
        self.status.set_class(bad, "-bad")
        self.status.update(text, layout=False)

    def show_head(self, report: KernelReport) -> None:
        """Shows the first screen of a kernel's report above the texts."""
        self.head.show(report)
        self._place_head()

    def _place_head(self) -> None:
        width, height = self._page.app.size
        most = next((rows for least, rows in _HEAD_ROWS if height >= least), 0)
        rows = self.head.rows_for(most, width - _PADDING) if most else 0
        _display(self.head, bool(rows))
        if rows:
            self.head.styles.height = rows

    def take_focus(self, widget: Widget | None) -> None:
        """Makes the pane with the focus the one that keys act on."""
        for pane in self.slots:
            if widget in (pane.code, pane.missing):
                self.focus_on(pane)

    def show_prompt(self, asking: bool) -> None:
        """Shows the line for questions in place of the one for messages, or that one again."""
        # Not by a rule of the style sheet: Textual would match all widgets of the page anew.
        self._page.set_class(asking, "-asking", update=False)
        _display(self.prompt, asking)
        _display(self.status, not asking and not self._page.has_class("-low"))

    def least_width(self, texts: int) -> int:
        """Columns of the narrowest pane with a text, by the terminal's width."""
        width = self._page.app.size.width
        alone = self.shows_one or texts < 2
        if width >= _WIDE:
            return width - _CARD if alone else (width - _CARD) // 2
        return width if alone or width < _MIDDLE else width // 2

    def lay_out(self) -> None:
        page, panes = self._place_all()
        if page:
            self._page.update_node_styles(animate=False)
        elif panes:
            # No rule of these classes is about what is in the panes: only they are matched anew.
            self._page.app.stylesheet.update_nodes((self._left, *self.slots), animate=False)

    def _place_all(self) -> tuple[bool, bool]:
        """Sets what the style sheet goes by; whether the page's own classes changed, or others."""
        width, height = self._page.app.size
        wide, middle = width >= _WIDE, _MIDDLE <= width < _WIDE
        visible = {self.current}
        if wide and not self.shows_one:
            visible = set(self.slots)
        elif middle and not self.shows_one:
            visible.add(self._beside())
        for pane in self.slots:
            _display(pane, pane in visible)
        source, ttgir, amdgcn = self.slots
        _display(self._left, bool(visible & {source, ttgir}))
        self._place_head()
        _display(self.card, height >= _CARD_ROWS or wide)
        card_rows = 6 if height >= _HIGH_ROWS else 5
        if height >= _TALL_ROWS and middle:
            card_rows = height // 4
        self.card.styles.height = None if wide else card_rows
        is_low = height < _STATUS_ROWS
        page = [_class(self._page, "-wide", wide), _class(self._page, "-low", is_low)]
        _display(self.status, not is_low and not self._page.has_class("-asking"))
        panes = [
            _class(self._left, "-empty", source.is_missing and ttgir.is_missing),
            _class(ttgir, "-divided", middle and source in visible),
            _class(amdgcn, "-divided", bool(visible & {source, ttgir})),
            *(_class(pane, "missing", pane.is_missing) for pane in self.slots),
        ]
        return any(page), any(panes)

    def _beside(self) -> Pane:
        """The pane that is shown with the present one where there is room for two."""
        other_panes = [pane for pane in self.slots if pane is not self.current]
        available = [pane for pane in other_panes if not pane.is_missing]
        if self._partner in available or not available:
            return self._partner if available else self.current
        return available[-1]


def _display(widget: Widget, visible: bool) -> None:
    if widget.display != visible:
        widget.display = visible


def _class(widget: Widget, name: str, present: bool) -> bool:
    """Adds or removes a class without restyling; returns whether that was a change."""
    if widget.has_class(name) == present:
        return False
    widget.set_class(present, name, update=False)
    return True


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
