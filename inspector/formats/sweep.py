"""A sweep: a table per kernel and target for people, the Pareto front marked; CSV and JSON.

CSV has units in the header; JSON is `schema_version` 1. Within version 1 its keys are only added,
never renamed, removed or given another meaning. `sweep.schema.json` beside this file describes it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from msgspec import to_builtins

from ..base.printable import spreadsheet_cell
from ..compare.sweep.figures import COLUMNS, Work, as_dict
from ..compare.sweep.pareto import Objective
from ..compare.sweep.results import Sweep, SweepTable, TableLine
from ..compare.sweep.table import (
    distinction,
    grid_stays,
    settings_of_point,
    worth_keeping,
)
from ..compare.times import EQUAL
from ..explain import time_view, view
from ..explain.table import Column, rows_of
from ..present.paper import Line, Paper, paper_for, print_wrapped
from ..report.json_write import error_fields

SCHEMA_VERSION = 1
FIGURES = (
    "time_us",
    "vgprs",
    "agprs",
    "sgprs",
    "vgpr_spills",
    "scratch_in_loops",
    "lds_bytes",
    "waves_per_eu",
    "limiter",
    "matrix_per_iteration",
    "matrix_efficiency",
    "full_waits_per_iteration",
    "scratch_per_work",
    "matrix_cycles_per_work",
    "full_waits_per_work",
    "code_bytes",
)
"""The columns of the text table; the other formats have them all."""
_WORK: Mapping[Work | None, tuple[str, str]] = {
    "mac": (
        "MMAC",
        "per million multiply-accumulates that the source's dots need in the main loop (M·N·K),"
        " of all waves of the workgroup together: what waves repeat or tiles pad is no work",
    ),
    "element": (
        "kelem",
        "per thousand elements that the source loads as tiles in the main loop, or in the kernel"
        " where it has none, all waves of the workgroup together",
    ),
}
"""Kind of needed work -> what a column's heading calls it, and what that means."""
MARK = "*"
DOUBT = "?"
"""Marks points of which an objective is unknown: nothing can be said to beat them."""
NONE = "–"
MOST_NOTE = 72
_NO_FRACTION_FROM = 1000
"""Figures per work from here on are shown without a fraction."""
_PER_WORK = frozenset({"scratch_per_work", "matrix_cycles_per_work", "full_waits_per_work"})
_SIZES = frozenset({"lds_bytes", "code_bytes", "scratch_bytes"})
_FACTS = "They are facts of the compiled code, not a ranking."
_TIMES = (
    "time: of the launch, estimated by the timing model; two that differ by less than"
    f" {100 * EQUAL:.0f} % are equal. Measure the first few."
)
_SAME_GRID = (
    "time: all points of {kernel} have the same grid although constants differ; where the grid has"
    " to follow a tile, they do different work: state it as a function of the constants"
)


def write_configs(sweep: Sweep, most: int, stream: TextIO) -> None:
    """Prints the configurations worth keeping in an autotuner's list, the fastest first."""
    for table in sweep.tables:
        case = f"[{table.case}]" if table.case else ""
        configs = worth_keeping(table, most)
        reason = "" if configs else ": no time is known of any point"
        stream.write(f"# {table.kernel}{case} on {table.arch}{reason}\n")
        stream.writelines(f"{config},\n" for config in configs)


def write(sweep: Sweep, stream: TextIO, *, color: bool | None = None) -> None:
    """Prints the tables, then the notes and counts of the sweep."""
    paper = paper_for(stream, color)
    for table in sweep.tables:
        _text_table(paper, table, sweep.tables)
        paper.print(Line())
    for unit in dict.fromkeys(map(_unit, sweep.tables)):
        if unit is not None:
            _print_note(paper, f"/{_WORK[unit][0]}: {_WORK[unit][1]}")
    if any(_is_timed(line) for table in sweep.tables for line in table.lines):
        _print_note(paper, _TIMES)
    for table in filter(grid_stays, sweep.tables):
        _print_note(paper, _SAME_GRID.format(kernel=table.kernel))
    for objectives in dict.fromkeys(t.objectives for t in sweep.tables if t.objectives):
        _print_note(paper, f"{MARK} {_front(objectives)}. {_FACTS}")
    if any(line.pareto and line.unknown for table in sweep.tables for line in table.lines):
        _print_note(
            paper,
            f"{DOUBT} one of these is unknown of the point: no other point can be said to beat it,"
            " nor it another",
        )
    for error in sweep.errors:
        _print_note(paper, f"not captured: {error.message}")
    for note in sweep.notes:
        _print_note(paper, f"note: {note}")
    _print_note(paper, summary(sweep))


