"""Reads dispatches from CSV rows of any profiler, a block of rows at a time.

A recording of ten million dispatches has a few hundred shapes. The cells of a row that make up its
shape are therefore looked up as one key of texts; only the other cells are converted, by column.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import gt

from msgspec import Struct, field

from ...model.recording import NONE, KernelShape
from ..builder import RecordingBuilder, triple, volume
from .csv_columns import instant, integer, is_plain
from .csv_table import CsvTable, RowBlock

_SHAPE_COLUMNS = (
    "name", "agent", "process", "kernel_id", "lds", "scratch", "vgpr", "accum_vgpr", "sgpr",
    "wave_size", "workgroup_x", "workgroup_y", "workgroup_z", "workgroup_size", "grid_x", "grid_y",
    "grid_z", "grid_size",
)  # fmt: skip
"""The columns that make up a shape, by our names, as `CsvTable.columns` has them."""

AgentKey = Callable[[str], str | None]
"""The cell of an agent -> its key in the recording."""

_DAMAGED_SHAPE = "a size is not a number, or the kernel has no name"


class DamagedRowError(ValueError):
    """A complete row with impossible cells; its text says what is wrong."""


class DispatchColumns(Struct, frozen=True):
    """Dispatches by column, with the types that the columns of `Dispatches` have.

    Args:
        shape_numbers: the number of each dispatch's shape in the recording.
        dispatch_ids: the profiler's; `NONE` where the table has none. So are queues and times.
        queues: ids.
        starts: ns.
        ends: ns.
    """

    shape_numbers: array[int]
    dispatch_ids: array[int]
    queues: array[int]
    starts: array[int]
    ends: array[int]

    def select(self, positions: Sequence[int]) -> DispatchColumns:
        """Returns the dispatches at these positions."""
        return DispatchColumns(
            shape_numbers=array("i", [self.shape_numbers[position] for position in positions]),
            dispatch_ids=array("q", [self.dispatch_ids[position] for position in positions]),
            queues=array("q", [self.queues[position] for position in positions]),
            starts=array("q", [self.starts[position] for position in positions]),
            ends=array("q", [self.ends[position] for position in positions]),
        )


class DispatchWriter(Struct):
    """Adds a table's dispatches to a recording.

    Args:
        builder: the recording.
        table: the file; some profilers write a row per dispatch, some a row per counter of it.
        agent_key: finds the agent that a row names.
        process: the process of rows without a process id; None where it is unknown.
        part: number of the recording's part that the dispatches belong to.
        rounded: how many of the dispatches have timestamps that lost digits.
        shapes: number in the recording -> shape, of those that were made so far.
    """

    builder: RecordingBuilder
    table: CsvTable
    agent_key: AgentKey
    process: int | None
    part: int
    rounded: int = 0
    shapes: dict[int, KernelShape] = field(default_factory=dict)
    _shape_names: tuple[str, ...] = ()  # those of `_SHAPE_COLUMNS` that the table has
    _shape_columns: tuple[int, ...] = ()  # where they stand in a row
    # texts of a row's cells in those columns -> number of the shape; `NONE` for damaged ones
    _shape_numbers: dict[tuple[str, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = self.table.columns
        self._shape_names = tuple(name for name in _SHAPE_COLUMNS if name in columns)
        self._shape_columns = tuple(columns[name] for name in self._shape_names)

    def select_columns(self, *others: str) -> None:
        """Has the table extract the columns that `parse` needs, and others, from its rows."""
        self.table.select_columns(("number", "queue", "start", "end", *others), self._shape_names)

    def parse(self, block: RowBlock) -> DispatchColumns:
        """Parses a block's dispatches by column.

        Raises:
            ValueError, OverflowError: a row is damaged or has no times: its rows must be read one
                by one.
        """
        shape_numbers = array("i", self._shape_numbers_of(block))
        if NONE in shape_numbers:
            raise DamagedRowError(_DAMAGED_SHAPE)
        dispatch_ids, queues, starts, ends = (
            _integers(block.column(name), len(block))
            for name in ("number", "queue", "start", "end")
        )
        columns = self.table.columns
        if "number" in columns and min(dispatch_ids) < 0:
            raise DamagedRowError("a dispatch id is negative")
        if ("start" in columns) != ("end" in columns):
            raise DamagedRowError("dispatches have a start or an end alone")
        if "start" in columns and (min(starts) <= 0 or any(map(gt, starts, ends))):
            raise DamagedRowError("a dispatch has no times, or ends before it starts")
        return DispatchColumns(
            shape_numbers=shape_numbers,
            dispatch_ids=dispatch_ids,
            queues=queues,
            starts=starts,
            ends=ends,
        )

    def _shape_numbers_of(self, block: RowBlock) -> list[int]:
        """Returns the number of each row's shape; `NONE` for damaged ones."""
        known = self._shape_numbers
        try:
            return [known[key] for key in block.key_texts(self._shape_columns)]
        except KeyError:  # a shape that no row had before, as in few blocks of a large file
            for position, key in enumerate(block.key_texts(self._shape_columns)):
                if key not in known:
                    known[key] = self.shape_number(block.row(position))
            return [known[key] for key in block.key_texts(self._shape_columns)]

    def append(self, dispatches: DispatchColumns) -> range:
        """Adds dispatches to the recording and returns their rows."""
        table = self.builder.dispatches
        first = len(table)
        table.shape.extend(dispatches.shape_numbers)
        table.number.extend(dispatches.dispatch_ids)
        table.start.extend(dispatches.starts)
        table.end.extend(dispatches.ends)
        table.queue.extend(dispatches.queues)
        table.part.extend(array("h", [self.part]) * len(dispatches.shape_numbers))
        return range(first, len(table))

    def add(self, block: RowBlock) -> Sequence[int]:
        """Adds a dispatch for each row of a block.

        Returns:
            For each, its row in the recording; `NONE` for damaged ones.
        """
        try:
            dispatches = self.parse(block)
        except (ValueError, OverflowError):
            rows = block.all_rows()
            return [self.add_row(row, line) for row, line in zip(rows, block.lines, strict=True)]
        return self.append(dispatches)

    def add_row(self, row: list[str], line: int) -> int:
        """Adds one row and returns its row in the recording; `NONE` if it is damaged.

        The table counts damaged rows.
        """
        try:
            shape_number = self.shape_number(row)
            if shape_number == NONE:
                raise DamagedRowError(_DAMAGED_SHAPE)
            dispatch_id = self._integer(row, "number", integer)
            queue = self._integer(row, "queue", integer)
            start, end = self.times(row)
        except DamagedRowError as error:
            self.table.damage(line, str(error))
            return NONE
        table = self.builder.dispatches
        table.shape.append(shape_number)
        table.number.append(NONE if dispatch_id is None else dispatch_id)
        table.start.append(NONE if start is None else start)
        table.end.append(NONE if end is None else end)
        table.queue.append(NONE if queue is None else queue)
        table.part.append(self.part)
        return len(table) - 1

    def times(self, row: list[str]) -> tuple[int | None, int | None]:
        """Returns start and end in ns; both None if either is unknown or was rounded.

        Raises:
            DamagedRowError: they are no numbers, or it ends before it starts.
        """
        start = self._integer(row, "start", instant)
        end = self._integer(row, "end", instant)
        if start is None or end is None:
            columns = self.table.columns
            times = [row[columns[name]] for name in ("start", "end") if name in columns]
            if any("e" in time.lower() for time in times):  # such as 8.1097E+14
                self.rounded += 1
            return None, None
        if end < start:
            raise DamagedRowError("the dispatch ends before it starts")
        return start, end

    def shape_number(self, row: list[str]) -> int:
        """Returns the number of a row's shape; `NONE` if a cell of it is damaged."""
        key = tuple([row[column] for column in self._shape_columns])
        shape_number = self._shape_numbers.get(key)
        if shape_number is None:
            try:
                shape = self._parse_shape(dict(zip(self._shape_names, key, strict=True)))
                shape_number = self.builder.shape(shape)
                self.shapes[shape_number] = shape
            except (ValueError, OverflowError):
                shape_number = NONE
            self._shape_numbers[key] = shape_number
        return shape_number

    def _parse_shape(self, cells: dict[str, str]) -> KernelShape:
        """Parses the cells of a shape, by column."""
        name = cells["name"].strip()
        if not name:
            raise DamagedRowError("the kernel has no name")
        agent = cells.get("agent", "").strip()
        sizes = {
            column: integer(text)
            for column, text in cells.items()
            if column not in ("name", "agent")
        }
        for column, size in sizes.items():
            if size is not None and size < 0:
                raise DamagedRowError(f"{column} is negative")
        workgroup = _size(sizes, "workgroup")
        grid = _size(sizes, "grid")
        process = sizes.get("process")
        return KernelShape(
            name=_without_descriptor_suffix(name),
            agent=self.agent_key(agent) if agent else None,
            process=self.process if process is None else process,
            kernel_id=sizes.get("kernel_id"),
            workgroup=workgroup,
            workgroup_size=volume(workgroup) or sizes.get("workgroup_size"),
            grid=grid,
            grid_size=volume(grid) or sizes.get("grid_size"),
            lds_bytes=sizes.get("lds"),
            scratch_bytes=sizes.get("scratch"),
            vgpr=sizes.get("vgpr"),
            accum_vgpr=sizes.get("accum_vgpr"),
            sgpr=sizes.get("sgpr"),
            wave_size=sizes.get("wave_size"),
        )

    def _integer(self, row: list[str], name: str, read: Callable[[str], int | None]) -> int | None:
        """Reads a cell; None where it is empty or the table has no such column."""
        column = self.table.columns.get(name)
        if column is None:
            return None
        try:
            value = read(row[column])
        except (ValueError, OverflowError):
            raise DamagedRowError(f"{self.table.names[column]} is not a number") from None
        if value is not None and not 0 <= value < 1 << 63:
            raise DamagedRowError(f"{self.table.names[column]} is not a number of 63 bits")
        return value


def _integers(texts: Sequence[str] | None, count: int) -> array[int]:
    """Returns a column's integers; `count` times `NONE` if the table has no such column."""
    if texts is None:
        return array("q", [NONE]) * count
    if not is_plain("".join(texts)):
        raise ValueError("no number")
    different = set(texts)
    if len(different) < 8:  # queues, say: each text is converted once, which takes most of the time
        values = {text: int(text) for text in different}
        return array("q", [values[text] for text in texts])
    return array("q", list(map(int, texts)))


def _size(sizes: dict[str, int | None], stem: str) -> tuple[int, int, int] | None:
    """Returns a size in x, y and z, from the columns `grid_x` and so on."""
    return triple([sizes.get(f"{stem}_{axis}") for axis in "xyz"])


def _without_descriptor_suffix(name: str) -> str:
    """Removes the suffix of a kernel's descriptor that some versions append to its name."""
    for suffix in (" [clone .kd]", " (.kd)", ".kd"):
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name
