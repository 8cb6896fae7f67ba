"""Counter values from CSV: a row per dispatch and counter (long), or a column each (wide)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import chain, compress, repeat
from math import isfinite
from operator import ne, or_, sub

from msgspec import Struct, field

from ...recording import NONE, KernelShape
from ..builder import Builder, whole
from .csv_dispatches import DamagedError, RowIndex, Sink
from .csv_layout import FIELDS, SILENT, fold
from .rows import Block, Table, integer

_CHANNEL = re.compile(r"(\w+)\[\d+\]$")


def number_of(value: str) -> float:
    """A counter's value.

    Raises:
        ValueError: it is none.
    """
    try:
        return float(value)
    except ValueError:
        number = integer(value)
        if number is None:
            raise
        return float(number)


def bare(name: str) -> str:
    """A counter's name without the number of its instance: `TCC_HIT` of `TCC_HIT[3]`."""
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
        """Adds values of dispatches; those of damaged rows and undefined ones are left out."""
        if not (isinstance(rows, range) or NONE not in rows) or not all(map(isfinite, values)):
            sound = [
                item
                for item in zip(rows, counters, values, strict=True)
                if item[0] != NONE and isfinite(item[2])
            ]
            self.undefined += sum(
                row != NONE and not isfinite(value) for row, value in zip(rows, values, strict=True)
            )
            rows = [item[0] for item in sound]
            counters = [item[1] for item in sound]
            values = [item[2] for item in sound]
        table = self.builder.values
        table.dispatch.extend(rows)
        table.counter.extend(counters)
        table.value.extend(values)

    def report(self, table: Table) -> None:
        """Says what was left out of a table."""
        if self.undefined:
            self.builder.note(
                f"{table.path.name}: {self.undefined:,} values are undefined (nan, inf) and are "
                "left out"
            )
            self.undefined = 0


class LongReader(Struct):
    """Reads a table of one row per dispatch and counter.

    `traced` holds dispatches that a kernel trace of the same process told of; a dispatch of the
    counters' file is the same one if its id, kernel, size and times agree.
    """

    sink: Sink
    counters: Counters
    traced: RowIndex | None = None
    apart: int = 0  # dispatches whose id the trace knows as another dispatch
    _own: dict[str, RowIndex] = field(default_factory=dict)
    _agree: dict[tuple[int, int], bool] = field(default_factory=dict)

    def read(self) -> None:
        """Reads the whole table."""
        table = self.sink.table
        self.sink.want("process" if "process" in table.columns else "guid", "counter", "value")
        for block in table.blocks():
            try:
                rows = self._together(block)
            except (ValueError, OverflowError):
                rows = self._one_by_one(block)
            self._values(block, rows)
        self.counters.report(table)

    def _values(self, block: Block, rows: list[int]) -> None:
        names, texts = block.column("counter"), block.column("value")
        if names is None or texts is None:
            return
        numbers = {name: self.counters.number(bare(name)) for name in dict.fromkeys(names)}
        try:
            values = list(map(float, texts))
        except ValueError:
            values = []
            for at, text in enumerate(texts):
                try:
                    values.append(number_of(text))
                except ValueError:
                    values.append(0.0)
                    if rows[at] != NONE:
                        self.sink.table.damage(block.lines[at], "the value is not a number")
                        rows[at] = NONE
        self.counters.extend(rows, [numbers[name] for name in names], values)

    def _together(self, block: Block) -> list[int]:
        """The dispatch of each row; those that are new are added.

        Raises:
            ValueError, OverflowError: a row is damaged; nothing was added.
        """
        numbers = block.column("number") or ()
        processes = self._processes(block)
        # A dispatch's counters follow each other: only the first row of each is looked at.
        first = [True, *map(ne, numbers[1:], numbers)]
        if processes and len(set(processes)) > 1:
            first = list(map(or_, first, [True, *map(ne, processes[1:], processes)]))
        ends = [*compress(range(len(first)), first), len(first)][1:]
        parsed = self.sink.parse(block if len(ends) == len(first) else block.only(first))
        next_row = len(self.sink.builder.dispatches)
        dispatch_rows: list[int] = []
        fresh: list[int] = []
        own_of = compress(processes, first) if processes else repeat("")
        for at, (process, number) in enumerate(zip(own_of, parsed.number, strict=False)):
            own = self._index(process)
            row = own.get(number)
            if row == NONE:
                row = self._traced_row(number, parsed.shape[at], parsed.start[at], parsed.end[at])
                if row == NONE:
                    row = next_row
                    next_row += 1
                    fresh.append(at)
                own.put(number, row)
            dispatch_rows.append(row)
        self.sink.append(parsed if len(fresh) == len(dispatch_rows) else parsed.some(fresh))
        counts = map(sub, ends, [0, *ends])
        return list(chain.from_iterable(map(repeat, dispatch_rows, counts)))

    def _one_by_one(self, block: Block) -> list[int]:
        """The same for blocks with damaged rows, which get `NONE`."""
        rows: list[int] = []
        cells_of = self.sink.table.columns["number"]
        row, last = NONE, None
        processes = self._processes(block) or [""] * len(block)
        for at, process in enumerate(processes):
            cells = block.row(at)
            unit = (process, cells[cells_of])
            if unit != last:
                last = unit
                row = self._row(process, cells, block.lines[at])
            rows.append(row)
        return rows

    def _row(self, process: str, cells: list[str], line: int) -> int:
        table = self.sink.table
        try:
            number = integer(cells[table.columns["number"]])
            if number is None or not 0 <= number < 1 << 63:
                raise ValueError
        except (ValueError, OverflowError):
            table.damage(line, "the dispatch id is not a number")
            return NONE
        own = self._index(process)
        row = own.get(number)
        if row != NONE:
            return row
        try:
            start, end = self.sink.times(cells)
            shape = self.sink.shape(cells)
        except DamagedError as error:
            table.damage(line, str(error))
            return NONE
        times = (NONE, NONE) if start is None or end is None else (start, end)
        row = self._traced_row(number, shape, *times)
        if row == NONE:
            row = self.sink.one(cells, line)
        if row != NONE:
            own.put(number, row)
        return row

    def _processes(self, block: Block) -> Sequence[str]:
        """Each row's process, by id or Guid; empty where the file does not say."""
        return block.column("process") or block.column("guid") or ()

    def _index(self, process: str) -> RowIndex:
        index = self._own.get(process)
        if index is None:
            index = self._own[process] = RowIndex()
        return index

    def _traced_row(self, number: int, shape: int, start: int, end: int) -> int:
        """The row of the same dispatch in the kernel trace; times are `NONE` where unknown."""
        if self.traced is None or shape == NONE:
            return NONE
        row = self.traced.get(number)
        if row == NONE:
            return NONE
        table = self.sink.builder.dispatches
        pair = (table.shape[row], shape)
        agree = self._agree.get(pair)
        if agree is None:
            shapes = self.sink.shapes
            agree = self._agree[pair] = _alike(shapes[pair[0]], shapes[pair[1]])
        timed = start != NONE and table.start[row] != NONE
        if not agree or (timed and not (start <= table.end[row] and table.start[row] <= end)):
            self.apart += 1
            return NONE
        return row


