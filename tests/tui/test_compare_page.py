"""The page of two kernels: choosing, the verdict, what changed, and the code side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.model import KernelReport, Report
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.screens.compare import comparison
from kinspect.tui.screens.compare.compare_page import Chooser, ComparePage
from kinspect.tui.screens.compare.side_by_side import SideBySide
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from textual.widgets import ContentSwitcher, Static
from tui_screens import SIZES, rows_of, snapshot, text_of

SMALL = Path(__file__).parent.parent / "data" / "small_gfx942.s"
SPILL = ("\tscratch_store_dword", "\tscratch_load_dword")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The small kernel as it is, and one that no longer spills and loads twice as narrow."""
    folder = tmp_path_factory.mktemp("pair")
    text = SMALL.read_text("utf-8")
    (folder / "before.s").write_text(text, "utf-8")
    kept = [line for line in text.splitlines() if not line.startswith(SPILL)]
    after = "\n".join(kept).replace(
        "global_load_dwordx4 v[2:5], v0, s[4:5]",
        "global_load_dwordx2 v[2:3], v0, s[4:5]\n\tglobal_load_dwordx2 v[4:5], v0, s[4:5] offset:8",
    )
    for name, count in ((".vgpr_spill_count: 1", 0), (".private_segment_fixed_size: 8", 0)):
        after = after.replace(name, f"{name.partition(':')[0]}: {count}")
    after = after.replace("_private_segment_fixed_size 8", "_private_segment_fixed_size 0")
    (folder / "after.s").write_text(after, "utf-8")
    report = pipeline.collect(Request((str(folder / "before.s"), str(folder / "after.s"))))
    assert len(report.kernels) == 2
    # Their ids name the folder, which is another one every time.
    return report


