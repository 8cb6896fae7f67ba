"""Styles of a widget's parts as the terminal can show them.

Textual's own partial styles drop the alpha of a colour: "60% of the foreground" would come out as
the whole foreground, and a tint of the primary colour as the primary colour itself.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.css.styles import StylesBase
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
