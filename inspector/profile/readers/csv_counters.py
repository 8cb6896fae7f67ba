"""Reads counter values from CSV files.

A long table has a row for each dispatch and counter, a wide one a row for each dispatch and a
column for each counter.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import chain, compress, repeat
from math import isfinite
from operator import ne, or_, sub

from msgspec import Struct, field

from ...recording import NONE, KernelShape
from ..builder import Builder, int64
from ..row_index import RowIndex
from .csv_dispatches import DamagedRowError, DispatchWriter
from .csv_layout import FIELDS, SILENT, fold
from .rows import Block, Table, integer

_CHANNEL = re.compile(r"(\w+)\[\d+\]$")
"""A counter of one instance of a hardware unit, such as `TCC_HIT[3]`."""


def number_of(value: str) -> float:
    """A counter's value.

    Raises:
        ValueError: the text is no number.
    """
    try:
        return float(value)
    except ValueError:
        number = integer(value)
        if number is None:
            raise
        return float(number)


def bare(name: str) -> str:
    """A counter's name without the number of its instance: `TCC_HIT` for `TCC_HIT[3]`."""
    match = _CHANNEL.match(name)
    return match[1] if match else name


class Counters(Struct):
    """Adds values to a recording, many at a time."""

    builder: Builder
    undefined: int = 0  # values such as nan: a derived counter divided by 0
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a counter in the recording."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self.builder.counter(name)
        return number

    def extend(self, rows: Sequence[int], counters: Sequence[int], values: list[float]) -> None:
        """Adds values of dispatches, without undefined ones and those of damaged rows.

        Args:
            rows: for each value, the row of its dispatch; `NONE` where that row is damaged.
            counters: for each value, the number of its counter.
            values: the values.
        """
        if not (isinstance(rows, range) or NONE not in rows) or not all(map(isfinite, values)):
            valid = [
                item
                for item in zip(rows, counters, values, strict=True)
                if item[0] != NONE and isfinite(item[2])
            ]
            self.undefined += sum(
                row != NONE and not isfinite(value) for row, value in zip(rows, values, strict=True)
            )
            rows = [item[0] for item in valid]
            counters = [item[1] for item in valid]
            values = [item[2] for item in valid]
        table = self.builder.values
        table.dispatch.extend(rows)
        table.counter.extend(counters)
        table.value.extend(values)

    def report(self, table: Table) -> None:
        """Adds a note on the values of a table that were left out."""
        if self.undefined:
            self.builder.note(
                f"{table.path.name}: {self.undefined:,} values are undefined (nan, inf) and are "
                "left out"
            )
            self.undefined = 0


