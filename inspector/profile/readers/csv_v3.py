"""CSV of rocprofv3 (ROCm 6.2 and later), and of `rocpd convert`, which writes the same.

Files are known by their columns: they may have any name. Those of one process stand in one folder
with one prefix (`1234_kernel_trace.csv`, `1234_counter_collection.csv`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ...recording import NONE, Part, TopKernel
from ..builder import Builder
from ..reading import Group
from .agents import Agents
from .csv_counters import Counters, LongReader
from .csv_dispatches import RowIndex, Sink
from .rows import Block, Table, folded, instant, integer, nothing_in

FORMAT = "rocprofv3 CSV"
STATISTICS = "kernel statistics"

_KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("agents", frozenset({"nodeid", "agenttype", "cucount"})),
    ("counters", frozenset({"dispatchid", "agentid", "kernelname", "countername", "countervalue"})),
    ("trace", frozenset({"agentid", "kernelname", "starttimestamp", "endtimestamp"})),
    ("stats", frozenset({"name", "calls", "totaldurationns", "averagens", "minns", "maxns"})),
    ("stats", frozenset({"name", "calls", "durationnsec", "averagensec"})),
    ("api", frozenset({"domain", "function", "starttimestamp"})),
    ("copies", frozenset({"kind", "direction", "starttimestamp", "endtimestamp"})),
    ("api", frozenset({"kind", "operation", "starttimestamp"})),
)
"""Which columns tell a kind of file; the first that fits."""

_SUFFIX = re.compile(
    r"(?:^|_)(?P<kind>agent_info|counter_collection(?:_stats)?|domain_stats"
    r"|(?:kernel|hip|hsa|hip_api|hsa_api|hip_runtime|hip_compile(?:r)?|hip_runtime_api|hsa_core_api"
    r"|hip_compiler_api|marker|marker_api|memory_copy|memory_allocation|scratch_memory|rccl|rccl_api"
    r"|rocdecode_api|rocjpeg_api)_(?:trace|stats)"
    r"|pc_sampling_(?:host_trap|stochastic)(?:_stats)?)\.csv$"
)
_KERNEL_STATS = re.compile(r"(^|_)kernel_stats|^(?!.*(_stats|_stat)\.csv$)")
_OURS = {"kernel_trace": "trace", "counter_collection": "counters", "agent_info": "agents"}
_KERNELS = "KERNEL_DISPATCH"
_PID = re.compile(r"(?:^|_)(\d{1,9})$")
_RESULTS = re.compile(r"_?results\.(json|db)$|\.(json|db)$")


def prefix_of(path: Path) -> str:
    """What stands before a file's kind in its name: the process id, or the name asked for."""
    match = _SUFFIX.search(path.name)
    return path.name[: match.start()] if match else path.stem


def process_of(prefix: str) -> int | None:
    """The process id in a prefix."""
    match = _PID.search(prefix)
    return int(match[1]) if match else None


def names_of(places: Iterable[tuple[Path, str]]) -> dict[tuple[Path, str], str]:
    """What to call the processes at folders with prefixes: as short as tells them apart."""
    places = list(dict.fromkeys(places))
    if not places:
        return {}
    common = Path(os.path.commonpath([str(folder) for folder, _ in places]))
    names = {}
    for folder, prefix in places:
        inner = folder.relative_to(common).as_posix()
        parts = [part for part in (inner, prefix) if part not in ("", ".")]
        names[folder, prefix] = "/".join(parts) or folder.name or "."
    return names


