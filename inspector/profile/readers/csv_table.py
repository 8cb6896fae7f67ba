"""Rows of profilers' CSV files, as Python's csv module reads them, with columns by our own names.

Profilers are killed while they write, and files are copied, cut and edited: a row that is not as
its header says is counted and left out, and the line of the first such row is kept.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from ...base.named_files import opened
from ..builder import RecordingBuilder
from .csv_columns import COLUMN_NAMES, UNREAD_COLUMNS, fold, instant, integer

_LONGEST_LINE = 1 << 24
"""Characters of the longest line that is read at once; what is longer is not a profiler's text."""
_MOST_BLANK_LINES = 3
"""How many blank lines may stand before the header."""


class DamagedRowError(ValueError):
    """A row with impossible cells; its text says what is wrong."""


def nothing_in(path: Path) -> str:
    """Why nothing was read from a file without a header."""
    return "no header of a known form in it" if path.stat().st_size else "empty file"


def header(path: Path) -> list[str]:
    """The names of a CSV file's columns as written; none if it is empty or cannot be opened."""
    try:
        with opened(path) as file:
            for _ in range(_MOST_BLANK_LINES + 1):
                line = file.readline(_LONGEST_LINE).decode("utf-8-sig", "replace")
                if text := line.strip("\r\n\0 "):
                    (cells,) = csv.reader([text], strict=True)
                    return [cell.strip() for cell in cells]
    except (OSError, csv.Error):
        pass
    return []


def folded(path: Path) -> frozenset[str]:
    """The folded names of a file's columns."""
    return frozenset(map(fold, header(path)))


class CsvTable(Struct):
    """A CSV file of a profiler."""

    path: Path
    names: list[str]  # of its columns, as written
    columns: dict[str, int]  # our name of a column -> its index
    count: int = 0  # rows, damaged ones included
    bad: int = 0  # damaged rows
    first_bad: int = 0  # line of the first damaged row
    reason: str = ""  # what is wrong with that row
    unfinished: bool = False  # whether its last line has no end

    @classmethod
    def open(cls, path: Path) -> CsvTable:
        """Reads a file's header."""
        names = header(path)
        index_of_name: dict[str, int] = {}
        for index, name in enumerate(names):
            index_of_name.setdefault(fold(name), index)
        columns = {}
        for our_name, spellings in COLUMN_NAMES.items():
            index = next((index_of_name[name] for name in spellings if name in index_of_name), -1)
            if index >= 0:
                columns[our_name] = index
        return cls(path, names, columns)

    def unknown_columns(self) -> list[str]:
        """Returns the columns that no reader knows."""
        known_indices = set(self.columns.values())
        return [
            name
            for index, name in enumerate(self.names)
            if index not in known_indices and fold(name) not in UNREAD_COLUMNS
        ]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields line number and cells of the rows that have as many cells as the header.

        The others are counted as damaged. One row is in memory at a time.
        """
        self.count = self.bad = 0
        width = len(self.names)
        if not width:
            return
        is_before_rows = True
        with opened(self.path) as file:
            reader = csv.reader(self._lines(file), strict=True)
            while True:
                line = reader.line_num + 1
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    self.count += 1
                    self.damage(line, str(error))
                    continue
                if cells is None:
                    return
                if is_before_rows:
                    is_before_rows = not any(cell.strip("\0 ") for cell in cells)
                    continue
                if not cells:
                    continue
                self.count += 1
                if len(cells) > width and not any(cells[width:]):
                    del cells[width:]
                if len(cells) == width:
                    yield line, cells
                else:
                    self.damage(line, f"{len(cells):,} columns instead of {width:,}")

    def _lines(self, file: io.BufferedReader) -> Iterator[str]:
        text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
        line = "\n"
        while piece := text.readline(_LONGEST_LINE):
            line = piece
            yield piece
        self.unfinished = not line.endswith(("\n", "\r"))

    def each(self, use: Callable[[list[str]], object]) -> None:
        """Hands on each row; where that raises `DamagedRowError`, the row counts as damaged."""
        for line, cells in self.rows():
            try:
                use(cells)
            except DamagedRowError as error:
                self.damage(line, str(error))

    def damage(self, line: int, reason: str) -> None:
        """Counts a damaged row."""
        if not self.bad:
            self.first_bad, self.reason = line, reason
        self.bad += 1

    def cell(self, cells: list[str], name: str) -> str:
        """The text of a cell; empty if the table has no such column."""
        column = self.columns.get(name)
        return "" if column is None else cells[column]

    def integer(self, cells: list[str], name: str) -> int | None:
        """The number in a cell; None where it is empty or the table has no such column.

        Raises:
            DamagedRowError: it is no number of 63 bits.
        """
        return self._number(cells, name, integer)

    def instant(self, cells: list[str], name: str) -> int | None:
        """As `integer`, of a timestamp in ns; None where it was never taken, or rounded."""
        return self._number(cells, name, instant)

    def _number(
        self, cells: list[str], name: str, parse: Callable[[str], int | None]
    ) -> int | None:
        column = self.columns.get(name)
        if column is None:
            return None
        try:
            value = parse(cells[column])
        except (ValueError, OverflowError):
            raise DamagedRowError(f"{self.names[column]} is not a number") from None
        if value is not None and not 0 <= value < 1 << 63:
            raise DamagedRowError(f"{self.names[column]} is not a number of 63 bits")
        return value

    def report(self, builder: RecordingBuilder) -> None:
        """Adds an error or a note on what was damaged or missing; called once all rows are read."""
        name = self.path.name
        if self.bad:
            builder.fail(
                self.path,
                f"{name}: {self.bad:,} of {self.count:,} rows could not be read, the first at line "
                f"{self.first_bad:,}: {self.reason}",
                "the profiler was killed while it wrote, wrote impossible times, or the file was"
                " changed; the other rows were read",
            )
        elif not self.names:
            builder.note(f"{name}: {nothing_in(self.path)}")
        elif not self.count:
            builder.note(f"{name}: a header and no rows")
        elif self.unfinished:
            builder.note(f"{name}: its last line has no end; its last row may be incomplete")
