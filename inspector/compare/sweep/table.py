"""The rows and tables of a sweep, finished or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...capture.sweep_axes import Axis
from ...errors import KinspectError
from ...model import ErrorRecord, Variant
from .figures import COLUMNS, Figures
from .pareto import Objective, front, objectives_of, unknown


class Point(Struct, frozen=True):
    """One point of the product, before it is compiled.

    Args:
        order: indices of the target, the specialisation and the option values.
        file: the target's file.
        variant: what is compiled.
        values: the axes' values, or the autotune configuration.
    """

    order: tuple[int, int, int]
    file: str
    variant: Variant
    values: Mapping[str, Any]


class Row(Struct, frozen=True):
    """The result of a point.

    Args:
        point: the point.
        figures: its figures; None where it failed.
        error: why it failed; None where it did not.
        from_store: whether the result was in the store, so that nothing was compiled.
        seconds: how long it took, the store's look-up included.
        host: the machine that has the artifacts; None for this one.
    """

    point: Point
    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


class Line(Struct, frozen=True):
    """A row of a table.

    Args:
        number: counted from 1 in the order of the product, whatever the table is sorted by.
        values: the values of the table's `names`.
        row: the result.
        pareto: whether it is on the Pareto front.
        same_as: number of the first line with the same code; None where no earlier line has it.
        unknown: the objectives that are unknown of it: then neither it nor another point can be
            said to be better.
    """

    number: int
    values: Mapping[str, Any]
    row: Row
    pareto: bool
    same_as: int | None
    unknown: tuple[str, ...] = ()


class Table(Struct, frozen=True):
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
    lines: tuple[Line, ...]
    objectives: tuple[Objective, ...]


class Counts(Struct, frozen=True):
    """The numbers of points of a sweep, those left out of the tables included.

    Args:
        done: finished points, failed ones included.
        failed: points without figures.
        from_store: points whose result was in the store.
        missing: points that were not finished; None where the total is unknown.
    """

    done: int
    failed: int
    from_store: int
    missing: int | None


class Sweep(Struct, frozen=True):
    """The result of a sweep, complete or interrupted.

    Args:
        targets: as typed.
        tool: name -> version of the software that made it.
        axes: as typed.
        tables: one per specialisation and target.
        counts: how many points there are.
        errors: what could not be captured.
        notes: notes on the run as a whole.
        capture_seconds: time until everything was captured.
        seconds: time of the whole sweep.
    """

    targets: tuple[str, ...]
    tool: Mapping[str, str]
    axes: tuple[Axis, ...]
    tables: tuple[Table, ...]
    counts: Counts
    errors: tuple[ErrorRecord, ...] = ()
    notes: tuple[str, ...] = ()
    capture_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def rows(self) -> list[Row]:
        return [line.row for table in self.tables for line in table.lines]


def tables_of(rows: Iterable[Row], axes: Sequence[Axis]) -> tuple[Table, ...]:
    """Sorts rows into tables, and marks the Pareto front and equal code in each."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: _position(row.point, axes)):
        groups.setdefault(_group(row.point), []).append(row)
    return tuple(_table(group, axes) for group in groups.values())


def distinction(table: Table, tables: Iterable[Table]) -> tuple[str, ...]:
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


def _attributes(table: Table) -> dict[str, Any]:
    return {
        f"{argument}.{name.removeprefix('tt.')}": value
        for argument, attributes in table.attributes.items()
        for name, value in attributes.items()
    }


def only_front(table: Table) -> Table:
    """The table without the lines that are not on the front."""
    return replace(table, lines=tuple(line for line in table.lines if line.pareto))