def summary(sweep: Sweep) -> str:
    """Returns in words how many points were compiled, stored, failed or are missing."""
    counts = sweep.counts
    parts = [f"{view.plural(counts.done, 'point')} in {sweep.seconds:.1f} s"]
    parts.append(f"{counts.from_store} from the store")
    if counts.failed:
        parts.append(f"{counts.failed} failed")
    if counts.missing is None:
        parts.append("interrupted before all points were known")
    elif counts.missing:
        parts.append(f"{counts.missing} missing")
    return ", ".join(parts)


def _text_table(paper: Paper, table: SweepTable, tables: Sequence[SweepTable]) -> None:
    """Prints a table; its title names the attributes that distinguish it from the other tables."""
    title = Line(f"{table.kernel}[{table.case}]" if table.case else table.kernel, "bold")
    title.append(f"  {table.arch}  {view.file_name(table.file)}  {' '.join(table.types)}")
    for attribute in distinction(table, tables):
        title.append(f"  {attribute}")
    print_wrapped(paper, title, "  ")
    unit = _unit(table)
    columns = [
        Column("", _mark, right=True),
        Column("#", lambda line: str(line.number), right=True),
        *(_value_column(name) for name in table.names),
        *(_figure_column(name, unit) for name in _columns_shown(table, unit)),
        Column("", _note),
    ]
    for index, text in enumerate(rows_of(columns, table.lines)):
        front = index > 0 and table.lines[index - 1].pareto
        paper.print(Line(f"  {text}", style="bold" if index == 0 or front else ""))


def _value_column(name: str) -> Column:
    return Column(name, lambda line: view.show(line.values[name]), right=True)


def _figure_column(name: str, unit: Work | None) -> Column:
    column = next(c for c in COLUMNS if c.name == name)
    words = name == "limiter"
    title = column.title
    if name in _PER_WORK and unit is not None:
        title = f"{title.partition('/')[0]}/{_WORK[unit][0]}"
    return Column(title, lambda line: _figure(line, name), right=not words)


def _unit(table: SweepTable) -> Work | None:
    """Returns the unit of needed work; None if no objective is per work."""
    return next((o.work for o in table.objectives if o.work is not None), None)


def _columns_shown(table: SweepTable, unit: Work | None) -> tuple[str, ...]:
    """Returns the columns: of those per work, only objectives; scratch only if there is any."""
    objective_columns = {o.column for o in table.objectives} if unit is not None else set()
    figures = [line.row.figures for line in table.lines if line.row.figures is not None]
    if not any(point.scratch_in_loops or point.scratch_per_work for point in figures):
        objective_columns.discard("scratch_per_work")
    without_dots = not any(
        point.matrix_per_iteration or point.matrix_efficiency is not None for point in figures
    )
    return tuple(
        name
        for name in FIGURES
        if (name not in _PER_WORK or name in objective_columns)
        and not (name == "matrix_efficiency" and without_dots)
        and not (name == "time_us" and not any(map(_is_timed, table.lines)))
    )


def _is_timed(line: TableLine) -> bool:
    return line.row.figures is not None and line.row.figures.time_us is not None


def _mark(line: TableLine) -> str:
    if not line.pareto:
        return ""
    return DOUBT if line.unknown else MARK


def _figure(line: TableLine, name: str) -> str:
    """Returns a figure of a point as text; empty if its compile failed."""
    figures = line.row.figures
    if figures is None:
        return ""
    value: Any = getattr(figures, name)
    if name in _SIZES:
        return view.kib(value)
    if name == "time_us" and value is not None:
        return time_view.amount(value)
    if value is None:
        # Per iteration of a loop that is not there.
        return NONE if name.endswith("_per_iteration") else view.UNKNOWN
    if name in _PER_WORK:
        return f"{value:.0f}" if value >= _NO_FRACTION_FROM else f"{value:.4g}"
    return view.show(value)


