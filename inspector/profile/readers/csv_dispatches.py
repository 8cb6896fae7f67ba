"""Reads dispatches from CSV rows of any profiler.

A recording of ten million dispatches has a few hundred shapes. The cells of a row that make up its
shape are therefore looked up as one key of texts; only the other cells are converted.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from ...model.recording import KernelShape, Part
from ..builder import RecordingBuilder, triple, volume
from .agents import AgentIds
from .csv_table import CsvTable, DamagedRowError
from .row_index import RowIndex

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
