"""Takes single cells out of rows of CSV, as far as all rows are quoted in one way.

A profiler quotes each column either always or never. A row that is cut at its quotes falls into
quoted cells and runs of unquoted ones; a run is cut at its commas only as far as its cells are
wanted. That is faster by half than the csv module, and nothing is assumed: rows of another form
than the first are left to that module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, field

_CELL = re.compile(r'(?:^|,)("[^"]*"|[^",]*)(?=,|$)')


class _UnquotedRun(Struct):
    """The unquoted cells between two quoted ones, or between one and an end of the row.

    Its text is cut at commas into pieces: one for each cell, and an empty one before the first
    comma where a quoted cell precedes the run, and behind the last where one follows. The last
    cells stay one piece, which is not cut, where only their text is wanted.

    Args:
        cells: how many.
        after_quote: whether a quoted cell stands before it.
        before_quote: whether one stands behind it.
        most_cuts: how many commas to cut at; -1 for all.
        picks: indices of the pieces to take.
        uncut_cells: how many cells are in the last piece where that is not cut.
    """

    cells: int
    after_quote: bool
    before_quote: bool
    most_cuts: int = -1
    picks: tuple[int, ...] = ()
    uncut_cells: int = 0
    _well_formed: set[str] = field(default_factory=set)  # uncut texts that were looked at before

    def pieces_of(self, texts: Sequence[str]) -> Sequence[tuple[str, ...]] | None:
        """Takes the picked pieces from the texts of many rows, piece by piece."""
        if not self.cells:
            is_between = self.after_quote and self.before_quote
            return () if set(texts) == {"," if is_between else ""} else None
        cut_texts = [text.split(",", self.most_cuts) for text in texts]
        if set(map(len, cut_texts)) != {self._piece_count}:
            return None
        pieces = list(zip(*cut_texts, strict=True))
        if self.after_quote and set(pieces[0]) != {""}:
            return None
        if self.uncut_cells:
            if not self._have_all_cells(pieces[-1]):
                return None
        elif self.before_quote and set(pieces[-1]) != {""}:
            return None
        return [pieces[pick] for pick in self.picks]

    @property
    def _piece_count(self) -> int:
        if self.most_cuts >= 0:
            return self.most_cuts + 1
        return self.cells + self.after_quote + self.before_quote

    def _have_all_cells(self, texts: Sequence[str]) -> bool:
        """Tells whether uncut texts have as many cells as they should."""
        commas = self.uncut_cells - 1 + self.before_quote
        for text in set(texts) - self._well_formed:
            if text.count(",") != commas or (self.before_quote and not text.endswith(",")):
                return False
            self._well_formed.add(text)
        return True


class _WantedColumns(Struct):
    """The columns to take, which get the numbers of their groups from left to right.

    Args:
        names: column -> name, of those that are taken by themselves.
        keys: columns that make up the key.
        group_of: name -> number of its group, of the columns seen so far.
        key_groups: numbers of the groups that are the key, so far.
        count: how many groups there are so far.
    """

    names: Mapping[int, str]
    keys: frozenset[int]
    group_of: dict[str, int] = field(default_factory=dict)
    key_groups: list[int] = field(default_factory=list)
    count: int = 0

    def number(self, column: int) -> bool:
        """Numbers the group of a column; tells whether it is wanted at all."""
        name, is_key = self.names.get(column), column in self.keys
        if name is None and not is_key:
            return False
        if name is not None:
            self.group_of[name] = self.count
        if is_key:
            self.key_groups.append(self.count)
        self.count += 1
        return True

    def number_text(self) -> None:
        """Numbers the group of several cells of the key that stay one text."""
        self.key_groups.append(self.count)
        self.count += 1

    def uncut_from(self, columns: range) -> int:
        """Returns the column from which on a run need not be cut; its end if all of it must be.

        Those are at least two columns, of the key alone.
        """
        start = columns.stop
        while start > columns.start and start - 1 in self.keys and start - 1 not in self.names:
            start -= 1
        return start if columns.stop - start > 1 else columns.stop


class RowLayout(Struct):
    """How a table's rows are quoted, and which of their cells to take.

    Args:
        group_of: name of a column that is taken by itself -> index of its group.
        key_groups: indices of the groups that together are the key.
    """

    group_of: Mapping[str, int]
    key_groups: tuple[int, ...]
    _part_count: int  # of a row that is cut at its quotes: runs and quoted cells take turns
    _steps: tuple[tuple[int, _UnquotedRun | None], ...]  # part to take from; None: a quoted cell

    @classmethod
    def of_row(
        cls, line: str, width: int, singles: Mapping[str, int], keys: frozenset[int]
    ) -> RowLayout | None:
        """Determines the layout of rows like `line`; returns None if it has not `width` columns.

        Args:
            line: a row.
            width: columns of the table.
            singles: columns to take by themselves, by name.
            keys: columns that make up the key; they may be among the singles.
        """
        cells = _CELL.findall(line)
        if len(cells) != width or width < 2 or not (singles or keys):
            return None
        wanted = _WantedColumns({column: name for name, column in singles.items()}, keys)
        quoted = [column for column, cell in enumerate(cells) if cell.startswith('"')]
        steps: list[tuple[int, _UnquotedRun | None]] = []
        for index, (before, after) in enumerate(pairwise((-1, *quoted, width))):
            steps.append((2 * index, _run(range(before + 1, after), width, wanted)))
            if after < width and wanted.number(after):
                steps.append((2 * index + 1, None))
        return cls(wanted.group_of, tuple(wanted.key_groups), 2 * len(quoted) + 1, tuple(steps))

    def groups(self, lines: Sequence[str]) -> list[tuple[str, ...]] | None:
        """Takes the cells of many rows, group by group; returns None if a row is of another form.

        The rows hold no carriage returns.
        """
        parts_of_rows = [line.split('"') for line in lines]
        if set(map(len, parts_of_rows)) != {self._part_count}:
            return None
        parts = list(zip(*parts_of_rows, strict=True))
        groups: list[tuple[str, ...]] = []
        for part, run in self._steps:
            if run is None:
                groups.append(parts[part])
                continue
            pieces = run.pieces_of(parts[part])
            if pieces is None:
                return None
            groups.extend(pieces)
        return groups


def _run(columns: range, width: int, wanted: _WantedColumns) -> _UnquotedRun:
    """Returns the run of some columns, and numbers those of them that are wanted."""
    run = _UnquotedRun(
        cells=len(columns), after_quote=columns.start > 0, before_quote=columns.stop < width
    )
    first_piece = columns.start - run.after_quote  # a column's piece is its distance from here
    uncut_from = wanted.uncut_from(columns)
    picks = [
        column - first_piece for column in range(columns.start, uncut_from) if wanted.number(column)
    ]
    if uncut_from < columns.stop:
        run.uncut_cells = columns.stop - uncut_from
        run.most_cuts = uncut_from - first_piece
        picks.append(run.most_cuts)
        wanted.number_text()
    run.picks = tuple(picks)
    return run
