"""The dispatches of one kernel, in the order in which they began."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ....inspector.explain import profile_view as words
from ....inspector.recording import NONE, KernelProfile, Recording
from ...widgets.bars import Piece
from ...widgets.table import Head, Row

MOST = 1_000
"""So many are listed."""
HEADS = (
    Head("number", " dispatch", 0),
    Head("start", "start", 12, right=True),
    Head("duration", "duration", 10, right=True),
    Head("grid", "grid", 18, right=True),
    Head("queue", "queue", 6, right=True),
    Head("part", "pass", 18),
)


class Listed(Struct, frozen=True):
    """Dispatches of a kernel: rows of the recording, and which of them are warm-up."""

    rows: Sequence[int]
    warmups: frozenset[int]
    of: int  # how many there are, listed or not
    origin: int  # when the first dispatch of the recording began


def heads(listing: Listed) -> tuple[Head, ...]:
    """The columns; the first says how many are left out."""
    left_out = (
        f" (first {len(listing.rows):,} of {listing.of:,})"
        if listing.of > len(listing.rows)
        else ""
    )
    return (Head("number", f" dispatch{left_out}", 0), *HEADS[1:])


def listed(kernel: KernelProfile, recording: Recording) -> Listed:
    """The dispatches of a kernel, the first thousand."""
    table = recording.dispatches
    shapes = frozenset(kernel.shapes)
    rows = [row for row, shape in enumerate(table.shape) if shape in shapes]
    began = table.start
    rows.sort(key=lambda row: (began[row] == NONE, began[row], row))
    origin = min((time for time in began if time != NONE), default=0)
    warmups = _warmups(kernel, recording, rows)
    return Listed(rows[:MOST], warmups, len(rows), origin)


def _warmups(kernel: KernelProfile, recording: Recording, rows: Sequence[int]) -> frozenset[int]:
    """Those that were left out of the figures: the first of each process and pass.

    The profile knows how many; where no number for each would give that many, none is marked.
    """
    table, shapes = recording.dispatches, recording.shapes
    lanes: dict[tuple[int, int | None], list[int]] = {}
    for row in rows:
        lanes.setdefault((table.part[row], shapes[table.shape[row]].process), []).append(row)
    most = max((len(lane) for lane in lanes.values()), default=0)
    for each in range(1, most):
        first = [lane[: min(each, len(lane) - 1)] for lane in lanes.values()]
        count = sum(map(len, first))
        if count == kernel.warmups:
            return frozenset(row for lane in first for row in lane)
        if count > kernel.warmups:
            break
    return frozenset()


def row(listing: Listed, recording: Recording, at: int) -> Row:
    """One of them as the table draws it."""
    table, number = recording.dispatches, listing.rows[at]
    shape = recording.shapes[table.shape[number]]
    start, end, queue = table.start[number], table.end[number], table.queue[number]
    timed = NONE not in (start, end)
    part = table.part[number]
    warm = number in listing.warmups
    name = table.number[number]
    first: tuple[Piece, ...] = (
        (f" {name if name != NONE else words.UNKNOWN}", "name"),
        ("  warm-up" if warm else "", "warning"),
    )
    cells = (
        f"+{words.duration(start - listing.origin)}" if start != NONE else words.UNKNOWN,
        words.duration(end - start) if timed else words.UNKNOWN,
        words.triple(shape.grid, shape.grid_size),
        str(queue) if queue != NONE else words.UNKNOWN,
        recording.parts[part].name if 0 <= part < len(recording.parts) else "",
    )
    return Row(first, tuple(((text, ""),) for text in cells))
