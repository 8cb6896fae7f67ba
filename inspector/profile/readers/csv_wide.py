"""Reads wide CSV tables: a row for each dispatch, and a column for each counter."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

from msgspec import Struct, field

from ...model.recording import NONE, Part
from ..builder import RecordingBuilder, int64
from .agents import AgentIds
from .csv_columns import COLUMN_NAMES, UNREAD_COLUMNS, fold, integer, real
from .csv_counters import CounterWriter, bare
from .csv_dispatches import DispatchWriter
from .csv_table import CsvTable, RowBlock
from .row_index import RowIndex

_KNOWN_COLUMNS = UNREAD_COLUMNS.union(*COLUMN_NAMES.values()) - {""}
_DUPLICATE = re.compile(r"(\w+?)_\d+$")
"""The name that pandas gives a second column of the same name when files are merged."""


def read_wide(
    table: CsvTable, builder: RecordingBuilder, part: Part, renamed: dict[str, str] | None = None
) -> bool:
    """Reads a table of one row per dispatch with a column per counter, as a part of its own.

    Returns:
        Whether its timestamps have lost digits.
    """
    builder.begin(part)
    writer = DispatchWriter(
        builder=builder,
        table=table,
        agent_key=AgentIds().key,
        process=None,
        part=len(builder.parts) - 1,
    )
    reader = WideReader(writer, CounterWriter(builder), renamed or {})
    reader.read()
    table.report(builder)
    if reader.foreign:
        names = ", ".join(reader.foreign[:4]) + (", …" if len(reader.foreign) > 4 else "")
        builder.note(f"{table.path.name}: unknown columns are left out: {names}")
    return bool(writer.rounded)


class WideReader(Struct):
    """Reads a table of one row per dispatch, with a column per counter.

    The instances of a counter (`TCC_HIT[0]` … `TCC_HIT[127]`, the channels of all XCCs) are summed.
    """

    writer: DispatchWriter
    counters: CounterWriter
    renamed: dict[str, str] = field(default_factory=dict)  # name in the file -> counter's name
    foreign: list[str] = field(default_factory=list)  # columns that hold no numbers
    _indices: dict[str, list[int]] = field(default_factory=dict)  # by counter
    _rows: RowIndex | None = None

    def read(self) -> None:
        """Reads the whole table."""
        table = self.writer.table
        unknown = table.unknown_columns()
        first_columns = {name: column for column, name in reversed(list(enumerate(table.names)))}
        for name in unknown:
            duplicate = _DUPLICATE.match(name)
            if duplicate is not None and (
                duplicate[1] in first_columns or fold(duplicate[1]) in _KNOWN_COLUMNS
            ):
                continue
            self._indices.setdefault(bare(name), []).append(first_columns[name])
        if "xcc" in table.columns and "number" in table.columns:
            self._rows = RowIndex()
        first = True
        for block in table.blocks():
            if first:
                self._drop_foreign(block.row(0))
                first = False
            self._block(block)
        self.counters.report(table)

    def _drop_foreign(self, cells: list[str]) -> None:
        """Moves columns whose cell in the first row is no number from counters to `foreign`."""
        for name, columns in list(self._indices.items()):
            try:
                for column in columns:
                    if cells[column].strip():
                        real(cells[column])
            except ValueError:
                self.foreign.append(name)
                del self._indices[name]

    def _block(self, block: RowBlock) -> None:
        rows = self._dispatches(block)
        columns = list(zip(*block.all_rows(), strict=True))
        for name, indices in self._indices.items():
            number = self.counters.number(self.renamed.get(name, name))
            values, rows_with_value = self._sums(block, rows, [columns[index] for index in indices])
            self.counters.extend(rows_with_value, array("h", [number]) * len(values), values)

    def _dispatches(self, block: RowBlock) -> Sequence[int]:
        """The dispatch of each row; rows of one dispatch on several XCCs have the same."""
        if self._rows is None:
            return self.writer.add(block)
        dispatch_rows = []
        number_column = self.writer.table.columns["number"]
        for cells, line in zip(block.all_rows(), block.lines, strict=True):
            try:
                dispatch_id = int64(integer(cells[number_column]))
            except (ValueError, OverflowError):
                dispatch_id = None
            if dispatch_id is None or dispatch_id < 0:
                dispatch_id = NONE
            row = self._rows.get(dispatch_id)
            if row == NONE:
                row = self.writer.add_row(cells, line)
                if row != NONE and dispatch_id != NONE:
                    self._rows.add(dispatch_id, row)
            dispatch_rows.append(row)
        return dispatch_rows

    def _sums(
        self, block: RowBlock, rows: Sequence[int], columns: list[tuple[str, ...]]
    ) -> tuple[list[float], Sequence[int]]:
        """A counter's values, summed over `columns`, and the rows that have one.

        A row whose cells are all empty has none.
        """
        try:
            values_of_columns = [list(map(float, column)) for column in columns]
        except ValueError:
            return self._sums_one_by_one(block, rows, columns)
        return (
            values_of_columns[0]
            if len(values_of_columns) == 1
            else list(map(sum, zip(*values_of_columns, strict=True)))
        ), rows

    def _sums_one_by_one(
        self, block: RowBlock, rows: Sequence[int], columns: list[tuple[str, ...]]
    ) -> tuple[list[float], list[int]]:
        """Returns the sums of the cells of each row that has any, and those rows."""
        values: list[float] = []
        rows_with_value: list[int] = []
        for position, cells in enumerate(zip(*columns, strict=True)):
            filled = [cell for cell in cells if cell.strip()]
            if not filled or rows[position] == NONE:
                continue
            try:
                values.append(sum(map(real, filled)))
                rows_with_value.append(rows[position])
            except ValueError:
                self.writer.table.damage(block.lines[position], "a counter's value is not a number")
        return values, rows_with_value
