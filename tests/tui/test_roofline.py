"""The roofline plot: where roof, points and names stand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.tui.widgets.roofline import DeviceRoof, Roofline, RooflinePoint, _Picture, amount
from textual.app import App, ComposeResult
from textual.pilot import Pilot

MI300X = DeviceRoof(1.0e15, 1.0e12)  # the ridge is at 1000 operations a byte
POINTS = (
    RooflinePoint("below", 10.0, 1.0e12, MI300X),
    RooflinePoint("under_the_slope", 100.0, 1.0e14, MI300X),
    RooflinePoint("under_the_flat_part", 10_000.0, 1.0e15, MI300X),
)


class Plot(App[None]):
    """A roofline alone."""

    CSS = "Roofline { background: $background; }"

    def __init__(self) -> None:
        super().__init__()
        self.picked: list[int] = []

    def compose(self) -> ComposeResult:
        yield Roofline()

    def on_roofline_picked(self, message: Roofline.Picked) -> None:
        self.picked.append(message.point)


@asynccontextmanager
async def drawn(
    points: Sequence[RooflinePoint], chosen: int | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Pilot[Any], list[str]]]:
    async with Plot().run_test(size=size) as pilot:
        plot = pilot.app.query_one(Roofline)
        plot.show(points, chosen)
        await pilot.pause()
        rows = [plot.render_line(y) for y in range(plot.size.height)]
        yield pilot, ["".join(segment.text for segment in row) for row in rows]


def dots(rows: Sequence[str]) -> list[tuple[int, int]]:
    """Column and row of every braille dot."""
    found = []
    order = ((0, 0, 1), (0, 1, 2), (0, 2, 4), (1, 0, 8), (1, 1, 16), (1, 2, 32), (0, 3, 64),
             (1, 3, 128))  # fmt: skip
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            if 0x2800 < ord(letter) < 0x2900:
                bits = ord(letter) - 0x2800
                found += [(2 * x + dx, 4 * y + dy) for dx, dy, bit in order if bits & bit]
    return found


async def test_the_roof_rises_to_its_ridge_and_is_flat_behind_it() -> None:
    async with drawn(POINTS[:1]) as (_, rows):
        top: dict[int, int] = {}
        for x, y in dots(rows):
            top[x] = min(y, top.get(x, y))
    columns = sorted(top)
    heights = [top[x] for x in columns]
    assert heights == sorted(heights, reverse=True)  # rows count downwards
    flat = [x for x in columns if top[x] == min(heights)]
    # From 1000 operations a byte to the frame, a quarter of a decade further.
    assert 0.05 < len(flat) / len(columns) < 0.2
    assert flat[-1] == columns[-1]
    text = "\n".join(rows)
    assert "1 Pop/s" in text
    assert "1 TB/s" in text


async def test_points_stand_at_their_figures_with_their_names() -> None:
    async with drawn(POINTS, size=(100, 30)) as (_, rows):
        where = {}
        for y, row in enumerate(rows):
            for x, letter in enumerate(row):
                if letter == "●" and y:
                    where[x] = y
    (first, second, third) = sorted(where)
    # 10 → 100 is one decade, 100 → 10,000 two.
    assert (third - second) / (second - first) == pytest.approx(2, abs=0.2)
    # 1 T → 100 T is two decades up, → 1 P one more.
    assert (where[first] - where[second]) / (where[second] - where[third]) == pytest.approx(
        2, abs=0.5
    )
    text = "\n".join(rows)
    assert all(point.name in text for point in POINTS)
    assert "10 T ┤" in text
    assert "operations/s over operations per byte" in text


async def test_the_chosen_point_is_told_with_its_figures() -> None:
    async with drawn(POINTS, 1, (100, 30)) as (_, rows):
        assert "under_the_slope  100 Top/s at 100 op/B" in rows[0]
    async with drawn((POINTS[0], RooflinePoint("low", 100.0, 1.0e13, MI300X)), 1, (100, 30)) as (
        _,
        rows,
    ):
        at = next(y for y, row in enumerate(rows) if y and "● low" in row)
        column = rows[at].index("●")
        assert rows[at - 1][column] == "┊"  # a guide up to the roof


async def test_a_click_picks_the_nearest_point() -> None:
    async with drawn(POINTS, size=(100, 30)) as (pilot, rows):
        found = [(row.index("●"), y) for y, row in enumerate(rows) if "●" in row and y]
        x, y = max(found)
        await pilot.click(Roofline, offset=(x + 1, y))
        await pilot.pause()
        assert isinstance(pilot.app, Plot)
        assert pilot.app.picked == [2]
        await pilot.click(Roofline, offset=(50, 27))
        await pilot.pause()
        assert pilot.app.picked == [2]


async def test_without_room_or_points_it_says_so() -> None:
    async with drawn((), size=(60, 10)) as (_, rows):
        assert "no kernel's operations and bytes were measured" in rows[0]
    async with drawn(POINTS, size=(20, 5)) as (_, rows):
        assert rows[0].startswith(" a larger window")
    async with drawn((RooflinePoint("alone", 3.0, 5.0),), size=(60, 12)) as (_, rows):
        assert "● alone" in "\n".join(rows)  # a point without any roof


def test_amounts_are_written_as_people_do() -> None:
    assert [amount(n) for n in (5.3e12, 1.307e15, 812.0, 1.0, 2.5e4)] == [
        "5.3 T", "1.31 P", "812 ", "1 ", "25 k",
    ]  # fmt: skip


positive = st.floats(1e-6, 1e18, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(positive, positive, st.none() | st.tuples(positive, positive)), min_size=1,
             max_size=12),
    st.integers(18, 120),
    st.integers(4, 40),
)  # fmt: skip
def test_whatever_is_drawn_fills_its_room_exactly(
    given: list[tuple[float, float, tuple[float, float] | None]], width: int, height: int
) -> None:
    points = [
        RooflinePoint(f"kernel_{n}", x, y, DeviceRoof(*roof) if roof is not None else None)
        for n, (x, y, roof) in enumerate(given)
    ]
    picture = _Picture(points, 0, width, height)
    rows = picture.rows()
    assert len(rows) == height
    assert {sum(len(text) for text, _ in row) for row in rows} == {width + 7}
    assert len(picture.ticks_across()) == width
    assert set(picture.point_cells.values()) <= set(range(len(points)))
