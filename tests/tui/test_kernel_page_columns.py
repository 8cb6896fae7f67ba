"""The kernel page's columns of figures, the heat of lines, and what a line belongs to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.explain.code.line_figures import DEFAULT
from kinspect.inspector.model import KernelReport, LaneUse, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.preferences import State
from kinspect.tui.screens.columns_menu import ColumnsMenu
from kinspect.tui.screens.kernel.card import facts_of
from kinspect.tui.screens.kernel.kernel_page import NOTHING_HOT, KernelPage
from kinspect.tui.screens.kernel.panes import Pane
from kinspect.tui.widgets.code import CodeView
from msgspec.structs import replace
from textual.events import Click
from textual.pilot import Pilot
from tui_screens import each_size, text_of

SMALL = Path(__file__).parent.parent / "data" / "small_gfx942.s"
Open = Callable[..., Any]

SOURCE = """\
def small(a, b):
    # a comment
    for k in range(8):
        x = load(a)
        y = load(b)
    store(x, y)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> KernelReport:
    """A kernel with spills, and an access of LDS with conflicts."""
    folder = tmp_path_factory.mktemp("columns")
    path = folder / "small.s"
    path.write_text(SMALL.read_text("utf-8"), "utf-8")
    (report,) = collect(Request((str(path),))).kernels
    ops = tuple(
        replace(op, use=LaneUse(conflicts=float(8 * n), cycles=8.0 * n + 4, cycles_ideal=4.0))
        if op.cls.startswith("lds")
        else op
        for n, op in enumerate(report.memory_ops)
    )
    return replace(report, memory_ops=ops)


@pytest.fixture
def page_of(opened: Open, kernel: KernelReport) -> Open:
    @asynccontextmanager
    async def make(
        size: tuple[int, int] = (120, 40), of: KernelReport = kernel, **goal: Any
    ) -> AsyncIterator[tuple[Pilot[Any], KernelPage]]:
        async with opened(size=size, of=Report("", {}, (of,), ())) as pilot:
            pilot.app.open_kernel(of.id, **goal)
            for _ in range(1000):
                page = pilot.app.screen
                if isinstance(page, KernelPage) and page.settled:
                    break
                await pilot.pause(0.01)
            assert isinstance(page, KernelPage)
            await pilot.pause()
            yield pilot, page

    return make


def assembly(page: KernelPage) -> Pane:
    pane = page.panes.pane_of("amdgcn")
    assert pane is not None
    return pane


def status(page: KernelPage) -> str:
    return str(page.query_one("#kernel-status").render())


def heading(page: KernelPage) -> str:
    return assembly(page).title.heading


def conflicts(report: KernelReport) -> list[int]:
    """Lines, from 0, of accesses with conflicts, most of them first."""
    ops = [op for op in report.memory_ops if op.use is not None and op.use.conflicts]
    return [op.line - 1 for op in sorted(ops, key=lambda op: -(op.use.conflicts or 0))]  # type: ignore[union-attr]


async def test_screen(page_of: Open) -> None:
    async with page_of((80, 24)) as (pilot, _):
        await pilot.press("s", "s", "t")
        async for _ in each_size(pilot, "kernel_columns"):
            text = text_of(pilot.app)
            assert "▾banks" in text
            assert "cycles of LDS bank conflicts" in text


async def test_t_walks_the_hottest_lines_of_the_first_cost(
    page_of: Open, kernel: KernelReport
) -> None:
    (slot,) = kernel.spills
    spills = {line - 1 for line in (*slot.stores, *slot.reloads)}
    async with page_of() as (pilot, page):
        code = assembly(page).code
        assert "▾spill" in heading(page)
        await pilot.press("g")
        seen = []
        for _ in spills:
            await pilot.press("t")
            seen.append(code.cursor)
        assert set(seen) == spills
        reading = page.texts.reading
        assert reading is not None
        depths = [reading.marks.depth(line) for line in seen]
        assert depths == sorted(depths, reverse=True)  # equally often: the deepest loop first
        await pilot.press("t")
        assert code.cursor == seen[0]  # round the end
        assert f"1 of {len(spills)}: 1 × a spilled register" in status(page)


async def test_s_takes_the_next_column_for_the_heat(page_of: Open, kernel: KernelReport) -> None:
    wanted = conflicts(kernel)
    assert len(wanted) > 1
    async with page_of() as (pilot, page):
        await pilot.press("s")
        assert "▾vgpr" in heading(page)
        await pilot.press("s")
        assert "▾banks" in heading(page)
        assert "t walks by banks: cycles that LDS bank conflicts add" in status(page)
        await pilot.press("g")
        seen = []
        for _ in wanted:
            await pilot.press("t")
            seen.append(assembly(page).code.cursor)
        assert seen == wanted
        await pilot.press("s")
        assert "▾lines" in heading(page)
        await pilot.press("s")
        assert "▾slack" in heading(page)
        await pilot.press("s")
        assert "▾spill" in heading(page)  # round the end
        await pilot.press("S")
        assert "▾slack" in heading(page)


