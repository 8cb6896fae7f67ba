"""Finds the undamaged rows among lines of CSV of which some are damaged, and mends what it can.

A quoted field may hold line breaks. A row with too many cells may end in empty ones, or have a
kernel's name with commas that nobody quoted, such as `f<int, 2>`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from msgspec import Struct, field

_MOST_CONTINUATION_LINES = 4
"""How many further lines a quoted field with line breaks may take before its row is given up."""


class MendedRows(Struct):
    """Rows of some lines, each with the index of its first line.

    Args:
        rows: those of as many cells as the table has columns.
        damaged: what is wrong with each of the others.
    """

    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)


def mended_rows(lines: Sequence[str], width: int, name_column: int | None) -> MendedRows:
    """Reads the rows of lines of which some are damaged.

    Args:
        lines: without their ends.
        width: how many columns the table has.
        name_column: which of them holds kernels' names; None if none does.
    """
    result = MendedRows()
    next_index = 0
    while next_index < len(lines):
        start = next_index
        next_index += 1
        if not lines[start].strip("\r \t"):
            continue
        row = parsed_row(lines[start])
        if row is None:
            row, used = _joined(lines, start, width)
            next_index += used
        if row is not None and len(row) > width:
            row = _narrowed(row, width, name_column)
        if row is None:
            result.damaged.append((start, "a quoted field is not closed"))
        elif len(row) == width:
            result.rows.append((start, row))
        else:
            result.damaged.append((start, f"{len(row):,} columns instead of {width:,}"))
    return result


def parsed_row(text: str) -> list[str] | None:
    """Returns the cells of one row, which may take several lines; None if it is not one row."""
    try:
        rows = list(csv.reader(text.splitlines(keepends=True), strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _joined(lines: Sequence[str], start: int, width: int) -> tuple[list[str] | None, int]:
    """Returns a row whose quoted fields hold line breaks, and how many further lines it takes."""
    text = lines[start]
    further_lines = lines[start + 1 : start + 1 + _MOST_CONTINUATION_LINES]
    for used, line in enumerate(further_lines, start=1):
        text += "\n" + line
        row = parsed_row(text)
        if row is not None:
            return (row, used) if len(row) == width else (None, 0)
    return None, 0


def _narrowed(row: list[str], width: int, name_column: int | None) -> list[str]:
    """Returns a row with too many cells without empty ones at its end, or with its name joined.

    A row that is neither is returned as it is.
    """
    surplus = len(row) - width
    if not any(row[-surplus:]):
        return row[:-surplus]
    if name_column is None or not set(row[name_column]) & {"(", "<"}:
        return row
    name = ",".join(row[name_column : name_column + surplus + 1])
    if name.count("(") != name.count(")") or name.count("<") != name.count(">"):
        return row
    return [*row[:name_column], name, *row[name_column + surplus + 1 :]]
