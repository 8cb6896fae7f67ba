"""Reads dispatches from CSV rows of any profiler, a block of rows at a time.

A recording of ten million dispatches has a few hundred shapes. The cells of a row that make up its
shape are therefore looked up as one key of texts; only the other cells are converted, by column.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import gt

from msgspec import Struct, field

from ...recording import NONE, KernelShape
from ..builder import Builder
from .rows import Block, Table, instant, integer

# The columns that make up a shape.
_SHAPE = (
    "name", "agent", "process", "kernel_id", "lds", "scratch", "vgpr", "accum_vgpr", "sgpr",
    "wave_size", "workgroup_x", "workgroup_y", "workgroup_z", "workgroup_size", "grid_x", "grid_y",
    "grid_z", "grid_size",
)  # fmt: skip

_NEAR = 1 << 16
_THIN = 16
"""Ids below `_NEAR + _THIN · number of ids` are kept in an array, larger ones in a dictionary: the
array stays at most that thinly filled."""

AgentKey = Callable[[str], str | None]


class DamagedError(ValueError):
    """A complete row with impossible cells; its text says what is wrong."""


class RowIndex(Struct):
    """Dispatch id -> row of the recording, in four bytes each: ids are nearly consecutive."""

    _array: array[int] = field(default_factory=lambda: array("i"))
    _large: dict[int, int] = field(default_factory=dict)
    _count: int = 0

    def add(self, number: int, row: int) -> None:
        """Sets the row of a dispatch id."""
        self._count += 1
        size = len(self._array)
        if 0 <= number < size:
            self._array[number] = row
        elif size <= number < _NEAR + _THIN * self._count:
            self._array.extend(array("i", [NONE]) * (number + number // 2 + 64 - size))
            self._array[number] = row
        else:
            self._large[number] = row

    def get(self, number: int) -> int:
        """Returns the row of a dispatch id, or `NONE`."""
        if 0 <= number < len(self._array):
            row = self._array[number]
            if row != NONE:
                return row
        return self._large.get(number, NONE)


class Parsed(Struct, frozen=True):
    """Columns of dispatches, with the types of those in `Dispatches`."""

    shape: array[int]
    number: array[int]
    queue: array[int]
    start: array[int]
    end: array[int]

    def select(self, rows: Sequence[int]) -> Parsed:
        """Returns the dispatches of these rows."""
        return Parsed(
            shape=array("i", [self.shape[row] for row in rows]),
            number=array("q", [self.number[row] for row in rows]),
            queue=array("q", [self.queue[row] for row in rows]),
            start=array("q", [self.start[row] for row in rows]),
            end=array("q", [self.end[row] for row in rows]),
        )


class Sink(Struct):
    """Adds a table's dispatches to a recording, as part `part`."""

    builder: Builder
    table: Table
    agent_key: AgentKey
    process: int | None  # of rows without a process id
    part: int
    rounded: int = 0  # dispatches whose timestamps lost digits
    shapes: dict[int, KernelShape] = field(default_factory=dict)  # made so far, by number
    _fields: tuple[str, ...] = ()
    _cells: tuple[int, ...] = ()
    _shape_of_key: dict[tuple[str, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fields = tuple(name for name in _SHAPE if name in self.table.columns)
        self._cells = tuple(self.table.columns[name] for name in self._fields)

    def want(self, *columns: str) -> None:
        """Tells the table which columns `parse` needs; `columns` are read besides those."""
        self.table.want(("number", "queue", "start", "end", *columns), self._fields)

    def parse(self, block: Block) -> Parsed:
        """Parses a block's dispatches by column.

        Raises:
            ValueError, OverflowError: a row is damaged or has no times: its rows must be read one
                by one.
        """
        shape_of_key = self._shape_of_key
        numbers = list(map(shape_of_key.get, block.key_texts()))
        if None in numbers:
            for index, key in enumerate(block.key_texts()):
                if key not in shape_of_key:
                    shape_of_key[key] = self.shape(block.row(index))
            numbers = [shape_of_key[key] for key in block.key_texts()]
        shape = array("i", [shape_number for shape_number in numbers if shape_number is not None])
        if NONE in shape:
            raise DamagedError
        number, queue, start, end = (
            _numbers(block.column(name), len(block)) for name in ("number", "queue", "start", "end")
        )
        columns = self.table.columns
        if "number" in columns and min(number) < 0:
            raise DamagedError
        if "start" in columns and "end" in columns:
            if min(start) <= 0 or any(map(gt, start, end)):
                raise DamagedError
        elif "start" in columns or "end" in columns:
            raise DamagedError
        return Parsed(shape=shape, number=number, queue=queue, start=start, end=end)

    def append(self, parsed: Parsed) -> range:
        """Adds dispatches to the recording and returns their rows."""
        table = self.builder.dispatches
        first = len(table)
        table.shape.extend(parsed.shape)
        table.number.extend(parsed.number)
        table.start.extend(parsed.start)
        table.end.extend(parsed.end)
        table.queue.extend(parsed.queue)
        table.part.extend(array("h", [self.part]) * len(parsed.shape))
        return range(first, len(table))

    def add(self, block: Block) -> Sequence[int]:
        """Adds a dispatch for each row of a block.

        Returns:
            For each, its row in the recording; `NONE` for damaged ones.
        """
        try:
            parsed = self.parse(block)
        except (ValueError, OverflowError):
            rows = block.all_rows()
            return [self.add_row(row, line) for row, line in zip(rows, block.lines, strict=True)]
        return self.append(parsed)

    def add_row(self, row: list[str], line: int) -> int:
        """Adds one row and returns its row in the recording; `NONE` if it is damaged.

        The table counts damaged rows.
        """
        try:
            shape = self.shape(row)
            if shape == NONE:
                raise DamagedError("a size is not a number, or the kernel has no name")
            number = self._cell(row, "number", integer)
            queue = self._cell(row, "queue", integer)
            start, end = self.times(row)
        except DamagedError as error:
            self.table.damage(line, str(error))
            return NONE
        table = self.builder.dispatches
        table.shape.append(shape)
        table.number.append(NONE if number is None else number)
        table.start.append(NONE if start is None else start)
        table.end.append(NONE if end is None else end)
        table.queue.append(NONE if queue is None else queue)
        table.part.append(self.part)
        return len(table) - 1

    def times(self, row: list[str]) -> tuple[int | None, int | None]:
        """Returns start and end in ns; both None if either is unknown or was rounded.

        Raises:
            DamagedError: they are no numbers, or it ends before it starts.
        """
        start = self._cell(row, "start", instant)
        end = self._cell(row, "end", instant)
        if start is None or end is None:
            columns = self.table.columns
            times = [row[columns[name]] for name in ("start", "end") if name in columns]
            if any("e" in time.lower() for time in times):  # such as 8.1097E+14
                self.rounded += 1
            return None, None
        if end < start:
            raise DamagedError("the dispatch ends before it starts")
        return start, end

    def shape(self, row: list[str]) -> int:
        """Returns the number of a row's shape; `NONE` if a cell of it is damaged."""
        key = tuple([row[cell] for cell in self._cells])
        number = self._shape_of_key.get(key)
        if number is None:
            try:
                shape = self._shape_of(dict(zip(self._fields, key, strict=True)))
                number = self.builder.shape(shape)
                self.shapes[number] = shape
            except (ValueError, OverflowError):
                number = NONE
            self._shape_of_key[key] = number
        return number

    def _shape_of(self, cells: dict[str, str]) -> KernelShape:
        """Parses the cells of a shape, by column.

        Raises:
            ValueError, OverflowError: a cell is no number, or the kernel has no name.
        """
        name = cells["name"].strip()
        if not name:
            raise DamagedError
        agent = cells.get("agent", "").strip()
        sizes = {
            field: integer(text) for field, text in cells.items() if field not in ("name", "agent")
        }
        if any(size is not None and size < 0 for size in sizes.values()):
            raise DamagedError
        workgroup = _triple(sizes, "workgroup")
        grid = _triple(sizes, "grid")
        process = sizes.get("process")
        return KernelShape(
            name=_bare(name),
            agent=self.agent_key(agent) if agent else None,
            process=self.process if process is None else process,
            kernel_id=sizes.get("kernel_id"),
            workgroup=workgroup,
            workgroup_size=_product(workgroup) or sizes.get("workgroup_size"),
            grid=grid,
            grid_size=_product(grid) or sizes.get("grid_size"),
            lds_bytes=sizes.get("lds"),
            scratch_bytes=sizes.get("scratch"),
            vgpr=sizes.get("vgpr"),
            accum_vgpr=sizes.get("accum_vgpr"),
            sgpr=sizes.get("sgpr"),
            wave_size=sizes.get("wave_size"),
        )

    def _cell(self, row: list[str], name: str, read: Callable[[str], int | None]) -> int | None:
        index = self.table.columns.get(name)
        if index is None:
            return None
        try:
            value = read(row[index])
        except (ValueError, OverflowError):
            raise DamagedError(f"{self.table.names[index]} is not a number") from None
        if value is not None and not 0 <= value < 1 << 63:
            raise DamagedError(f"{self.table.names[index]} is no number of 63 bits")
        return value


def _numbers(column: Sequence[str] | None, count: int) -> array[int]:
    """Returns a column's integers; all are `NONE` if the table has no such column."""
    if column is None:
        return array("q", [NONE]) * count
    different = set(column)
    if len(different) < 8:  # queues, say: each text is converted once, which takes most of the time
        value = {text: int(text) for text in different}
        return array("q", [value[text] for text in column])
    return array("q", list(map(int, column)))


def _triple(sizes: dict[str, int | None], stem: str) -> tuple[int, int, int] | None:
    x, y, z = (sizes.get(f"{stem}_{axis}") for axis in "xyz")
    return None if x is None or y is None or z is None else (x, y, z)


def _product(sizes: tuple[int, int, int] | None) -> int | None:
    return None if sizes is None else sizes[0] * sizes[1] * sizes[2]


def _bare(name: str) -> str:
    """Removes the suffix of a kernel's descriptor that some versions append to its name."""
    for mark in (" [clone .kd]", " (.kd)", ".kd"):
        if name.endswith(mark):
            return name[: -len(mark)]
    return name
