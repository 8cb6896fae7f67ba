"""The kernels' page: what it shows at three sizes, and what each key does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from kinspect.inspector.compare.sweep.figures import figures_of
from kinspect.inspector.compare.sweep.swept_points import front
from kinspect.inspector.model import KernelReport, Report
from kinspect.inspector.pipeline.events import Captured, Compiled, Failed, Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp
from kinspect.tui.preferences import State
from kinspect.tui.screens.columns_menu import ColumnsMenu
from kinspect.tui.screens.dialogue import FailureScreen
from kinspect.tui.screens.kernels.kernel_columns import COLUMNS, DEFAULT
from kinspect.tui.screens.kernels.kernels_page import KernelsPage
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input
from tui_kernels import BROKEN, many, tuned, waves
from tui_screens import snapshots, text_of, until

Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]

SHOWN = tuple(name for name in DEFAULT if name != "time")
"""The columns that the kernels here have figures for: none has a time."""


@pytest.fixture(scope="module")
def filled(report: Report) -> Report:
    return many(report)


def page_of(pilot: Pilot[Any]) -> KernelsPage:
    page = pilot.app.screen
    assert isinstance(page, KernelsPage)
    return page


def labels(pilot: Pilot[Any]) -> list[str]:
    """The first column of each row, from the top."""
    return [node.label for node in page_of(pilot).listing.rows]


async def settled(pilot: Pilot[Any]) -> None:
    """Until workers have ended and all is drawn."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def go_to(pilot: Pilot[Any], label: str) -> None:
    table = page_of(pilot).query_one(Table)
    table.move_to(labels(pilot).index(label))
    await pilot.pause()


# --------------------------------------------------------------------------- what it shows


async def test_screens(opened: Make, filled: Report) -> None:
    async with opened(of=filled) as pilot:
        await settled(pilot)
        await pilot.press("Z", "j", "j", "j")
        await settled(pilot)
        await snapshots(pilot, "kernels")


async def test_what_rows_and_details_say(opened: Make, filled: Report) -> None:
    """A folded kernel has its best and worst figures; a bar is of what the machine holds."""
    async with opened(size=(120, 40), of=filled) as pilot:
        assert labels(pilot) == ["matmul", "torn.s", "attend", "calls"]
        line = next(row for row in text_of(pilot.app).splitlines() if " matmul " in row)
        assert "▸ matmul (6)" in line
        assert "8–2" in line  # waves/SIMD: more is better
        assert "64–256" in line  # VGPRs: fewer are
        assert "0–12" in line  # spills
        assert "2 kinds" in line  # targets
        line = next(row for row in text_of(pilot.app).splitlines() if " attend " in row)
        cells = line.split()
        assert cells[-2:] == ["0", "gfx90a"]  # spills are known, and there are none
        assert cells[-3] == "-"  # LDS is not stated in that file
        assert "0 B" not in line
        await go_to(pilot, "attend")
        text = text_of(pilot.app)
        found = next(k for k in filled.kernels if k.name == "attend").findings
        assert found
        for finding in found:
            assert f"note  {finding.rule}" in text
        assert "at most 4 waves/SIMD by VGPRs" in text
        assert "triton_kernels.py:38" in text
        await pilot.press("Z")
        text = text_of(pilot.app)
        assert "▇▇▇▇▁▁▁▁   4/8" in text
        assert "▇▇▁▁▁▁▁▁   2/8" in text


async def test_targets_and_configurations_unfold(opened: Make, filled: Report) -> None:
    async with opened(of=filled) as pilot:
        await go_to(pilot, "matmul")
        await pilot.press("space")
        assert labels(pilot)[:3] == ["matmul", "gfx942", "gfx950"]
        await pilot.press("j", "enter")  # a fold is opened by enter as well
        assert labels(pilot)[1:6] == ["gfx942", "BM=256 8w", "BM=64 4w", "BM=128 4w", "BM=128 8w"]
        await pilot.press("j", "j", "space")  # within a fold: that fold
        assert labels(pilot)[:3] == ["matmul", "gfx942", "gfx950"]
        assert page_of(pilot).query_one(Table).cursor == 1


