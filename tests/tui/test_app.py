"""The shell of the terminal UI: pages, what is open, themes, commands, odd sizes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.page_table import PAGES
from kinspect.tui.pages import Page, page_class
from kinspect.tui.screens.list_chooser import commands
from kinspect.tui.themes import THEMES
from msgspec.structs import replace
from textual.color import Color
from textual.pilot import Pilot
from textual.theme import Theme
from tui_screens import text_of, until

ROOT = Path(__file__).parent.parent.parent
TUI = ROOT / "tui"
ISA = ROOT / "tests" / "data" / "isa"
KEYED = [name for name, known in PAGES.items() if known.key]


# --------------------------------------------------------------------------- pages


def test_every_page_is_there_and_explains_itself() -> None:
    for name in PAGES:
        found = page_class(name)
        assert name == found.NAME
        assert found.LEGEND, f"{name} explains none of its marks"


async def test_keys_open_pages_and_go_back(opened: Any) -> None:
    async with opened(page="profile") as pilot:
        app = pilot.app
        for key in ("2", "7", "1", "2", "6"):
            await pilot.press(key)
            await pilot.pause()
            name = next(name for name, known in PAGES.items() if known.key == key)
            await until(pilot, lambda name=name: name == page_of(app).NAME)
        # The profile is the first page: what lay over it is closed.
        assert len(app.screen_stack) == 2
        await pilot.press("2", "q")
        await pilot.pause()
        assert type(app.screen) is page_class("profile")


async def test_escape_leaves_no_page_and_q_does(opened: Any) -> None:
    async with opened(page="profile") as pilot:
        app = pilot.app
        await pilot.press("2", "escape", "escape")
        await pilot.pause()
        assert type(app.screen) is page_class("findings")
        assert any(toast.message == "q goes back" for toast in app._notifications)
        await pilot.press("q", "escape")
        await pilot.pause()
        assert type(app.screen) is page_class("profile")
        assert app.return_code is None
        await pilot.press("2", "q")
        await pilot.pause()
        assert type(app.screen) is page_class("profile")
        assert app.return_code is None
        await pilot.press("q")
    assert app.return_code == 0


def page_of(app: KinspectApp) -> Page:
    """The page on top; a question may lie over it."""
    return next(screen for screen in reversed(app.screen_stack) if isinstance(screen, Page))


async def test_every_page_shrinks_to_next_to_nothing_and_back(opened: Any, report: Report) -> None:
    async with opened(size=(80, 24), page="profile") as pilot:
        app = pilot.app
        for name in PAGES:
            if name == "kernel":
                app.open_kernel(report.kernels[0].id)
            else:
                app.action_page(name)
            await pilot.pause()
            assert name == page_of(app).NAME
            for size in ((20, 5), (1, 1), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                await pilot.press(*"jnvvgGZ", "slash", "x", "escape", "less_than_sign")
                while app.screen is not page_of(app):
                    app.pop_screen()
            assert app.size == (80, 24)
            assert name == page_of(app).NAME
            while app.screen is not page_of(app):
                app.pop_screen()
            await pilot.pause()
            assert text_of(app).startswith(f" {PAGES[name].title}")


async def test_pages_open_without_any_kernel(opened: Any) -> None:
    async with opened(size=(80, 24), page="profile", of=Report("", {}, (), ())) as pilot:
        app = pilot.app
        for name in KEYED:
            app.action_page(name)
            await pilot.pause()
            assert name == page_of(app).NAME
            await until(pilot, lambda name=name: text_of(app).startswith(f" {PAGES[name].title}"))
            await pilot.press("j", "n", "G")
            await pilot.pause()


async def test_the_heading_says_where_one_is(opened: Any, report: Report) -> None:
    failed = replace(report, errors=(_error("one"), _error("two")))
    async with opened(size=(120, 40), page="profile", of=failed) as pilot:
        first = text_of(pilot.app).splitlines()[0]
        assert first.startswith(" Profile")
        assert first.endswith("2 failed")
        assert all(PAGES[name].title in first for name in KEYED)
        await pilot.resize_terminal(40, 24)
        await pilot.pause()
        first = text_of(pilot.app).splitlines()[0]
        assert "Findings" not in first
        assert first.endswith("2 failed")


def _error(message: str) -> Any:
    from kinspect.inspector.model import ErrorRecord

    return ErrorRecord("a.py", None, "compile", message, "")


# --------------------------------------------------------------------------- a run


async def test_a_run_fills_the_session_while_pages_are_shown(tmp_path: Path) -> None:
    request = Request((str(ISA / "attend.triton39.gfx90a.amdgcn"), str(tmp_path / "none.s")))
    app = KinspectApp(Opening(lambda: request, "profile"))
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.session.progress.running
        await until(pilot, lambda: not app.session.progress.running)
        assert "no such file" in app.session.errors[0].message
        app.run_request(replace(request, targets=request.targets[:1]))
        await until(pilot, lambda: not app.session.progress.running)
        assert [entry.report.arch for entry in app.session.ordered()] == ["gfx90a"]
        assert not app.session.errors


async def test_a_request_that_cannot_be_made_is_an_error_of_the_run() -> None:
    def fails() -> Request:
        raise KinspectError("it is not to be", "try something else")

    app = KinspectApp(Opening(fails, "profile"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(app.session.errors))
        assert app.session.errors[0].message == "it is not to be"
        await until(pilot, lambda: not app.session.progress.running)


async def test_leaving_ends_the_run() -> None:
    request = Request(tuple(str(path) for path in sorted(ISA.glob("*.amdgcn"))))
    app = KinspectApp(Opening(request, "profile"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.feed is not None)
        feed = app.feed
        assert feed is not None
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not feed._thread.is_alive())
    assert app.return_code == 0


# --------------------------------------------------------------------------- commands


async def test_a_command_goes_to_a_page_and_a_number_to_a_line(opened: Any) -> None:
    async with opened(page="findings") as pilot:
        for key, name in (("colon", "profile"), ("ctrl+p", "occupancy")):
            await pilot.press(key, *f"go to {name[:4]}", "enter")
            await until(pilot, lambda name=name: isinstance(pilot.app.screen, page_class(name)))
        await pilot.press("colon", "3", "enter")  # a page without lines says so
        await until(pilot, lambda: len(pilot.app._notifications) == 1)
        for name in ("kernels", "findings"):
            pilot.app.action_page(name)
            await pilot.pause()
            await pilot.press("colon", "3", "enter")
            await until(pilot, lambda: pilot.app.screen.focused.cursor == 2)


async def test_commands_are_the_keys_of_the_page_and_no_others(opened: Any) -> None:
    async with opened(page="kernels") as pilot:
        offered = {command.title for command in commands(pilot.app, pilot.app.screen)}
        await pilot.press("slash")
        offered |= {command.title for command in commands(pilot.app, pilot.app.screen)}
    assert {"Export", "Help", "Quit", "Sort", "Fold or unfold all"} <= offered
    assert {f"Theme: {theme.name}" for theme in THEMES} <= offered
    assert {f"Go to {PAGES[name].title}" for name in KEYED} <= offered
    assert not {title for title in offered if "word" in title or title in ("Up", "Page down")}


# --------------------------------------------------------------------------- themes


async def test_themes_go_round_and_are_kept(opened: Any) -> None:
    async with opened(page="profile") as pilot:
        seen = [pilot.app.theme]
        for _ in THEMES:
            await pilot.press("f2")
            seen.append(pilot.app.theme)
        assert seen == [*(theme.name for theme in THEMES), THEMES[0].name]
        await pilot.press("f2", "f2")
        await pilot.press("ctrl+q")
    async with opened(page="profile") as pilot:
        assert pilot.app.theme == THEMES[2].name


NAMED = ("foreground", "primary", "secondary", "accent", "warning", "error", "success")
GROUNDS = ("background", "surface", "panel")
READABLE = 4.5  # WCAG 2.2, success criterion 1.4.3
FAINTEST = 60
"""Per cent of the foreground that text may have at least."""
WORDLESS = {
    "line--still",
    "roofline--grid",
    "table--track",
    "status--track",
    "head--track",
    "{'':{margin}}",
}
"""Bars and marks: nobody reads them."""


def luminance(colour: Color) -> float:
    """WCAG's relative luminance."""
    parts = [part / 255 for part in colour.rgb]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Color, other: Color) -> float:
    """WCAG's contrast ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast(Color.parse("#fff"), Color.parse("#000")) == pytest.approx(21)
    assert contrast(Color.parse("#777"), Color.parse("#fff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_can_be_read(theme: Theme) -> None:
    colours = {name: _colour(theme, name) for name in (*NAMED, *GROUNDS)}
    rows = re.findall(r"code--(\S+) \{ background: \$(\w+) (\d+)%", _sheet())
    assert {name for name, *_ in rows} >= {"cursor", "cursor-blurred", "linked"}
    grounds = {name: colours[name] for name in GROUNDS}
    for name, over, share in rows:
        grounds[name] = colours["background"].blend(colours[over], int(share) / 100)
    for where, ground in grounds.items():
        for name in NAMED:
            found = contrast(colours[name], ground)
            assert found >= READABLE, f"{name} on {where}: {found:.2f}"
    for where in GROUNDS:
        faint = grounds[where].blend(colours["foreground"], FAINTEST / 100)
        found = contrast(faint, grounds[where])
        assert found >= READABLE, f"faint text on {where}: {found:.2f}"


async def test_words_on_the_screen_can_be_read_in_all_themes(opened: Any) -> None:
    """After a change of the theme as well: what is drawn by hand must not keep old colours."""
    async with opened(size=(80, 24)) as pilot:
        app = pilot.app
        for page, theme in itertools.product([None, *KEYED], (*THEMES, THEMES[0])):
            if page is not None:
                app.action_page(page)
            elif app.screen.NAME != "kernel":
                app.open_kernel(next(iter(app.session.entries)))
            app.theme = theme.name
            await pilot.pause(0.05)
            faint = [*faint_words(app)]
            assert not faint, (page, theme.name)


def faint_words(app: KinspectApp) -> Iterator[tuple[str, float]]:
    """Words that are drawn in too little contrast, and their contrast."""
    for strip in app.screen._compositor.render_strips(app.size):
        for text, style, _ in strip:
            if style is None or not re.search(r"\w", text):
                continue
            assert style.color is not None, text
            assert style.bgcolor is not None, text
            colours = [Color.from_rich_color(c) for c in (style.color, style.bgcolor)]
            if (ratio := contrast(*colours)) < READABLE:
                yield text.strip(), round(ratio, 2)


def _colour(theme: Theme, name: str) -> Color:
    return Color.parse(theme.to_color_system().generate()[name])


def _sheet() -> str:
    return (TUI / "kinspect.tcss").read_text()


def _sources() -> Iterator[tuple[str, str]]:
    for path in sorted([*TUI.rglob("*.py"), *TUI.rglob("*.tcss")]):
        yield path.relative_to(TUI).as_posix(), path.read_text()


def test_no_text_is_fainter_than_the_faintest() -> None:
    faint = []
    for name, source in _sources():
        for line in source.splitlines():
            for share in re.findall(r"(?<!background: )(?<!border: )\$foreground (\d+)%", line):
                words = not any(one in line for one in WORDLESS)
                if words and int(share) < FAINTEST:
                    faint.append(f"{name}: {line.strip()}")
    assert not faint, "\n".join(faint)


def test_colours_come_from_the_theme() -> None:
    """A literal colour looks right in one theme alone."""
    literal = re.compile(r"(?:color|background|border\S*|tint)\s*:[^;$]*(#[0-9a-fA-F]{3,8}|rgb\()")
    found = [
        f"{name}: {match.group()}"
        for name, source in _sources()
        if name != "themes.py"
        for match in literal.finditer(source)
    ]
    assert not found


async def test_the_pages_in_the_title_row_take_clicks(opened: Any) -> None:
    async with opened(size=(60, 24)) as pilot:
        for width in (60, 80, 120):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            await title_row_takes_clicks(pilot, width)


async def title_row_takes_clicks(pilot: Pilot[Any], width: int) -> None:
    app = pilot.app
    row = text_of(app).splitlines()[0]
    await pilot.click(offset=(row.rindex("5"), 0))
    await pilot.pause()
    assert page_of(app).NAME == "occupancy"
    row = text_of(app).splitlines()[0]
    await pilot.click(offset=(row.rindex("1 " if width > 60 else "1"), 0))
    await pilot.pause()
    assert page_of(app).NAME == "kernels"
    title = text_of(app).splitlines()[0].index("Kernels")
    await pilot.click(offset=(title, 0))
    assert page_of(app).NAME == "kernels"
