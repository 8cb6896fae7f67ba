"""The small tables of a process in rocprofv3's JSON, which its arrays of records refer to.

The records of rocprofv3's JSON, with the fields that are read.

Names are those of the file (rocprofiler-sdk's `rocprofv3-schema.json` and, for what it leaves out,
its `serialization/save.hpp`). Everything that some version does not write has a default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct, field

from ...model.recording import KernelShape, RecordedCodeObject, TopKernel
from ..builder import LARGEST, RecordingBuilder, volume
from . import agents
from .json_stream import JsonStream
from .pc_samples import ProcessSamples, shift

Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Unsigned = int
"""64 bits, which msgspec cannot bound: addresses, masks, hashes."""
Natural = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Handle(msgspec.Struct, gc=False):
    """An opaque id; it may be an address or hash of 64 bits."""

    handle: Unsigned = 0


class Triple(msgspec.Struct, gc=False):
    """A size in three dimensions."""

    x: Whole = 0
    y: Whole = 0
    z: Whole = 0


class DispatchInfo(msgspec.Struct, gc=False):
    """`rocprofiler_kernel_dispatch_info_t`; sizes in bytes, the grid in work-items."""

    agent_id: Handle
    queue_id: Handle
    kernel_id: Whole
    dispatch_id: Natural
    private_segment_size: Whole
    group_segment_size: Whole
    workgroup_size: Triple
    grid_size: Triple


class DispatchRecord(msgspec.Struct, gc=False):
    """An element of `buffer_records.kernel_dispatch`, or the dispatch that counters are of.

    Times in ns; beside counters since SDK 1.0.
    """

    dispatch_info: DispatchInfo
    start_timestamp: Natural = 0
    end_timestamp: Natural = 0


class MemoryCopy(msgspec.Struct, gc=False):
    """An element of `buffer_records.memory_copy`; times in ns."""

    src_agent_id: Handle
    dst_agent_id: Handle
    start_timestamp: Natural = 0
    end_timestamp: Natural = 0


class InstanceValue(msgspec.Struct, gc=False):
    """A counter's value in one of its instances."""

    counter_id: Handle
    value: float


class CounterRecord(msgspec.Struct, gc=False):
    """An element of `callback_records.counter_collection`; register counts until SDK 1.0."""

    dispatch_data: DispatchRecord
    records: list[InstanceValue] = []
    arch_vgpr_count: Whole | None = None
    accum_vgpr_count: Whole | None = None
    sgpr_count: Whole | None = None


class ProgramCounter(msgspec.Struct, gc=False):
    """A program counter: an offset from the code object's load base; an address without one."""

    code_object_id: Whole = 0
    code_object_offset: Unsigned = 0


class IssueSnapshot(msgspec.Struct, gc=False):
    """The part of a sample that hardware sampling adds: why nothing was issued."""

    stall_reason: str | Whole | None = None


class PcSample(msgspec.Struct, gc=False):
    """A PC sample; the last two only where the method is stochastic."""

    pc: ProgramCounter
    exec_mask: Unsigned | None = None
    dispatch_id: Whole = 0
    wave_issued: Whole | None = None
    snapshot: IssueSnapshot | None = None


class SampleRecord(msgspec.Struct, gc=False):
    """An element of `buffer_records.pc_sample_*`."""

    record: PcSample
    inst_index: Whole = -1


class CounterName(msgspec.Struct):
    """An element of `counters`."""

    id: Handle
    name: str


class KernelSymbol(msgspec.Struct):
    """An element of `kernel_symbols`; register counts since SDK 1.0."""

    kernel_id: Whole
    code_object_id: Whole = 0
    kernel_name: str | None = ""
    formatted_kernel_name: str | None = ""
    demangled_kernel_name: str | None = ""
    arch_vgpr_count: Whole | None = None
    accum_vgpr_count: Whole | None = None
    sgpr_count: Whole | None = None

    def name(self) -> str:
        """Returns its name in the CSV of the same run, without the descriptor's suffix."""
        for text in (self.formatted_kernel_name, self.demangled_kernel_name, self.kernel_name):
            if text:
                return text.removesuffix(".kd")
        return f"kernel {self.kernel_id}"


class LoadedCodeObject(msgspec.Struct):
    """An element of `code_objects`."""

    code_object_id: Whole
    uri: str | None = ""
    load_base: Unsigned = 0
    load_size: Whole = 0
    load_delta: int = 0


class KernelStatistics(msgspec.Struct):
    """Durations of one kernel, ns."""

    count: Whole
    sum: float
    min: float | None = None
    max: float | None = None
    mean: float | None = None


class DomainStatistics(msgspec.Struct):
    """Durations by kernel."""

    operations: Any = None


class DomainSummary(msgspec.Struct):
    """An element of `summary`."""

    domain: str = ""
    stats: DomainStatistics | None = None


class StringTables(msgspec.Struct):
    """Texts that records refer to by index."""

    pc_sample_instructions: list[str] = []
    pc_sample_comments: list[str] = []
    code_object_snapshot_filenames: list[Any] = []


class ProcessMetadata(msgspec.Struct):
    """The process: its id and command line."""

    pid: Whole | None = None
    command: list[str] = []