class LongReader(Struct):
    """Reads a table of one row per dispatch and counter.

    `traced` holds the dispatches in the kernel trace of the same process. A dispatch here is the
    same as one there if id, kernel, size and times agree.
    """

    writer: DispatchWriter
    counters: Counters
    traced: RowIndex | None = None
    apart: int = 0  # dispatches whose id belongs to another dispatch in the trace
    _index_of_process: dict[str, RowIndex] = field(default_factory=dict)
    _alike_by_shapes: dict[tuple[int, int], bool] = field(default_factory=dict)

    def read(self) -> None:
        """Reads the whole table."""
        table = self.writer.table
        self.writer.select_columns(
            "process" if "process" in table.columns else "guid", "counter", "value"
        )
        for block in table.blocks():
            try:
                rows = self._rows_of_block(block)
            except (ValueError, OverflowError):
                rows = self._rows_of_damaged_block(block)
            self._values(block, rows)
        self.counters.report(table)

    def _values(self, block: Block, rows: list[int]) -> None:
        """Adds a block's counter values; `rows` are their dispatches, `NONE` for damaged ones."""
        names, texts = block.column("counter"), block.column("value")
        if names is None or texts is None:
            return
        numbers = {name: self.counters.number(bare(name)) for name in dict.fromkeys(names)}
        try:
            values = list(map(float, texts))
        except ValueError:
            values = []
            for position, text in enumerate(texts):
                try:
                    values.append(number_of(text))
                except ValueError:
                    values.append(0.0)
                    if rows[position] != NONE:
                        self.writer.table.damage(block.lines[position], "the value is not a number")
                        rows[position] = NONE
        self.counters.extend(rows, [numbers[name] for name in names], values)

    def _rows_of_block(self, block: Block) -> list[int]:
        """The dispatch of each row; those that are new are added.

        Raises:
            ValueError, OverflowError: a row is damaged; nothing was added.
        """
        numbers = block.column("number") or ()
        processes = self._processes(block)
        # The rows of one dispatch follow each other: only the first of them is parsed.
        is_first = [True, *map(ne, numbers[1:], numbers)]
        if processes and len(set(processes)) > 1:
            is_first = list(map(or_, is_first, [True, *map(ne, processes[1:], processes)]))
        ends = [*compress(range(len(is_first)), is_first), len(is_first)][1:]
        dispatches = self.writer.parse(
            block if len(ends) == len(is_first) else block.only(is_first)
        )
        next_row = len(self.writer.builder.dispatches)
        dispatch_rows: list[int] = []
        new_positions: list[int] = []
        process_of_dispatch = compress(processes, is_first) if processes else repeat("")
        for position, (process, dispatch_id) in enumerate(
            zip(process_of_dispatch, dispatches.dispatch_ids, strict=False)
        ):
            index = self._index(process)
            row = index.get(dispatch_id)
            if row == NONE:
                row = self._traced_row(
                    dispatch_id,
                    dispatches.shape_numbers[position],
                    dispatches.starts[position],
                    dispatches.ends[position],
                )
                if row == NONE:
                    row = next_row
                    next_row += 1
                    new_positions.append(position)
                index.add(dispatch_id, row)
            dispatch_rows.append(row)
        self.writer.append(
            dispatches
            if len(new_positions) == len(dispatch_rows)
            else dispatches.select(new_positions)
        )
        counts = map(sub, ends, [0, *ends])
        return list(chain.from_iterable(map(repeat, dispatch_rows, counts)))

    def _rows_of_damaged_block(self, block: Block) -> list[int]:
        """The dispatch of each row of a block with damaged rows, for which it is `NONE`."""
        rows: list[int] = []
        number_column = self.writer.table.columns["number"]
        row, previous_dispatch = NONE, None
        processes = self._processes(block) or [""] * len(block)
        for position, process in enumerate(processes):
            cells = block.row(position)
            dispatch = (process, cells[number_column])
            if dispatch != previous_dispatch:
                previous_dispatch = dispatch
                row = self._row(process, cells, block.lines[position])
            rows.append(row)
        return rows

    def _row(self, process: str, cells: list[str], line: int) -> int:
        """The dispatch of one row, added if it is new; `NONE` if the row is damaged."""
        table = self.writer.table
        try:
            dispatch_id = integer(cells[table.columns["number"]])
            if dispatch_id is None or not 0 <= dispatch_id < 1 << 63:
                raise ValueError
        except (ValueError, OverflowError):
            table.damage(line, "the dispatch id is not a number")
            return NONE
        index = self._index(process)
        row = index.get(dispatch_id)
        if row != NONE:
            return row
        try:
            start, end = self.writer.times(cells)
            shape_number = self.writer.shape_number(cells)
        except DamagedRowError as error:
            table.damage(line, str(error))
            return NONE
        times = (NONE, NONE) if start is None or end is None else (start, end)
        row = self._traced_row(dispatch_id, shape_number, *times)
        if row == NONE:
            row = self.writer.add_row(cells, line)
        if row != NONE:
            index.add(dispatch_id, row)
        return row

    def _processes(self, block: Block) -> Sequence[str]:
        """The process id or Guid of each row; empty where the file has neither."""
        return block.column("process") or block.column("guid") or ()

    def _index(self, process: str) -> RowIndex:
        """Returns the rows of a process's dispatches by their ids; empty at first."""
        index = self._index_of_process.get(process)
        if index is None:
            index = self._index_of_process[process] = RowIndex()
        return index

    def _traced_row(self, dispatch_id: int, shape_number: int, start: int, end: int) -> int:
        """The row of the same dispatch in the kernel trace; times are `NONE` where unknown."""
        if self.traced is None or shape_number == NONE:
            return NONE
        row = self.traced.get(dispatch_id)
        if row == NONE:
            return NONE
        table = self.writer.builder.dispatches
        pair = (table.shape[row], shape_number)
        agree = self._alike_by_shapes.get(pair)
        if agree is None:
            shapes = self.writer.shapes
            agree = self._alike_by_shapes[pair] = _is_same_shape(shapes[pair[0]], shapes[pair[1]])
        timed = start != NONE and table.start[row] != NONE
        if not agree or (timed and not (start <= table.end[row] and table.start[row] <= end)):
            self.apart += 1
            return NONE
        return row


def _is_same_shape(trace: KernelShape, counted: KernelShape) -> bool:
    return trace.name == counted.name and all(
        traced is None or recorded is None or traced == recorded
        for traced, recorded in (
            (trace.process, counted.process),
            (trace.kernel_id, counted.kernel_id),
            (trace.agent, counted.agent),
            (trace.grid_size, counted.grid_size),
            (trace.workgroup_size, counted.workgroup_size),
        )
    )


_DUPLICATE = re.compile(r"(\w+?)_\d+$")
"""The name that pandas gives a second column of the same name when files are merged."""


class WideReader(Struct):
    """Reads a table of one row per dispatch, with a column per counter.

    The instances of a counter (`TCC_HIT[0]` … `TCC_HIT[127]`, the channels of all XCCs) are summed.
    """

    writer: DispatchWriter
    counters: Counters
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
                        number_of(cells[column])
            except ValueError:
                self.foreign.append(name)
                del self._indices[name]

    def _block(self, block: Block) -> None:
        rows = self._dispatches(block)
        columns = list(zip(*block.all_rows(), strict=True))
        for name, indices in self._indices.items():
            number = self.counters.number(self.renamed.get(name, name))
            values, rows_with_value = self._sums(block, rows, [columns[index] for index in indices])
            self.counters.extend(rows_with_value, array("h", [number]) * len(values), values)

    def _dispatches(self, block: Block) -> Sequence[int]:
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
        self, block: Block, rows: Sequence[int], columns: list[tuple[str, ...]]
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
        self, block: Block, rows: Sequence[int], columns: list[tuple[str, ...]]
    ) -> tuple[list[float], list[int]]:
        """Returns the sums of the cells of each row that has any, and those rows."""
        values: list[float] = []
        rows_with_value: list[int] = []
        for position, cells in enumerate(zip(*columns, strict=True)):
            filled = [cell for cell in cells if cell.strip()]
            if not filled or rows[position] == NONE:
                continue
            try:
                values.append(sum(map(number_of, filled)))
                rows_with_value.append(rows[position])
            except ValueError:
                self.writer.table.damage(block.lines[position], "a counter's value is not a number")
        return values, rows_with_value


_KNOWN_COLUMNS = SILENT.union(*FIELDS.values()) - {""}
