"""Rows of profilers' CSV files, as Python's csv module reads them, under our own names of columns.

Profilers are killed while they write, and files are copied, cut and edited: a row that is not as
its header says is counted and left out, and the line of the first such row is kept.

Columns have other names in each version. Tables that hold no dispatches, statistics of kernels and
copies, are told from the others by them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from pathlib import Path

from msgspec import Struct

from ...base.named_files import opened
from ...model.recording import TopKernel
from ..builder import RecordingBuilder

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


COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "name": ("kernelname",),
    "kernel_id": ("kernelid",),
    "agent": ("agentid", "gpuid"),
    "process": ("processid", "pid"),
    "guid": ("guid",),
    "number": ("dispatchid", "index"),
    "queue": ("queueid",),
    "start": ("starttimestamp", "beginns"),
    "end": ("endtimestamp", "endns"),
    "lds": ("ldsblocksize", "groupsegmentsize", "ldsperworkgroup", "lds"),
    "scratch": ("scratchsize", "privatesegmentsize", "scratchperworkitem", "scr"),
    "vgpr": ("vgprcount", "archvgprcount", "archvgpr", "vgpr"),
    "accum_vgpr": ("accumvgprcount", "accumvgpr"),
    "sgpr": ("sgprcount", "sgpr"),
    "wave_size": ("wavesize",),
    "workgroup_x": ("workgroupsizex",),
    "workgroup_y": ("workgroupsizey",),
    "workgroup_z": ("workgroupsizez",),
    "workgroup_size": ("workgroupsize", "wgr"),
    "grid_x": ("gridsizex",),
    "grid_y": ("gridsizey",),
    "grid_z": ("gridsizez",),
    "grid_size": ("gridsize", "grd"),
    "counter": ("countername",),
    "value": ("countervalue",),
    "xcc": ("xccindex",),
    "mask": ("execmask",),
    "instruction": ("instruction",),
    "comment": ("instructioncomment",),
    "issued": ("waveissuedinstruction",),
    "reason": ("stallreason",),
    "label": ("name",),  # of statistics: a kernel or a function
    "direction": ("direction",),
    "calls": ("calls",),
    "domain": ("domain",),
    "total_ns": ("totaldurationns", "durationnsec"),
    "mean_ns": ("averagens", "averagensec"),
    "min_ns": ("minns", "minnsec"),
    "max_ns": ("maxns", "maxnsec"),
}
"""Our names of columns, and theirs in all versions, the preferred first (folded: `fold`)."""

UNREAD_COLUMNS: frozenset[str] = frozenset(
    {
        "kind", "streamid", "threadid", "correlationid", "tid", "pid", "queueindex", "sig", "obj",
        "dispatchns", "completens", "durationns", "fbar", "percentage", "stddev", "sampletimestamp",
        "instructiontype", "wavecount", "node", "",
    }
)  # fmt: skip
"""Columns that every version writes and that are not read."""


def fold(name: str) -> str:
    """Removes case and punctuation of a column's name: `Kernel_Name` and `KernelName` are one."""
    return re.sub(r"[^a-z0-9\[\]]", "", name.lower())


_TOO_LARGE = 2**64
"""Integers from here on are refused: an execution mask has 64 bits, all others have at most 63."""
_LONGEST_NUMBER = 64
"""Characters of a hexadecimal number that are read, so that a damaged cell cannot fill memory."""


def _is_plain(text: str) -> bool:
    """Whether text has none of what only Python takes for parts of numbers: `1_000`, `５`."""
    return text.isascii() and "_" not in text


def integer(text: str) -> int | None:
    """An integer written as `12`, `0x0c`, `12.000000` or `1.2e1`; None if empty.

    Raises:
        ValueError: it is no finite number, or does not fit 64 bits.
    """
    if not _is_plain(text):
        raise ValueError("no number")
    try:
        number = int(text)
    except ValueError:
        text = text.strip()
        if not text:
            return None
        if text[:2].lower() == "0x":
            number = int(text[:_LONGEST_NUMBER], 16)
        else:
            value = float(text)
            if not isfinite(value):
                raise
            number = round(value)
    if not -_TOO_LARGE < number < _TOO_LARGE:
        raise ValueError("no number of 64 bits")
    return number


def instant(text: str) -> int | None:
    """A timestamp in ns; None where it is empty, 0 (never taken) or was rounded by its writer.

    `8.1097E+14` has lost its last ten digits: the difference of two such times is no duration.

    Raises:
        ValueError: it is no number.
    """
    value = integer(text)
    if value is None or value <= 0:
        return None
    mantissa, letter, _ = text.lower().partition("e")
    if letter and len(re.sub(r"\D", "", mantissa)) < len(str(value)):
        return None
    return value


def real(text: str) -> float:
    """A number with a fraction, or an integer in any form that `integer` reads.

    Raises:
        ValueError: the text is no number, or empty.
    """
    if not _is_plain(text):
        raise ValueError("no number")
    try:
        return float(text)
    except ValueError:
        number = integer(text)
        if number is None:
            raise
        return float(number)


STATISTICS = "kernel statistics"
_KERNEL_DOMAIN = "KERNEL_DISPATCH"


def _calls_and_total(table: CsvTable, cells: list[str]) -> tuple[int, int]:
    calls, total = table.integer(cells, "calls"), table.integer(cells, "total_ns")
    if calls is None or total is None:
        raise DamagedRowError("calls or durations are not numbers")
    return calls, total


def read_stats(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of kernels with calls and durations to the summary.

    A table of all that was traced has a column `domain`; its rows of kernels alone are read.
    """

    def add(cells: list[str]) -> None:
        if "domain" in table.columns and table.cell(cells, "domain").strip() != _KERNEL_DOMAIN:
            return
        calls, total = _calls_and_total(table, cells)
        mean = table.cell(cells, "mean_ns").strip()
        try:
            mean_ns = real(mean) if mean else None
        except (ValueError, OverflowError):
            raise DamagedRowError("calls or durations are not numbers") from None
        builder.summary.append(
            TopKernel(
                name=table.cell(cells, "label"),
                calls=calls,
                total_ns=total,
                mean_ns=mean_ns,
                min_ns=table.integer(cells, "min_ns"),
                max_ns=table.integer(cells, "max_ns"),
            )
        )

    table.each(add)
    table.report(builder)


def read_copies(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of one row per copy to the recording's transfers."""

    def add(cells: list[str]) -> None:
        start, end = table.instant(cells, "start"), table.instant(cells, "end")
        if start is None or end is None or end < start:
            raise DamagedRowError("begin or end is not a time")
        builder.transfer(table.cell(cells, "direction").strip(), end - start)

    table.each(add)
    table.report(builder)


def read_copy_statistics(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of copies with calls and durations to the recording's transfers.

    A database beside it, if one was read, has the same copies.
    """
    if any(part.path.endswith(".db") for part in builder.parts):
        return

    def add(cells: list[str]) -> None:
        calls, total = _calls_and_total(table, cells)
        builder.transfer(table.cell(cells, "label"), total, calls)

    table.each(add)
    table.report(builder)
