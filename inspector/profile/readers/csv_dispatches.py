"""Reads dispatches and counter values from CSV rows of any profiler.

A recording of ten million dispatches has a few hundred shapes. The cells of a row that make up its
shape are therefore looked up as one key of texts; only the other cells are converted. Counters come
in long tables, a row per dispatch and counter, and in wide ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite

from msgspec import Struct, field

from ...model.recording import NONE, KernelShape, Part
from ..builder import RecordingBuilder, RowIndex, triple, volume
from .agents import AgentIds
from .csv_table import COLUMN_NAMES, UNREAD_COLUMNS, CsvTable, DamagedRowError, fold, real

_SHAPE_COLUMNS = (
    "name", "agent", "process", "kernel_id", "lds", "scratch", "vgpr", "accum_vgpr", "sgpr",
    "wave_size", "workgroup_x", "workgroup_y", "workgroup_z", "workgroup_size", "grid_x", "grid_y",
    "grid_z", "grid_size",
)  # fmt: skip
"""The columns that make up a shape, by our names, as `CsvTable.columns` has them."""
_SUFFIXES = (" [clone .kd]", " (.kd)", ".kd")
"""Of a kernel's descriptor, which some versions append to its name."""

AgentKey = Callable[[str], str | None]
"""The cell of an agent -> its key in the recording."""