async def test_stars_are_the_front_of_the_sweep(opened: Make, filled: Report) -> None:
    configs = [k for k in filled.kernels if k.name == "matmul"]
    wanted = set()
    for arch in ("gfx942", "gfx950"):
        group = [k for k in configs if k.arch == arch]
        best = front([figures_of(k) for k in group])
        assert True in best
        assert False in best
        wanted |= {k.id for k, star in zip(group, best, strict=True) if star}
    async with opened(of=filled) as pilot:
        await settled(pilot)
        assert page_of(pilot).listing.stars == wanted
        await pilot.press("Z")
        rows = [row for row in text_of(pilot.app).splitlines() if "★ BM=" in row]
        assert len(rows) == len(wanted)
        await pilot.press("Z")
        assert f"▸ matmul (6) ★{len(wanted)}" in text_of(pilot.app)


async def test_a_failure_stands_inline_and_opens_in_full(opened: Make, filled: Report) -> None:
    async with opened(size=(120, 40), of=filled) as pilot:
        await pilot.press("Z")
        await go_to(pilot, "BM=256 8w")
        text = text_of(pilot.app)
        assert "✗ BM=256 8w" in text
        assert "compile: gemm.py:21: out of resource" in text
        assert "→ use smaller tiles" in text  # in the strip below
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, FailureScreen)
        text = text_of(pilot.app)
        assert BROKEN.kernel is not None
        assert BROKEN.kernel in text
        assert "printed line 0" in text
        assert "printed line 59" not in text
        for _ in range(6):
            await pilot.press("ctrl+d")
        assert "printed line 59" in text_of(pilot.app)
        await pilot.press("escape")
        assert page_of(pilot)


async def test_it_fills_while_the_run_goes_on(opened: Make, filled: Report) -> None:
    empty = replace(filled, kernels=(), errors=())
    async with opened(size=(120, 40), of=empty) as pilot:
        session = pilot.app.session
        session.begin(Request(("gemm.py",)))
        await until(pilot, lambda: "capturing … 0 so far" in text_of(pilot.app))
        configs = [k for k in filled.kernels if k.variant is not None]
        variants = tuple(k.variant for k in configs if k.variant is not None)
        session.take(Captured("gemm.py", variants))
        session.take(Compiled(variants[0], 1.0, False))
        await until(pilot, lambda: "0 of 5 done · compiled 1" in text_of(pilot.app))
        session.take(Reported((0, 0), configs[0]))
        session.take(Failed((0, 5), BROKEN))
        await until(pilot, lambda: "1 of 5 done · compiled 1 · 1 failed" in text_of(pilot.app))
        assert labels(pilot) == ["matmul", "BM=256 8w", "BM=64 4w"]
        await go_to(pilot, "BM=64 4w")
        for number, kernel in enumerate(configs[1:3], 1):
            session.take(Reported((0, number), kernel))
        await until(pilot, lambda: len(labels(pilot)) == 5)
        at = page_of(pilot).query_one(Table).cursor
        assert labels(pilot)[at] == "BM=64 4w"  # rows came above it and the cursor went along
        session.end()
        await until(pilot, lambda: "3 specialisations · 1 failed" in text_of(pilot.app))


# --------------------------------------------------------------------------- order


async def test_sorting(opened: Make, filled: Report) -> None:
    async with opened(of=filled) as pilot:
        app = pilot.app
        await pilot.press("Z", "s")
        assert app.state.sort == "occ"
        configs = [one for one in labels(pilot) if one.startswith("BM=")]
        # Few waves first; where waves are unknown, last.
        assert configs[:4] == ["BM=128 4w", "BM=128 8w", "BM=64 4w", "BM=256 8w"]
        assert configs[4:] == ["BM=128 4w", "BM=64 4w"]
        await pilot.press("S")
        configs = [one for one in labels(pilot) if one.startswith("BM=")]
        assert configs[:4] == ["BM=64 4w", "BM=128 8w", "BM=128 4w", "BM=256 8w"]
        assert configs[4:] == ["BM=64 4w", "BM=128 4w"]
        assert "by waves/SIMD" in text_of(app)


