"""Styles of a widget's parts as the terminal can show them.

Textual's own partial styles drop the alpha of a colour: "60% of the foreground" would come out as
the whole foreground, and a tint of the primary colour as the primary colour itself.

Texts broken over the rows that there are. What plots have in common: rows of styled pieces, drawn
once for each size and theme.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.color import Color
from textual.css.styles import StylesBase
from textual.strip import Strip
from textual.widget import Widget

_TINTS = ("256", "truecolor", "windows")
"""Colour systems with enough colours to tell a tint from what it lies on."""


class PartedWidget(Widget):
    """A widget that draws its own parts, in the styles that its `DEFAULT_CSS` sets for them.

    Attributes:
        PREFIX: the first part of the names of its component classes, as in `PREFIX--PART`.
    """

    PREFIX: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        cls.COMPONENT_CLASSES = set(re.findall(rf"\.({cls.PREFIX}--[\w-]+)", cls.DEFAULT_CSS))
        super().__init_subclass__(**options)

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._part_styles: dict[str, Style] = {"": Style()}

    def part_style(self, part: str) -> Style:
        """The style of a part, its colours blended with what is behind the widget.

        Returns:
            Only what the part's rules set, to be laid over the widget's own style.
        """
        style = self._part_styles.get(part)
        if style is None:
            rules = self.get_component_styles(f"{self.PREFIX}--{part}")
            style = self._part_styles[part] = blended(rules, self.background_colors[1])
        return style

    def notify_style_update(self) -> None:
        self._part_styles = {"": Style()}
        super().notify_style_update()


def blended(rules: StylesBase, behind: Color) -> Style:
    """The colours and text style that rules set, with opaque colours over a background."""
    color = background = None
    if rules.has_rule("background") and rules.background.a > 0:
        behind = behind + rules.background
        background = behind.rich_color
    if rules.has_rule("color") and rules.color.a > 0:
        color = (behind + rules.color).rich_color
    return Style(color=color, bgcolor=background) + rules.text_style


def reverse(widget: Widget) -> Style:
    """A widget's text on its background with the two colours exchanged."""
    _, _, behind, text = widget.colors
    return Style(color=behind.rich_color, bgcolor=(behind + text).rich_color)


def tinted(app: App[object]) -> bool:
    """Whether the terminal shows tints: not in 16 colours, and not under NO_COLOR."""
    return not app.no_color and app.console.color_system in _TINTS


def broken(text: Text, console: Console, width: int, most: int) -> list[Text]:
    """A text over at most so many lines, with an ellipsis in place of what is left out."""
    lines = list(text.wrap(console, max(1, width), no_wrap=False))
    for line in lines:
        line.rstrip()
    if len(lines) > most:
        rest = Text(" ").join(lines[most - 1 :])
        rest.truncate(width, overflow="ellipsis")
        lines[most - 1 :] = [rest]
    return lines


Piece = tuple[str, str]
"""Text of a row, and the part of the plot in whose style it stands."""


class Plot(PartedWidget):
    """A plot in any size; `draw` makes its rows."""

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._rows: Sequence[Sequence[Piece]] | None = None  # None: to be drawn

    def draw(self) -> Sequence[Sequence[Piece]]:
        """The rows for the present size."""
        raise NotImplementedError

    def redraw(self) -> None:
        self._rows = None
        self.refresh()

    def on_resize(self) -> None:
        """Redraws the plot in the new size."""
        self._rows = None

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        if self._rows is None:
            self._rows = self.draw()
        if y >= len(self._rows):
            return Strip.blank(width, base)
        runs = groupby(self._rows[y], key=lambda piece: piece[1])
        segments = [
            Segment("".join(text for text, _ in run), base + self.part_style(part))
            for part, run in runs
        ]
        return Strip(segments).adjust_cell_length(width, base)
