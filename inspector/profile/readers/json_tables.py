"""The small tables of a process in rocprofv3's JSON, which its arrays of records refer to."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from ...model.recording import KernelShape, RecordedCodeObject
from ..builder import RecordingBuilder, volume
from . import agents
from .json_records import (
    CounterName,
    CounterRecord,
    DispatchInfo,
    DomainSummary,
    KernelSymbol,
    LoadedCodeObject,
    ProcessMetadata,
    StringTables,
)
from .json_stream import JsonStream
from .pc_samples import ProcessSamples, shift


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
