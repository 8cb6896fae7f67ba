"""Reads rocprofv3's database (rocpd, the default since ROCm 7.0) and rocprof v1's `results.db`.

rocpd keeps one set of tables per process, `rocpd_<what><uuid>` (`_Process`), and views over all of
them. The tables are read, because the views differ between versions and may be missing. Schema 3
(SDK 1.0) has process, agent and queue of a dispatch in its own row, schema 4 in the row of its
track.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ...base.documents import json_value
from ...base.errors import KinspectError
from ...model.recording import NONE, KernelShape, Part, RecordedCodeObject
from ..builder import RecordingBuilder, RowIndex, int64, triple, volume
from ..reading import FileGroup
from . import agents
from .pc_samples import ProcessSamples, shift
from .recorded_files import head, is_twin
from .sqlite_file import SIGN, Database, open_database, unfinished

FORMAT = "rocpd"

_V1 = "rocprof v1 database"
_DISPATCH = "rocpd_kernel_dispatch"
_SYMBOL = "rocpd_info_kernel_symbol"
_AXES = ("x", "y", "z")
_PROFILE_AGAIN = (
    "profile again, and let the program end by itself so that the database is written out"
)


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Databases with rocpd's or rocprof v1's tables, and files by their names that are broken."""
    return [FileGroup.of_file(file) for file in files if _is_ours(file)]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads the databases of a group; damaged tables are left out, with an error in the builder."""
    (path,) = group.files
    if not path.stat().st_size:
        builder.begin(Part(group.name, str(path), FORMAT, profiler="rocpd"))
        builder.fail(path, f"{path.name}: is empty: nothing was written", _PROFILE_AGAIN)
        return
    try:
        with open_database(path) as database:
            _read(path, group.name, database, builder)
    except sqlite3.Error as error:
        builder.fail(path, f"{path.name}: cannot be read: {error}", _hint(error))


def _read(path: Path, name: str, database: Database, builder: RecordingBuilder) -> None:
    is_v1 = _is_v1(database)
    form = _V1 if is_v1 else FORMAT
    builder.begin(Part(name, str(path), form, profiler="rocprof" if is_v1 else "rocpd"))
    if unfinished(path):
        builder.fail(
            path,
            f"{path.name}: its journal is still there: the last rows are missing",
            "wait until the profiled program has ended, or profile again",
        )
    if not is_twin(path, path.with_suffix(".json"), builder):
        (_read_v1 if is_v1 else _read_rocpd)(path, database, builder)


def _is_ours(path: Path) -> bool:
    """Tells whether a file is a database of rocprofv3 or rocprof v1, or an empty one."""
    try:
        empty = path.name.endswith("results.db") and not path.stat().st_size
    except OSError:
        return False
    if empty:
        return True
    if head(path, len(SIGN)) != SIGN:
        return False
    try:
        with open_database(path) as database:
            return _is_v1(database) or any(
                name.startswith((_DISPATCH, _SYMBOL)) for name in database.tables
            )
    except (sqlite3.Error, OSError):
        return path.suffix == ".db"  # broken or locked: reading it will report that


def _is_v1(database: Database) -> bool:
    return {"OPS", "COPY"}.issubset(database.tables) and "BeginNs" in database.columns("OPS")


def _read_v1(path: Path, database: Database, builder: RecordingBuilder) -> None:
    """Reads the kernels and copies of a database of rocprof v1."""
    builder.tool.setdefault("name", "rocprof v1")
    builder.note(f"{path.name} is of rocprof v1: it has kernels' names and times, no sizes")
    columns = ("BeginNs", "EndNs", "dev-id", "queue-id", "Name", "pid")
    for begin, end, device, queue, name, pid in database.rows("OPS", columns):
        agent = int64(device)
        shape = KernelShape(
            name=str(name), agent=None if agent is None else str(agent), process=int64(pid)
        )
        builder.dispatch(
            builder.shape(shape), None, int64(begin), int64(end), int64(queue), find_again=False
        )

    for begin, end, name in database.rows("COPY", ("BeginNs", "EndNs", "Name")):
        begin_ns, end_ns = int64(begin), int64(end)
        if begin_ns is not None and end_ns is not None:
            builder.transfer(str(name), end_ns - begin_ns)


def _read_rocpd(path: Path, database: Database, builder: RecordingBuilder) -> None:
    builder.tool.setdefault("name", "rocprofv3")
    suffixes = [name[len(_SYMBOL) :] for name in database.tables if name.startswith(_SYMBOL)] or [
        name[len(_DISPATCH) :] for name in database.tables if name.startswith(_DISPATCH)
    ]
    for suffix in suffixes:
        guids = {guid for (guid,) in database.rows(f"rocpd_info_process{suffix}", ("guid",))}
        for guid in sorted(guids, key=str) or [None]:
            _Process(path=path, database=database, builder=builder, suffix=suffix, guid=guid).read()


def _hint(error: sqlite3.Error) -> str:
    """What to do about a database that SQLite cannot read."""
    if "locked" in str(error) or "busy" in str(error):
        return "another program is using it: wait until the profiled program has ended"
    return _PROFILE_AGAIN


class _Process(Struct):
    """Reads the tables of one process. Ids are unique only within these tables."""

    path: Path
    database: Database
    builder: RecordingBuilder
    suffix: str  # of the names of the tables
    guid: str | None  # of the process's rows; None: all rows of the tables
    pids: dict[int, int] = field(default_factory=dict)  # id of a process -> system's process id
    agents: dict[int, str] = field(default_factory=dict)  # id of an agent -> its key
    # Id of a code object -> it, and by how much its addresses are shifted.
    objects: dict[int, tuple[RecordedCodeObject, int]] = field(default_factory=dict)
    symbols: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # id of a kernel -> its row
    tracks: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # id -> pid, agent, queue
    events: RowIndex = field(default_factory=RowIndex)  # event id -> row of its dispatch
    numbers: RowIndex = field(default_factory=RowIndex)  # dispatch id -> row of the dispatch
    rows_without_owner: int = 0  # rows whose kernel or counter is unknown
    unreadable: int = 0  # devices whose description could not be parsed

    def read(self) -> None:
        """Reads table by table; what follows a damaged place in a table is left out."""
        # In this order: a table refers to rows of those above it.
        tables: tuple[tuple[str, Callable[[], None]], ...] = (
            ("about", self._read_process),
            ("agents", self._read_agents),
            ("code objects", self._read_code_objects),
            ("symbols", self._read_symbols),
            ("tracks", self._read_tracks),
            ("dispatches", self._read_dispatches),
            ("counters", self._read_counters),
            ("samples", self._read_samples),
            ("copies", self._read_copies),
        )
        for words, read_table in tables:
            try:
                read_table()
            except sqlite3.Error as error:
                message = f"{self.path.name}: {words} could not be read to the end: {error}"
                self.builder.fail(self.path, message, _hint(error))
        if self.rows_without_owner:
            self.builder.fail(
                self.path,
                f"{self.path.name}: {self.rows_without_owner:,} rows without a kernel or counter,"
                " left out",
                "if the file is as the profiler wrote it, report its version",
            )
        if self.unreadable:
            self.builder.fail(
                self.path,
                f"{self.path.name}: the descriptions of {self.unreadable:,} devices are no JSON: "
                "figures that depend on the device are unknown",
                _PROFILE_AGAIN,
            )

    def _rows(self, table: str, *columns: str) -> Any:
        where = None if self.guid is None else {"guid": self.guid}
        return self.database.rows(f"rocpd_{table}{self.suffix}", columns, where)

    def _read_process(self) -> None:
        for tag, value in self._rows("metadata", "tag", "value"):
            if tag == "schema_version":
                self.builder.tool.setdefault("rocpd schema", str(value))
        for number, pid, command in self._rows("info_process", "id", "pid", "command"):
            self.pids[number] = int64(pid) or 0
            if command and not self.builder.command:
                self.builder.command = tuple(str(command).split())

    def _read_agents(self) -> None:
        """Reads the CPUs and GPUs; `extdata` is JSON that newer versions add."""
        columns = (
            "id", "type", "absolute_index", "name", "generic_name", "product_name", "extdata",
        )  # fmt: skip
        for number, kind, index, name, generic, product, extdata in self._rows(
            "info_agent", *columns
        ):
            key = str(number if index is None else index)
            self.agents[number] = key
            properties = {"type": kind, "name": generic or name, "product_name": product}
            extra_properties = _object(extdata)
            if extra_properties is None:
                self.unreadable += 1
            properties |= extra_properties or {}
            if agents.is_processor(properties):
                self.builder.agents.setdefault(key, agents.agent(key, properties))

    def _read_code_objects(self) -> None:
        """Reads where code objects were loaded."""
        columns = ("id", "pid", "uri", "load_base", "load_size", "load_delta")
        for number, pid, uri, low, size, delta in self._rows("info_code_object", *columns):
            low, size = int64(low), int64(size)
            address_shift = (
                0 if low is None or size is None else shift(low, size, int64(delta) or 0)
            )
            code_object = RecordedCodeObject(
                id=number,
                process=self._pid(pid),
                uri=_text(uri) or None,
                load_base=low,
                load_size=size,
            )
            self.objects[number] = (code_object, address_shift)
            self.builder.code_objects.append(code_object)

    def _read_symbols(self) -> None:
        columns = (
            "id", "display_name", "kernel_name", "code_object_id",
            "arch_vgpr_count", "accum_vgpr_count", "sgpr_count",
        )  # fmt: skip
        for number, *columns_of_symbol in self._rows("info_kernel_symbol", *columns):
            self.symbols[number] = tuple(columns_of_symbol)

    def _read_tracks(self) -> None:
        for number, *location in self._rows("track", "id", "pid", "agent_id", "queue_id"):
            self.tracks[number] = tuple(location)

    def _read_dispatches(self) -> None:
        """Reads the dispatches; newer schemas have process, agent and queue in a track."""
        columns = (
            "event_id", "dispatch_id", "start", "end", "track_id", "pid", "agent_id", "queue_id",
            "kernel_id", "group_segment_size", "private_segment_size",
            *(f"workgroup_size_{axis}" for axis in _AXES),
            *(f"grid_size_{axis}" for axis in _AXES),
        )  # fmt: skip
        shapes: dict[tuple[Any, ...], int] = {}
        builder = self.builder
        for event, number, start, end, track, *launch in self._rows("kernel_dispatch", *columns):
            pid, agent, queue, *sizes = launch
            if track in self.tracks:
                pid, agent, queue = self.tracks[track]
            key = (pid, agent, *sizes)
            shape = shapes.get(key)
            if shape is None:
                shape = shapes[key] = builder.shape(self._shape(pid, agent, sizes))
            row = builder.dispatch(
                shape, int64(number), int64(start), int64(end), int64(queue), find_again=False
            )
            if isinstance(event, int):
                self.events.add(event, row)
            if isinstance(number, int):
                self.numbers.add(number, row)

    def _shape(self, pid: object, agent: Any, sizes: list[Any]) -> KernelShape:
        """Returns a shape; `sizes` are kernel id, LDS, scratch, workgroup and grid (x, y, z)."""
        kernel, lds, scratch, *axes = (int64(size) for size in sizes)
        symbol = self.symbols.get(-1 if kernel is None else kernel, (None,) * 6)
        display, name, code_object, vgpr, accum, sgpr = symbol
        group, grid = triple(axes[:3]), triple(axes[3:])
        return KernelShape(
            name=str(display or name or f"kernel {kernel}").removesuffix(".kd"),
            agent=self.agents.get(agent),
            process=self._pid(pid),
            kernel_id=kernel,
            code_object=int64(code_object),
            workgroup=group,
            workgroup_size=volume(group),
            grid=grid,
            grid_size=volume(grid),
            lds_bytes=lds,
            scratch_bytes=scratch,
            vgpr=int64(vgpr),
            accum_vgpr=int64(accum),
            sgpr=int64(sgpr),
            symbol=str(name or "").removesuffix(".kd") or None,
        )

    def _read_counters(self) -> None:
        """Reads counter values, which stand in order of dispatches, and sums over instances."""
        names = {number: str(name) for number, name in self._rows("info_pmc", "id", "name")}
        current: int | None = None
        sums: dict[str, float] = {}
        columns = ("event_id", "pmc_id", "value", "sample_id")
        for event, counter, value, sample in self._rows("pmc_event", *columns):
            if sample is not None or value is None:  # sampled over time, not for a dispatch
                continue
            row = self.events.get(event) if isinstance(event, int) else NONE
            name = names.get(counter)
            if row == NONE or name is None or not isinstance(value, (int, float)):
                self.rows_without_owner += 1
                continue
            if row != current:
                self._add_counters(current, sums)
                current, sums = row, {}
            # One value per instance of the block: shader engine, XCC, channel.
            sums[name] = sums.get(name, 0.0) + value
        self._add_counters(current, sums)

    def _add_counters(self, row: int | None, sums: dict[str, float]) -> None:
        if row is not None:
            for name, value in sums.items():
                self.builder.add_counter_value(row, name, value)

    def _read_samples(self) -> None:
        """Reads the PC samples and adds them up by place."""
        samples = ProcessSamples(next(iter(self.pids.values()), None), self.objects)
        columns = (
            "method", "dispatch_id", "code_object_id", "code_object_offset", "exec_mask",
            "wave_issued_instruction", "stall_reason", "instruction", "instruction_comment",
        )  # fmt: skip
        shape_of = self.builder.dispatches.shape
        for row in self._rows("pc_sampling", *columns):
            method, dispatch, code_object, offset, mask, issued, why, text, comment = row
            dispatch_row = self.numbers.get(dispatch) if isinstance(dispatch, int) else NONE
            samples.at(
                "host_trap" if method == "host_trap" or issued is None else "stochastic",
                None if dispatch_row == NONE else shape_of[dispatch_row],
                int64(code_object) or 0,
                int64(offset) or 0,
                text=_text(text),
                comment=_text(comment),
            ).add(
                _mask(mask),
                None if issued is None else bool(int64(issued)),
                why if isinstance(why, str | int) else None,
            )
        self.builder.samples.extend(samples.samples())

    def _read_copies(self) -> None:
        names: dict[object, str] = {}
        for start, end, number in self._rows("memory_copy", "start", "end", "name_id"):
            start_ns, end_ns = int64(start), int64(end)
            if start_ns is None or end_ns is None:
                continue
            if not names:
                names = {key: str(text) for key, text in self._rows("string", "id", "string")}
            self.builder.transfer(names.get(number, "copy"), end_ns - start_ns)

    def _pid(self, number: object) -> int | None:
        pid = int64(number)
        return None if pid is None else self.pids.get(pid, pid)


def _object(text: object) -> dict[str, Any] | None:
    """Decodes the JSON object in a cell: {} for an empty cell, None if it is no object."""
    if text is None or text == "":
        return {}
    if not isinstance(text, (str, bytes)):
        return None
    try:
        value = json_value(text, "extdata")
    except KinspectError:
        return None
    return value if isinstance(value, dict) else None


def _mask(value: object) -> int | None:
    """Parses an execution mask: a number, or hexadecimal text if it exceeds SQLite's integers."""
    if isinstance(value, int):
        return value & 0xFFFF_FFFF_FFFF_FFFF
    try:
        return int(value, 16) if isinstance(value, str) else None
    except ValueError:
        return None


def _text(value: object) -> str | None:
    """Returns a cell's text; None if it holds something else, as any column may in SQLite."""
    return value if isinstance(value, str) else None