class DispatchWriter(Struct):
    """Adds a table's dispatches to the recording's last part.

    Args:
        table: the file; some profilers write a row per dispatch, some a row per counter of it.
        shapes: number in the recording -> shape, of those that were made so far.
    """

    builder: RecordingBuilder  # the recording
    table: CsvTable
    agent_key: AgentKey  # finds the agent that a row names
    process: int | None = None  # the process of rows without a process id; None where it is unknown
    rounded: int = 0  # how many of the dispatches have timestamps that lost digits
    shapes: dict[int, KernelShape] = field(default_factory=dict)
    indexed: bool = False
    rows: RowIndex = field(default_factory=RowIndex)  # dispatch id -> row, where `indexed`
    _columns: tuple[int, ...] = ()  # of the cells of a shape
    _shape_numbers: dict[tuple[str, ...], int | DamagedRowError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = self.table.columns
        self._columns = tuple(columns[name] for name in _SHAPE_COLUMNS if name in columns)

    @classmethod
    def of_part(cls, table: CsvTable, builder: RecordingBuilder, part: Part) -> DispatchWriter:
        """Returns the writer of a table that is a part of its own."""
        builder.begin(part)
        return cls(builder, table, AgentIds().key)

    def add(self, cells: list[str]) -> int:
        """Adds the dispatch of a row, and returns its row in the recording.

        Raises:
            DamagedRowError: one of its cells cannot be.
        """
        shape = self.shape_number(cells)
        number = self.table.integer(cells, "number")
        queue = self.table.integer(cells, "queue")
        start, end = self.times(cells)
        row = self.builder.dispatch(shape, number, start, end, queue, find_again=False)
        if self.indexed and number is not None:
            self.rows.add(number, row)
        return row

    def times(self, cells: list[str]) -> tuple[int | None, int | None]:
        """Returns start and end in ns; both None if either is unknown or was rounded.

        Raises:
            DamagedRowError: they are no numbers, or it ends before it starts.
        """
        table = self.table
        start, end = table.instant(cells, "start"), table.instant(cells, "end")
        if start is None or end is None:
            texts = (table.cell(cells, "start"), table.cell(cells, "end"))
            self.rounded += any("e" in text.lower() for text in texts)  # such as 8.1097E+14
            return None, None
        if end < start:
            raise DamagedRowError("the dispatch ends before it starts")
        return start, end

    def shape_number(self, cells: list[str]) -> int:
        """Returns the number of a row's shape in the recording.

        Raises:
            DamagedRowError: a cell of it cannot be.
        """
        key = tuple([cells[column] for column in self._columns])
        number = self._shape_numbers.get(key)
        if number is None:
            try:
                shape = self._parse_shape(cells)
                number = self.builder.shape(shape)
                self.shapes[number] = shape
            except DamagedRowError as error:
                number = error
            self._shape_numbers[key] = number
        if isinstance(number, DamagedRowError):
            raise number
        return number

    def _parse_shape(self, cells: list[str]) -> KernelShape:
        table = self.table
        name = table.cell(cells, "name").strip()
        if not name:
            raise DamagedRowError("the kernel has no name")
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
        agent = table.cell(cells, "agent").strip()
        sizes = {column: table.integer(cells, column) for column in _SHAPE_COLUMNS[2:]}
        workgroup, grid = (
            triple([sizes[f"{stem}_{axis}"] for axis in "xyz"]) for stem in ("workgroup", "grid")
        )
        return KernelShape(
            name=name.removesuffix(suffix),
            agent=self.agent_key(agent) if agent else None,
            process=self.process if sizes["process"] is None else sizes["process"],
            kernel_id=sizes["kernel_id"],
            workgroup=workgroup,
            workgroup_size=volume(workgroup) or sizes["workgroup_size"],
            grid=grid,
            grid_size=volume(grid) or sizes["grid_size"],
            lds_bytes=sizes["lds"],
            scratch_bytes=sizes["scratch"],
            vgpr=sizes["vgpr"],
            accum_vgpr=sizes["accum_vgpr"],
            sgpr=sizes["sgpr"],
            wave_size=sizes["wave_size"],
        )


_CHANNEL = re.compile(r"(\w+)\[\d+\]$")
"""A counter of one instance of a hardware unit, such as `TCC_HIT[3]`."""
_KNOWN_COLUMNS = UNREAD_COLUMNS.union(*COLUMN_NAMES.values()) - {""}
_DUPLICATE = re.compile(r"(\w+?)_\d+$")
"""The name that pandas gives a second column of the same name when files are merged."""
_MOST_LISTED = 4


def _bare(name: str) -> str:
    """A counter's name without the number of its instance: `TCC_HIT` for `TCC_HIT[3]`."""
    match = _CHANNEL.match(name)
    return match[1] if match else name


def _value(text: str) -> float:
    try:
        return real(text)
    except (ValueError, OverflowError):
        raise DamagedRowError("a counter's value is not a number") from None


class _Values(Struct):
    """Adds values to a recording, and notes how many are undefined (nan: a division by 0)."""

    writer: DispatchWriter
    undefined: int = 0

    def add(self, row: int, counter: str, value: float) -> None:
        if isfinite(value):
            self.writer.builder.add_counter_value(row, counter, value)
        else:
            self.undefined += 1

    def report(self) -> None:
        if self.undefined:
            name = self.writer.table.path.name
            self.writer.builder.note(
                f"{name}: {self.undefined:,} values are undefined (nan, inf) and are left out"
            )


class LongReader(Struct):
    """Reads a table of one row per dispatch and counter.

    `traced` holds the dispatches in the kernel trace of the same process. A dispatch here is the
    same as one there if id, kernel, size and times agree.
    """

    writer: DispatchWriter
    traced: RowIndex | None = None
    apart: int = 0  # dispatches whose id belongs to another dispatch in the trace
    _rows_of: dict[str, RowIndex] = field(default_factory=dict)  # process id or Guid -> its rows
    _alike: dict[tuple[int, int], bool] = field(default_factory=dict)  # pairs of shapes

    def read(self) -> None:
        """Reads the whole table."""
        table, values = self.writer.table, _Values(self.writer)
        counter = table.columns["counter"]

        def add(cells: list[str]) -> None:
            value = _value(table.cell(cells, "value"))
            values.add(self._row(cells), _bare(cells[counter]), value)

        table.each(add)
        values.report()

    def _row(self, cells: list[str]) -> int:
        """The dispatch of one row, added if it is new."""
        table = self.writer.table
        number = table.integer(cells, "number")
        if number is None:
            raise DamagedRowError("the dispatch id is not a number")
        process = table.cell(cells, "process") or table.cell(cells, "guid")
        rows = self._rows_of.get(process)
        if rows is None:
            rows = self._rows_of[process] = RowIndex()
        row = rows.get(number)
        if row == NONE:
            row = self._traced_row(number, cells)
            if row == NONE:
                row = self.writer.add(cells)
            rows.add(number, row)
        return row

    def _traced_row(self, number: int, cells: list[str]) -> int:
        """The row of the same dispatch in the kernel trace; `NONE` if it is another."""
        row = NONE if self.traced is None else self.traced.get(number)
        if row == NONE:
            return NONE
        start, end = self.writer.times(cells)
        table = self.writer.builder.dispatches
        pair = (table.shape[row], self.writer.shape_number(cells))
        alike = self._alike.get(pair)
        if alike is None:
            trace, counted = (self.writer.shapes[number] for number in pair)
            alike = self._alike[pair] = _is_same_shape(trace, counted)
        if start is not None and end is not None and table.start[row] != NONE:
            alike = alike and start <= table.end[row] and table.start[row] <= end
        if not alike:
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


def read_long(table: CsvTable, builder: RecordingBuilder, part: Part) -> bool:
    """Reads a long table as a part of its own; returns whether its timestamps lost digits."""
    writer = DispatchWriter.of_part(table, builder, part)
    LongReader(writer).read()
    table.report(builder)
    return bool(writer.rounded)


def read_wide(
    table: CsvTable, builder: RecordingBuilder, part: Part, renamed: dict[str, str] | None = None
) -> bool:
    """Reads a table of one row per dispatch with a column per counter, as a part of its own.

    The instances of a counter (`TCC_HIT[0]` … `TCC_HIT[127]`, the channels of all XCCs) are summed,
    and so are the rows of one dispatch on several XCCs.

    `renamed`: name of a counter in the file -> its name in the recording.

    Returns:
        Whether its timestamps have lost digits.
    """
    writer = DispatchWriter.of_part(table, builder, part)
    columns, foreign = _counter_columns(table)
    values, rows = _Values(writer), RowIndex()
    by_xcc = "xcc" in table.columns and "number" in table.columns
    names = {name: (renamed or {}).get(name, name) for name in columns}

    def add(cells: list[str]) -> None:
        sums = {}
        for name, indices in columns.items():
            filled = [cells[index] for index in indices if cells[index].strip()]
            if filled:
                sums[names[name]] = sum(map(_value, filled))
        number = table.integer(cells, "number") if by_xcc else None
        row = NONE if number is None else rows.get(number)
        if row == NONE:
            row = writer.add(cells)
            if number is not None:
                rows.add(number, row)
        for name, value in sums.items():
            values.add(row, name, value)

    table.each(add)
    values.report()
    table.report(builder)
    if foreign:
        listed = ", ".join(foreign[:_MOST_LISTED]) + (", …" if len(foreign) > _MOST_LISTED else "")
        builder.note(f"{table.path.name}: unknown columns are left out: {listed}")
    return bool(writer.rounded)


def _counter_columns(table: CsvTable) -> tuple[dict[str, list[int]], list[str]]:
    """Returns counter -> its columns, and the columns whose first cell is no number."""
    first_columns = {name: column for column, name in reversed(list(enumerate(table.names)))}
    columns: dict[str, list[int]] = {}
    for name in table.unknown_columns():
        duplicate = _DUPLICATE.match(name)
        if duplicate is None or not (
            duplicate[1] in first_columns or fold(duplicate[1]) in _KNOWN_COLUMNS
        ):
            columns.setdefault(_bare(name), []).append(first_columns[name])
    _, cells = next(table.rows(), (0, []))
    foreign = []
    for name, indices in list(columns.items()) if cells else ():
        try:
            for index in indices:
                if cells[index].strip():
                    real(cells[index])
        except (ValueError, OverflowError):
            foreign.append(name)
            del columns[name]
    return columns, foreign
