"""CSV files of profilers, a block of rows at a time: cells as text, columns by our own names.

Profilers are killed while they write, files are copied, cut, edited and concatenated. A row that is
whole is read whatever stands around it; the others are counted, and the first one's line is kept.
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
slower: they leave the processor's cache, and the garbage collector has more to look through."""

_LONGEST = 1 << 24
"""No line of a profiler's CSV is longer; what is, is not text and is left out."""

_TOO_LARGE = 2**64
"""An execution mask has 64 bits; nothing else in these files has more than 63."""
_LONGEST_NUMBER = 64
"""Characters: hexadecimal numbers of any length are read, which takes memory."""

_JOINED = 4
"""A quoted field may hold line breaks: so many further lines are tried before it is given up."""


def nothing_in(path: Path) -> str:
    """Why a file without a header tells nothing."""
    return "no header of a known form in it" if path.stat().st_size else "empty file"


def header(path: Path) -> list[str]:
    """The names of a CSV file's columns as written; none if it is empty or cannot be opened."""
    text = ""
    try:
        with path.open("rb") as file:
            for _ in range(_JOINED):  # blank lines before it
                text = file.readline(_LONGEST).decode("utf-8-sig", "replace").strip("\r\n\0 ")
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
        ValueError: it is none, or none of 64 bits.
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
    """A timestamp in ns; None where it is empty, 0 (never taken) or rounded by who wrote it.

    `8.1097E+14` has lost its last ten digits: a difference of two such is no duration.

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
    """Whole rows that follow each other, and the number of each one's line.

    Cut into cells, or, where all rows are of the table's layout, into what was asked for alone.
    """

    table: Table
    lines: Sequence[int]
    texts: Sequence[str] = ()
    rows: Sequence[list[str]] = ()
    groups: Sequence[tuple[str, ...]] = ()  # as the table's layout has them

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> Sequence[str] | None:
        """The cells of one of our columns; None if the table has none such."""
        at = self.table.columns.get(name)
        if at is None:
            return None
        if self.groups and self.table.layout is not None:
            return self.groups[self.table.layout.singles[name]]
        return [row[at] for row in self.rows]

    def key_texts(self) -> Iterator[tuple[str, ...]]:
        """For each row, the text of the columns that were asked for as a key."""
        if self.groups and self.table.layout is not None:
            return zip(*(self.groups[group] for group in self.table.layout.key), strict=True)
        cells = [self.table.columns[name] for name in self.table.key_names]
        return (tuple([row[cell] for cell in cells]) for row in self.rows)

    def only(self, chosen: Sequence[bool]) -> Block:
        """Some of its rows."""
        return Block(
            self.table,
            list(compress(self.lines, chosen)),
            list(compress(self.texts, chosen)),
            list(compress(self.rows, chosen)),
            [tuple(compress(group, chosen)) for group in self.groups],
        )

    def row(self, at: int) -> list[str]:
        """All cells of a row."""
        return self.rows[at] if self.rows else next(csv.reader([self.texts[at]]))

    def all_rows(self) -> Sequence[list[str]]:
        """All cells of all rows."""
        return [self.row(at) for at in range(len(self))]


class Table(Struct):
    """A CSV file of a profiler. `columns` says where ours are, `others` which were not expected."""

    path: Path
    names: list[str]  # as written
    columns: dict[str, int]
    good: int = 0
    bad: int = 0
    first_bad: int = 0  # line
    reason: str = ""
    unfinished: bool = False  # its last line has no end
    key_names: tuple[str, ...] = ()
    layout: Layout | None = None
    _singles: tuple[str, ...] = ()

    headless: bool = False  # its first line is a row already

    @classmethod
    def open(cls, path: Path, names: Sequence[str] = ()) -> Table:
        """Reads a file's header.

        Args:
            path: of the file.
            names: what its columns are called, where it has no header.
        """
        headless = bool(names)
        names = list(names) or header(path)
        where: dict[str, int] = {}
        for index, name in enumerate(names):
            where.setdefault(fold(name), index)
        columns = {}
        for ours, theirs in FIELDS.items():
            index = next((where[name] for name in theirs if name in where), -1)
            if index >= 0:
                columns[ours] = index
        return cls(path, names, columns, headless=headless)

    def others(self) -> list[str]:
        """Columns that are neither ours nor known."""
        ours = set(self.columns.values())
        return [
            name
            for index, name in enumerate(self.names)
            if index not in ours and fold(name) not in SILENT
        ]

    def want(self, singles: Sequence[str], key: Sequence[str]) -> None:
        """Says which columns will be asked for: one by one, and together as a key.

        `blocks` then takes these out of the rows without making the other cells.
        """
        self._singles = tuple(name for name in singles if name in self.columns)
        self.key_names = tuple(name for name in key if name in self.columns)

    def blocks(self) -> Iterator[Block]:
        """The file's rows, damaged ones left out and counted.

        Every row has as many cells as the header. Memory stays at some megabytes.
        """
        width = len(self.names)
        number = 0
        waiting = not self.headless  # for the header
        first_text = self.headless
        for text in self._texts():
            first = number + 1
            number += text.count("\n") + 1
            if "\r" in text:
                text = text.replace("\r\n", "\n").removesuffix("\r")
            if waiting:
                head, behind = _behind_header(text)
                waiting = head == 0
                if behind is None:
                    continue
                text = behind
                first += head
                self._lay_out(text)
            if first_text:
                self._lay_out(text)
                first_text = False
            numbers: Sequence[int] = range(first, number + 1)
            lines = text.split("\n")
            as_usual = "\r" not in text and max(map(len, lines)) <= csv.field_size_limit()
            groups = self.layout.groups(lines) if self.layout is not None and as_usual else None
            if groups is not None:
                self.good += len(lines)
                yield Block(self, numbers, lines, groups=groups)
                continue
            try:
                rows = list(csv.reader(lines, strict=True))
            except csv.Error:
                rows = []
            if len(rows) != len(lines) or set(map(len, rows)) != {width}:
                rows, numbers = self._salvage(lines, first)
            if rows:
                self.good += len(rows)
                yield Block(self, numbers, rows=rows)

    def damage(self, line: int, reason: str, taken: bool = True) -> None:
        """Counts a row that could not be read (`taken`: it was handed out as whole)."""
        if not self.bad:
            self.first_bad, self.reason = line, reason
        self.bad += 1
        self.good -= taken

    def report(self, builder: Builder) -> None:
        """Says, once it is read, what the file lacked."""
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
        """The file by whole lines, some thousand at once; without the last line's end."""
        unfinished = b""
        lost = False
        with self.path.open("rb") as file:
            while data := file.read(_BLOCK):
                if b"\0" in data:
                    data = data.replace(b"\0", b"")
                cut = data.rfind(b"\n")
                if cut < 0:
                    unfinished += data
                    if len(unfinished) > _LONGEST:
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
        """Finds how rows are quoted, by the first one."""
        columns = self.columns
        self.layout = Layout.of(
            text.partition("\n")[0],
            len(self.names),
            {name: columns[name] for name in self._singles},
            frozenset(columns[name] for name in self.key_names),
        )

    def _salvage(self, lines: list[str], first: int) -> tuple[list[list[str]], list[int]]:
        """The whole rows among lines of which some are not."""
        rows: list[list[str]] = []
        numbers: list[int] = []
        at = 0
        while at < len(lines):
            start = at
            at += 1
            if not lines[start].strip("\r \t"):
                continue
            row = _parse(lines[start])
            if row is None:
                row, used = self._joined(lines, start)
                at += used
            if row is not None and len(row) > len(self.names):
                row = self._narrow(row)
            if row is not None and len(row) == len(self.names):
                rows.append(row)
                numbers.append(first + start)
            elif row is None:
                self.damage(first + start, "a quoted field is not closed", taken=False)
            else:
                reason = f"{len(row):,} columns instead of {len(self.names):,}"
                self.damage(first + start, reason, taken=False)
        return rows, numbers

    def _joined(self, lines: list[str], start: int) -> tuple[list[str] | None, int]:
        text = lines[start]
        for used, line in enumerate(lines[start + 1 : start + 1 + _JOINED], start=1):
            text += "\n" + line
            row = _parse(text)
            if row is not None:
                return (row, used) if len(row) == len(self.names) else (None, 0)
        return None, 0

    def _narrow(self, row: list[str]) -> list[str]:
        """A row with too many cells: an unquoted name has commas (`f<int, 2>`), or empty ends."""
        surplus = len(row) - len(self.names)
        if not any(row[-surplus:]):
            return row[:-surplus]
        name = self.columns.get("name")
        if name is None or not set(row[name]) & {"(", "<"}:
            return row
        whole = ",".join(row[name : name + surplus + 1])
        if whole.count("(") != whole.count(")") or whole.count("<") != whole.count(">"):
            return row
        return [*row[:name], whole, *row[name + surplus + 1 :]]


def _behind_header(text: str) -> tuple[int, str | None]:
    """How many lines the header takes, blank ones before it too, and the text behind it.

    0 lines if it is not in this text.
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