def top_kernels(summary: list[DomainSummary]) -> list[TopKernel]:
    """Returns the profiler's own statistics of kernels."""
    top = []
    for item in summary:
        kernels = item.stats.operations if item.stats else None
        if item.domain != "KERNEL_DISPATCH" or not isinstance(kernels, (dict, list)):
            continue
        # cereal writes a map as a list of {key, value}.
        pairs = (
            kernels.items()
            if isinstance(kernels, dict)
            else [
                (pair.get("key"), pair.get("value")) for pair in kernels if isinstance(pair, dict)
            ]
        )
        for name, about in pairs:
            statistics = _statistics(about)
            if statistics is not None and isinstance(name, str):
                shortest = None if statistics.min is None else round(statistics.min)
                longest = None if statistics.max is None else round(statistics.max)
                top.append(
                    TopKernel(
                        name=name,
                        calls=statistics.count,
                        total_ns=round(statistics.sum),
                        mean_ns=statistics.mean,
                        min_ns=shortest,
                        max_ns=longest,
                    )
                )
    return top


def _statistics(about: object) -> KernelStatistics | None:
    try:
        return msgspec.convert(about, KernelStatistics)
    except (msgspec.MsgspecError, UnicodeError):  # a text with half a surrogate
        return None


class ProcessTables(Struct):
    """The tables of one process, as far as they have been read.

    Args:
        agents: handle of an agent -> its key in the recording.
    """

    process: int | None = None  # its id
    agents: dict[int, str] = field(default_factory=dict)
    counters: dict[int, str] = field(default_factory=dict)  # handle of a counter -> its name
    symbols: dict[int, KernelSymbol] = field(default_factory=dict)  # id of a kernel -> its symbol
    loaded: list[LoadedCodeObject] = field(default_factory=list)  # code objects
    strings: StringTables = field(default_factory=StringTables)  # texts that samples refer to
    summary: list[DomainSummary] = field(default_factory=list)  # the profiler's own statistics

    def read(self, key: str, stream: JsonStream, builder: RecordingBuilder) -> bool:
        """Reads the value that comes next if it is a table; tells whether it is one."""
        reader = {
            "metadata": self._metadata,
            "agents": self._agents,
            "counters": self._counter_names,
            "strings": self._strings,
            "code_objects": self._code_objects,
            "kernel_symbols": self._symbols,
            "summary": self._summary,
        }.get(key)
        if reader is None:
            return False
        reader(stream, builder)
        return True

    def _metadata(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        about = stream.value(ProcessMetadata) or ProcessMetadata()
        self.process = about.pid
        builder.command = builder.command or tuple(about.command)

    def _agents(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        for index, about in enumerate(stream.records(dict)):
            key = str(about.get("node_id", index))  # versions without it list them in node order
            identity = about.get("id")
            if isinstance(identity, dict) and isinstance(identity.get("handle"), int):
                self.agents[identity["handle"]] = key
            if agents.is_processor(about):
                builder.agents.setdefault(key, agents.agent(key, about))

    def _counter_names(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        for counter in stream.records(CounterName):
            self.counters[counter.id.handle] = counter.name

    def _strings(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        self.strings = stream.value(StringTables) or StringTables()

    def _code_objects(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        self.loaded = [
            loaded
            for loaded in stream.records(LoadedCodeObject)
            if loaded.code_object_id and loaded.load_size  # the first is an empty one
        ]

    def _symbols(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        for symbol in stream.records(KernelSymbol):
            self.symbols[symbol.kernel_id] = symbol

    def _summary(self, stream: JsonStream, builder: RecordingBuilder) -> None:
        self.summary = list(stream.records(DomainSummary))

    def shape(self, launch: DispatchInfo, counted: CounterRecord | None) -> KernelShape:
        """Returns a dispatch's shape; registers are those of the symbol, else of the counters."""
        symbol = self.symbols.get(launch.kernel_id) or KernelSymbol(launch.kernel_id)
        grid, group = launch.grid_size, launch.workgroup_size
        registers = symbol if symbol.arch_vgpr_count is not None or counted is None else counted
        handle = launch.agent_id.handle
        return KernelShape(
            name=symbol.name(),
            agent=self.agents.get(handle),
            process=self.process,
            kernel_id=launch.kernel_id,
            code_object=symbol.code_object_id or None,
            workgroup=(group.x, group.y, group.z),
            workgroup_size=volume((group.x, group.y, group.z)),
            grid=(grid.x, grid.y, grid.z),
            grid_size=volume((grid.x, grid.y, grid.z)),
            lds_bytes=launch.group_segment_size,
            scratch_bytes=launch.private_segment_size,
            vgpr=registers.arch_vgpr_count,
            accum_vgpr=registers.accum_vgpr_count,
            sgpr=registers.sgpr_count,
            symbol=(symbol.kernel_name or "").removesuffix(".kd") or None,
        )

    def new_samples(self, path: Path) -> ProcessSamples:
        """Returns empty sums of samples at places in the process's code objects."""
        saved = _snapshots(path, self.strings.code_object_snapshot_filenames)
        objects = {
            item.code_object_id: (
                RecordedCodeObject(
                    id=item.code_object_id,
                    process=self.process,
                    uri=item.uri or None,
                    load_base=item.load_base,
                    load_size=item.load_size,
                    path=saved.get(item.code_object_id),
                ),
                shift(item.load_base, item.load_size, item.load_delta),
            )
            for item in self.loaded
        }
        return ProcessSamples(self.process, objects)


def _snapshots(path: Path, names: list[object]) -> dict[int, str]:
    """Returns id -> file of the code objects saved beside the report.

    `names` is a list by id, or one of {key, value} (the schema of SDK 1.0).
    """
    snapshots = {}
    for index, name in enumerate(names):
        number: object = index
        if isinstance(name, dict):
            number, name = name.get("key"), name.get("value")
        if isinstance(number, int) and isinstance(name, str) and name:
            file = path.parent / Path(name).name
            if file.is_file():
                snapshots[number] = str(file)
    return snapshots
