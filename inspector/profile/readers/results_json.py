"""rocprofv3's `*_results.json`, of every SDK version that writes one, up to any size.

One element of `rocprofiler-sdk-tool` is a process: first small tables (agents, counters, code
objects, kernel symbols), then arrays of records. Where a file has them in another order, arrays
that came before what they refer to are read after all else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from ...model.recording import NONE, Part
from ..builder import LARGEST, RecordingBuilder, RowIndex
from ..reading import FileGroup
from . import json_tables
from .json_stream import DamagedError, JsonStream
from .json_tables import ProcessTables
from .pc_samples import Method, ProcessSamples
from .recorded_files import head, open_plain

FORMAT = "rocprofv3 JSON"

_ROOT = "rocprofiler-sdk-tool"
_SIGN = re.compile(rb'\A\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_AHEAD = 256
_TABLES = ("metadata", "agents", "counters", "strings", "code_objects", "kernel_symbols")
_DISPATCHES = ("counter_collection", "kernel_dispatch")
_COPIES = "memory_copy"
_SAMPLES: dict[str, Method] = {
    "pc_sample_host_trap": "host_trap",
    "pc_sample_stochastic": "stochastic",
}
_AGAIN = "profile again, and let the program end by itself so that the file is written out"


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns the files that begin as rocprofv3's JSON does."""
    return [FileGroup.of_file(file) for file in files if _SIGN.match(head(file, _AHEAD))]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads a file; what lies behind damage is missing, and reported as an error."""
    (path,) = group.files
    builder.begin(Part(group.name, str(path), FORMAT, profiler="rocprofv3"))
    builder.tool.setdefault("name", "rocprofv3")
    with open_plain(path) as file:
        _read_document(path, JsonStream(file), builder)


def _read_document(path: Path, stream: JsonStream, builder: RecordingBuilder) -> None:
    """Reads the processes of a file, and reports damage and records of an unknown form."""
    processes = 0
    try:
        for key in stream.members():
            if key != _ROOT:
                stream.skip()
                continue
            for _ in stream.items():
                processes += 1
                _JsonProcess(path, stream, builder).read()
    except DamagedError as error:
        message = (
            f"{path.name}: {error.reason} at byte {error.offset:,}; what stands before was read"
        )
        builder.fail(path, message, _AGAIN)
    if stream.skipped:
        builder.fail(
            path,
            f"{path.name}: {stream.skipped:,} records are not of the form rocprofv3 writes, "
            "and were left out",
            "if the file is as the profiler wrote it, report its version",
        )
    if not processes:
        builder.note(f"{path.name} holds no process: nothing was recorded")


class _JsonProcess(Struct):
    """One process, an element of the root array, while it is read.

    The sections may come in any order: records that need tables which have not been read yet are
    skipped and read at the end.
    """

    path: Path
    stream: JsonStream
    builder: RecordingBuilder
    tables: ProcessTables = field(default_factory=ProcessTables)
    rows: RowIndex = field(default_factory=RowIndex)  # dispatch id -> row
    shapes: dict[tuple[int | None, ...], int] = field(default_factory=dict)
    samples: ProcessSamples | None = None  # made when first needed
    sections_read: set[str] = field(default_factory=set)
    deferred: list[tuple[str, int]] = field(default_factory=list)  # section and its offset
    not_finite: dict[str, int] = field(default_factory=dict)  # counter -> values NaN or infinite

    def read(self) -> None:
        """Reads the process."""
        damage: DamagedError | None = None
        try:
            for key in self.stream.members():
                self._section(key)
        except DamagedError as error:
            damage = error
        # Tables that are missing by now will not come: deferred records are read without them.
        deferred, self.deferred = self.deferred, []
        self.sections_read.update(_TABLES, _DISPATCHES)
        for section in (*_DISPATCHES, *_SAMPLES, _COPIES):
            for key, offset in deferred:
                if key == section:
                    # Damage in it was reported when it was skipped.
                    with suppress(DamagedError), self.stream.at(offset):
                        self._records(key)
        self._finish()
        if damage is not None:
            raise damage

    def _section(self, key: str) -> None:
        """Reads the value of one key of the process."""
        if self.tables.read(key, self.stream, self.builder):
            self.sections_read.add(key)
        elif key in ("callback_records", "buffer_records"):
            for kind in self.stream.members():
                self._records(kind)
        else:
            self.stream.skip()

    def _records(self, kind: str) -> None:
        """Reads an array of records, or defers it if it needs tables that come later."""
        if kind in _DISPATCHES:
            ready = self.sections_read.issuperset(_TABLES)
        elif kind in _SAMPLES:
            ready = self.sections_read.issuperset((*_TABLES, *_DISPATCHES))
        elif kind == _COPIES:
            ready = "agents" in self.sections_read
        else:
            self.stream.skip()
            return
        if self.stream.peek() != "[":  # some versions write an empty object for an empty array
            self.stream.skip()
        elif not ready:
            self.deferred.append((kind, self.stream.offset))
            self.stream.skip()
            return
        elif kind == "kernel_dispatch":
            self._dispatches()
        elif kind == _COPIES:
            self._copies()
        elif kind == "counter_collection":
            self._counter_values()
        else:
            self._samples(_SAMPLES[kind])
        self.sections_read.add(kind)

    def _dispatches(self) -> None:
        """Adds dispatches, or times to those whose counters were read first."""
        times = self.builder.dispatches
        for record in self.stream.records(json_tables.DispatchRecord):
            launch = record.dispatch_info
            row = self.rows.get(launch.dispatch_id)
            start, end = record.start_timestamp or NONE, record.end_timestamp or NONE
            if row == NONE:
                self._add(launch, start, end, None)
            elif times.start[row] == NONE:  # its counters stood before it, without times
                times.start[row], times.end[row] = start, end

    def _copies(self) -> None:
        """Adds the durations of copies by direction, such as `host to device`."""
        kinds = {"cpu": "host", "gpu": "device"}
        agents = self.builder.agents

        def side(handle: int) -> str:
            agent = agents.get(self.tables.agents.get(handle, ""))
            return kinds[agent.kind] if agent is not None else "unknown"

        for record in self.stream.records(json_tables.MemoryCopy):
            name = f"{side(record.src_agent_id.handle)} to {side(record.dst_agent_id.handle)}"
            self.builder.transfer(name, record.end_timestamp - record.start_timestamp)

    def _counter_values(self) -> None:
        """Adds up each counter of a dispatch over the instances of its block."""
        count = self.builder.add_counter_value
        for record in self.stream.records(json_tables.CounterRecord):
            data = record.dispatch_data
            row = self.rows.get(data.dispatch_info.dispatch_id)
            if row == NONE:
                start, end = data.start_timestamp or NONE, data.end_timestamp or NONE
                row = self._add(data.dispatch_info, start, end, record)
            # One value per instance of the block: shader engine, XCC, channel.
            sums: dict[int, float] = {}
            for value in record.records:
                handle = value.counter_id.handle
                sums[handle] = sums.get(handle, 0.0) + value.value
            for handle, total in sums.items():
                name = self.tables.counters.get(handle) or f"counter {handle}"
                if math.isfinite(total):
                    count(row, name, total)
                else:
                    self.not_finite[name] = self.not_finite.get(name, 0) + 1

    def _samples(self, method: Method) -> None:
        """Adds PC samples up by place; those of a known dispatch have its shape."""
        samples = self._process_samples()
        texts, comments = (
            self.tables.strings.pc_sample_instructions,
            self.tables.strings.pc_sample_comments,
        )
        shape_of = self.builder.dispatches.shape
        for item in self.stream.records(json_tables.SampleRecord):
            record = item.record
            row = self.rows.get(record.dispatch_id)
            index = item.inst_index
            samples.at(
                method,
                None if row == NONE else shape_of[row],
                record.pc.code_object_id,
                record.pc.code_object_offset,
                text=texts[index] if 0 <= index < len(texts) else None,
                comment=comments[index] if 0 <= index < len(comments) else None,
            ).add(
                record.exec_mask,
                None if record.wave_issued is None else bool(record.wave_issued),
                record.snapshot.stall_reason if record.snapshot else None,
            )

    def _add(
        self,
        launch: json_tables.DispatchInfo,
        start: int,
        end: int,
        counted: json_tables.CounterRecord | None,
    ) -> int:
        """Adds a dispatch and returns its row; registers are those of its counters, if any."""
        grid, group = launch.grid_size, launch.workgroup_size
        key = (
            launch.kernel_id, launch.agent_id.handle,
            grid.x, grid.y, grid.z, group.x, group.y, group.z,
            launch.group_segment_size, launch.private_segment_size,
            counted.arch_vgpr_count if counted else None,
        )  # fmt: skip
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = self.builder.shape(self.tables.shape(launch, counted))
        queue = launch.queue_id.handle
        row = self.builder.dispatch(
            shape,
            launch.dispatch_id,
            start,
            end,
            queue if queue <= LARGEST else None,  # it may be an address
            find_again=False,
        )
        self.rows.add(launch.dispatch_id, row)
        return row

    def _process_samples(self) -> ProcessSamples:
        """Returns the sums of samples, which begin empty once the code objects are known."""
        if self.samples is None:
            self.samples = self.tables.new_samples(self.path)
        return self.samples

    def _finish(self) -> None:
        """Passes code objects and samples on; the summary only if there are no dispatches."""
        samples = self._process_samples()
        self.builder.code_objects.extend(
            code_object for code_object, _ in samples.code_objects.values()
        )
        self.builder.samples.extend(samples.samples())
        if not self.shapes:
            self.builder.summary.extend(json_tables.top_kernels(self.tables.summary))
        for name, times in self.not_finite.items():
            self.builder.fail(
                self.path,
                f"{self.path.name}: {name} has {times:,} values that are no numbers, left out",
                "the counter may not exist on this device: see rocprofv3 --list-avail",
            )
