"""The page of earlier runs: kernels, the plot over time, the runs, and an empty history."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.bench.history.analyses import Analysis, analysed
from kinspect.inspector.bench.history.store import FILE, History
from kinspect.inspector.explain.plot import MARKS, Chart, Series, Tick
from kinspect.inspector.model import Report
from kinspect.tui.application import Opening
from kinspect.tui.screens.history.history_page import HistoryPage, RunScreen
from kinspect.tui.screens.history.history_queries import (
    history_at,
    kernel_history,
    number,
    overview,
)
from kinspect.tui.screens.history.run_plot import RunPlot, drawn, legend, picture, scale_of
from kinspect.tui.screens.list_chooser import ListChooser
from kinspect.tui.widgets.code import RowList
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from test_history import BENCH
from textual.geometry import Size
from tui_screens import SIZES, rows_of, snapshot, text_of

VGPRS = (96, 96, 128, 112)
LABELS = ("1a2b3c4", "5d6e7f8", "tuned", "9a8b7c6")


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A history of its own for each test."""
    shutil.copytree(kept, tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Path:
    """Four runs of `analyze` and one of `bench`; the third run lacks a target."""
    folder = tmp_path_factory.mktemp("history")
    history = History(folder)
    for n, (vgprs, label) in enumerate(zip(VGPRS, LABELS, strict=True)):
        kernels, units = [], {}
        for report_of in report.kernels[: 5 if n != 2 else 1]:
            kernel, of = analysed(report_of, {"error": 0, "warning": n, "info": 2})
            units |= of
            if kernel.arch == "gfx90a":
                kernel = replace(kernel, figures={**kernel.figures, "vgpr_count": vgprs})
            kernels.append(kernel)
        date = f"2026-01-{n + 1:02d}T10:30:00+00:00"
        versions = {"kinspect": "1", "triton": "3.5.0"}
        history.add_analysis(
            Analysis(date, label, "analyze", "kernels", versions, units, tuple(kernels))
        )
    history.add(BENCH)
    return folder


def of(folder: Path) -> Opening:
    return Opening(None, "history", history=folder / FILE, remember=False)


async def settled(pilot: Any) -> str:
    """The screen once threads have handed over what they read."""
    for _ in range(3):  # the file, then a kernel, then what the key asked for
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
    return text_of(pilot.app)


async def pressed(pilot: Any, *keys: str) -> str:
    await pilot.press(*keys)
    return await settled(pilot)


def names(pilot: Any) -> list[str]:
    return list(pilot.app.screen.query_one("#kernels", RowList).shown.lines)


def runs(pilot: Any) -> list[str]:
    return rows_of(pilot.app.screen.query_one("#runs", Table))


async def test_the_page_at_three_sizes(opened: Any, folder: Path) -> None:
    async with opened(SIZES[-1], opening=of(folder)) as pilot:
        await settled(pilot)
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await settled(pilot)
            snapshot(pilot.app, f"history_{width}x{height}")


async def test_the_plot_shows_the_first_kernel(opened: Any, folder: Path) -> None:
    async with opened((120, 40), opening=of(folder)) as pilot:
        shown = await settled(pilot)
        assert "5 kernels  ·  5 runs from 2026-01-01 10:30" in shown
        assert names(pilot) == ["attend", "calls", "gemm", "small", "tensile"]
        assert "vgpr_count (registers) over 4 runs" in shown
        assert "● gfx90a  96 → 112 registers (+16.7 %)" in shown
        assert "○ gfx950  128 registers" in shown
        lines = shown.splitlines()
        axis = next(n for n, line in enumerate(lines) if "└─" in line)
        assert lines[axis + 1].split()[-4:] == list(LABELS)
        assert shown.count(MARKS[0]) >= 4 + 2  # points, legend, heading of the table
        # The runs are listed with what the plot shows.
        rows = [line.split() for line in runs(pilot)]
        assert [row[0] for row in rows] == ["4", "3", "2", "1"]
        assert rows[0][1:7] == ["2026-01-04", "10:30", "9a8b7c6", "analyze", "112", "128"]
        assert rows[1][3:7] == ["tuned", "analyze", "128", "-"]  # not seen in that run
        shown = await pressed(pilot, "enter", "j")
        assert pilot.app.screen.query_one("#runs", Table).has_focus
        assert "run 3: 128" in shown
        assert "run 3: -" in shown


async def test_another_kernel_is_another_plot_and_another_target(opened: Any, folder: Path) -> None:
    async with opened((120, 40), opening=of(folder)) as pilot:
        await settled(pilot)
        shown = await pressed(pilot, "j")
        assert "History  calls" in shown
        assert len(runs(pilot)) == 3
        shown = await pressed(pilot, "down")  # gemm was only timed
        assert "mean_us (µs) over 1 run" in shown
        assert "NVIDIA H200" in shown
        await pressed(pilot, "k", "k")
        assert "vgpr_count" in await pressed(pilot, "G", "g")
        # t narrows to a target.
        shown = await pressed(pilot, "a")
        assert "over 4 runs on gfx90a" in shown
        assert "○" not in shown
        shown = await pressed(pilot, "a")
        assert "over 3 runs on gfx950" in shown
        # A kernel that was never seen there says so.
        assert "nothing fits" in await pressed(pilot, "j")
        await pressed(pilot, "k")
        assert "vgpr_count (registers) over 4 runs\n" in await pressed(pilot, "a")


async def test_brackets_and_the_menu_choose_the_metric(opened: Any, folder: Path) -> None:
    async with opened((120, 40), opening=of(folder)) as pilot:
        await settled(pilot)
        assert "vgpr_allocated (registers)" in await pressed(pilot, "right_square_bracket")
        assert "vgpr_count (registers)" in await pressed(pilot, "left_square_bracket")
        shown = await pressed(pilot, "C", *"warning")
        assert isinstance(pilot.app.screen, ListChooser)
        assert "findings of severity warning" in shown
        shown = await pressed(pilot, "enter")
        assert "findings.warning (findings) over 4 runs" in shown
        assert "● gfx90a  0 → 3 findings" in shown
        # It stays for the next kernel, and where that one lacks it another is shown.
        assert "findings.warning" in await pressed(pilot, "j")
        assert "mean_us" in await pressed(pilot, "j")
        assert "findings.warning" in await pressed(pilot, "j")


async def test_the_metric_screen_moves_and_can_be_left(opened: Any, folder: Path) -> None:
    async with opened((80, 24), opening=of(folder)) as pilot:
        await settled(pilot)
        shown = await pressed(pilot, "C", "down", "down", "up")
        assert "metric over the runs" in shown
        assert "vgpr_allocated" in await pressed(pilot, "enter")
        await pressed(pilot, "C", "ö")
        assert pilot.app.screen.query_one(RowList).shown.lines == ["nothing has these words"]
        assert "vgpr_allocated" in await pressed(pilot, "enter")  # nothing to take
        await pressed(pilot, "C", "escape")
        assert isinstance(pilot.app.screen, HistoryPage)


async def test_enter_on_a_run_shows_all_of_it_and_nothing_is_written(
    opened: Any, folder: Path
) -> None:
    def dump() -> list[str]:
        with sqlite3.connect(folder / FILE) as connection:
            return list(connection.iterdump())

    before = dump()
    async with opened((200, 60), opening=of(folder)) as pilot:
        await settled(pilot)
        shown = await pressed(pilot, "enter", "j", "enter")
        assert isinstance(pilot.app.screen, RunScreen)
        assert "run 3  2026-01-03 10:30  analyze  tuned" in shown
        assert re.search(r"attend +gfx90a +128", shown)
        await pressed(pilot, "escape")
        assert isinstance(pilot.app.screen, HistoryPage)
        kernels = pilot.app.screen.query_one("#kernels", RowList)
        kernels.focus()
        shown = await pressed(pilot, "g", "j", "j", "enter", "enter")
        assert "best µs" in shown
        assert "bench" in shown
        await pressed(pilot, "enter")
        assert isinstance(pilot.app.screen, HistoryPage)
    assert dump() == before


async def test_the_filter_narrows_the_kernels(opened: Any, folder: Path) -> None:
    async with opened((120, 40), opening=of(folder)) as pilot:
        await settled(pilot)
        shown = await pressed(pilot, "slash", *"TEN")
        assert names(pilot) == ["attend", "tensile"]
        assert "2 of 5 kernels" in shown
        await pressed(pilot, "s")
        assert names(pilot) == ["tensile"]
        assert "History  tensile" in await pressed(pilot, "enter")
        await pressed(pilot, "slash", "x", "x")
        assert runs(pilot) == []
        await pressed(pilot, "escape")
        assert len(names(pilot)) == 5
        assert pilot.app.screen.query_one("#kernels", RowList).has_focus


async def test_an_empty_history_says_how_to_fill_it(opened: Any, tmp_path: Path) -> None:
    async with opened((80, 24), "history") as pilot:  # the user's own, which is not there
        shown = await settled(pilot)
        assert "Nothing was kept yet." in shown
        assert "kinspect analyze --history TARGET" in shown
        assert "kinspect bench KERNEL" in shown
        await pressed(pilot, "slash", "C", "a", "right_square_bracket", "enter", "j")
        assert isinstance(pilot.app.screen, HistoryPage)
        assert not (tmp_path / "data" / FILE).exists()  # looking makes no file
        snapshot_of = text_of(pilot.app).partition("File:")[0]
        assert "Metric" not in snapshot_of


async def test_it_is_read_again_and_a_damaged_file_is_said(opened: Any, folder: Path) -> None:
    async with opened((120, 40), opening=of(folder)) as pilot:
        await settled(pilot)
        assert len(runs(pilot)) == 4
        kernel = history_at(folder).sightings("attend")[0].kernel
        added = Analysis("2026-02-01T00:00:00+00:00", None, "lint", "x", {}, {}, (kernel,))
        history_at(folder).add_analysis(added)
        await pressed(pilot, "R")
        assert runs(pilot)[0].split()[:4] == ["6", "2026-02-01", "00:00", "lint"]
        for file in folder.iterdir():
            file.write_bytes(b"this is not a data base" * 100)
        shown = await pressed(pilot, "R")
        assert "The history cannot be read." in shown
        assert "the history is damaged" in " ".join(shown.split())
        assert "Metric" not in shown  # there is nothing to choose from
        await pressed(pilot, "C", "escape", "a", "R", "slash")
        assert isinstance(pilot.app.screen, HistoryPage)


# --------------------------------------------------------------------------- data and plot


def test_what_there_is(folder: Path) -> None:
    found = overview(history_at(folder))
    assert found.runs == 5
    assert found.first == "2026-01-01T10:30:00+00:00"
    seen = kernel_history(history_at(folder), "attend", None, None)
    assert seen.targets == ("gfx90a", "gfx950")
    assert [figure.name for figure in seen.metrics][:2] == ["vgpr_count", "vgpr_allocated"]
    assert seen.metrics[0].unit == "registers"
    assert seen.metrics[0].about
    assert {f.name for f in seen.metrics} >= {"findings.error", "hot_loops.count.mfma"}


def chart(*values: tuple[float | None, ...]) -> Chart:
    ticks = tuple(Tick(n + 1, "2026", f"c{n}") for n in range(len(values[0])))
    series = tuple(Series(f"s{n}", found) for n, found in enumerate(values))
    return Chart("k", "vgpr_count", "registers", ticks, series)


def test_points_stand_where_their_values_are() -> None:
    lines = picture(chart((0.0, 10.0)), Size(30, 12)).plain.splitlines()
    assert len(lines) == 12
    assert lines[0].startswith("10 ┤")
    assert lines[0].rstrip().endswith(MARKS[0])  # the last run at the top right
    assert lines[9].startswith(f" 0 ┤{MARKS[0]}")  # the first at the bottom left
    assert lines[10].startswith("   └─")
    assert lines[11].split() == ["c0", "c1"]


def test_a_run_that_lacks_the_figure_is_a_gap() -> None:
    whole = picture(chart((4.0, 4.0, 4.0)), Size(40, 12)).plain
    broken = picture(chart((4.0, None, 4.0)), Size(40, 12)).plain
    dots = [sum("\u2800" < char <= "\u28ff" for char in text) for text in (whole, broken)]
    assert dots[0] > 20
    assert dots[1] == 0
    assert broken.count(MARKS[0]) == 2


def test_the_run_under_the_cursor_is_marked_and_its_value_told() -> None:
    found = chart((1.0, 2.0, 3.0), (None, 1.0, 1.0))
    assert "┊" not in picture(found, Size(40, 12)).plain
    lines = picture(found, Size(40, 12), run=2).plain.splitlines()
    assert sum("┊" in line for line in lines) >= 7
    told = legend(found, 1).plain.splitlines()
    assert told[0].endswith("1 → 3 registers (+200.0 %)   run 1: 1")
    assert told[1].endswith("run 1: -")


def test_the_series_that_changed_most_are_drawn() -> None:
    values = [(100.0, 100.0 + n) for n in range(len(MARKS) + 2)]
    found = chart(*values)
    assert [one.name for one in drawn(found)] == [f"s{n}" for n in range(2, len(MARKS) + 2)]
    assert legend(found).plain.endswith("and 2 more that changed less: t narrows the target")


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ((96, 128), 90, 130),
        ((0, 3), 0, 3),
        ((7, 7), 6, 8),
        ((0, 0), 0, 1),
        ((1.5, 1.75), 1.5, 1.8),
    ],
)
def test_axes_have_round_ends(values: tuple[float, ...], low: float, high: float) -> None:
    found = scale_of(values)
    assert (found.low, found.high) == (low, high)
    assert found.low <= min(values)
    assert found.high >= max(values)


@pytest.mark.parametrize("size", [Size(0, 0), Size(5, 2), Size(13, 4), Size(16, 6)], ids=str)
def test_any_size_can_be_drawn(size: Size) -> None:
    assert "96 → 128" in picture(chart((96.0, 128.0)), size).plain or size.width > 13


def test_figures_are_short() -> None:
    assert [number(value) for value in (None, 3.0, 12345.0, 0.123456)] == [
        "-",
        "3",
        "12,345",
        "0.1235",
    ]


def test_a_widget_without_a_chart_says_why() -> None:
    plot = RunPlot()
    plot.show(None, "no such kernel")
    assert "no such kernel" in str(plot.render())
