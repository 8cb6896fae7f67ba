"""A scrolled view that draws itself line by line, in styles that are named in the style sheet.

Textual works out all of a widget's component styles whenever any style of it may have changed: of
a view of code that is fifty, for each pane, a dozen times until the first page stands. Here each is
worked out when it is first drawn with. And where Textual draws the whole scrollbar for each row
that is scrolled, here only those of its rows are drawn in which it looks different.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import ClassVar

from rich.style import Style
from textual.css.styles import StylesBase
from textual.dom import DOMNode
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar

from .styles import blended, reverse, tinted

_PARTS = 8  # of a cell: how finely Textual draws the ends of a scrollbar's thumb


class Styled(ScrollView):
    """Styles by name: `self._over("", "match")` is what the sheet says of `.PREFIX--match`.

    Attributes:
        PREFIX: of the names in the sheet.
        BARS: names of bars over whole rows; they are told by a tint, or in reverse without tints.
    """

    PREFIX: ClassVar[str] = ""
    BARS: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        *,
        name: str | None = None,
        id: str | None = None,  # Textual's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._styles: dict[str, StylesBase] = {}  # what the sheet says of a name
        self._whole: dict[tuple[str, str], Style] = {}  # and with what stands under that
        self._base = Style()
        self._look: tuple[object, ...] = ()  # what all of these follow from
        self._unsure = True  # whether that may have changed
        self._scrolled: tuple[object, ...] = ()  # what the scrollbars were drawn for

    @classmethod
    @cache
    def _get_component_classes(cls) -> frozenset[str]:
        return frozenset()

    def notify_style_update(self) -> None:
        """The theme may be another, or the focus elsewhere."""
        self._unsure = True
        super().notify_style_update()
        if self._look and self._look[0] != self.app.theme:
            self.refresh()

    def _make_sure(self) -> None:
        """Comes before anything is drawn: forgets what no longer holds."""
        if not self._unsure and self._look[-1] == tinted(self.app):
            return
        self._unsure = False
        # Textual works these out anew from all ancestors at every call: too slow for every row.
        base, behind = self.rich_style, self.background_colors[1]
        look = (self.app.theme, base, behind, tinted(self.app))
        if look != self._look:
            self._look, self._base = look, base
            self._styles.clear()
            self._whole.clear()
            self._forget()

    def _forget(self) -> None:
        """What was drawn looks different now."""

    def _over(self, state: str, name: str) -> Style:
        """What something is drawn in.

        Args:
            state: of its row, which lies over the view.
            name: of the style that lies over that; "" in both for none.
        """
        style = self._whole.get((state, name))
        if style is None:
            style, behind = self._base, self.background_colors[1]
            if state in self.BARS and not tinted(self.app):
                style, name = style + reverse(self), ""  # no other colours can be told there
            elif state:
                rules = self._rules(state)
                style += blended(rules, behind)
                behind += rules.background
            if name:
                style += blended(self._rules(name), behind)
            self._whole[state, name] = style
        return style

    def _rules(self, name: str) -> StylesBase:
        """What the sheet says of a name."""
        rules = self._styles.get(name)
        if rules is None:
            node = DOMNode(classes=f"{self.PREFIX}--{name}")
            node._attach(self)
            self.app.stylesheet.apply(node)
            rules = self._styles[name] = node.styles
        return rules

    def _take_rows(self, size: Size) -> None:
        """Takes in that there are more or fewer rows or columns."""
        if self.styles.auto_dimensions or not self.size.height:
            self.virtual_size = size
        elif size != self.virtual_size:
            # Textual would lay out the whole screen; here the scrollbars alone have to know.
            self.set_reactive(Styled.virtual_size, size)
            self._scroll_update(size)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draws the view at another row, and of its scrollbar what has moved."""
        if self.show_vertical_scrollbar:
            bar = self.vertical_scrollbar
            old_thumb = _thumb(bar)
            bar.set_reactive(ScrollBar.position, bar.validate_position(new_value))
            for row in _different(old_thumb, _thumb(bar)):
                bar.refresh(Region(0, row, bar.size.width, 1))
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _scroll_update(self, virtual_size: Size) -> None:
        # Textual draws all scrollbars anew whenever anything on the screen is laid out.
        bars = (self.show_vertical_scrollbar, self.show_horizontal_scrollbar)
        state = (virtual_size, self.container_size, *bars)
        if state != self._scrolled:
            super()._scroll_update(virtual_size)
            self._scrolled = state


def _thumb(bar: ScrollBar) -> tuple[int, int]:
    """Where the thumb of a scrollbar begins and ends, in parts of a cell."""
    size, virtual, window = bar.size.height, bar.window_virtual_size, bar.window_size
    if not size or not 0 < window < virtual:
        return 0, 0
    # In the order in which Textual reckons: it cuts fractions off.
    length = max(1.0, window / (virtual / size))
    start = int((size - length) * (bar.position / (virtual - window)) * _PARTS)
    return start, start + ceil(length * _PARTS)


def _different(old: tuple[int, int], new: tuple[int, int]) -> Iterator[int]:
    """The rows in which two thumbs look different."""
    if old == new:
        return
    ends = {part // _PARTS for part in (*old, *new)}
    first, second = (set(range(a // _PARTS, b // _PARTS + 1)) for a, b in (old, new))
    yield from ends | (first ^ second)