def find(files: Sequence[Path]) -> list[Group]:
    """Files of one process, by their folder, prefix and columns."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        if file.suffix.lower() == ".csv" and _kind(file):
            groups.setdefault((file.parent, prefix_of(file)), []).append(file)
    names = names_of(groups)
    return [Group(names[place], tuple(members)) for place, members in groups.items()]


def read(group: Group, builder: Builder) -> None:
    """Reads the files of one process."""
    kinds: dict[str, list[Path]] = {}
    for file in group.files:
        kinds.setdefault(_kind(file), []).append(file)
    for file in kinds.get("api", ()):
        match = _SUFFIX.search(file.name)
        builder.note(f"{match['kind'] if match else file.stem}: API trace, not read")
    for file in kinds.get("empty", ()):
        builder.note(f"{file.name}: {nothing_in(file)}")
    for file in kinds.get("copies", ()):
        read_copies(Table.open(file), builder)
    agents = Agents()
    for file in kinds.get("agents", ()):
        agents.read(Table.open(file), builder)
    traces, counted = kinds.get("trace", []), kinds.get("counters", [])
    stats = [file for file in kinds.get("stats", ()) if _KERNEL_STATS.search(file.name)]
    if not traces and not counted and not stats:
        return
    builder.tool.setdefault("name", "rocprofv3")
    first = group.files[0]
    twin = already_read(first.parent, prefix_of(first), builder)
    if twin is not None:
        builder.note(f"{group.name}: the same process was read from {twin}; its CSV is not added")
        return
    former_count = len(builder.dispatches)
    if traces or counted:
        _Process(group, builder, agents).read(traces, counted)
    for file in stats if len(builder.dispatches) == former_count else ():
        builder.begin(Part(group.name, str(file), STATISTICS))
        read_stats(Table.open(file), builder)


def read_copies(table: Table, builder: Builder) -> None:
    """Adds a table of one row per copy to the recording's transfers."""
    columns = [table.columns[name] for name in ("direction", "start", "end")]
    for block in table.blocks():
        for cells, line in zip(block.all_rows(), block.lines, strict=True):
            direction, *times = (cells[at] for at in columns)
            try:
                start, end = map(instant, times)
            except (ValueError, OverflowError):
                start = end = None
            if start is None or end is None or end < start:
                table.damage(line, "begin or end is no time")
                continue
            builder.transfer(direction.strip(), end - start)
    table.report(builder)


def read_stats(table: Table, builder: Builder) -> None:
    """Adds a table of kernels with calls and durations to the summary."""
    where = table.columns
    indices = [where[name] for name in ("label", "calls", "total_ns")]
    for block in table.blocks():
        for cells, line in zip(block.all_rows(), block.lines, strict=True):

            def whole(name: str, cells: list[str] = cells) -> int | None:
                return integer(cells[where[name]]) if name in where else None

            if "domain" in where and cells[where["domain"]].strip() != _KERNELS:
                continue  # a summary of all that was traced
            try:
                calls, total = (integer(cells[at]) for at in indices[1:])
                mean = cells[where["mean_ns"]].strip() if "mean_ns" in where else ""
                if calls is None or total is None:
                    raise ValueError
                line_of = TopKernel(
                    name=cells[indices[0]],
                    calls=calls,
                    total_ns=total,
                    mean_ns=float(mean) if mean else None,
                    min_ns=whole("min_ns"),
                    max_ns=whole("max_ns"),
                )
            except (ValueError, OverflowError):
                table.damage(line, "calls or durations are not numbers")
                continue
            builder.summary.append(line_of)
    table.report(builder)


def _kind(file: Path) -> str:
    """Which of `_KINDS` a file is, "empty" for an empty one with a known name, or ""."""
    names = folded(file)
    if not names:
        match = _SUFFIX.search(file.name)
        return "empty" if match is not None and match["kind"] in _OURS else ""
    return next((kind for kind, required in _KINDS if required <= names), "")


def parts_of(folder: Path, prefix: str, builder: Builder) -> list[int]:
    """Parts that were read of the process whose files stand in a folder with a prefix."""
    return [
        number
        for number, part in enumerate(builder.parts)
        if (path := Path(part.path)).parent == folder
        and prefix in (prefix_of(path), _RESULTS.sub("", path.name))
    ]