async def settled(pilot: Any) -> str:
    """The screen once threads have handed over what they found."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    await pilot.pause()
    return text_of(pilot.app)


async def pressed(pilot: Any, *keys: str) -> str:
    await pilot.press(*keys)
    return await settled(pilot)


def code(pilot: Any) -> SideBySide:
    found = pilot.app.screen.query_one(SideBySide)
    assert isinstance(found, SideBySide)
    return found


def cursors(pilot: Any) -> tuple[int, int]:
    left, right = code(pilot).views
    return left.cursor, right.cursor


async def test_the_page_at_three_sizes(opened: Any, pair: Report) -> None:
    async with opened(SIZES[-1], "compare", of=pair) as pilot:
        for keys, name in (((), "compare_choose"), (("enter", "j", "enter"), "compare")):
            await pressed(pilot, *keys)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                await settled(pilot)
                snapshot(pilot.app, f"{name}_{width}x{height}")


async def test_two_are_chosen_and_compared(opened: Any, pair: Report) -> None:
    async with opened((120, 40), "compare", of=pair) as pilot:
        shown = await settled(pilot)
        assert "enter chooses the left (A): what there was" in shown
        assert "choose two kernels" in shown
        shown = await pressed(pilot, "enter")
        assert "enter chooses the right (B): what there is now" in shown
        assert "A   small" in shown
        shown = await pressed(pilot, "j", "enter")
        assert "before.s → after.s" in shown
        assert " mixed " in shown
        assert "1 → 0 loads from scratch" in shown
        assert "128 → 64 bits per load from memory (-50.0 %)" in shown
        changed = str(pilot.app.screen.query_one("#changed", Static).content)
        assert changed.count("per ISA iteration") == 1, "what the figures are per is said once"
        lines = shown.splitlines()
        assert next(n for n, line in enumerate(lines) if " Worse " in line) < next(
            n for n, line in enumerate(lines) if " Better " in line
        )
        # The scorecards stand side by side; a mark says which side is better.
        assert any(line.split()[-3:] == ["13", "12", "✓"] for line in lines)
        # So does the code.
        changed = next(line for line in lines if "16 - global_load_dwordx4" in line)
        assert "16 + global_load_dwordx2" in changed
        gone = next(line for line in lines if "22 - scratch_store_dword" in line)
        assert gone.rstrip().endswith("│") or "+" not in gone.partition("│")[2]
        same = next(line for line in lines if "24   v_mfma_f32_32x32x8_f16" in line)
        assert "24   v_mfma_f32_32x32x8_f16" in same.partition("│")[2]


async def test_brackets_go_from_difference_to_difference_and_x_swaps(
    opened: Any, pair: Report
) -> None:
    async with opened((120, 40), "findings", of=pair) as pilot:
        pilot.app.compare(*pair.kernels)
        shown = await settled(pilot)
        assert isinstance(pilot.app.screen, ComparePage)
        assert "before.s → after.s" in shown
        places = comparison.comparison_of(*pair.kernels).code.differences
        assert len(places) == 3  # the load, the spill, its reload
        assert cursors(pilot) == (places[0], places[0])
        await pressed(pilot, "right_square_bracket")
        assert cursors(pilot) == (places[1], places[1])
        await pressed(pilot, "right_square_bracket", "right_square_bracket")
        assert cursors(pilot) == (places[2], places[2])
        (told,) = pilot.app._notifications
        assert told.message == "no further difference this way"
        await pressed(pilot, "left_square_bracket")
        assert cursors(pilot) == (places[1], places[1])
        shown = await pressed(pilot, "x")
        assert "after.s → before.s" in shown
        assert "0 → 1 loads from scratch" in shown
        assert "- global_load_dwordx2" in shown
        assert "+ global_load_dwordx4" in shown


async def test_moving_and_scrolling_one_side_moves_the_other(opened: Any) -> None:
    async with opened((80, 24), "compare") as pilot:
        await pressed(pilot, "enter", "j", "enter", "Z")  # attend on two targets: long
        left, right = code(pilot).views
        assert left.has_focus
        await pressed(pilot, "j", "j", "down")
        assert left.cursor == right.cursor
        await pressed(pilot, "ctrl+d", "ctrl+d", "ctrl+d")
        assert left.cursor == right.cursor > 10
        assert left.scroll_offset == right.scroll_offset
        assert left.scroll_offset.y > 0
        left.scroll_to(y=0, animate=False)
        await settled(pilot)
        assert right.scroll_offset.y == 0
        await pressed(pilot, "tab")
        assert right.has_focus
        await pressed(pilot, "G", "l")
        assert left.cursor == right.cursor == len(left.shown.lines) - 1
        assert left.scroll_offset == right.scroll_offset
        assert left.scroll_offset.x == 8


async def test_stretches_without_a_difference_fold_on_both_sides(opened: Any) -> None:
    async with opened((120, 40), "compare") as pilot:
        shown = await pressed(pilot, "enter", "j", "enter")
        # Two targets: figures are shown and not judged.
        assert "gfx90a → gfx950" in shown
        assert "two targets: what depends on their limits" in shown
        assert "compared by figures alone" not in shown  # the code was at hand
        await pressed(pilot, "greater_than_sign")
        changes = pilot.app.screen.query_one("#cards")
        assert changes.scroll_offset.y == 3
        await pressed(pilot, "less_than_sign")
        assert changes.scroll_offset.y == 0
        folded = next(line for line in shown.splitlines() if "⋯" in line)
        assert folded.count("⋯") == 2
        shown = await pressed(pilot, "Z")
        assert "⋯" not in shown
        assert "⋯" in await pressed(pilot, "Z")
        left, right = code(pilot).views
        start = next(iter(left.shown.folds or {}))
        left.move_to(start)
        before = text_of(pilot.app).count("⋯")
        after = await pressed(pilot, "space")
        assert after.count("⋯") <= before - 2
        assert left.cursor == right.cursor == start


async def test_v_shows_code_or_figures_alone_and_o_opens_a_kernel(
    opened: Any, pair: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened((80, 24), "compare", of=pair) as pilot:
        await pressed(pilot, "j", "B")  # A and B choose a side each
        both = await pressed(pilot, "k", "A")
        assert "before.s → after.s" in both
        assert "Worse" in both
        assert "global_load_dwordx4" in both
        alone = await pressed(pilot, "v")
        assert "Worse" not in alone
        assert "s_cbranch_scc1" in alone
        assert "s_cbranch_scc1" not in both
        figures = await pressed(pilot, "v")
        assert "Worse" in figures
        assert "global_load_dwordx4" not in figures
        again = await pressed(pilot, "v")
        assert "Worse" in again
        assert "global_load_dwordx4" in again
        asked: list[tuple[str, int | None]] = []
        monkeypatch.setattr(
            pilot.app, "open_kernel", lambda key, line=None: asked.append((key, line))
        )
        await pressed(pilot, "o", "tab", "o")
        assert asked == [(pair.kernels[0].id, 16), (pair.kernels[1].id, 16)]


async def test_c_chooses_another_and_comes_back(opened: Any, pair: Report) -> None:
    async with opened((120, 40), "compare", of=pair) as pilot:
        await pressed(pilot, "enter", "j", "enter")
        shown = await pressed(pilot, "c")
        assert "choose two kernels" in shown
        assert "Swap" not in shown
        await pressed(pilot, "x")  # not of the chooser: nothing happens
        assert pilot.app.screen.query_one(ContentSwitcher).current == "choose"
        assert "before.s → after.s" in await pressed(pilot, "c")
        # B alone replaces the right side: the kernel is compared with itself.
        shown = await pressed(pilot, "c", "g", "B")
        assert " same " in shown
        assert "no figure differs" in shown
        assert "the code is the same but for registers and order" in shown
        await pressed(pilot, "right_square_bracket")
        assert [n.message for n in pilot.app._notifications] == ["the code does not differ"]


async def test_the_filter_narrows_the_choice(opened: Any) -> None:
    async with opened((120, 40), "compare") as pilot:
        shown = await pressed(pilot, "slash", *"attend gfx9", "5")
        assert "1 of 5 kernels" in shown
        rows = pilot.app.screen.query_one("#choices", Table)
        assert rows.count == 1
        assert "gfx950" in rows_of(rows)[0]
        await pressed(pilot, "enter")
        assert rows.has_focus
        assert "A   attend" in await pressed(pilot, "enter")
        shown = await pressed(pilot, "slash", "escape", "g", "enter")
        assert "gfx950 → gfx90a" in shown


async def test_what_goes_wrong_is_a_line_on_the_page(
    opened: Any, pair: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(left: KernelReport, right: KernelReport) -> None:
        raise ValueError("on purpose")

    # Code that has gone leaves the figures.
    monkeypatch.setattr(comparison, "assembly_of", lambda report: None)
    async with opened((120, 40), "compare", of=pair) as pilot:
        shown = await pressed(pilot, "enter", "j", "enter")
        assert shown.count("the code is not at hand") == 3
        assert "the code is not at hand: compared by figures alone" in shown
        assert "1 → 0 loads from scratch" in shown
        monkeypatch.setattr(comparison, "comparison_of", fails)
        shown = await pressed(pilot, "x")
        assert "they cannot be compared: internal error: ValueError: on purpose" in shown
        await pressed(pilot, "right_square_bracket", "v", "o", "c")
        assert isinstance(pilot.app.screen, ComparePage)


async def test_one_kernel_alone_cannot_be_compared(opened: Any, pair: Report) -> None:
    alone = replace(pair, kernels=pair.kernels[:1])
    async with opened((80, 24), "compare", of=alone) as pilot:
        assert "one kernel alone is open" in await settled(pilot)
    async with opened((80, 24), "compare", of=replace(pair, kernels=())) as pilot:
        assert "no kernel is open yet" in await settled(pilot)
        await pressed(pilot, "enter", "A", "B", "slash", "escape")
        assert pilot.app.screen.query_one(Chooser).display


def test_big_kernels_are_compared_in_another_process(
    pair: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen does not wait for it, and what comes of it is the same."""
    known = comparison.comparison_of(*pair.kernels)

    def here(*args: object) -> None:
        raise AssertionError("in the process of the UI")

    monkeypatch.setattr(comparison, "comparison_of", here)
    monkeypatch.setattr(comparison, "CHILD_BYTES", 1)
    found = comparison.compared_in_child(*pair.kernels, lambda: False)
    assert found == known
    assert comparison.compared_in_child(*pair.kernels, lambda: True) == "cancelled"
    monkeypatch.setattr(comparison, "CHILD_BYTES", 1 << 30)
    assert "AssertionError" in str(comparison.compared_in_child(*pair.kernels, lambda: False))


