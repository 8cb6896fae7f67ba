"""Makes the tables of a sweep, finished or not, and sorts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...capture.sweep_axes import Axis
from ...model import ErrorRecord, Variant
from ..times import is_other_work
from .figures import COLUMNS
from .swept_points import (
    PointCounts,
    PointResult,
    Sweep,
    SweepPoint,
    SweepTable,
    TableLine,
    front,
    objectives_of,
    unknown,
)


def tables_of(rows: Iterable[PointResult], axes: Sequence[Axis]) -> tuple[SweepTable, ...]:
    """Sorts rows into tables, and marks the Pareto front and equal code in each."""
    groups: dict[tuple[Any, ...], list[PointResult]] = {}
    for row in sorted(rows, key=lambda row: _position(row.point, axes)):
        groups.setdefault(_group(row.point), []).append(row)
    return tuple(_table(group, axes) for group in groups.values())


def distinction(table: SweepTable, tables: Iterable[SweepTable]) -> tuple[str, ...]:
    """The attributes that distinguish a table from others of the same kernel, types and target.

    Returns:
        Texts such as `n.divisibility=16`; `n.divisibility unknown` where only another has it.
    """
    attributes_of_tables = [
        _attributes(similar)
        for similar in tables
        if (similar.file, similar.kernel, similar.case, similar.arch, similar.types)
        == (table.file, table.kernel, table.case, table.arch, table.types)
    ]
    own_attributes = _attributes(table)
    names = dict.fromkeys(name for attributes in attributes_of_tables for name in attributes)
    return tuple(
        f"{name}={own_attributes[name]}" if name in own_attributes else f"{name} unknown"
        for name in names
        if len({repr(attributes.get(name)) for attributes in attributes_of_tables}) > 1
    )


def _attributes(table: SweepTable) -> dict[str, Any]:
    return {
        f"{argument}.{name.removeprefix('tt.')}": value
        for argument, attributes in table.attributes.items()
        for name, value in attributes.items()
    }


def only_front(table: SweepTable) -> SweepTable:
    """The table without the lines that are not on the front."""
    return replace(table, lines=tuple(line for line in table.lines if line.pareto))


def sort_column(name: str, names: Iterable[str] | None) -> str:
    """The column that `--sort NAME` or `--sort=-NAME` means.

    Args:
        names: the columns of the points' values; None if they are not known yet: then any name is
            accepted.

    Raises:
        KinspectError: there is no such column.
    """
    column = name.removeprefix("-")
    if names is None:
        return column
    columns = [
        "number",
        "pareto",
        *dict.fromkeys(names),
        *(known_column.name for known_column in COLUMNS),
    ]
    if column in columns:
        return column
    suggestions = get_close_matches(column, columns, n=2)
    suggestion = f" (did you mean {' or '.join(suggestions)}?)" if suggestions else ""
    raise KinspectError(
        f"--sort {name}: no such column{suggestion}", f"known: {', '.join(columns)}"
    )


def sorted_lines(table: SweepTable, name: str) -> SweepTable:
    """The table sorted by a column, descending with a `-` before it; unknown values come last.

    A column that the table does not have changes nothing.
    """
    column, descending = name.removeprefix("-"), name.startswith("-")
    cells = [(line, _cell(line, column)) for line in table.lines]
    known = [(line, cell) for line, cell in cells if cell is not None]
    unknown_lines = [line for line, cell in cells if cell is None]
    known.sort(key=lambda item: _cell_key(item[1]), reverse=descending)
    return replace(table, lines=(*(line for line, _ in known), *unknown_lines))


def _cell(line: TableLine, column: str) -> Any:
    if column in line.values:
        return line.values[column]
    if column in ("number", "pareto"):
        return getattr(line, column)
    return getattr(line.row.figures, column, None) if line.row.figures is not None else None


def _cell_key(cell: Any) -> tuple[int, Any]:
    """A sort key that puts numbers before texts, so that any two cells can be compared."""
    return (0, cell) if isinstance(cell, int | float) else (1, str(cell))


def _position(
    point: SweepPoint, axes: Sequence[Axis]
) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """A sort key: the order of the product of the axes as typed."""
    value_indices = [
        axis.values.index(point.values[axis.name])
        if point.values.get(axis.name) in axis.values
        else -1
        for axis in axes
    ]
    return (point.order[0], *value_indices), point.order


def _group(point: SweepPoint) -> tuple[Any, ...]:
    """The key of the table that a point belongs to."""
    variant = point.variant
    attributes = repr(
        sorted((argument, sorted(attrs.items())) for argument, attrs in variant.attrs.items())
    )
    return (
        point.order[0], variant.kernel, variant.case, variant.arch, _types(variant), attributes,
    )  # fmt: skip


def _types(variant: Variant) -> tuple[str, ...]:
    return tuple(kind for kind in variant.signature.values() if kind != "constexpr")


def _table(rows: Sequence[PointResult], axes: Sequence[Axis]) -> SweepTable:
    """Returns the table of the points of one specialisation, numbered in their order."""
    rows = _of_real_launches(rows)
    point = rows[0].point
    variant = point.variant
    figures = [row.figures for row in rows]
    objectives = objectives_of([f for f in figures if f is not None and f.cannot_launch is None])
    names = _names(rows, axes)
    lines = tuple(
        TableLine(
            number=number,
            values=_values(row, names),
            row=row,
            pareto=pareto,
            same_as=same_as,
            unknown=unknown(row.figures, objectives),
        )
        for number, (row, pareto, same_as) in enumerate(
            zip(rows, front(figures), _same_code(rows), strict=True), 1
        )
    )
    return SweepTable(
        file=point.file,
        kernel=variant.kernel,
        case=variant.case,
        arch=variant.arch,
        types=_types(variant),
        attributes=variant.attrs,
        names=names,
        lines=lines,
        objectives=objectives,
    )


def _of_real_launches(rows: Sequence[PointResult]) -> list[PointResult]:
    """The points, without times of those that read beyond their arguments where others do not."""
    timed = [row.figures for row in rows if row.figures and row.figures.time_us is not None]
    if all(figures.outside for figures in timed):
        return list(rows)
    return [
        replace(row, figures=replace(row.figures, time_us=None, no_time=row.figures.outside))
        if row.figures is not None and row.figures.outside
        else row
        for row in rows
    ]


def _same_code(rows: Sequence[PointResult]) -> list[int | None]:
    """Returns for each row the number, from 1, of the first with the same code; None for that."""
    first_by_code: dict[tuple[Any, ...], int] = {}
    numbers: list[int | None] = []
    for number, row in enumerate(rows, 1):
        code = _same_code_key(row)
        first = first_by_code.setdefault(code, number) if code is not None else number
        numbers.append(first if first != number else None)
    return numbers


def _same_code_key(row: PointResult) -> tuple[Any, ...] | None:
    """A key that is equal for points that the hardware runs alike: code, LDS and waves."""
    figures = row.figures
    if figures is None or figures.isa_sha256 is None:
        return None
    return (figures.isa_sha256, figures.lds_bytes, figures.waves_per_workgroup)


def _names(rows: Sequence[PointResult], axes: Sequence[Axis]) -> tuple[str, ...]:
    """The axes that were typed, then all other values in which the rows differ."""
    points = [settings_of_point(row) for row in rows]
    typed = [axis.name for axis in axes if any(axis.name in point for point in points)]
    names = dict.fromkeys(name for point in points for name in point)
    differing = [
        name
        for name in names
        if name not in typed and len({repr(point.get(name)) for point in points}) > 1
    ]
    return (*typed, *differing)


def _values(row: PointResult, names: Sequence[str]) -> dict[str, Any]:
    point_values = settings_of_point(row)
    return {name: point_values.get(name) for name in names}


NEAR_BEST = 1.15
"""Times the best time: points up to here are worth keeping, as the model may misorder them."""
_CONFIG_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What `triton.Config` takes beside the mapping of the kernel's constants."""


