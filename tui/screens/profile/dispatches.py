"""The dispatches of one kernel, in the order in which they began."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ....inspector.explain import quantities
from ....inspector.model.recording import NONE, KernelProfile, Recording
from ...widgets.bars import Piece
from ...widgets.table import ColumnHead, TableRow

MAX_LISTED = 1_000
"""At most this many dispatches of a kernel are listed, the earliest ones."""
HEADS = (
    ColumnHead("number", " dispatch", 0),
    ColumnHead("start", "start", 12, right=True),
    ColumnHead("duration", "duration", 10, right=True),
    ColumnHead("grid", "grid", 18, right=True),
    ColumnHead("queue", "queue", 6, right=True),
    ColumnHead("part", "pass", 18),
)


class DispatchList(Struct, frozen=True):
    """The listed dispatches of a kernel.

    Attributes:
        warmups: the rows that are warm-up.
        total: the number of the kernel's dispatches, listed or not.
        origin: the start of the recording's first dispatch, ns.
    """

    rows: Sequence[int]
    warmups: frozenset[int]
    total: int
    origin: int


def heads(dispatches: DispatchList) -> tuple[ColumnHead, ...]:
    """The columns' titles, the first with the numbers of listed and of all dispatches."""
    left_out = (
        f" (first {len(dispatches.rows):,} of {dispatches.total:,})"
        if dispatches.total > len(dispatches.rows)
        else ""
    )
    return (ColumnHead("number", f" dispatch{left_out}", 0), *HEADS[1:])


def dispatch_list(kernel: KernelProfile, recording: Recording) -> DispatchList:
    """The first `MAX_LISTED` dispatches of a kernel in the order in which they began."""
    table = recording.dispatches
    shapes = frozenset(kernel.shapes)
    rows = [row for row, shape in enumerate(table.shape) if shape in shapes]
    began = table.start
    rows.sort(key=lambda row: (began[row] == NONE, began[row], row))
    origin = min((time for time in began if time != NONE), default=0)
    warmups = _warmups(kernel, recording, rows)
    return DispatchList(rows[:MAX_LISTED], warmups, len(rows), origin)


def _warmups(kernel: KernelProfile, recording: Recording, rows: Sequence[int]) -> frozenset[int]:
    """The dispatches that figures leave out: the first few of each process and pass.

    The profile states only their total. If no number for each process and pass gives that total,
    none is marked.
    """
    table, shapes = recording.dispatches, recording.shapes
    lanes: dict[tuple[int, int | None], list[int]] = {}
    for row in rows:
        lanes.setdefault((table.part[row], shapes[table.shape[row]].process), []).append(row)
    longest = max((len(lane) for lane in lanes.values()), default=0)
    for per_lane in range(1, longest):
        candidates = [lane[: min(per_lane, len(lane) - 1)] for lane in lanes.values()]
        count = sum(map(len, candidates))
        if count == kernel.warmups:
            return frozenset(row for lane in candidates for row in lane)
        if count > kernel.warmups:
            break
    return frozenset()


def row(dispatches: DispatchList, recording: Recording, index: int) -> TableRow:
    table, number = recording.dispatches, dispatches.rows[index]
    shape = recording.shapes[table.shape[number]]
    start, end, queue = table.start[number], table.end[number], table.queue[number]
    is_timed = NONE not in (start, end)
    part = table.part[number]
    is_warmup = number in dispatches.warmups
    label = table.number[number]
    name_cell: tuple[Piece, ...] = (
        (f" {label if label != NONE else quantities.UNKNOWN}", "name"),
        ("  warm-up" if is_warmup else "", "warning"),
    )
    cells = (
        f"+{quantities.duration(start - dispatches.origin)}"
        if start != NONE
        else quantities.UNKNOWN,
        quantities.duration(end - start) if is_timed else quantities.UNKNOWN,
        quantities.dimensions(shape.grid, shape.grid_size),
        str(queue) if queue != NONE else quantities.UNKNOWN,
        recording.parts[part].name if 0 <= part < len(recording.parts) else "",
    )
    return TableRow(name_cell, tuple(((text, ""),) for text in cells))