async def test_a_search_goes_through_both_kernels_code(opened: Any, pair: Report) -> None:
    async with opened((120, 40), "compare", of=pair) as pilot:
        await pressed(pilot, "enter", "j", "enter")
        page = pilot.app.screen
        views = page.query_one(SideBySide).views
        wanted = sorted(
            {
                n
                for view in views
                for n, line in enumerate(view.shown.lines)
                if "global_load" in line
            }
        )
        assert wanted
        await pressed(pilot, "slash", *"global_l")
        assert views[0].cursor in wanted
        await pressed(pilot, "enter")
        assert any(view.has_focus for view in views)
        seen = {views[0].cursor}
        for _ in wanted[1:]:
            await pressed(pilot, "n")
            seen.add(views[0].cursor)
            assert views[0].cursor == views[1].cursor
        assert seen == set(wanted)
        await pressed(pilot, "N", "escape")  # drops the search
        assert pilot.app.screen is page
        await pressed(pilot, "n")  # a difference again
        assert not any("nowhere" in note.message for note in pilot.app._notifications)


async def test_a_comparison_survives_escape_and_leaving_the_page(opened: Any, pair: Report) -> None:
    async with opened((120, 40), "kernels", of=pair) as pilot:
        await pressed(pilot, "3", "enter", "j", "enter")
        shown = await pressed(pilot, "escape", "c", "escape")
        assert "before.s → after.s" in shown, "escape closes the chooser, and no more"
        await pressed(pilot, "q")
        assert "before.s → after.s" in await pressed(pilot, "3")