async def test_sorting_goes_round(opened: Make, filled: Report) -> None:
    async with opened(of=filled) as pilot:
        seen = []
        for _ in range(len(SHOWN) + 2):
            seen.append(page_of(pilot).listing.sort)
            await pilot.press("s")
        assert seen == [*SHOWN, "order", "name"]
        assert page_of(pilot).listing.sort == SHOWN[0]
        await pilot.press(*["s"] * (len(SHOWN) + 1))
        assert [one.lower() for one in labels(pilot)] == sorted(
            one.lower() for one in labels(pilot)
        )


async def test_the_mouse_sorts_moves_and_opens(opened: Make, filled: Report) -> None:
    async with opened(size=(120, 40), of=filled) as pilot:
        x = text_of(pilot.app).splitlines()[2].index("VGPRs")
        await pilot.click(Table, offset=(x, 0))
        assert pilot.app.state.sort == "vgpr"
        assert not pilot.app.state.reverse
        await pilot.click(Table, offset=(x, 0))
        assert pilot.app.state.reverse
        # Kept at once: the session may be killed.
        assert (State.load().sort, State.load().reverse) == ("vgpr", True)
        await pilot.press("home")
        await pilot.click(Table, offset=(6, 2))
        assert page_of(pilot).query_one(Table).cursor == 1
        row = labels(pilot).index("matmul")
        await pilot.click(Table, offset=(6, 1 + row), times=2)
        assert labels(pilot)[row : row + 2] == ["matmul", "gfx942"] or "gfx950" in labels(pilot)


# --------------------------------------------------------------------------- filter


async def test_the_filter_follows_every_key(opened: Make, filled: Report) -> None:
    async with opened(size=(120, 40), of=filled) as pilot:
        await pilot.press("slash")
        assert isinstance(pilot.app.focused, Input)
        await pilot.press(*"vgpr", "greater_than_sign", *"200")
        found = [node.leaf for node in page_of(pilot).listing.rows if node.leaf is not None]
        assert {leaf.values["vgpr"] for leaf in found} == {250, 256}
        assert "2 of 9" in text_of(pilot.app)
        assert "matmul (2 of 6)" in text_of(pilot.app)
        await pilot.press("enter")
        assert pilot.app.focused is page_of(pilot).query_one(Table)
        assert "2 of 9" in text_of(pilot.app)
        await pilot.press("escape")
        assert len(labels(pilot)) == 4
        assert page_of(pilot).listing.filter_text == ""
        await pilot.press("slash", *"2q?")  # keys that open pages elsewhere are letters here
        assert page_of(pilot).query_one(Input).value == "2q?"
        assert "no row meets the filter" in text_of(pilot.app)
        await pilot.press("escape", "slash", *"sev:x")
        assert "sev:x: there is error, warning, info" in text_of(pilot.app)
        assert len(labels(pilot)) == 4
        await pilot.press("escape", "slash", *"matmul", "down")
        assert pilot.app.focused is page_of(pilot).query_one(Table)
        assert page_of(pilot).listing.filter_text == "matmul"
        await pilot.press("slash", "escape")
        assert page_of(pilot).listing.filter_text == ""


# --------------------------------------------------------------------------- columns


async def test_columns_are_chosen_and_kept(opened: Make, filled: Report) -> None:
    async with opened(size=(120, 40), of=filled) as pilot:
        await pilot.press("C")
        assert isinstance(pilot.app.screen, ColumnsMenu)
        assert "[x] findings" in text_of(pilot.app)
        assert "waits of the main loop that let a counter fall to 0" in text_of(pilot.app)
        await pilot.press("space", "j", "K", "G", "space", "enter")  # the last one: source
        columns = [column.name for column in page_of(pilot).listing.columns]
        assert columns == [*SHOWN[1:], "source"]
        await pilot.press("Z", "l", "l")
        assert "gemm.py:12" in text_of(pilot.app)
        await pilot.resize_terminal(80, 24)
        await pilot.press("h", "h")
        assert "spills" not in text_of(pilot.app)
        await pilot.press("l", "l", "l")
        assert "spills" in text_of(pilot.app)
        assert "‹3" in text_of(pilot.app)
        assert State.load().columns == [*SHOWN[1:], "source"]
        await pilot.press("C", "R", "J", "escape")  # J moves the first one down
        assert [c.name for c in page_of(pilot).listing.columns][:2] == [SHOWN[1], SHOWN[0]]
        await pilot.press("C", "R", "escape")
        assert tuple(c.name for c in page_of(pilot).listing.columns) == SHOWN
        assert pilot.app.state.columns == []


