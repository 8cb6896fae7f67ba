"""The screen of the terminal UI as text, for tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from kinspect.tui.app import KinspectApp
from kinspect.tui.widgets.table import Table
from textual.pilot import Pilot

SNAPSHOTS = Path(__file__).parent / "tui" / "snapshots"
SIZES = ((80, 24), (120, 40), (200, 60))


def text_of(app: KinspectApp) -> str:
    """What the screen shows, line by line, without trailing blanks."""
    width, height = app.size
    update = app.screen._compositor.render_strips(app.size)
    lines = ["".join(segment.text for segment in strip).rstrip() for strip in update]
    assert len(lines) <= height, (width, height)
    return "\n".join(lines) + "\n"


def snapshot(app: KinspectApp, name: str) -> None:
    """Holds the screen against tests/tui/snapshots/NAME.txt.

    `KINSPECT_SNAPSHOTS=write` writes it anew; look at the difference before it is committed.
    """
    path = SNAPSHOTS / f"{name}.txt"
    text = text_of(app)
    if os.environ.get("KINSPECT_SNAPSHOTS") == "write":
        path.write_text(text, "utf-8")
    assert path.is_file(), f"{path.name} is missing: KINSPECT_SNAPSHOTS=write makes it"
    assert text == path.read_text("utf-8"), f"the screen differs from {path.name}"


async def until(pilot: Pilot[Any], holds: Callable[[], object], seconds: float = 60) -> None:
    """Lets the application work until something holds."""
    for _ in range(int(seconds / 0.02)):
        await pilot.pause()
        if holds():
            return
        await pilot.pause(0.02)
    raise AssertionError(text_of(pilot.app))


Sizes = tuple[tuple[int, int], ...]


async def each_size(
    pilot: Pilot[Any], name: str = "", sizes: Sizes = SIZES
) -> AsyncIterator[tuple[int, int]]:
    """Resizes the terminal to each size; with a name, holds each screen against a snapshot."""
    for width, height in sizes:
        await pilot.resize_terminal(width, height)
        before, shown = "", text_of(pilot.app)
        while before != shown:  # some is laid out once widgets have their sizes
            await pilot.pause(0.1)
            before, shown = shown, text_of(pilot.app)
        if name:
            snapshot(pilot.app, f"{name}_{width}x{height}")
        yield width, height


async def snapshots(pilot: Pilot[Any], name: str, sizes: Sizes = SIZES) -> None:
    """Holds the screen at each size against its snapshot."""
    async for _ in each_size(pilot, name, sizes):
        pass


def rows_of(table: Table) -> list[str]:
    """The rows of a table as texts, whether they are in sight or not."""
    rows = (table._draw(n) for n in range(table.count))
    return ["  ".join("".join(t for t, _ in cell) for cell in (r.first, *r.cells)) for r in rows]
