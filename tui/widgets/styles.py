"""Styles of a widget's parts as the terminal can show them.

Textual's own partial styles drop the alpha of a colour: "60% of the foreground" would come out as
the whole foreground, and a tint of the primary colour as the primary colour itself.
"""

from __future__ import annotations

from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.css.styles import StylesBase
from textual.widget import Widget

_TINTS = ("256", "truecolor", "windows")
"""Colour systems with enough colours to tell a tint from what it lies on."""


def part_style(widget: Widget, name: str) -> Style:
    """The style of a component class, its colours blended with what is behind the widget.

    Args:
        widget: that the class is of.
        name: the component class.

    Returns:
        Only what the class itself sets, to be laid over the widget's own style.
    """
    return blended(widget.get_component_styles(name), widget.background_colors[1])


def bar_style(widget: Widget, name: str) -> Style:
    """The style of a bar over a row, such as the cursor's: a tint, laid over what is drawn.

    Args:
        widget: that the class is of.
        name: the component class, which sets a background.

    Returns:
        As `part_style`; where tints cannot be shown the widget's colours in reverse.
    """
    return part_style(widget, name) if tinted(widget.app) else reverse(widget)


class PartStyles:
    """The styles of a widget's component classes, each computed when it is first used.

    Args:
        widget: that the classes are of.
        prefix: the first part of their names, as in `PREFIX--NAME`.
    """

    def __init__(self, widget: Widget, prefix: str) -> None:
        self._widget = widget
        self._prefix = prefix
        self._styles: dict[str, Style] = {"": Style()}

    def __getitem__(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = part_style(self._widget, f"{self._prefix}--{name}")
        return style

    def drop(self) -> None:
        """Forgets the styles, because the theme has changed."""
        self._styles = {"": Style()}


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
