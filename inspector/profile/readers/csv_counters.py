"""Reads counter values from long CSV tables, which have a row for each dispatch and counter.

Of wide ones, with a column for each counter, see `csv_wide.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, compress, repeat
from math import isfinite
from operator import ne, or_, sub

from msgspec import Struct, field

from ...model.recording import NONE, KernelShape
from ..builder import RecordingBuilder
from .csv_columns import integer, real
from .csv_dispatches import DamagedRowError, DispatchColumns, DispatchWriter
from .csv_table import CsvTable, RowBlock
from .row_index import RowIndex

_CHANNEL = re.compile(r"(\w+)\[\d+\]$")
"""A counter of one instance of a hardware unit, such as `TCC_HIT[3]`."""


def bare(name: str) -> str:
    """A counter's name without the number of its instance: `TCC_HIT` for `TCC_HIT[3]`."""
    match = _CHANNEL.match(name)
    return match[1] if match else name


class CounterWriter(Struct):
    """Adds values to a recording, many at a time."""

    builder: RecordingBuilder
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

    def report(self, table: CsvTable) -> None:
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
    counters: CounterWriter
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

    def _values(self, block: RowBlock, rows: list[int]) -> None:
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
                    values.append(real(text))
                except ValueError:
                    values.append(0.0)
                    if rows[position] != NONE:
                        self.writer.table.damage(block.lines[position], "the value is not a number")
                        rows[position] = NONE
        self.counters.extend(rows, [numbers[name] for name in names], values)

    def _rows_of_block(self, block: RowBlock) -> list[int]:
        """The dispatch of each row; those that are new are added."""
        # The rows of one dispatch follow each other: only the first of them is parsed.
        processes = self._processes(block)
        is_first = _starts_of_dispatches(block.column("number") or (), processes)
        starts = list(compress(range(len(is_first)), is_first))
        dispatches = self.writer.parse(block if all(is_first) else block.only(is_first))
        dispatch_rows = self._rows_of(
            dispatches, compress(processes, is_first) if processes else repeat("")
        )
        counts = map(sub, [*starts[1:], len(is_first)], starts)
        return list(chain.from_iterable(map(repeat, dispatch_rows, counts)))

    def _rows_of(self, dispatches: DispatchColumns, processes: Iterable[str]) -> list[int]:
        """The row of each dispatch in the recording; those that are new are added."""
        next_row = len(self.writer.builder.dispatches)
        rows: list[int] = []
        new_positions: list[int] = []
        for position, (process, dispatch_id) in enumerate(
            zip(processes, dispatches.dispatch_ids, strict=False)
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
            rows.append(row)
        all_new = len(new_positions) == len(rows)
        self.writer.append(dispatches if all_new else dispatches.select(new_positions))
        return rows

    def _rows_of_damaged_block(self, block: RowBlock) -> list[int]:
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

    def _processes(self, block: RowBlock) -> Sequence[str]:
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


def _starts_of_dispatches(numbers: Sequence[str], processes: Sequence[str]) -> list[bool]:
    """Tells of each row whether it is of another dispatch than the one before it."""
    is_first = [True, *map(ne, numbers[1:], numbers)]
    if processes and len(set(processes)) > 1:
        return list(map(or_, is_first, [True, *map(ne, processes[1:], processes)]))
    return is_first