async def test_a_wide_terminal_shows_more_columns(opened: Make, filled: Report) -> None:
    async with opened(size=(200, 60), of=filled) as pilot:
        columns = [column.name for column in page_of(pilot).listing.columns]
        assert columns[: len(SHOWN)] == list(SHOWN)
        assert {"matrix", "limiter"} <= set(columns)
        assert "limited by" in text_of(pilot.app)
        await pilot.press("C", "escape")  # nothing was chosen: it may go by the width again
        assert pilot.app.state.columns == []
        await pilot.resize_terminal(100, 40)
        listing = page_of(pilot).listing
        await until(pilot, lambda: tuple(column.name for column in listing.columns) == SHOWN)


def test_every_column_reads_every_kernel(filled: Report) -> None:
    from kinspect.tui.session import SessionKernel

    for kernel in filled.kernels:
        entry = SessionKernel((0, 0), kernel)
        for column in COLUMNS.values():
            value = column.read(entry)
            assert value is None or isinstance(value, int | float | str), column.name
            assert not isinstance(value, bool), column.name


# --------------------------------------------------------------------------- marks, opening


async def test_two_marked_kernels_are_compared(
    opened: Make, filled: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[KernelReport, KernelReport]] = []
    monkeypatch.setattr(
        KinspectApp, "compare", lambda app, left, right: compared.append((left, right))
    )
    async with opened(of=filled) as pilot:
        await pilot.press("c")
        assert compared == []
        await go_to(pilot, "attend")
        await pilot.press("m")
        assert "1 marked" in text_of(pilot.app)
        assert "●  attend" in text_of(pilot.app).replace("●   ", "●  ")
        await pilot.press("c")  # with the one under the cursor
        await pilot.press("m", "c")
        by_name = {k.name: k for k in filled.kernels}
        assert compared == [(by_name["attend"], by_name["calls"])] * 2
        await go_to(pilot, "matmul")
        await pilot.press("m")  # no kernel: nothing is marked
        assert len(page_of(pilot).listing.marked) == 2
        await go_to(pilot, "calls")
        await pilot.press("m")
        assert len(page_of(pilot).listing.marked) == 1
        await pilot.press("Z")
        await go_to(pilot, "BM=64 4w")
        await pilot.press("m", "Z")
        assert "○▸ matmul" in text_of(pilot.app)  # one of those under it


async def test_next_goes_from_one_fault_to_the_next(opened: Make, filled: Report) -> None:
    async with opened(of=filled) as pilot:
        await pilot.press("Z")
        table = page_of(pilot).query_one(Table)
        seen = []
        for _ in range(6):
            await pilot.press("n")
            seen.append(table.cursor)
        wrong = [
            at
            for at, node in enumerate(page_of(pilot).listing.rows)
            if node.leaf is not None
            and (
                node.leaf.entry is None
                or node.leaf.entry.count("error")
                or node.leaf.entry.count("warning")
            )
        ]
        assert len(wrong) > 2
        assert seen == (wrong * 2)[:6]
        await pilot.press("N")
        assert table.cursor == (wrong * 2)[4]
        last = table.count - 1
        for key, at in (("G", last), ("g", 0), ("j", 1), ("down", 2), ("k", 1), ("up", 0),
                        ("up", 0), ("end", last), ("down", last), ("home", 0)):  # fmt: skip
            await pilot.press(key)
            assert table.cursor == at, key
        await pilot.resize_terminal(80, 24)
        await pilot.press("ctrl+d")
        assert table.cursor > 3
        await pilot.press("ctrl+u")
        assert table.cursor == 0


