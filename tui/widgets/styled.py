"""A scrolled view that draws itself line by line, in styles that are named in the style sheet.

Textual works out all of a widget's component styles whenever any style of it may have changed: of
a view of code that is fifty, for each pane, a dozen times until the first page stands. Here each is
worked out when it is first drawn with.
"""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual.dom import DOMNode
from textual.scroll_view import ScrollView


class Styled(ScrollView):
    """Styles by name: `self._style("match")` is what the sheet says of `.PREFIX--match`."""

    PREFIX: ClassVar[str] = ""

    def __init__(
        self,
        *,
        name: str | None = None,
        id: str | None = None,  # Textual's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._styles: dict[str, Style] = {}
        self._theme_drawn = ""

    @classmethod
    def _get_component_classes(cls) -> frozenset[str]:
        return frozenset()

    def notify_style_update(self) -> None:
        """Forgets styles: the theme has changed, or the focus."""
        self._styles.clear()
        super().notify_style_update()
        if self._theme_drawn and self._theme_drawn != self.app.theme:
            self.refresh()

    def _style(self, name: str) -> Style:
        """A style of the sheet, without what stands under it."""
        style = self._styles.get(name)
        if style is None:
            node = DOMNode(classes=f"{self.PREFIX}--{name}")
            node._attach(self)
            self.app.stylesheet.apply(node)
            style = self._styles[name] = node.styles.partial_rich_style
        return style

    def _base_style(self) -> Style:
        # Textual works it out anew from all ancestors at every call: too slow for every row.
        style = self._styles.get("")
        if style is None:
            style = self._styles[""] = self.rich_style
            self._theme_drawn = self.app.theme
        return style
