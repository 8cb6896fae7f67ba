"""Colours of parts of widgets: tints are tints, and a selected row is seen in every terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from kinspect.tui.themes import THEMES
from kinspect.tui.widgets.heading import Keys
from kinspect.tui.widgets.scorecard import Card, CardBlock, CardFact, ScoreCard
from kinspect.tui.widgets.step_plot import StepFunction, StepPlot
from kinspect.tui.widgets.styles import PartedWidget
from kinspect.tui.widgets.table import Table
from rich.console import Console
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.strip import Strip
from textual.theme import Theme

NAMES = [theme.name for theme in THEMES]
ColorSystem = Literal["truecolor", "256", "standard"] | None


class Rows(PartedWidget):
    """A widget whose parts have tints."""

    PREFIX = "rows"
    DEFAULT_CSS = """
    Rows { background: $surface; }
    Rows > .rows--bar { background: $primary 30%; }
    Rows > .rows--dim { color: $foreground 60%; }
    Rows > .rows--bold { text-style: bold; }
    Rows > .rows--plain { color: $error; }
    """


class Shown(App[None]):
    """Rows and the widgets that draw by part styles."""

    CSS = "Rows { height: 3; } StepPlot { height: 14; } ScoreCard { height: 20; }"

    def compose(self) -> ComposeResult:
        yield Rows()
        yield StepPlot()
        yield ScoreCard()
        yield Keys()

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)


def color(rich: object) -> Color:
    from rich.color import Color as RichColor

    assert isinstance(rich, RichColor)
    return Color.from_rich_color(rich)


def contrast(one: Color, other: Color) -> float:
    """As WCAG counts it."""

    def light(c: Color) -> float:
        parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in c.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


async def test_tints_are_blended() -> None:
    app = Shown()
    async with app.run_test() as pilot:
        for theme in NAMES:
            app.theme = theme
            await pilot.pause()
            rows = app.query_one(Rows)
            known = app.theme_variables
            surface, primary = Color.parse(known["surface"]), Color.parse(known["primary"])
            text = Color.parse(known["foreground"])
            bar = rows.part_style("bar")
            assert bar.color is None
            assert color(bar.bgcolor) == surface.blend(primary, 0.3, 1.0)
            dim = rows.part_style("dim")
            assert dim.bgcolor is None
            assert contrast(color(dim.color), surface) < 0.75 * contrast(text, surface)
            assert contrast(color(dim.color), surface) > 3  # and can be read
            # What stands in a selected row can be read on its bar.
            for name in ("foreground", "primary", "error", "warning"):
                assert contrast(Color.parse(known[name]), color(bar.bgcolor)) > 3, name
            assert rows.part_style("bold") == Style(bold=True)
            assert rows.part_style("plain").color == Color.parse(known["error"]).rich_color


def foregrounds(strips: list[Strip], text: str) -> Iterator[Color]:
    for strip in strips:
        for segment in strip:
            if text in segment.text and segment.style is not None:
                yield color(segment.style.color)


async def test_what_is_dim_is_drawn_dim() -> None:
    """Axes, fills and labels stand behind what matters, also after a change of the theme."""
    app = Shown()
    async with app.run_test(size=(80, 40)) as pilot:
        plot, card = app.query_one(StepPlot), app.query_one(ScoreCard)
        plot.show(StepFunction("waves", "", ((8, 2), (16, 1)), 2, (10, 1)))
        here = CardBlock("This line", (CardFact("outstanding", "vmcnt 3"),))
        card.show(Card("L0", ("ISA 1",), ("ISA 1",), CardBlock("Mix")), here)
        await pilot.pause()
        for theme in NAMES:
            app.theme = theme
            await pilot.pause()
            known = app.theme_variables
            text, behind = Color.parse(known["foreground"]), Color.parse(known["background"])
            strips = [plot.render_line(y) for y in range(plot.size.height)]
            (axis, *_) = foregrounds(strips, "└")
            assert contrast(axis, behind) < 0.6 * contrast(text, behind)
            (fill, *_) = foregrounds(strips, "░")
            assert contrast(fill, behind) < 0.5 * contrast(Color.parse(known["primary"]), behind)
            strips = [card.render_line(y) for y in range(card.size.height)]
            (label, *_) = foregrounds(strips, "outstanding")
            surface = Color.parse(known["surface"])
            assert contrast(label, surface) < 0.75 * contrast(text, surface)


@pytest.mark.parametrize("theme", THEMES, ids=NAMES)
def test_scrollbars_fit_the_page_and_are_seen(theme: Theme) -> None:
    known = theme.to_color_system().generate()
    page, track = Color.parse(known["background"]), Color.parse(known["scrollbar-background"])
    assert contrast(page, track) < 1.5
    assert track.hsl[1] < 0.3  # no hue of its own
    assert contrast(Color.parse(known["scrollbar"]), track) > (
        4.5 if theme.name == "kinspect-contrast" else 1.7
    )
    for name in ("hover", "active"):
        assert known[f"scrollbar-background-{name}"] == known["scrollbar-background"]


SYSTEMS: tuple[ColorSystem, ...] = ("truecolor", "256", "standard", None)


async def test_the_selected_kernel_can_be_read(opened: Any) -> None:
    async with opened(size=(120, 40), page="kernels") as pilot:
        for theme, system in itertools.product(NAMES, SYSTEMS):
            pilot.app.console = Console(color_system=system, force_terminal=True)
            pilot.app.theme = theme
            await pilot.pause()
            table = pilot.app.screen.query_one(Table)
            behind = table.background_colors[1]
            for segment in table.render_line(1 + table.cursor):
                under = color(segment.style.bgcolor)
                assert contrast(under, behind) > 1.2, (theme, system)
                if segment.text.strip(" ▁·-"):
                    assert contrast(color(segment.style.color), under) > 3, segment


async def test_the_selected_kernel_is_seen_without_colours(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(size=(120, 40), page="kernels") as pilot:
        table = pilot.app.screen.query_one(Table)
        for segment in table.render_line(1 + table.cursor):
            style = segment.style
            assert contrast(color(style.color), color(style.bgcolor)) > 7
