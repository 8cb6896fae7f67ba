"""Rows and tables: what a sweep gives, in any state of completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...capture.axes import Axis
from ...errors import KinspectError
from ...model import ErrorRecord, Variant
from .figures import COLUMNS, Figures
from .pareto import Objective, front, objectives_of, unknown


class Point(Struct, frozen=True):
    """One point of the product, before it is compiled.

    Args:
        order: place in the sweep: target, specialisation, option values.
        file: the target's file.
        variant: what is compiled.
        values: the axes' values, or the autotune configuration.
    """

    order: tuple[int, int, int]
    file: str
    variant: Variant
    values: Mapping[str, Any]


class Row(Struct, frozen=True):
    """What became of a point.

    Args:
        point: the input.
        figures: None where it failed.
        error: why it failed.
        from_store: nothing was compiled.
        seconds: what it took, the look into the store included.
        host: the machine that has the artifacts; None for this one.
    """

    point: Point
    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


class Line(Struct, frozen=True):
    """A row of a table: `number` counts from 1 in the order of the product, however sorted.

    `same_as` is the number of the first row with the same code, None where there is none before.
    `unknown` are the columns of objectives that are not known of it: no other point can be said to
    beat it, nor it another.
    """

    number: int
    values: Mapping[str, Any]
    row: Row
    pareto: bool
    same_as: int | None
    unknown: tuple[str, ...] = ()


class Table(Struct, frozen=True):
    """All points of one specialisation of a kernel (case, argument types, attributes) on a target.

    `attributes` are what Triton noted of the arguments, as in `Variant.attrs`: code that may rely
    on them is not compared with code that may not. `names` are the columns of the points' values.
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
    """What became of the points, those left out of the tables included.

    Args:
        done: all that came to an end, failed ones too.
        failed: gave no figures.
        from_store: nothing was compiled for them.
        missing: were not done; None where even their number is not known.
    """

    done: int
    failed: int
    from_store: int
    missing: int | None


class Sweep(Struct, frozen=True):
    """The result, whole or interrupted.

    Args:
        targets: as typed.
        tool: name -> version of what made it.
        axes: as typed.
        tables: one per kernel and target.
        counts: of the points.
        errors: what could not be captured.
        notes: about the run as a whole.
        capture_seconds: until everything was captured.
        seconds: all of it.
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
    """Sorts rows into tables, and marks the front and the repetitions in each."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda r: _place(r.point, axes)):
        groups.setdefault(_group(row.point), []).append(row)
    return tuple(_table(group, axes) for group in groups.values())


def distinction(table: Table, tables: Iterable[Table]) -> tuple[str, ...]:
    """The attributes that tell a table from those of the same kernel, types and target.

    Returns:
        Texts such as `n.divisibility=16`; `n.divisibility unknown` where only another has it.
    """
    of_each = [
        _attributes(other)
        for other in tables
        if (other.file, other.kernel, other.case, other.arch, other.types)
        == (table.file, table.kernel, table.case, table.arch, table.types)
    ]
    mine = _attributes(table)
    names = dict.fromkeys(name for attributes in of_each for name in attributes)
    return tuple(
        f"{name}={mine[name]}" if name in mine else f"{name} unknown"
        for name in names
        if len({repr(attributes.get(name)) for attributes in of_each}) > 1
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
        names: the columns of the points' values; None while they are not known: then any will do.

    Raises:
        KinspectError: there is no such column.
    """
    column = name.removeprefix("-")
    if names is None:
        return column
    columns = ["number", "pareto", *dict.fromkeys(names), *(c.name for c in COLUMNS)]
    if column in columns:
        return column
    near = get_close_matches(column, columns, n=2)
    suggestion = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise KinspectError(
        f"--sort {name}: no such column{suggestion}", f"known: {', '.join(columns)}"
    )


def sorted_lines(table: Table, name: str) -> Table:
    """The table sorted by a column, falling with a `-` before it; unknown values come last.

    A column that this table does not have leaves it as it is.
    """
    column, falling = name.removeprefix("-"), name.startswith("-")
    cells = [(line, _cell(line, column)) for line in table.lines]
    first = [(line, cell) for line, cell in cells if cell is not None]
    last = [line for line, cell in cells if cell is None]
    first.sort(key=lambda item: _ordered(item[1]), reverse=falling)
    return replace(table, lines=(*(line for line, _ in first), *last))


def _cell(line: Line, column: str) -> Any:
    if column in line.values:
        return line.values[column]
    if column in ("number", "pareto"):
        return getattr(line, column)
    return getattr(line.row.figures, column, None) if line.row.figures is not None else None


def _ordered(cell: Any) -> tuple[int, Any]:
    """Numbers before words, so that any two cells can be compared."""
    return (0, cell) if isinstance(cell, int | float) else (1, str(cell))


def _place(point: Point, axes: Sequence[Axis]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """In the order of the product as it was typed, whichever side expanded which axis."""
    steps = [
        a.values.index(point.values[a.name]) if point.values.get(a.name) in a.values else -1
        for a in axes
    ]
    return (point.order[0], *steps), point.order


def _group(point: Point) -> tuple[Any, ...]:
    variant = point.variant
    attributes = repr(sorted((name, sorted(of.items())) for name, of in variant.attrs.items()))
    return (
        point.order[0], variant.kernel, variant.case, variant.arch, _types(variant), attributes,
    )  # fmt: skip


def _types(variant: Variant) -> tuple[str, ...]:
    return tuple(t for t in variant.signature.values() if t != "constexpr")


def _table(rows: Sequence[Row], axes: Sequence[Axis]) -> Table:
    first = rows[0].point
    names = _names(rows, axes)
    values = [_values(row, names) for row in rows]
    marks = front([row.figures for row in rows])
    able = [r.figures for r in rows if r.figures is not None and r.figures.cannot_launch is None]
    objectives = objectives_of(able)
    first_by_code: dict[tuple[Any, ...], int] = {}
    lines = []
    for number, (row, point, pareto) in enumerate(zip(rows, values, marks, strict=True), 1):
        code = _code(row)
        first_number = first_by_code.setdefault(code, number) if code is not None else number
        same_as = first_number if first_number != number else None
        missing = unknown(row.figures, objectives)
        lines.append(Line(number, point, row, pareto, same_as, missing))
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


def _code(row: Row) -> tuple[Any, ...] | None:
    """What is equal for points that are the same to the hardware: code, LDS and waves."""
    figures = row.figures
    if figures is None or figures.isa_sha256 is None:
        return None
    return (figures.isa_sha256, figures.lds_bytes, figures.waves_per_workgroup)


def _names(rows: Sequence[Row], axes: Sequence[Axis]) -> tuple[str, ...]:
    """The axes that were typed, then whatever else tells the rows apart.

    That is the autotuner's values, and constants that follow from them (`EVEN_K`).
    """
    points = [everything(row) for row in rows]
    typed = [a.name for a in axes if any(a.name in point for point in points)]
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
    """All that a point is compiled with: options, constexprs and the values of its axes."""
    point = row.point
    return {**point.variant.options, **point.variant.constexprs, **point.values}


class Gathering(Struct):
    """Takes rows as they come and gives the result so far."""

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
        """All that is known by now."""
        missing = self.planned - len(self.rows)
        notes = dict(self.notes)
        for host in dict.fromkeys(row.host for row in self.rows if row.host is not None):
            n = sum(row.host == host for row in self.rows)
            notes[f"the artifacts of {n} points lie in the store of {host}, not in this one's"] = (
                None
            )
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