def already_read(folder: Path, prefix: str, builder: Builder) -> str | None:
    """The file that holds all of a process, in JSON or as a database, if it was read before."""
    for number in parts_of(folder, prefix, builder):
        name = Path(builder.parts[number].path).name
        if _RESULTS.search(name):
            return name
    return None


class _Process(Struct):
    """Reads the dispatches of one process: its kernel trace, and counters beside it."""

    group: Group
    builder: Builder
    agents: Agents

    def read(self, traces: Sequence[Path], counted: Sequence[Path]) -> None:
        """Adds them as one part; counters of another process that only share a name, as another."""
        builder, group = self.builder, self.group
        first = (*traces, *counted)[0]
        builder.begin(Part(group.name, str(first), FORMAT))
        prefix = prefix_of(first)
        process = process_of(prefix)
        if process is None and counted:
            process = _shared_process(traces[0] if traces else None, counted[0])
        sinks: list[Sink] = []
        index: RowIndex | None = None
        for file in traces:
            sink = self._sink(Table.open(file), process, sinks)
            rows = self._trace(sink, bool(counted))
            index = rows if index is None else index
        for file in counted:
            sink = self._sink(Table.open(file), process, sinks)
            reader = LongReader(sink, Counters(builder), index)
            reader.read()
            if reader.apart:
                builder.note(
                    f"{group.name}: {reader.apart:,} dispatches of {file.name} are others than "
                    f"those of {traces[0].name} with the same ids (kernel, size or time differ): "
                    "kept apart"
                )
            sink.table.report(builder)
        self._say(sinks)

    def _sink(self, table: Table, process: int | None, sinks: list[Sink]) -> Sink:
        part = len(self.builder.parts) - 1
        shapes = sinks[0].shapes if sinks else {}
        sink = Sink(self.builder, table, self.agents.key, process, part, shapes=shapes)
        sinks.append(sink)
        return sink

    def _trace(self, sink: Sink, indexed: bool) -> RowIndex | None:
        """Reads a kernel trace; where counters will ask for its dispatches, keeps their rows."""
        index = RowIndex() if indexed and "number" in sink.table.columns else None
        numbers = self.builder.dispatches.number
        sink.want()
        for block in sink.table.blocks():
            rows = sink.add(block)
            if index is not None:
                for row in rows:
                    if row != NONE and numbers[row] != NONE:
                        index.put(numbers[row], row)
        sink.table.report(self.builder)
        return index

    def _say(self, sinks: Sequence[Sink]) -> None:
        note = self.builder.note
        for sink in sinks:
            unknown = sink.table.others()
            if unknown:
                listing = ", ".join(unknown[:4]) + (", …" if len(unknown) > 4 else "")
                note(f"{sink.table.path.name}: unknown columns are left out: {listing}")
            if sink.rounded:
                note(f"{sink.table.path.name}: timestamps are rounded, durations are unknown")
        for text in sorted(self.agents.ambiguous):
            note(f"{text} is taken as a relative index, rocprofv3's default")


def _shared_process(trace: Path | None, counted: Path) -> int | None:
    """The process id that a counters' file states, for a kernel trace beside it that states none.

    None if the first rows show that the two are not of one process.
    """
    table = Table.open(counted)
    at = table.columns.get("process")
    block = next(table.blocks(), None)
    if at is None or block is None or not block.row(0)[at].isdecimal():
        return None
    if trace is not None:
        trace_table = Table.open(trace)
        traced = _kernels(trace_table, next(trace_table.blocks(), None))
        for number, kernel in _kernels(table, block).items():
            if traced.get(number, kernel) != kernel:
                return None
    return int(block.row(0)[at])


def _kernels(table: Table, block: Block | None) -> dict[str, tuple[str, ...]]:
    where = table.columns
    if block is None or not {"number", "kernel_id"} <= where.keys():
        return {}
    cells = [where["kernel_id"], where["name"]]
    return {row[where["number"]]: tuple(row[at] for at in cells) for row in block.all_rows()}
