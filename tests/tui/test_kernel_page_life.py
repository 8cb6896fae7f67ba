"""The kernel page before its report, after another one, small, broken and hurried."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from kinspect.inspector.model import Artifact, Report
from kinspect.inspector.pipeline.events import Reported
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.kernel.panes import Pane
from kinspect.tui.widgets.code_rows import Text, merged
from kinspect.tui.widgets.find import Search, Trail, place, step
from msgspec.structs import replace
from textual.pilot import Pilot
from tui_screens import text_of, until

DATA = Path(__file__).parent.parent / "data"
SMALL = DATA / "small_gfx942.s"
KEYS = (
    *("j", "k", "g", "G", "ctrl+d", "ctrl+u", "n", "N", "w", "u", "n", "N", "space", "v", "tab"),
    *("shift+tab", "right_square_bracket", "left_square_bracket", "f", "y", "ctrl+o", "h", "l"),
    *("shift+down", "shift+up", "question_mark", "slash", "s", "enter", "colon", "0", "enter"),
    *("t", "s", "t", "C", "space", "J", "enter", "T", "r", "w", "w"),
)


async def kernel_page(pilot: Pilot[Any]) -> KernelPage:
    await until(pilot, lambda: isinstance(pilot.app.screen, KernelPage))
    page = pilot.app.screen
    assert isinstance(page, KernelPage)
    return page


async def test_a_file_becomes_a_kernel(opened: Any, report: Report, tmp_path: Path) -> None:
    """Text is there before anything is known; the report turns it into a page like any other."""
    kernel = next(k for k in report.kernels if k.name == "small")
    path = tmp_path / "mine.s"
    path.write_text(SMALL.read_text("utf-8"), "utf-8")
    async with opened(size=(120, 40)) as pilot:
        pilot.app.open_page(KernelPage.of_file(path))
        page = await kernel_page(pilot)
        await until(pilot, lambda: page.panes.pane_of("amdgcn") is not None)
        text = text_of(pilot.app)
        assert "mine.s  not analysed yet" in text.split("\n")[0]
        assert "ds_write_b128" in text
        assert "✗" not in text
        await pilot.press("n")
        assert "still being analysed" in text_of(pilot.app)
        page.panes.pane_of("amdgcn").code.move_to(23)
        mine = replace(kernel, id=f"{path}::small@gfx942")
        pilot.app.session.take(Reported((9, 0), mine))
        await until(pilot, lambda: page.settled)
        text = text_of(pilot.app)
        assert "small  gfx942" in text.split("\n")[0]
        assert "✗" in text
        assert "Main loop L0" in text
        assert page.panes.pane_of("amdgcn").code.cursor == 23  # where one was reading
        await pilot.press("n")
        assert page.panes.pane_of("amdgcn").code.cursor == 24


async def test_a_big_file_is_read_behind(opened: Any, tmp_path: Path) -> None:
    lines = SMALL.read_text("utf-8").split("\n")
    path = tmp_path / "big.s"
    debug = ["\t.loc\t1 2 3", "\t.loc\t1 3 3"]
    path.write_text("\n".join(lines[:16] + (lines[16:26] + debug) * 5000 + lines[26:]), "utf-8")
    async with opened(size=(80, 24)) as pilot:
        pilot.app.open_page(KernelPage.of_file(path))
        page = await kernel_page(pilot)
        await until(pilot, lambda: page.panes.pane_of("amdgcn") is not None)
        # Folds of what is seen first are there at once, the others soon.
        await until(pilot, lambda: len(page.panes.pane_of("amdgcn").code.folded) > 4990)
        assert ".loc" not in text_of(pilot.app)
        await until(pilot, lambda: "1/600" in text_of(pilot.app))
        await pilot.press("G")
        await until(pilot, lambda: bool(re.search(r"600\d\d/600\d\d", text_of(pilot.app))))
        await pilot.press("slash", *"folded reload", "enter")
        assert "1 of 5000" in text_of(pilot.app)


async def test_another_report_of_the_kernel_is_shown(opened: Any, report: Report) -> None:
    """As after a file was saved: the page stays, with the new figures and the cursor kept."""
    kernel = next(k for k in report.kernels if k.name == "small")
    async with opened(size=(120, 40)) as pilot:
        pilot.app.open_kernel(kernel.id, line=24)
        page = await kernel_page(pilot)
        await until(pilot, lambda: page.settled)
        assert "✗" in text_of(pilot.app)
        pilot.app.session.entries[kernel.id] = replace(
            pilot.app.session.entries[kernel.id], report=replace(kernel, findings=())
        )
        pilot.app.session.changed()
        await until(pilot, lambda: "✗" not in text_of(pilot.app) and page.settled)
        assert page.panes.pane_of("amdgcn").code.cursor == 23


async def test_an_unknown_kernel_is_a_sentence(opened: Any) -> None:
    async with opened(size=(80, 24)) as pilot:
        pilot.app.open_kernel("gone.s::gone@gfx942")
        await kernel_page(pilot)
        await until(pilot, lambda: "there is no kernel gone.s" in text_of(pilot.app))
        await pilot.press(*KEYS)
        assert isinstance(pilot.app.screen, KernelPage)


async def test_broken_artifacts_are_sentences(opened: Any, report: Report, tmp_path: Path) -> None:
    """What is gone is said; what would steer the terminal is not sent to it."""
    kernel = next(k for k in report.kernels if k.name == "small")
    evil = tmp_path / "evil.s"
    evil.write_bytes(SMALL.read_bytes() + b"\n; \x1b]0;title\x07\x1b[2J\x9b31m\x08 v_\xff\xfe\n")
    bad = tmp_path / "bad.ttgir"
    bad.write_text("module {\n  this is no TTGIR (((\n", "utf-8")
    gone = Artifact("llir", "", 10, tmp_path / "gone.llir")
    artifacts = {
        "amdgcn": Artifact("amdgcn", "", evil.stat().st_size, evil),
        "ttgir": Artifact("ttgir", "", 40, bad),
        "llir": gone,
    }
    broken = replace(kernel, artifacts=artifacts)
    async with opened(size=(120, 40), of=Report("", {}, (broken,), ())) as pilot:
        pilot.app.open_kernel(broken.id)
        page = await kernel_page(pilot)
        await until(pilot, lambda: page.settled)
        await pilot.press("G")
        text = text_of(pilot.app)
        assert "title" in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
        await pilot.press("tab", "tab")
        assert "this is no TTGIR" in text_of(pilot.app)
        await pilot.press("v")
        assert "gone.llir" in text_of(pilot.app)


async def test_no_key_ends_it(opened: Any, report: Report) -> None:
    """Every key in any order, at every size, while it is resized: the page is still there."""
    kernel = next(k for k in report.kernels if k.name == "attend" and k.arch == "gfx950")
    chosen = random.Random(80)
    async with opened(size=(80, 24)) as pilot:
        pilot.app.open_kernel(kernel.id)
        page = await kernel_page(pilot)
        await pilot.press(*KEYS)  # some of them before it is analysed
        await until(pilot, lambda: page.settled)
        for turn in range(2):
            keys = list(KEYS)
            chosen.shuffle(keys)
            for key in keys:
                await pilot.press(key)
            await pilot.resize_terminal(*((20, 5), (200, 60))[turn])
            while pilot.app.screen is not page:
                dialogue = pilot.app.screen
                await pilot.press("escape")
                assert pilot.app.screen is not dialogue
            if page.has_class("-asking"):
                await pilot.press("escape")
            assert pilot.app.screen is page
            assert text_of(pilot.app).strip()
        assert any(one.is_on_screen for one in page.query(Pane))


async def test_the_mouse_moves_the_cursor(opened: Any, report: Report) -> None:
    kernel = next(k for k in report.kernels if k.name == "small")
    async with opened(size=(120, 40)) as pilot:
        pilot.app.open_kernel(kernel.id)
        page = await kernel_page(pilot)
        await until(pilot, lambda: page.settled)
        code = page.panes.pane_of("amdgcn").code
        row = next(n for n, line in enumerate(text_of(pilot.app).split("\n")) if "v_mfma" in line)
        await pilot.click(code, offset=(30, row - code.region.y))
        assert "v_mfma" in code.shown.lines[code.cursor]
        assert "mfma" in text_of(pilot.app).split("This line")[1]


async def test_q_goes_back_and_escape_does_not(opened: Any, report: Report) -> None:
    async with opened(size=(80, 24)) as pilot:
        before = pilot.app.screen
        pilot.app.open_kernel(report.kernels[0].id)
        await kernel_page(pilot)
        page = pilot.app.screen
        await pilot.press("escape")
        assert pilot.app.screen is page
        await pilot.press("q")
        assert pilot.app.screen is before


# --------------------------------------------------------------------------- pieces


def test_steps_go_round() -> None:
    assert [step([3, 7], line, 1) for line in (0, 3, 5, 7)] == [3, 7, 7, 3]
    assert [step([3, 7], line, -1) for line in (0, 3, 5, 7)] == [7, 7, 3, 3]
    assert step([], 4, 1) is None
    assert place([3, 7, 9], 7) == "2 of 3"


def test_search_minds_capitals_where_there_are_any() -> None:
    lines = ["v_mfma one", "V_MFMA two v_mfma", "none"]
    found = Search(lines).find("v_mfma")
    assert list(found.lines) == [0, 1]
    assert found.hits(1) == [(0, 6), (11, 17)]
    assert list(Search(lines).find("V_M").lines) == [1]
    assert list(Search(lines).find("zzz").lines) == []


def test_a_trail_leads_back_to_where_it_began() -> None:
    trail = Trail()
    assert trail.next(10, ((4, "reload"), (6, "wait"), (4, "reader"), (10, "itself"))) == 4
    assert (trail.relation, trail.place) == ("reload", "1 of 2")
    assert trail.next(4, ((99, ""),)) == 6  # on the trail, what belongs to the stop itself is left
    assert trail.relation == "wait"
    assert trail.next(6, ()) == 10
    assert trail.relation == ""
    assert trail.next(10, ()) == 4
    assert trail.next(50, ()) is None
    assert trail.stops == ()


def test_marks_lie_over_colours() -> None:
    assert merged([(0, 4, "a"), (6, 9, "b")], [(2, 7)]) == [
        (0, 2, "a"),
        (2, 7, "match"),
        (7, 9, "b"),
    ]
    assert merged([(0, 9, "a")], [(3, 5, "read")]) == [(0, 3, "a"), (3, 5, "read"), (5, 9, "a")]


def test_a_line_is_drawn_in_as_many_columns_as_it_has_characters() -> None:
    text = Text(["\tv_add\x1b[31m", "plain"], tab=4)
    assert text.drawn(0) == "    v_add·[31m"
    assert text.width() == 14