def sort_key(name: str, names: Iterable[str] | None) -> str:
    """The column that `--sort NAME` or `--sort=-NAME` means.

    Args:
        name: as typed.
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


def sorted_lines(table: Table, name: str) -> Table:
    """The table sorted by a column, descending with a `-` before it; unknown values come last.

    A column that the table does not have changes nothing.
    """
    column, descending = name.removeprefix("-"), name.startswith("-")
    cells = [(line, _cell(line, column)) for line in table.lines]
    known = [(line, cell) for line, cell in cells if cell is not None]
    unknown_lines = [line for line, cell in cells if cell is None]
    known.sort(key=lambda item: _cell_key(item[1]), reverse=descending)
    return replace(table, lines=(*(line for line, _ in known), *unknown_lines))


def _cell(line: Line, column: str) -> Any:
    if column in line.values:
        return line.values[column]
    if column in ("number", "pareto"):
        return getattr(line, column)
    return getattr(line.row.figures, column, None) if line.row.figures is not None else None


def _cell_key(cell: Any) -> tuple[int, Any]:
    """A sort key that puts numbers before texts, so that any two cells can be compared."""
    return (0, cell) if isinstance(cell, int | float) else (1, str(cell))


def _position(point: Point, axes: Sequence[Axis]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """A sort key: the order of the product of the axes as typed.

    The front end expands some axes and the sweep others, so that `order` alone is not enough.
    """
    value_indices = [
        axis.values.index(point.values[axis.name])
        if point.values.get(axis.name) in axis.values
        else -1
        for axis in axes
    ]
    return (point.order[0], *value_indices), point.order


def _group(point: Point) -> tuple[Any, ...]:
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


def _table(rows: Sequence[Row], axes: Sequence[Axis]) -> Table:
    """Returns the table of the points of one specialisation, numbered in their order."""
    first = rows[0].point
    names = _names(rows, axes)
    values = [_values(row, names) for row in rows]
    on_front = front([row.figures for row in rows])
    launchable = [
        candidate.figures
        for candidate in rows
        if candidate.figures is not None and candidate.figures.cannot_launch is None
    ]
    objectives = objectives_of(launchable)
    first_by_code: dict[tuple[Any, ...], int] = {}
    lines = []
    for number, (row, point_values, pareto) in enumerate(
        zip(rows, values, on_front, strict=True), 1
    ):
        code = _same_code_key(row)
        first_number = first_by_code.setdefault(code, number) if code is not None else number
        same_as = first_number if first_number != number else None
        missing = unknown(row.figures, objectives)
        lines.append(
            Line(
                number=number,
                values=point_values,
                row=row,
                pareto=pareto,
                same_as=same_as,
                unknown=missing,
            )
        )
    variant = first.variant
    return Table(
        file=first.file,
        kernel=variant.kernel,
        case=variant.case,
        arch=variant.arch,
        types=_types(variant),
        attributes=variant.attrs,
        names=names,
        lines=tuple(lines),
        objectives=objectives,
    )


def _same_code_key(row: Row) -> tuple[Any, ...] | None:
    """A key that is equal for points that the hardware runs alike: code, LDS and waves.

    None where the code is unknown.
    """
    figures = row.figures
    if figures is None or figures.isa_sha256 is None:
        return None
    return (figures.isa_sha256, figures.lds_bytes, figures.waves_per_workgroup)


def _names(rows: Sequence[Row], axes: Sequence[Axis]) -> tuple[str, ...]:
    """The axes that were typed, then all other values in which the rows differ.

    These are the autotuner's values, and constants that follow from them (`EVEN_K`).
    """
    points = [everything(row) for row in rows]
    typed = [axis.name for axis in axes if any(axis.name in point for point in points)]
    names = dict.fromkeys(name for point in points for name in point)
    differing = [
        name
        for name in names
        if name not in typed and len({repr(point.get(name)) for point in points}) > 1
    ]
    return (*typed, *differing)


def _values(row: Row, names: Sequence[str]) -> dict[str, Any]:
    point_values = everything(row)
    return {name: point_values.get(name) for name in names}


def everything(row: Row) -> dict[str, Any]:
    """Returns the values that a point is compiled with: options, constexprs and its axes."""
    point = row.point
    return {**point.variant.options, **point.variant.constexprs, **point.values}


class Gathering(Struct):
    """Collects rows as they come and gives the result so far."""

    targets: tuple[str, ...]
    tool: Mapping[str, str]
    axes: tuple[Axis, ...]
    planned: int = 0
    complete: bool = False
    rows: list[Row] = field(default_factory=list)
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
            counts=Counts(
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