async def test_the_strip_shows_where_it_is_hot_and_a_click_goes_there(
    page_of: Open, kernel: KernelReport
) -> None:
    async with page_of((80, 24)) as (pilot, page):
        await pilot.press("s", "s", "g")
        code = assembly(page).code
        width = code.size.width - code.scrollbar_size_vertical
        drawn = [code.render_line(y).crop(width - 1, width).text for y in range(code.size.height)]
        assert "█" in drawn
        assert {sign for sign in drawn if sign != " "} <= {"█", "▌", "▏"}
        seen = []
        for row in (row for row, sign in enumerate(drawn) if sign == "█"):
            click = Click(
                code, width - 1, row, 0, 0, button=1, shift=False, meta=False, ctrl=False, chain=1
            )
            code.on_click(click)
            await pilot.pause()
            seen.append(code.cursor)
        assert conflicts(kernel)[0] in seen
        assert set(seen) <= set(conflicts(kernel))
        assert assembly(page).title.position.startswith(f"{seen[-1] + 1}/")


def test_without_heat_there_is_no_strip() -> None:
    view = CodeView()
    view.show_heat({3: 0.0})
    assert view._heat == {}
    view.show_heat({3: 2.0, 5: 8.0})
    assert view._heat == {3: 0.25, 5: 1.0}


async def test_columns_are_chosen_in_the_menu_and_remembered(
    page_of: Open, kernel: KernelReport
) -> None:
    async with page_of() as (pilot, page):
        assert "banks" in heading(page) or "vgpr" in heading(page)
        await pilot.press("C")
        assert isinstance(pilot.app.screen, ColumnsMenu)
        text = text_of(pilot.app)
        assert "[ ] bound" in text
        assert "(none here) share of what the kernel stalled" in text
        await pilot.press(*["down"] * DEFAULT.index("spill"), "space", "enter")
        await pilot.pause()
        assert "spill" not in heading(page)
        assert "▾banks" in heading(page)
        pilot.app.state.save()
    assert State.load().code_columns == [name for name in DEFAULT if name != "spill"]
    saved = State.load()
    async with page_of() as (pilot, page):
        pilot.app.state.code_columns = saved.code_columns
        page.texts.show_again()
        assert "spill" not in heading(page)
        await pilot.press("C", "R", "escape")
        await pilot.pause()
        assert pilot.app.state.code_columns == []
        assert "▾spill" in heading(page)


async def test_a_text_without_figures_says_how_to_get_some(
    page_of: Open, kernel: KernelReport
) -> None:
    bare = replace(
        kernel,
        memory_ops=tuple(replace(op, use=None) for op in kernel.memory_ops),
        spills=(),
        live_peak=None,
    )
    async with page_of(of=bare) as (pilot, page):
        pilot.app.state.code_columns = ["spill"]
        page.texts.show_again()
        for keys in ("t", "s"):
            await pilot.press(keys)
            assert status(page) == NOTHING_HOT


async def test_the_source_has_the_sums_and_all_places_of_a_finding(
    page_of: Open, kernel: KernelReport, tmp_path: Path
) -> None:
    """Lines 4 and 5 of a source: accesses and spills stem from them, and a finding is of both."""
    source = tmp_path / "small.py"
    source.write_text(SOURCE, "utf-8")
    text = Path(kernel.id.partition("::")[0]).read_text("utf-8")
    lines = text.split("\n")
    (slot,) = kernel.spills
    for number, at in zip((*slot.stores, *slot.reloads), (4, 5, 5, 5), strict=False):
        lines[number - 1] = f"\t.loc\t7 {at} 3\n{lines[number - 1]}\n\t.loc\t7 6 1"
    path = tmp_path / "small.s"
    path.write_text(f'\t.file\t7 "{tmp_path}" "small.py"\n' + "\n".join(lines), "utf-8")
    (report,) = collect(Request((str(path),))).kernels
    (slot,) = report.spills
    spills = (*slot.stores, *slot.reloads)
    finding = replace(report.findings[0], lines=spills, locations=())
    report = replace(report, findings=(finding,))
    async with page_of((200, 60), of=report, line=slot.stores[0]) as (pilot, page):
        pilot.app.state.code_columns = ["spill"]
        page.texts.show_again()
        pane = page.panes.pane_of("source")
        assert pane is not None
        assert pane.code.shown.gutter is not None
        gutters = ["".join(t for t, _ in pane.code.shown.gutter(n)) for n in range(6)]
        assert [n + 1 for n, left in enumerate(gutters) if "✗" in left or "▲" in left] == [4, 5]
        assert gutters[3].split()[-1] == str(len(slot.stores))
        assert gutters[4].split()[-1] == str(len(slot.reloads))
        reading = page.texts.reading
        assert reading is not None
        assert reading.marks.places(finding) == (len(spills), 2)
        block = facts_of(report, reading, "source", 3)
        assert block.facts[0].text.endswith(f"({len(spills)} places, 2 lines)")


# --------------------------------------------------------------------------- w


