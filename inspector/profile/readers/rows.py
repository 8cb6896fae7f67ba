"""Reads CSV files of profilers in blocks of rows: cells as text, columns by our own names.

Profilers are killed while they write, and files are copied, cut, edited and concatenated. Every
undamaged row is read, whatever surrounds it; damaged ones are counted, and the line of the first is
kept.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path

from msgspec import Struct

from ..builder import Builder
from .csv_layout import FIELDS, SILENT, Layout, fold

_BLOCK = 1 << 16
"""Bytes read at once: some hundred rows, whose columns are converted together. Larger blocks are
slower, because they do not fit the processor's cache and give the garbage collector more work."""

_LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read; a longer one is not a profiler's text and is left out."""

_TOO_LARGE = 2**64
"""Integers from here on are refused: an execution mask has 64 bits, all others have at most 63."""
_LONGEST_NUMBER = 64
"""Characters of a hexadecimal number that are read, so that a damaged cell cannot fill memory."""

_MOST_CONTINUATION_LINES = 4
"""How many further lines a quoted field with line breaks may take before its row is given up."""


def nothing_in(path: Path) -> str:
    """Why nothing was read from a file without a header."""
    return "no header of a known form in it" if path.stat().st_size else "empty file"


def header(path: Path) -> list[str]:
    """The names of a CSV file's columns as written; none if it is empty or cannot be opened."""
    text = ""
    try:
        with path.open("rb") as file:
            for _ in range(_MOST_CONTINUATION_LINES):  # blank lines before it
                text = file.readline(_LONGEST_LINE).decode("utf-8-sig", "replace").strip("\r\n\0 ")
                if text:
                    break
    except OSError:
        return []
    cells = _parse(text) if text else None
    return [] if cells is None else [cell.strip() for cell in cells]


def folded(path: Path) -> frozenset[str]:
    """The folded names of a file's columns."""
    return frozenset(map(fold, header(path)))


def integer(text: str) -> int | None:
    """An integer written as `12`, `0x0c`, `12.000000` or `1.2e1`.

    Returns:
        None for an empty cell.

    Raises:
        ValueError: it is no integer, or does not fit 64 bits.
    """
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
            if value != value or value in (float("inf"), float("-inf")):
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


class Block(Struct):
    """Undamaged rows that follow each other, with the line number of each.

    Either `rows` holds all cells, or `groups` only the columns given to `Table.select_columns`,
    which is faster and possible where every row has the table's layout.
    """

    table: Table
    lines: Sequence[int]
    texts: Sequence[str] = ()
    rows: Sequence[list[str]] = ()
    groups: Sequence[tuple[str, ...]] = ()  # columns, in the order of the table's layout

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> Sequence[str] | None:
        """The cells of the column that we call `name`; None if the table does not have it."""
        index = self.table.columns.get(name)
        if index is None:
            return None
        if self.groups and self.table.layout is not None:
            return self.groups[self.table.layout.singles[name]]
        return [row[index] for row in self.rows]

    def key_texts(self) -> Iterator[tuple[str, ...]]:
        """Yields for each row the cells of the key, as given to `Table.select_columns`."""
        if self.groups and self.table.layout is not None:
            return zip(*(self.groups[group] for group in self.table.layout.key), strict=True)
        cells = [self.table.columns[name] for name in self.table.key_names]
        return (tuple([row[cell] for cell in cells]) for row in self.rows)

    def only(self, chosen: Sequence[bool]) -> Block:
        """The rows for which `chosen` is true."""
        return Block(
            table=self.table,
            lines=list(compress(self.lines, chosen)),
            texts=list(compress(self.texts, chosen)),
            rows=list(compress(self.rows, chosen)),
            groups=[tuple(compress(group, chosen)) for group in self.groups],
        )

    def row(self, index: int) -> list[str]:
        """Returns all cells of a row."""
        return self.rows[index] if self.rows else next(csv.reader([self.texts[index]]))

    def all_rows(self) -> Sequence[list[str]]:
        """Returns all cells of all rows."""
        return [self.row(index) for index in range(len(self))]