async def test_a_kernel_is_opened_and_its_id_copied(
    opened: Make, filled: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    monkeypatch.setattr(KinspectApp, "open_kernel", lambda app, key: keys.append(key))
    async with opened(of=filled) as pilot:
        await go_to(pilot, "attend")
        await pilot.press("y", "enter", "r")
        wanted = next(k.id for k in filled.kernels if k.name == "attend")
        assert pilot.app.clipboard == wanted
        assert keys == [wanted]
        told = [one.message for one in pilot.app._notifications]
        assert told[-1].startswith("it was read and not compiled here")  # of recompiling


# --------------------------------------------------------------------------- after a save


async def test_marks_show_what_a_save_changed(opened: Make, filled: Report) -> None:
    configs = [k for k in filled.kernels if k.name == "matmul" and k.arch == "gfx942"]
    only = replace(filled, kernels=tuple(configs), errors=())
    async with opened(size=(120, 40), of=only) as pilot:
        session = pilot.app.session
        request = Request(("gemm.py",))
        session.request = request
        session.begin(request)
        await pilot.press("j")
        await until(pilot, lambda: page_of(pilot).listing.leaves[0].stale)
        better = tuned(configs[0], {"BM": 64, "num_warps": 4}, waves(8, 60))
        worse = tuned(configs[2], {"BM": 128, "num_warps": 8}, waves(3, 160))
        for number, kernel in enumerate((better, configs[1], worse)):
            session.take(Reported((0, number), kernel))
        session.end()
        await until(pilot, lambda: "60✓" in text_of(pilot.app))
        text = text_of(pilot.app)
        assert "160✗" in text
        assert "3/8✗" in text
        assert "250✗" not in text
        assert "250✓" not in text
        await go_to(pilot, "BM=128 8w")
        assert "changed: waves/SIMD 4 → 3 ✗, VGPRs 128 → 160 ✗, wg/CU 4 → 3 ✗" in text_of(pilot.app)
        await pilot.press("slash", *"is:changed", "enter")
        assert [one for one in labels(pilot) if "BM" in one] == ["BM=64 4w", "BM=128 8w"]


# --------------------------------------------------------------------------- the baseline


async def test_rows_are_shown_against_the_baseline(
    opened: Make, filled: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(size=(120, 40), of=filled) as pilot:
        app, page = pilot.app, page_of(pilot)
        await pilot.press("Z", "b")
        assert app.session.baseline is None, "a group is no kernel"
        await go_to(pilot, "BM=128 8w")
        await pilot.press("b")
        await until(pilot, lambda: "± matmul BM=128, num_warps=8" in text_of(app))
        await go_to(pilot, "BM=128 4w")
        text = text_of(app)
        assert "2/8    −2 ✗" in text
        assert "250  +122 ✗" in text
        assert "64   −64 ✓" in text
        assert "128     =" in text
        assert "VGPRs 128 → 250 ✗" in text
        compared: list[str] = []
        monkeypatch.setattr(app, "compare", lambda a, b: compared.extend((a.id, b.id)))
        await pilot.press("c")
        assert compared == [app.session.baseline.report.id, page.kernel_at_hand.report.id]
        await pilot.press("escape", "escape")
        assert app.session.baseline is not None, "it stays until b takes it back"
        await go_to(pilot, "BM=128 8w")
        await pilot.press("b")
        await until(pilot, lambda: "±" not in text_of(app))


# --------------------------------------------------------------------------- small and large


async def test_nothing_open_is_said(opened: Make, filled: Report) -> None:
    async with opened(of=replace(filled, kernels=(), errors=())) as pilot:
        assert "nothing is open: start with `kinspect tui TARGET`" in text_of(pilot.app)
        await pilot.press("j", "enter", "space", "Z", "m", "c", "r", "n", "y")
        assert page_of(pilot)