def by_time(table: SweepTable) -> SweepTable:
    """The table with the fastest point first, where any time is known."""
    known = any(_cell(line, "time_us") is not None for line in table.lines)
    return sorted_lines(table, "time_us") if known else table


def grid_stays(table: SweepTable) -> bool:
    """Whether constants of the kernel differ between points that are timed, and their grid never.

    Where the script states the grid as numbers, points of other tiles then do other work. Of HIP
    sources macros may be anything: other work is what moves other amounts of memory.
    """
    timed = [
        (line.row.point.variant, line.row.figures.memory_bytes)
        for line in table.lines
        if line.row.figures is not None and line.row.figures.time_us is not None
    ]
    variants = [variant for variant, _ in timed]
    if any(variant.stage == "hip" for variant in variants):
        return is_other_work(moved for _, moved in timed)
    constants = {tuple(variant.constexprs.items()) for variant in variants}
    return len(constants) > 1 and len({variant.grid for variant in variants}) == 1


def worth_keeping(table: SweepTable, most: int) -> list[str]:
    """`triton.Config(...)` of the fastest points within 15 % of the best; empty: no times."""
    timed = [line for line in by_time(table).lines if _cell(line, "time_us") is not None]
    if not timed:
        return []
    limit = NEAR_BEST * _cell(timed[0], "time_us")
    near = [line for line in timed[:most] if _cell(line, "time_us") <= limit]
    return [_config(line.values) for line in near]


def _config(values: Mapping[str, Any]) -> str:
    constants = ", ".join(
        f"{name!r}: {value!r}".replace("'", '"')
        for name, value in values.items()
        if name not in _CONFIG_OPTIONS
    )
    options = [f"{name}={values[name]!r}" for name in _CONFIG_OPTIONS if name in values]
    return f"triton.Config({{{constants}}}{''.join(f', {option}' for option in options)})"


def settings_of_point(row: PointResult) -> dict[str, Any]:
    """Returns the values that a point is compiled with: options, constexprs and its axes."""
    point = row.point
    return {**point.variant.options, **point.variant.constexprs, **point.values}


class SweepProgress(Struct):
    """Collects rows as they come and gives the result so far."""

    targets: tuple[str, ...]
    tool: Mapping[str, str]
    axes: tuple[Axis, ...]
    planned: int = 0
    complete: bool = False
    rows: list[PointResult] = field(default_factory=list)
    errors: list[ErrorRecord] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    capture_seconds: float = 0.0

    def result(self, seconds: float) -> Sweep:
        """The result so far; `seconds` is the time since the start."""
        missing = self.planned - len(self.rows)
        notes = dict(self.notes)
        for host in dict.fromkeys(row.host for row in self.rows if row.host is not None):
            count = sum(row.host == host for row in self.rows)
            notes[
                f"the artifacts of {count} points lie in the store of {host}, not in this one's"
            ] = None
        return Sweep(
            targets=self.targets,
            tool=self.tool,
            axes=self.axes,
            tables=tables_of(self.rows, self.axes),
            counts=PointCounts(
                done=len(self.rows),
                failed=sum(row.error is not None for row in self.rows),
                from_store=sum(row.from_store for row in self.rows),
                missing=missing if self.complete else None,
            ),
            errors=tuple(self.errors),
            notes=tuple(notes),
            capture_seconds=self.capture_seconds,
            seconds=seconds,
        )
