"""The values of a sweep's result: points, their figures, and the tables that show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ...capture.sweep_axes import Axis
from ...model import ErrorRecord, Variant
from .figures import Figures
from .pareto import Objective


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
