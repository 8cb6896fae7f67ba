"""A sweep as CSV and JSON, and the configurations worth keeping.

CSV has units in the header; JSON is `schema_version` 1. Within version 1 its keys are only added,
never renamed, removed or given another meaning. `sweep.schema.json` beside this file describes it.
"""

from __future__ import annotations

import csv
from typing import Any, TextIO

from ..base.printable import spreadsheet_cell
from ..base.streams import dump_json
from ..compare.sweep.figures import COLUMNS, as_dict
from ..compare.sweep.swept_points import Sweep, SweepTable, TableLine
from ..compare.sweep.table import settings_of_point, worth_keeping
from ..report.json_write import error_fields, fields_of, plain

SCHEMA_VERSION = 1


def write_configs(sweep: Sweep, most: int, stream: TextIO) -> None:
    """Prints the configurations worth keeping in an autotuner's list, the fastest first."""
    for table in sweep.tables:
        case = f"[{table.case}]" if table.case else ""
        configs = worth_keeping(table, most)
        reason = "" if configs else ": no time is known of any point"
        stream.write(f"# {table.kernel}{case} on {table.arch}{reason}\n")
        stream.writelines(f"{config},\n" for config in configs)


def write_json(sweep: Sweep, stream: TextIO) -> None:
    """Writes the sweep as one indented JSON document."""
    dump_json(to_dict(sweep), stream)


def to_dict(sweep: Sweep) -> dict[str, Any]:
    """Returns the sweep as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        **fields_of(sweep, "tool", "targets"),
        "axes": [fields_of(axis, "name", "values") for axis in sweep.axes],
        "columns": [fields_of(column, "name", "unit", "meaning") for column in COLUMNS],
        "points": plain(sweep.counts),
        "seconds": {"capture": round(sweep.capture_seconds, 3), "total": round(sweep.seconds, 3)},
        "tables": [_table(table) for table in sweep.tables],
        "errors": [error_fields(error) for error in sweep.errors],
        "notes": list(sweep.notes),
    }


def _table(table: SweepTable) -> dict[str, Any]:
    return {
        **fields_of(table, "file", "kernel", "case", "arch", "types", "attributes", "names"),
        "objectives": [
            {"column": o.column, "aim": "more" if o.more else "fewer", "per": o.work}
            for o in table.objectives
        ],
        "rows": [_row(line) for line in table.lines],
    }


def _row(line: TableLine) -> dict[str, Any]:
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