def _note(line: TableLine) -> str:
    """Returns the remark on a point: why it failed or cannot launch, or what it is equal to."""
    row = line.row
    if row.error is not None:
        text = f"failed in {row.error.stage}: {row.error.message}"
    elif row.figures is not None and row.figures.cannot_launch is not None:
        text = f"cannot launch: {row.figures.cannot_launch}"
    elif line.same_as is not None:
        text = f"same code as #{line.same_as}"
    else:
        return ""
    text = " ".join(text.split())
    return text if len(text) <= MOST_NOTE else f"{text[: MOST_NOTE - 1]}…"


def _front(objectives: tuple[Objective, ...]) -> str:
    """Explains the mark of points on the Pareto front."""
    *others, last = (objective.text for objective in objectives)
    aims = f"{', '.join(others)} and {last}" if others else last
    return (
        "on the Pareto front: no other point is at least as good in all of these and better in"
        f" one: {aims}"
    )


def _print_note(paper: Paper, text: str) -> None:
    print_wrapped(paper, Line(f"  {text}", "dim"), "    ")


def write_json(sweep: Sweep, stream: TextIO) -> None:
    """Writes the sweep as one indented JSON document."""
    json.dump(to_dict(sweep), stream, indent=1, ensure_ascii=False)
    stream.write("\n")


def to_dict(sweep: Sweep) -> dict[str, Any]:
    """Returns the sweep as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": dict(sweep.tool),
        "targets": list(sweep.targets),
        "axes": [{"name": a.name, "values": list(a.values)} for a in sweep.axes],
        "columns": [{"name": c.name, "unit": c.unit, "meaning": c.meaning} for c in COLUMNS],
        "points": to_builtins(sweep.counts),
        "seconds": {"capture": round(sweep.capture_seconds, 3), "total": round(sweep.seconds, 3)},
        "tables": [_table(table) for table in sweep.tables],
        "errors": [error_fields(error) for error in sweep.errors],
        "notes": list(sweep.notes),
    }


def _table(table: SweepTable) -> dict[str, Any]:
    """Returns a table as JSON values."""
    return {
        "file": table.file,
        "kernel": table.kernel,
        "case": table.case,
        "arch": table.arch,
        "types": list(table.types),
        "attributes": {name: dict(values) for name, values in table.attributes.items()},
        "names": list(table.names),
        "objectives": [
            {"column": o.column, "aim": "more" if o.more else "fewer", "per": o.work}
            for o in table.objectives
        ],
        "rows": [_row(line) for line in table.lines],
    }


def _row(line: TableLine) -> dict[str, Any]:
    """Returns a point as JSON values."""
    row = line.row
    return {
        "number": line.number,
        "point": dict(line.values),
        "settings": settings_of_point(row),
        "pareto": line.pareto,
        "unknown_objectives": list(line.unknown),
        "same_as": line.same_as,
        "figures": as_dict(row.figures) if row.figures is not None else None,
        "error": error_fields(row.error) if row.error is not None else None,
        "from_store": row.from_store,
        "seconds": round(row.seconds, 6),
    }


def write_csv(sweep: Sweep, stream: TextIO) -> None:
    """Writes one header and one line per point; a cell is empty where nothing is known.

    Columns that are equal for all points are written as well: the header depends on no value.
    """
    names = list(dict.fromkeys(name for table in sweep.tables for name in table.names))
    settings = (name for row in sweep.rows for name in settings_of_point(row))
    names = list(dict.fromkeys((*names, *settings)))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        [
            *("file", "kernel", "case", "arch", "types", "number"),
            *names,
            *(f"{c.name} [{c.unit}]" if c.unit else c.name for c in COLUMNS),
            *("pareto", "same_as", "cannot_launch", "error", "from_store", "seconds [s]"),
        ]
    )
    for table in sweep.tables:
        for line in table.lines:
            row = line.row
            point_values = settings_of_point(row)
            figures = as_dict(row.figures) if row.figures is not None else {}
            types = " ".join(table.types)
            writer.writerow(
                spreadsheet_cell(cell)
                for cell in (
                    *(table.file, table.kernel, table.case, table.arch, types, line.number),
                    *(point_values.get(name) for name in names),
                    *(figures.get(c.name) for c in COLUMNS),
                    *(int(line.pareto), line.same_as, figures.get("cannot_launch")),
                    row.error.message if row.error is not None else None,
                    *(int(row.from_store), round(row.seconds, 6)),
                )
            )
