"""A scrolling view that draws itself line by line, in styles named in the style sheet.

Textual computes all component styles of a widget whenever one of its styles may have changed: fifty
for each pane of code, a dozen times until the first page is shown. `Styled` computes a style when
it is first used. Textual also redraws the whole scrollbar for each scrolled row; `Styled` redraws
only the rows in which the scrollbar changes.

Jumping to any row that is on the screen, by the two letters that are put over its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from math import ceil
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.css.styles import StylesBase
from textual.dom import DOMNode
from textual.events import Blur, Key
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from ..key_table import bind
from .styles import blended, reverse, tinted

_PARTS = 8  # of a cell: how finely Textual draws the ends of a scrollbar's thumb


class Styled(ScrollView):
    """A view whose styles are the rules `.PREFIX--NAME` of the style sheet.

    Attributes:
        PREFIX: the first part of the rules' names.
        BARS: styles of bars over whole rows: tints or, on terminals without tints, reverse video.
    """

    PREFIX: ClassVar[str] = ""
    BARS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._sheet_rules: dict[str, StylesBase] = {}  # name -> the style sheet's rules
        # (state, name) -> the style over its background
        self._blended: dict[tuple[str, str], Style] = {}
        self._base = Style()
        self._basis: tuple[object, ...] = ()  # what the cached styles depend on
        self._may_have_changed = True  # whether `_basis` may have changed
        self._scrollbar_state: tuple[object, ...] = ()  # sizes that the scrollbars are laid out for

    @classmethod
    @cache
    def _get_component_classes(cls) -> frozenset[str]:
        return frozenset()

    def notify_style_update(self) -> None:
        """Notes that the theme or the focus may have changed; redraws for a new theme."""
        self._may_have_changed = True
        super().notify_style_update()
        if self._basis and self._basis[0] != self.app.theme:
            self.refresh()

    def _check_styles(self) -> None:
        """Drops cached styles that no longer hold; called before anything is drawn."""
        if not self._may_have_changed and self._basis[-1] == tinted(self.app):
            return
        self._may_have_changed = False
        # Textual computes these from all ancestors at every call, which is too slow for every row.
        base, behind = self.rich_style, self.background_colors[1]
        basis = (self.app.theme, base, behind, tinted(self.app))
        if basis != self._basis:
            self._basis, self._base = basis, base
            self._sheet_rules.clear()
            self._blended.clear()
            self._drop_drawn()

    def _drop_drawn(self) -> None:
        """Drops cached drawings, because a style has changed."""

    def _style_over(self, state: str, name: str) -> Style:
        """The style of a piece of a row, with opaque colours."""
        style = self._blended.get((state, name))
        if style is None:
            style, behind = self._base, self.background_colors[1]
            if state in self.BARS and not tinted(self.app):
                style, name = style + reverse(self), ""  # other colours cannot be read in reverse
            elif state:
                rules = self._rules(state)
                style += blended(rules, behind)
                behind += rules.background
            if name:
                style += blended(self._rules(name), behind)
            self._blended[state, name] = style
        return style

    def _rules(self, name: str) -> StylesBase:
        rules = self._sheet_rules.get(name)
        if rules is None:
            node = DOMNode(classes=f"{self.PREFIX}--{name}")
            node._attach(self)
            self.app.stylesheet.apply(node)
            rules = self._sheet_rules[name] = node.styles
        return rules

    def _take_rows(self, size: Size) -> None:
        if self.styles.auto_dimensions or not self.size.height:
            self.virtual_size = size
        elif size != self.virtual_size:
            # Only the scrollbars need updating, while Textual would lay out the whole screen.
            self.set_reactive(Styled.virtual_size, size)
            self._scroll_update(size)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraws the view at its new offset, and the changed rows of its scrollbar."""
        if self.show_vertical_scrollbar:
            bar = self.vertical_scrollbar
            old_thumb = _thumb(bar)
            bar.set_reactive(ScrollBar.position, bar.validate_position(new_value))
            for row in _changed_rows(old_thumb, _thumb(bar)):
                bar.refresh(Region(0, row, bar.size.width, 1))
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _scroll_update(self, virtual_size: Size) -> None:
        # Textual would redraw all scrollbars whenever anything on the screen is laid out.
        bars = (self.show_vertical_scrollbar, self.show_horizontal_scrollbar)
        state = (virtual_size, self.container_size, *bars)
        if state != self._scrollbar_state:
            super()._scroll_update(virtual_size)
            self._scrollbar_state = state


def _thumb(bar: ScrollBar) -> tuple[int, int]:
    """The start and end of a scrollbar's thumb, in eighths of a cell."""
    size, virtual, window = bar.size.height, bar.window_virtual_size, bar.window_size
    if not size or not 0 < window < virtual:
        return 0, 0
    # In Textual's order of operations, since it truncates.
    length = max(1.0, window / (virtual / size))
    start = int((size - length) * (bar.position / (virtual - window)) * _PARTS)
    return start, start + ceil(length * _PARTS)


def _changed_rows(old: tuple[int, int], new: tuple[int, int]) -> Iterator[int]:
    """Yields the rows in which two thumbs differ."""
    if old == new:
        return
    ends = {part // _PARTS for part in (*old, *new)}
    old_rows, new_rows = (set(range(a // _PARTS, b // _PARTS + 1)) for a, b in (old, new))
    yield from ends | (old_rows ^ new_rows)


_LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""The row under the fingers first."""


class Jumping(Styled):
    """A view whose rows have letters while the user chooses one: in all such views of the page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("jump", "jump", "To any row by its two letters", show=False)
    ]
    DEFAULT_CSS = """
    Jumping > .code--jump { background: $accent; color: $background; text-style: bold; }
    Jumping > .table--jump { background: $accent; color: $background; text-style: bold; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._labels: dict[int, str] = {}  # row of the view -> its letters
        self._targets: Mapping[str, tuple[Jumping, int]] = {}
        self._typed = ""

    def jump_rows(self) -> Iterable[int]:
        """The rows of the view, counted from its top, that can be jumped to."""
        raise NotImplementedError

    def jump_to(self, row: int) -> None:
        raise NotImplementedError

    def action_jump(self) -> None:
        views = [view for view in self.screen.query(Jumping) if view.is_on_screen and view.size]
        places = [(view, row) for view in views for row in view.jump_rows()]
        self._targets = {
            a + b: place for (a, b), place in zip(product(_LETTERS, repeat=2), places, strict=False)
        }
        for label, (view, row) in self._targets.items():
            view._labels[row] = label
        for view in views:
            view.refresh()

    async def _on_key(self, event: Key) -> None:
        """Takes the letters while they are shown; another key ends it."""
        if not self._targets:
            return
        event.stop()
        event.prevent_default()
        typed = self._typed + (event.character or "").lower()
        place = self._targets.get(typed)
        left = {label: place for label, place in self._targets.items() if label.startswith(typed)}
        self._end_jump()
        if place is not None:
            view, row = place
            view.focus()
            view.jump_to(row)
        elif left and typed and event.key != "escape":
            self._targets, self._typed = left, typed
            for label, (view, row) in left.items():
                view._labels[row] = label

    def on_blur(self, event: Blur) -> None:
        self._end_jump()

    def _end_jump(self) -> None:
        for view in {view for view, _ in self._targets.values()}:
            view._labels.clear()
            view.refresh()
        self._targets, self._typed = {}, ""

    def _labelled(self, row: int, strip: Strip) -> Strip:
        label = self._labels.get(row)
        if label is None:
            return strip
        letters = Segment(label, self._style_over("", "jump"))
        return Strip([letters, *strip.crop(len(label))], strip.cell_length)
