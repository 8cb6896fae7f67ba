"""Help: every page's marks and every key that works on it, made from the bindings."""

from __future__ import annotations

from typing import Any, ClassVar

from kinspect.inspector.model import Report
from kinspect.tui.page_table import PAGES
from kinspect.tui.pages import Page, page_class
from kinspect.tui.screens.help import HelpScreen, KeyHelp, groups_of, help_text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Input
from tui_screens import snapshots, text_of


class Field(Input):
    """A field with a key of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f7", "strange", "Do what fields do not")]


class Example(Page):
    """A page with keys of its own, one of them without words."""

    NAME = ""
    LEGEND = (("★", "the best"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,ctrl+x", "strange", "Do a strange thing"),
        Binding("y", "hidden", "A key that the footer does not show", show=False),
        Binding("z", "wordless", ""),
        Binding("w", "told", "Short", tooltip="What it does, at length"),
        Binding("q", "app.back", "Away"),
    ]

    def compose(self) -> ComposeResult:
        yield Input()
        yield Field()
        yield DataTable()
        yield DataTable(id="second")


async def test_keys_are_grouped_by_where_they_work(opened: Any) -> None:
    async with opened(page="profile") as pilot:
        await pilot.app.push_screen(Example())
        groups = {group.title: group.rows for group in groups_of(pilot.app.screen)}
    # What the library's own widgets take is no key of ours.
    assert list(groups) == ["Marks", "This screen", "In a field", "Everywhere"]
    assert groups["Marks"] == (KeyHelp(("★",), "the best"),)
    # A field's own keys, and not how one edits a text anywhere.
    assert groups["In a field"] == (KeyHelp(("f7",), "Do what fields do not"),)
    told = {row.description: row.keys for row in groups["This screen"]}
    assert told == {
        "Do a strange thing": ("x", "^x"),
        "A key that the footer does not show": ("y",),
        "What it does, at length": ("w",),
        "Away": ("q",),
    }
    everywhere = {row.description: row.keys for row in groups["Everywhere"]}
    assert ("esc",) in everywhere.values()
    assert everywhere["Help"] == ("?", "f1")
    assert everywhere["Quit"] == ("^q", "^c")
    assert {known.title for known in PAGES.values() if known.key} <= set(everywhere)


async def test_the_help_of_a_page_has_all_its_keys_and_opens_by_one(opened: Any) -> None:
    async with opened(size=(80, 24), page="kernels") as pilot:
        for name in (name for name, known in PAGES.items() if known.key):
            pilot.app.action_page(name)
            await pilot.pause()
            page = pilot.app.screen
            assert isinstance(page, page_class(name))
            is_told(page)
            await pilot.press("question_mark")
            assert isinstance(pilot.app.screen, HelpScreen)
            await pilot.press("question_mark")
            assert pilot.app.screen is page


def is_told(page: Page) -> None:
    """Asserts that the help has each key and each mark of a page."""
    declared = {
        binding.tooltip or binding.description
        for binding in Binding.make_bindings(type(page).BINDINGS)
        if not binding.system
    }
    everywhere = {row.description: row.keys for row in groups_of(page)[-1].rows}
    assert "?" in everywhere["Help"]
    whole = help_text(groups_of(page), 500).plain
    assert {words for words in declared if words} <= set(_told(whole))
    assert {meaning for _, meaning in page.legend()} <= set(_told(whole))


def _told(text: str) -> set[str]:
    found = set()
    for line in text.splitlines():
        for part in (line[:248], line[248:]):
            found.add(part.strip()[18:].strip())
            found.add(part[20:].strip())
    return found


async def test_it_scrolls_and_closes(opened: Any) -> None:
    async with opened(size=(80, 24), page="profile") as pilot:
        await pilot.press("f1")
        await pilot.pause()
        app = pilot.app
        assert isinstance(app.screen, HelpScreen)
        assert "an analysed kernel" in text_of(app)
        assert "Part before" not in text_of(app)
        box = app.screen.query_one(VerticalScroll)
        for keys, where in (
            (("j", "j", "down"), 3),
            (("k", "up"), 1),
            (("ctrl+d",), 1 + box.size.height - 2),
            (("ctrl+u",), 1),
            (("G",), box.max_scroll_y),
            (("g",), 0),
            (("end",), box.max_scroll_y),
            (("home",), 0),
            (("pagedown",), box.size.height - 2),
            (("pageup",), 0),
        ):
            await pilot.press(*keys)
            await pilot.pause()
            assert box.scroll_offset.y == where, keys
        await pilot.press("G")
        await pilot.pause()
        assert "Part before" in text_of(app)
        for key in ("escape", "q", "f1", "question_mark", "enter"):
            assert isinstance(app.screen, HelpScreen)
            await pilot.press(key)
            await pilot.pause()
            assert not isinstance(app.screen, HelpScreen), key
            await pilot.press("question_mark")
            await pilot.pause()


async def test_help_as_it_is_shown(opened: Any) -> None:
    async with opened(page="profile", of=Report("", {}, (), ())) as pilot:
        await pilot.press("f1")
        for size in ((20, 5), (1, 1)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await snapshots(pilot, "help")
