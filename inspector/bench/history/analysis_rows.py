"""Runs of `analyze` and `lint` as rows of the history file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert

from .analyses import AnalysedKernel, Analysis, AnalysisRun, Sighting


def insert(connection: sqlite3.Connection, number: int, analysis: Analysis) -> None:
    """Writes a run with its kernels under a number."""
    connection.execute(
        "INSERT INTO analysis VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            analysis.date,
            _text(analysis.label),
            _text(analysis.command),
            _text(analysis.target),
            json.dumps(dict(analysis.versions), sort_keys=True),
            json.dumps(dict(analysis.units), sort_keys=True),
        ),
    )
    connection.executemany(
        "INSERT INTO analysed VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                number,
                _text(k.kernel),
                _text(k.identity),
                k.arch,
                _text(k.case),
                json.dumps(dict(k.config), sort_keys=True, default=str),
                json.dumps(dict(k.figures), sort_keys=True),
                None if k.findings is None else json.dumps(dict(k.findings), sort_keys=True),
            )
            for k in analysis.kernels
        ],
    )


def _text(value: str | None) -> str | None:
    """Returns a text that SQLite takes: bytes of file names that are not UTF-8 are escaped."""
    return None if value is None else value.encode("utf-8", "backslashreplace").decode()


def checked_as(kind: Any, value: Any) -> Any:
    """Converts a value or row of the file to its type: SQLite stores any value in any column.

    `value`: a value of that type, or its fields in order.

    Raises:
        ValueError: one is of another type.
    """
    if isinstance(kind, type) and issubclass(kind, Struct):
        value = dict(zip(kind.__struct_fields__, value, strict=True))
    try:
        return convert(value, kind)
    except (ValidationError, UnicodeError) as error:  # a text with half a surrogate
        raise ValueError(str(error)) from None


def latest_runs(
    connection: sqlite3.Connection, kernel: str | None, limit: int
) -> list[AnalysisRun]:
    """Returns the last runs, newest first; if a kernel is named, those that analysed it."""
    where = (
        "WHERE id IN (SELECT analysis FROM analysed WHERE kernel = ?)" if kernel is not None else ""
    )
    rows = connection.execute(
        "SELECT id, date, label, command, target, versions,"
        " (SELECT group_concat(DISTINCT arch) FROM analysed WHERE analysis = analysis.id),"
        " (SELECT count(*) FROM analysed WHERE analysis = analysis.id)"
        f" FROM analysis {where} ORDER BY id DESC LIMIT ?",
        ((kernel,) if kernel is not None else ()) + (limit,),
    ).fetchall()
    return [
        checked_as(
            AnalysisRun,
            (
                number,
                date,
                label,
                command,
                target,
                json.loads(versions),
                tuple(sorted(filter(None, str(archs or "").split(",")))),
                kernels,
            ),
        )
        for number, date, label, command, target, versions, archs, kernels in rows
    ]


def sightings(
    connection: sqlite3.Connection, condition: str, values: Iterable[Any]
) -> list[Sighting]:
    """Returns kernels of runs, the oldest run first, in the order of their reports.

    `condition`: SQL after WHERE, over columns of `analysis` and `analysed`.
    `values`: the values for its `?`, in order.
    """
    rows = connection.execute(
        "SELECT analysis.id, date, label, units, kernel, identity, arch, name, config, figures,"
        " findings FROM analysed JOIN analysis ON analysis.id = analysed.analysis"
        f" WHERE {condition} ORDER BY analysis.id, analysed.rowid",
        tuple(values),
    ).fetchall()
    return [_sighting(row) for row in rows]


def _sighting(row: Sequence[Any]) -> Sighting:
    """Converts a row of `sightings` to its types."""
    number, date, label, units, kernel, identity, arch, name, config, figures, findings = row
    return Sighting(
        run=checked_as(int, number),
        date=checked_as(str, date),
        label=checked_as(str | None, label),
        units=checked_as(dict[str, str], json.loads(units)),
        kernel=checked_as(
            AnalysedKernel,
            (
                kernel,
                identity,
                arch,
                name,
                json.loads(config),
                json.loads(figures),
                None if findings is None else json.loads(findings),
            ),
        ),
    )
