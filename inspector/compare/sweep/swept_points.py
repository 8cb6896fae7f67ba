"""The Pareto front of a table: the points that no other point beats.

A point beats another where it is at least as good in every objective and better in one. The
objectives are figures of the compiled code. None of them is a time, and no sum of them is one: the
front says which points are worth measuring, not which is fastest.

What the main loop does counts per needed work, which is the same for all points: work that a point
does beyond that, because waves repeat each other's or tiles are padded, makes it worse and not
better. An unknown figure neither beats nor is beaten, so a point with one stays on the front.

The values of a sweep's result: points, their figures, and the tables that show them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ...capture.sweep_axes import Axis
from ...model import ErrorRecord, Variant
from .figures import Figures, Work


class Objective(Struct, frozen=True):
    """A figure, and whether more of it is better.

    Args:
        work: it counts per needed work of this kind; None: it does not.
    """

    column: str
    more: bool
    text: str
    work: Work | None = None


ALWAYS = (
    Objective("waves_per_eu", True, "more resident waves/SIMD"),
    Objective("vgpr_spills", False, "fewer spilled VGPRs"),
)
_PER_MACS = "per needed MMAC"
_PER_ELEMENTS = "per loaded kelem"
PER_WORK: dict[Work, tuple[Objective, ...]] = {
    "mac": (
        Objective("scratch_per_work", False, f"fewer scratch accesses in loops {_PER_MACS}", "mac"),
        Objective("matrix_cycles_per_work", False, f"fewer matrix cycles {_PER_MACS}", "mac"),
        Objective("full_waits_per_work", False, f"fewer full waits {_PER_MACS}", "mac"),
    ),
    "element": (
        Objective(
            "scratch_per_work", False, f"fewer scratch accesses in loops {_PER_ELEMENTS}", "element"
        ),
        Objective("full_waits_per_work", False, f"fewer full waits {_PER_ELEMENTS}", "element"),
    ),
}
_ON_MATRIX_UNIT = frozenset(("matrix_cycles_per_work", "full_waits_per_work"))


def objectives_of(figures: Sequence[Figures]) -> tuple[Objective, ...]:
    """The objectives by which these points are compared: those known of at least one of them."""
    matrix = any(f.matrix_per_iteration or f.work_unit == "mac" for f in figures)
    objectives = (*ALWAYS, *PER_WORK["mac" if matrix else "element"])
    return tuple(o for o in objectives if any(loss(f, o) is not None for f in figures))


def front(figures: Sequence[Figures | None]) -> list[bool]:
    """For each point whether it is on the front.

    A point that failed, cannot launch, or of which no objective is known, is not on it and keeps
    no other point off it.
    """
    able = [f for f in figures if f is not None and f.cannot_launch is None]
    objectives = objectives_of(able)
    losses = [
        tuple(loss(f, o) for o in objectives) if f is not None and not f.cannot_launch else ()
        for f in figures
    ]
    return unbeaten(losses)


def unbeaten(losses: Sequence[Sequence[float | None]]) -> list[bool]:
    """For each point whether no other one is at least as good in everything and better in one.

    Args:
        losses: of each point the quantities to be minimised, in one order; None where one is
            unknown, empty for points that do not take part.
    """
    complete = {full for point in losses if (full := _complete(point)) is not None}
    beaten = {point for point in complete if any(_beats(rival, point) for rival in complete)}
    return [
        tuple(point) not in beaten and any(part is not None for part in point) for point in losses
    ]


def unknown(figures: Figures | None, objectives: Sequence[Objective]) -> tuple[str, ...]:
    """The columns of the objectives that are not known of a point that could be launched."""
    if figures is None or figures.cannot_launch is not None:
        return ()
    return tuple(o.column for o in objectives if loss(figures, o) is None)


def loss(figures: Figures, objective: Objective) -> float | None:
    """The quantity to be minimised; None where it is unknown."""
    value = getattr(figures, objective.column)
    if objective.work == "mac" and figures.matrix_per_iteration == 0:
        # Its products are left to the vector unit where other points use the matrix unit: no
        # unknown, but the worst.
        if objective.column in _ON_MATRIX_UNIT:
            return math.inf
    elif value and objective.work is not None and figures.work_unit != objective.work:
        return None  # per work of another kind; none at all is none of either
    if value is None:
        return None
    return -float(value) if objective.more else float(value)


def _complete(losses: Sequence[float | None]) -> tuple[float, ...] | None:
    known = tuple(loss for loss in losses if loss is not None)
    return known if known and len(known) == len(losses) else None


def _beats(losses: tuple[float, ...], other_losses: tuple[float, ...]) -> bool:
    return losses != other_losses and all(a <= b for a, b in zip(losses, other_losses, strict=True))


class SweepPoint(Struct, frozen=True):
    """One point of the product, before it is compiled.

    Args:
        order: indices of the target, the specialisation and the option values.
    """

    order: tuple[int, int, int]
    file: str
    variant: Variant
    values: Mapping[str, Any]


class PointResult(Struct, frozen=True):
    """The result of a point.

    Args:
        figures: its figures; None where it failed.
        error: why it failed; None where it did not.
        from_store: whether the result was in the store, so that nothing was compiled.
        host: the machine that has the artifacts; None for this one.
    """

    point: SweepPoint
    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


class TableLine(Struct, frozen=True):
    """A row of a table.

    Args:
        number: counted from 1 in the order of the product, whatever the table is sorted by.
        same_as: number of the first line with the same code; None where no earlier line has it.
        unknown: the objectives that are unknown of it: then neither it nor another point can be
            said to be better.
    """

    number: int
    values: Mapping[str, Any]
    row: PointResult
    pareto: bool
    same_as: int | None
    unknown: tuple[str, ...] = ()


class SweepTable(Struct, frozen=True):
    """The points of one specialisation of a kernel (case, argument types, attributes) on a target.

    `attributes` are those of the arguments, as in `Variant.attrs`: code that may rely on them is
    not compared with code that may not. `names` are the columns of the points' values.
    """

    file: str
    kernel: str
    case: str | None
    arch: str
    types: tuple[str, ...]
    attributes: Mapping[str, Mapping[str, Any]]
    names: tuple[str, ...]
    lines: tuple[TableLine, ...]
    objectives: tuple[Objective, ...]


class PointCounts(Struct, frozen=True):
    """The numbers of points of a sweep, those left out of the tables included.

    Args:
        missing: points that were not finished; None where the total is unknown.
    """

    done: int
    failed: int
    from_store: int
    missing: int | None


class Sweep(Struct, frozen=True):
    """The result of a sweep, complete or interrupted.

    Args:
        tool: name -> version of the software that made it.
    """

    targets: tuple[str, ...]
    tool: Mapping[str, str]
    axes: tuple[Axis, ...]
    tables: tuple[SweepTable, ...]
    counts: PointCounts
    errors: tuple[ErrorRecord, ...] = ()
    notes: tuple[str, ...] = ()
    capture_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def rows(self) -> list[PointResult]:
        return [line.row for table in self.tables for line in table.lines]