class Table(Struct):
    """A CSV file of a profiler."""

    path: Path
    names: list[str]  # of its columns, as written
    columns: dict[str, int]  # our name of a column -> its index
    good: int = 0  # rows that were read
    bad: int = 0  # rows that were damaged
    first_bad: int = 0  # line of the first damaged row
    reason: str = ""  # what is wrong with that row
    unfinished: bool = False  # whether its last line has no end
    key_names: tuple[str, ...] = ()  # columns that are read together as a key
    layout: Layout | None = None  # how its rows are quoted; None where that varies
    _singles: tuple[str, ...] = ()  # columns that are read one by one

    headless: bool = False  # whether its first line is a row, no header

    @classmethod
    def open(cls, path: Path, names: Sequence[str] = ()) -> Table:
        """Reads a file's header.

        Args:
            path: the file.
            names: the names of its columns, where it has no header.
        """
        headless = bool(names)
        names = list(names) or header(path)
        index_of_name: dict[str, int] = {}
        for index, name in enumerate(names):
            index_of_name.setdefault(fold(name), index)
        columns = {}
        for our_name, spellings in FIELDS.items():
            index = next((index_of_name[name] for name in spellings if name in index_of_name), -1)
            if index >= 0:
                columns[our_name] = index
        return cls(path, names, columns, headless=headless)

    def unknown_columns(self) -> list[str]:
        """Returns the columns that no reader knows."""
        known_indices = set(self.columns.values())
        return [
            name
            for index, name in enumerate(self.names)
            if index not in known_indices and fold(name) not in SILENT
        ]

    def select_columns(self, singles: Sequence[str], key: Sequence[str]) -> None:
        """Names the columns that will be read: one by one, and together as a key.

        `blocks` then extracts only these from the rows.
        """
        self._singles = tuple(name for name in singles if name in self.columns)
        self.key_names = tuple(name for name in key if name in self.columns)

    def blocks(self) -> Iterator[Block]:
        """Yields the file's undamaged rows; damaged ones are counted.

        Every row has as many cells as the header. Only some megabytes are in memory at a time.
        """
        width = len(self.names)
        last_line = 0
        before_header = not self.headless  # for the header
        first_text = self.headless
        for text in self._texts():
            first_line = last_line + 1
            last_line += text.count("\n") + 1
            if "\r" in text:
                text = text.replace("\r\n", "\n").removesuffix("\r")
            if before_header:
                header_lines, text_behind = _behind_header(text)
                before_header = header_lines == 0
                if text_behind is None:
                    continue
                text = text_behind
                first_line += header_lines
                self._lay_out(text)
            if first_text:
                self._lay_out(text)
                first_text = False
            numbers: Sequence[int] = range(first_line, last_line + 1)
            lines = text.split("\n")
            is_regular = "\r" not in text and max(map(len, lines)) <= csv.field_size_limit()
            groups = self.layout.groups(lines) if self.layout is not None and is_regular else None
            if groups is not None:
                self.good += len(lines)
                yield Block(self, numbers, lines, groups=groups)
                continue
            try:
                rows = list(csv.reader(lines, strict=True))
            except csv.Error:
                rows = []
            if len(rows) != len(lines) or set(map(len, rows)) != {width}:
                rows, numbers = self._salvage(lines, first_line)
            if rows:
                self.good += len(rows)
                yield Block(self, numbers, rows=rows)

    def damage(self, line: int, reason: str, yielded: bool = True) -> None:
        """Counts a damaged row.

        Args:
            line: its line number.
            reason: what is wrong with it.
            yielded: whether `blocks` yielded it, and counted it as good.
        """
        if not self.bad:
            self.first_bad, self.reason = line, reason
        self.bad += 1
        self.good -= yielded

    def report(self, builder: Builder) -> None:
        """Adds an error or a note on what was damaged or missing; called once all rows are read."""
        name = self.path.name
        if self.bad:
            rows = self.good + self.bad
            builder.fail(
                self.path,
                f"{name}: {self.bad:,} of {rows:,} rows could not be read, the first at line "
                f"{self.first_bad:,}: {self.reason}",
                "the profiler was killed while it wrote, or the file was changed; the other rows "
                "were read",
            )
        elif not self.names:
            builder.note(f"{name}: {nothing_in(self.path)}")
        elif not self.good:
            builder.note(f"{name}: a header and no rows")
        elif self.unfinished:
            builder.note(f"{name}: its last line has no end; its last row may be incomplete")

    # ----------------------------------------------------------------------------- parts

    def _texts(self) -> Iterator[str]:
        """The file in texts of whole lines, some hundred each, without the last line's newline."""
        unfinished = b""
        lost = False
        with self.path.open("rb") as file:
            while data := file.read(_BLOCK):
                if b"\0" in data:
                    data = data.replace(b"\0", b"")
                cut = data.rfind(b"\n")
                if cut < 0:
                    unfinished += data
                    if len(unfinished) > _LONGEST_LINE:
                        unfinished, lost = b"", True
                    continue
                text = (unfinished + data[:cut]).decode("utf-8", "replace")
                unfinished = data[cut + 1 :]
                if lost:  # the end of a line whose start was dropped
                    text = '"' + "\n".join(["", *text.split("\n")[1:]])
                    lost = False
                yield text
        if unfinished or lost:
            self.unfinished = True
            yield '"' if lost else unfinished.decode("utf-8", "replace")

    def _lay_out(self, text: str) -> None:
        """Sets the layout from the way in which the first row of a text is quoted."""
        columns = self.columns
        self.layout = Layout.of(
            text.partition("\n")[0],
            len(self.names),
            {name: columns[name] for name in self._singles},
            frozenset(columns[name] for name in self.key_names),
        )

    def _salvage(self, lines: list[str], first: int) -> tuple[list[list[str]], list[int]]:
        """The undamaged rows among lines of which some are damaged, and their line numbers."""
        rows: list[list[str]] = []
        numbers: list[int] = []
        next_index = 0
        while next_index < len(lines):
            start = next_index
            next_index += 1
            if not lines[start].strip("\r \t"):
                continue
            row = _parse(lines[start])
            if row is None:
                row, used = self._joined(lines, start)
                next_index += used
            if row is not None and len(row) > len(self.names):
                row = self._narrow(row)
            if row is not None and len(row) == len(self.names):
                rows.append(row)
                numbers.append(first + start)
            elif row is None:
                self.damage(first + start, "a quoted field is not closed", yielded=False)
            else:
                reason = f"{len(row):,} columns instead of {len(self.names):,}"
                self.damage(first + start, reason, yielded=False)
        return rows, numbers

    def _joined(self, lines: list[str], start: int) -> tuple[list[str] | None, int]:
        """A row whose quoted fields hold line breaks, and how many further lines it takes."""
        text = lines[start]
        for used, line in enumerate(
            lines[start + 1 : start + 1 + _MOST_CONTINUATION_LINES], start=1
        ):
            text += "\n" + line
            row = _parse(text)
            if row is not None:
                return (row, used) if len(row) == len(self.names) else (None, 0)
        return None, 0

    def _narrow(self, row: list[str]) -> list[str]:
        """Mends a row with too many cells: it ends in empty ones, or its unquoted name has commas.

        Such a name is `f<int, 2>`. A row that is neither is returned as it is.
        """
        surplus = len(row) - len(self.names)
        if not any(row[-surplus:]):
            return row[:-surplus]
        name_index = self.columns.get("name")
        if name_index is None or not set(row[name_index]) & {"(", "<"}:
            return row
        joined_name = ",".join(row[name_index : name_index + surplus + 1])
        if joined_name.count("(") != joined_name.count(")") or joined_name.count(
            "<"
        ) != joined_name.count(">"):
            return row
        return [*row[:name_index], joined_name, *row[name_index + surplus + 1 :]]


def _behind_header(text: str) -> tuple[int, str | None]:
    """The number of lines up to the end of the header, blank ones included, and the text behind it.

    The number is 0 if the header is not in this text.
    """
    lines = 0
    remaining = text
    while True:
        line, newline, remaining = remaining.partition("\n")
        lines += 1
        if line.strip("\r \ufeff"):
            return lines, remaining if newline and remaining else None
        if not newline:
            return 0, None


def _parse(line: str) -> list[str] | None:
    try:
        rows = list(csv.reader(line.splitlines(keepends=True), strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