def _alike(trace: KernelShape, counted: KernelShape) -> bool:
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


_AGAIN = re.compile(r"(\w+?)_\d+$")


class WideReader(Struct):
    """Reads a table of one row per dispatch, with a column per counter.

    A counter's instances (`TCC_HIT[0]` … `TCC_HIT[127]`, channels of all XCCs) are summed.
    """

    sink: Sink
    counters: Counters
    renamed: dict[str, str] = field(default_factory=dict)  # counters that go by another name here
    foreign: list[str] = field(default_factory=list)  # columns that hold no numbers
    _indices: dict[str, list[int]] = field(default_factory=dict)  # by counter
    _rows: RowIndex | None = None

    def read(self) -> None:
        """Reads the whole table."""
        table = self.sink.table
        unknown = table.others()
        where = {name: at for at, name in reversed(list(enumerate(table.names)))}
        for name in unknown:
            again = _AGAIN.match(name)
            if again is not None and (again[1] in where or fold(again[1]) in _KNOWN_COLUMNS):
                continue  # pandas' mark for a column that several merged files have
            self._indices.setdefault(bare(name), []).append(where[name])
        if "xcc" in table.columns and "number" in table.columns:
            self._rows = RowIndex()
        first = True
        for block in table.blocks():
            if first:
                self._leave_foreign(block.row(0))
                first = False
            self._block(block)
        self.counters.report(table)

    def _leave_foreign(self, cells: list[str]) -> None:
        for name, columns in list(self._indices.items()):
            try:
                for at in columns:
                    if cells[at].strip():
                        number_of(cells[at])
            except ValueError:
                self.foreign.append(name)
                del self._indices[name]

    def _block(self, block: Block) -> None:
        rows = self._dispatches(block)
        columns = list(zip(*block.all_rows(), strict=True))
        for name, indices in self._indices.items():
            number = self.counters.number(self.renamed.get(name, name))
            values, held = self._sums(block, rows, [columns[at] for at in indices])
            self.counters.extend(held, array("h", [number]) * len(values), values)

    def _dispatches(self, block: Block) -> Sequence[int]:
        """The row of each; those of one dispatch on several XCCs are one."""
        if self._rows is None:
            return self.sink.add(block)
        dispatch_rows = []
        at = self.sink.table.columns["number"]
        for cells, line in zip(block.all_rows(), block.lines, strict=True):
            try:
                number = whole(integer(cells[at]))
            except (ValueError, OverflowError):
                number = None
            if number is None or number < 0:
                number = NONE
            row = self._rows.get(number)
            if row == NONE:
                row = self.sink.one(cells, line)
                if row != NONE and number != NONE:
                    self._rows.put(number, row)
            dispatch_rows.append(row)
        return dispatch_rows

    def _sums(
        self, block: Block, rows: Sequence[int], columns: list[tuple[str, ...]]
    ) -> tuple[list[float], Sequence[int]]:
        """A counter's values, and the rows that have one (an empty cell is none)."""
        try:
            parts = [list(map(float, column)) for column in columns]
        except ValueError:
            return self._sums_one_by_one(block, rows, columns)
        return (parts[0] if len(parts) == 1 else list(map(sum, zip(*parts, strict=True)))), rows

    def _sums_one_by_one(
        self, block: Block, rows: Sequence[int], columns: list[tuple[str, ...]]
    ) -> tuple[list[float], list[int]]:
        values: list[float] = []
        held: list[int] = []
        for at, cells in enumerate(zip(*columns, strict=True)):
            filled = [cell for cell in cells if cell.strip()]
            if not filled or rows[at] == NONE:
                continue
            try:
                values.append(sum(map(number_of, filled)))
                held.append(rows[at])
            except ValueError:
                self.sink.table.damage(block.lines[at], "a counter's value is not a number")
        return values, held


_KNOWN_COLUMNS = SILENT.union(*FIELDS.values()) - {""}