async def test_w_goes_from_a_spill_to_its_reloads_and_back(
    page_of: Open, kernel: KernelReport
) -> None:
    (slot,) = kernel.spills
    async with page_of(line=slot.stores[0]) as (pilot, page):
        code = assembly(page).code
        seen = []
        for _ in slot.reloads:
            await pilot.press("w")
            seen.append(code.cursor + 1)
            assert "reload of it   w goes on" in status(page)
        assert seen == list(slot.reloads)
        while code.cursor + 1 != slot.stores[0]:
            await pilot.press("w")
        assert "back where it began" in status(page)
        await pilot.press("colon", *str(slot.reloads[0]), "enter", "w")
        assert code.cursor + 1 == slot.stores[0]
        assert "store that it reloads" in status(page)


async def test_w_goes_from_a_value_to_those_that_read_it(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        code = assembly(page).code
        lines = code.shown.lines
        made = next(n for n, text in enumerate(lines) if "v_mfma" in text)
        code.move_to(made)
        await pilot.press("w")
        assert "reads a[0:15]" in status(page)
        reader = code.cursor
        assert "a[0:15]" in lines[reader] or "a0" in lines[reader]
        while code.cursor != made:
            await pilot.press("w")
        # From what only reads, to what makes it.
        stored = next(n for n, text in enumerate(lines) if "ds_write" in text)
        code.move_to(stored)
        await pilot.press("w")
        assert code.cursor != stored
        assert "writes" in status(page) or "wait" in status(page)


async def test_registers_of_a_value_are_followed_one_by_one(
    page_of: Open, kernel: KernelReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """v[6:7] is overwritten by halves before the loop reads it again; in a thread, too."""
    path = tmp_path / "halves.s"
    text = SMALL.read_text("utf-8")
    halves = "\tglobal_load_dword v6, v0, s[4:5]\n\tglobal_load_dword v7, v0, s[4:5]\n"
    text = text.replace("\tglobal_load_dwordx4 v[2:5], v0, s[4:5]\n", halves)
    text = text.replace("ds_write_b128 v0, v[2:5]", "ds_write_b64 v0, v[6:7]")
    path.write_text(text, "utf-8")
    (report,) = collect(Request((str(path),))).kernels
    for most in (2_000, 1):
        monkeypatch.setattr("kinspect.tui.screens.kernel.marks.VALUES_AT_ONCE", most)
        async with page_of(of=report) as (pilot, page):
            code = assembly(page).code
            lines = code.shown.lines
            read = next(n for n, line in enumerate(lines) if "ds_read_b64" in line)
            code.move_to(read)
            await pilot.press("w")
            for _ in range(300):
                if code.cursor != read:
                    break
                await pilot.pause(0.01)
            stops = [lines[n].split()[0] for n in page.marks._trail.stops]
            assert stops == ["ds_read_b64", "s_waitcnt", "v_mfma_f32_32x32x8_f16"]


async def test_w_says_where_there_is_nothing(page_of: Open) -> None:
    async with page_of(line=1) as (pilot, page):
        await pilot.press("w")
        assert "no spill, no wait, and no value" in status(page)


# --------------------------------------------------------------------------- n and N


async def test_n_goes_by_findings_until_something_is_searched_for(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        await pilot.press("g", "n")
        assert "line with findings" in status(page)
        await pilot.press("slash", *"s_waitcnt", "enter", "n")
        assert "“s_waitcnt”" in status(page)
        await pilot.press("N", "escape", "n")
        assert "line with findings" in status(page)


async def test_other_columns_leave_the_marks_of_a_search(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        await pilot.press("slash", *"s_waitcnt", "enter")
        code = assembly(page).code
        marked = code.render_line(code.cursor).text
        await pilot.press("s", "C", "down", "enter", "f")
        await pilot.pause()
        assert code._matches(code.cursor), marked
        await pilot.press("n")
        assert "“s_waitcnt”" in status(page)


async def test_what_is_nowhere_as_it_stands_is_a_regular_expression(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        code = assembly(page).code
        lines = code.shown.lines
        wanted = [n for n, text in enumerate(lines) if "v_mfma" in text or "s_barrier" in text]
        await pilot.press("g", "slash", *"v_mf")
        await pilot.press("backspace", "backspace", "backspace", "backspace")
        page.panes.prompt.value = "v_mfma|s_barrier"
        await pilot.pause()
        assert code.cursor == wanted[0]
        await pilot.press("enter")
        assert f"1 of {len(wanted)}" in status(page)
        for line in wanted[1:]:
            await pilot.press("n")
            assert code.cursor == line


async def test_what_a_spill_slot_holds_comes_before_its_findings(
    page_of: Open, kernel: KernelReport
) -> None:
    (slot,) = kernel.spills
    async with page_of() as (pilot, page):
        await pilot.press("colon", *str(slot.stores[0]), "enter")
        card = page.panes.card
        rows = "\n".join(card.render_line(y).text for y in range(card.size.height))
        assert "spills to" in rows
        assert "spills to" in rows.partition("KI")[0]
        await pilot.press("enter")
        text = text_of(pilot.app)
        assert "scratch_store_dword" in text.partition("KI")[0].rpartition("╭")[2]
        assert "────" in text
