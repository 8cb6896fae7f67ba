"""The profile page: measured beside static, and words where nothing was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kinspect.inspector.model import Metric, Report
from kinspect.tui.pages import page_class
from kinspect.tui.screens.profile.page import Roofline
from kinspect.tui.screens.profile.rows import (
    POINT,
    ROOF,
    Point,
    Roof,
    columns,
    detail,
    has_measured,
    points,
    roof,
    row,
    show,
)
from kinspect.tui.session import Entry
from textual.widgets import DataTable
from tui_screens import SIZES, snapshot, text_of


def measured(name: str, value: Any, unit: str = "", note: str = "") -> Metric:
    return Metric(name, value, unit, "measured", note)


def with_metrics(report: Report, *metrics: Metric, loop: Metric | None = None) -> Report:
    """The first kernel with measured metrics; the others have none."""
    first = report.kernels[0]
    loops = first.loops
    if loop is not None:
        head = loops[0]
        loops = (replace(head, metrics={**head.metrics, loop.name: loop}), *loops[1:])
    found = {**first.metrics, **{metric.name: metric for metric in metrics}}
    return replace(
        report, kernels=(replace(first, metrics=found, loops=loops), *report.kernels[1:])
    )


DURATION = measured("duration", 12.5, "us", "median of 20 dispatches")
STALLS = measured("stall.lds", 1234567, "cycles")
ROOFLINE = (
    measured(POINT[0], 20.0, "ops/B"),
    measured(POINT[1], 2e14, "ops/s"),
    measured(ROOF[0], 1.3e15, "ops/s"),
    measured(ROOF[1], 5.3e12, "B/s"),
)


def entries(report: Report) -> list[Entry]:
    return [Entry((i, 0), kernel) for i, kernel in enumerate(report.kernels)]


# --------------------------------------------------------------------------- rows


def test_only_what_was_measured_counts(report: Report) -> None:
    assert not any(has_measured(kernel) for kernel in report.kernels)
    some = with_metrics(report, DURATION, replace(STALLS, origin="estimated"))
    assert [has_measured(kernel) for kernel in some.kernels] == [True] + [False] * 4
    assert columns(entries(some)) == {"duration": "us"}
    in_loop = with_metrics(report, loop=STALLS)
    assert has_measured(in_loop.kernels[0])
    assert columns(entries(in_loop)) == {}


def test_a_row_has_measured_then_static_figures(report: Report) -> None:
    first, second = entries(with_metrics(report, DURATION))[:2]
    cells = row(first, ["duration", "other"])
    assert cells[:4] == ["attend", "gfx90a", "12.5", "-"]
    assert str(first.report.metrics["vgpr_count"].value) in cells[4:]
    assert row(second, ["duration"])[2] == "-"


def test_what_is_not_known_is_a_dash() -> None:
    assert show(None) == "-"
    assert show(0) == "0"
    assert show(0.5) == "0.5"
    assert show(1234567) == "1,234,567"
    assert show(1234567.8) == "1,234,568"
    assert show(True) == "True"
    assert show({"a": 1, "b": 2}) == "a 1, b 2"


def test_the_detail_has_loops_with_their_mix(report: Report) -> None:
    entry = entries(with_metrics(report, DURATION, loop=STALLS))[0]
    lines = detail(entry)
    text = "\n".join(line for _, line in lines)
    assert "median of 20 dispatches" in text
    assert "1,234,567 cycles" in text
    assert f"Loop {entry.report.loops[0].id}" in text
    assert ("static", "instructions") in [(style, line.split()[0]) for style, line in lines if line]


def test_a_roofline_needs_measured_figures(report: Report) -> None:
    full = entries(with_metrics(report, *ROOFLINE))
    assert points(full) == [Point("attend", 20.0, 2e14)]
    assert roof(full) == Roof(1.3e15, 5.3e12)
    estimated = entries(with_metrics(report, *(replace(m, origin="estimated") for m in ROOFLINE)))
    assert points(estimated) == []
    assert roof(estimated) is None
    assert points(entries(with_metrics(report, ROOFLINE[0], measured(POINT[1], 0)))) == []


# --------------------------------------------------------------------------- the page


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_without_measured_data_it_says_how_to_get_some(
    opened: Any, size: tuple[int, int]
) -> None:
    async with opened(size=size, page="profile") as pilot:
        text = text_of(pilot.app)
        assert "Nothing was measured" in text
        assert "kinspect bench" in text
        assert not pilot.app.screen.query_one(DataTable).display
        assert not pilot.app.screen.query_one(Roofline).display
        snapshot(pilot.app, f"profile_nothing_{size[0]}x{size[1]}")
        await pilot.press("enter")  # there is nothing to open
        assert isinstance(pilot.app.screen, page_class("profile"))
        words = pilot.app.screen.query_one("#nothing")
        await pilot.press("G")
        await pilot.pause()
        assert words.scroll_offset.y == words.max_scroll_y
        await pilot.press("g")
        await pilot.pause()
        assert words.scroll_offset.y == 0


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_measured_beside_static(opened: Any, report: Report, size: tuple[int, int]) -> None:
    one = with_metrics(report, DURATION, loop=STALLS)
    second = with_metrics(replace(report, kernels=report.kernels[1:]), measured("duration", 7.25))
    both = replace(report, kernels=(one.kernels[0], *second.kernels))
    async with opened(size=size, page="profile", of=both) as pilot:
        text = text_of(pilot.app)
        assert "2 of 5 kernels measured" in text
        assert "12.5" in text
        assert "7.25" in text
        assert "median of 20 dispatches" in text
        snapshot(pilot.app, f"profile_{size[0]}x{size[1]}")
        table = pilot.app.screen.query_one(DataTable)
        for keys, at in ((("j",), 1), (("k",), 0), (("G",), 1), (("g",), 0), (("down",), 1)):
            await pilot.press(*keys)
            await pilot.pause()
            assert table.cursor_row == at, keys
        assert "median of 20" not in text_of(pilot.app)
        await pilot.press("ctrl+u", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, page_class("kernel"))


async def test_the_roofline_is_drawn(opened: Any, report: Report) -> None:
    async with opened(size=(120, 40), page="profile", of=with_metrics(report, *ROOFLINE)) as pilot:
        text = text_of(pilot.app)
        assert "operations per second over operations per byte" in text
        assert "1 attend" in text
        assert "100 T" in text
        assert "1 P" in text
        snapshot(pilot.app, "profile_roofline_120x40")
        for size in ((20, 5), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "operations per" in text_of(pilot.app)


async def test_what_comes_in_keeps_the_cursor(opened: Any, report: Report) -> None:
    from kinspect.inspector.runs.events import Reported

    first = with_metrics(report, DURATION)
    last = with_metrics(replace(report, kernels=report.kernels[-1:]), DURATION)
    both = replace(report, kernels=(first.kernels[0], last.kernels[0]))
    async with opened(size=(80, 24), page="profile", of=both) as pilot:
        table = pilot.app.screen.query_one(DataTable)
        await pilot.press("j")
        middle = with_metrics(replace(report, kernels=report.kernels[2:3]), STALLS).kernels[0]
        pilot.app.session.take(Reported((0, 1), middle))
        pilot.app.screen.refresh_from_session()
        await pilot.pause()
        assert table.row_count == 3
        assert table.cursor_row == 2
