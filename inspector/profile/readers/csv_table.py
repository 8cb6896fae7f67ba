"""Reads CSV files of profilers in blocks of rows: cells as text, columns by our own names.

Profilers are killed while they write, and files are copied, cut, edited and concatenated. Every
undamaged row is read, whatever surrounds it; damaged ones are counted, and the line of the first is
kept.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path

from msgspec import Struct

from ...base.named_files import opened
from ..builder import RecordingBuilder
from .csv_columns import COLUMN_NAMES, UNREAD_COLUMNS, fold
from .csv_layout import RowLayout
from .csv_mending import mended_rows, parsed_row

_BLOCK = 1 << 16
"""Bytes read at once: some hundred rows, whose columns are converted together. Larger blocks are
slower, because they do not fit the processor's cache and give the garbage collector more work."""

_LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read; a longer one is not a profiler's text and is left out."""

_MOST_BLANK_LINES = 3
"""How many blank lines may stand before the header."""


def nothing_in(path: Path) -> str:
    """Why nothing was read from a file without a header."""
    return "no header of a known form in it" if path.stat().st_size else "empty file"


def header(path: Path) -> list[str]:
    """The names of a CSV file's columns as written; none if it is empty or cannot be opened."""
    text = ""
    try:
        with opened(path) as file:
            for _ in range(_MOST_BLANK_LINES + 1):
                text = file.readline(_LONGEST_LINE).decode("utf-8-sig", "replace").strip("\r\n\0 ")
                if text:
                    break
    except OSError:
        return []
    cells = parsed_row(text) if text else None
    return [] if cells is None else [cell.strip() for cell in cells]


def folded(path: Path) -> frozenset[str]:
    """The folded names of a file's columns."""
    return frozenset(map(fold, header(path)))


class RowBlock(Struct):
    """Undamaged rows that follow each other, with the line number of each.

    Either `rows` holds all cells, or `groups` only the columns given to `CsvTable.select_columns`,
    which is faster and possible where every row has the table's layout.
    """

    table: CsvTable
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
            return self.groups[self.table.layout.group_of[name]]
        return [row[index] for row in self.rows]

    def key_texts(self, columns: Sequence[int]) -> Iterator[tuple[str, ...]]:
        """Yields for each row the texts of the cells of `columns`.

        Where columns were selected (`CsvTable.select_columns`), their key must be `columns`.
        """
        if self.groups and self.table.layout is not None:
            return zip(*(self.groups[group] for group in self.table.layout.key_groups), strict=True)
        return (tuple([row[column] for column in columns]) for row in self.rows)

    def only(self, chosen: Sequence[bool]) -> RowBlock:
        """The rows for which `chosen` is true."""
        return RowBlock(
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


class CsvTable(Struct):
    """A CSV file of a profiler."""

    path: Path
    names: list[str]  # of its columns, as written
    columns: dict[str, int]  # our name of a column -> its index
    good: int = 0  # rows that were read
    bad: int = 0  # rows that were damaged
    first_bad: int = 0  # line of the first damaged row
    reason: str = ""  # what is wrong with that row
    unfinished: bool = False  # whether its last line has no end
    layout: RowLayout | None = None  # how its rows are quoted; None where that varies
    _singles: tuple[str, ...] = ()  # columns that are read one by one
    _key: tuple[str, ...] = ()  # columns that are read together
    headless: bool = False  # whether its first line is a row, no header

    @classmethod
    def open(cls, path: Path, names: Sequence[str] = ()) -> CsvTable:
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
        for our_name, spellings in COLUMN_NAMES.items():
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
            if index not in known_indices and fold(name) not in UNREAD_COLUMNS
        ]

    def select_columns(self, singles: Sequence[str], key: Sequence[str]) -> None:
        """Names the columns that will be read: one by one, and together as a key.

        `blocks` then extracts only these from the rows.
        """
        self._singles = tuple(name for name in singles if name in self.columns)
        self._key = tuple(name for name in key if name in self.columns)

    def blocks(self) -> Iterator[RowBlock]:
        """Yields the file's undamaged rows; damaged ones are counted.

        Every row has as many cells as the header. Only some megabytes are in memory at a time.
        """
        self.layout = None
        is_first = True
        for first_line, text in self._texts_of_rows():
            if is_first:
                self.layout, is_first = self._layout_of(text), False
            lines = text.split("\n")
            numbers: Sequence[int] = range(first_line, first_line + len(lines))
            is_regular = "\r" not in text and max(map(len, lines)) <= csv.field_size_limit()
            groups = self.layout.groups(lines) if self.layout is not None and is_regular else None
            if groups is not None:
                self.good += len(lines)
                yield RowBlock(self, numbers, lines, groups=groups)
                continue
            try:
                rows = list(csv.reader(lines, strict=True))
            except csv.Error:
                rows = []
            if len(rows) != len(lines) or set(map(len, rows)) != {len(self.names)}:
                name_column = self.columns.get("name")
                mended = mended_rows(lines, len(self.names), name_column)
                rows = [row for _, row in mended.rows]
                numbers = [first_line + index for index, _ in mended.rows]
                for index, reason in mended.damaged:
                    self.damage(first_line + index, reason, yielded=False)
            if rows:
                self.good += len(rows)
                yield RowBlock(self, numbers, rows=rows)

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

    def report(self, builder: RecordingBuilder) -> None:
        """Adds an error or a note on what was damaged or missing; called once all rows are read."""
        name = self.path.name
        if self.bad:
            rows = self.good + self.bad
            builder.fail(
                self.path,
                f"{name}: {self.bad:,} of {rows:,} rows could not be read, the first at line "
                f"{self.first_bad:,}: {self.reason}",
                "the profiler was killed while it wrote, wrote impossible times, or the file was"
                " changed; the other rows were read",
            )
        elif not self.names:
            builder.note(f"{name}: {nothing_in(self.path)}")
        elif not self.good:
            builder.note(f"{name}: a header and no rows")
        elif self.unfinished:
            builder.note(f"{name}: its last line has no end; its last row may be incomplete")

    def _texts_of_rows(self) -> Iterator[tuple[int, str]]:
        """Yields what follows the header, in texts of whole lines with the number of the first.

        Lines end in newlines alone, unless a carriage return stands where no line ends.
        """
        next_line = 1
        is_before_rows = not self.headless
        for text in self._texts():
            first_line = next_line
            next_line += text.count("\n") + 1
            if "\r" in text:
                text = text.replace("\r\n", "\n").removesuffix("\r")
            if is_before_rows:
                header_lines, text_behind = _behind_header(text)
                is_before_rows = header_lines == 0
                if text_behind is None:
                    continue
                text = text_behind
                first_line += header_lines
            yield first_line, text

    def _texts(self) -> Iterator[str]:
        """The file in texts of whole lines, some hundred each, without the last line's newline."""
        unfinished = b""
        lost = False
        with opened(self.path) as file:
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

    def _layout_of(self, text: str) -> RowLayout | None:
        """Returns the layout by the way in which the first row of a text is quoted."""
        columns = self.columns
        return RowLayout.of_row(
            text.partition("\n")[0],
            len(self.names),
            {name: columns[name] for name in self._singles},
            frozenset(columns[name] for name in self._key),
        )


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
