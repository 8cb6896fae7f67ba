"""CSV of rocprofv3 (ROCm 6.2 and later), and of `rocpd convert`, which writes the same.

What a file holds is told by its columns: it may have any name. The files of one process are read
together (`recorded_files.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from ...model.recording import KernelShape, Part
from ..builder import RecordingBuilder
from ..reading import FileGroup
from .agents import AgentIds
from .csv_dispatches import DispatchWriter, LongReader
from .csv_table import STATISTICS, CsvTable, folded, nothing_in, read_copies, read_stats
from .recorded_files import kind_named, names_of, prefix_of, process_of, results_file_read

FORMAT = "rocprofv3 CSV"

_REQUIRED_COLUMNS: tuple[tuple[str, frozenset[str]], ...] = (
    ("agents", frozenset({"nodeid", "agenttype", "cucount"})),
    ("counters", frozenset({"dispatchid", "agentid", "kernelname", "countername", "countervalue"})),
    ("trace", frozenset({"agentid", "kernelname", "starttimestamp", "endtimestamp"})),
    ("stats", frozenset({"name", "calls", "totaldurationns", "averagens", "minns", "maxns"})),
    ("stats", frozenset({"name", "calls", "durationnsec", "averagensec"})),
    ("api", frozenset({"domain", "function", "starttimestamp"})),
    ("copies", frozenset({"kind", "direction", "starttimestamp", "endtimestamp"})),
    ("api", frozenset({"kind", "operation", "starttimestamp"})),
)
"""(kind, columns that it has at least): a file is of the first kind that fits."""

_READ_KINDS = frozenset({"kernel_trace", "counter_collection", "agent_info"})
"""Kinds in names of files whose emptiness is worth a note."""
_KERNEL_STATS = re.compile(r"(^|_)kernel_stats|^(?!.*(_stats|_stat)\.csv$)")
"""Names of statistics that may be of kernels: no other domain's."""
_MAX_LISTED_COLUMNS = 4
_COMPARED_ROWS = 500
_MOST_DIGITS = 18  # of a process id


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Files of one process, by their folder, prefix and columns."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        if file.suffix.lower() == ".csv" and _kind(file):
            groups.setdefault((file.parent, prefix_of(file)), []).append(file)
    names = names_of(groups)
    return [FileGroup(names[place], tuple(members)) for place, members in groups.items()]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads the files of one process: its dispatches, or its statistics where it has none."""
    files: dict[str, list[Path]] = {}
    for file in group.files:
        files.setdefault(_kind(file), []).append(file)
    agents = _read_further_files(files, builder)
    traces, counter_files = files.get("trace", []), files.get("counters", [])
    stats = [file for file in files.get("stats", ()) if _KERNEL_STATS.search(file.name)]
    if not traces and not counter_files and not stats:
        return
    builder.tool.setdefault("name", "rocprofv3")
    first = group.files[0]
    twin = results_file_read(first.parent, prefix_of(first), builder)
    if twin is not None:
        builder.note(f"{group.name}: the same process was read from {twin}; its CSV is not added")
        return
    former_count = len(builder.dispatches)
    if traces or counter_files:
        _read_dispatches(group, traces, counter_files, agents, builder)
    if len(builder.dispatches) > former_count:
        return
    for file in stats:
        builder.begin(Part(group.name, str(file), STATISTICS, profiler="rocprofv3"))
        read_stats(CsvTable.open(file), builder)


def _kind(file: Path) -> str:
    """The kind of a file, "empty" for an empty one with a name that matters, or ""."""
    columns = folded(file)
    if not columns:
        return "empty" if kind_named(file) in _READ_KINDS else ""
    return next((kind for kind, required in _REQUIRED_COLUMNS if required <= columns), "")


def _read_further_files(files: Mapping[str, Sequence[Path]], builder: RecordingBuilder) -> AgentIds:
    """Reads the agents and the copies of a process; notes what is not read."""
    for file in files.get("api", ()):
        builder.note(f"{kind_named(file) or file.stem}: API trace, not read")
    for file in files.get("empty", ()):
        builder.note(f"{file.name}: {nothing_in(file)}")
    for file in files.get("copies", ()):
        read_copies(CsvTable.open(file), builder)
    agents = AgentIds()
    for file in files.get("agents", ()):
        agents.read(CsvTable.open(file), builder)
    return agents


def _read_dispatches(
    group: FileGroup,
    traces: Sequence[Path],
    counter_files: Sequence[Path],
    agents: AgentIds,
    builder: RecordingBuilder,
) -> None:
    """Adds the dispatches of a process as one part: its kernel trace, and counters beside it.

    Counters of another process that only share a name are kept apart.
    """
    first = (*traces, *counter_files)[0]
    builder.begin(Part(group.name, str(first), FORMAT, profiler="rocprofv3"))
    process = process_of(prefix_of(first))
    if process is None and counter_files:
        process = _shared_process(traces[0] if traces else None, counter_files[0])
    shapes: dict[int, KernelShape] = {}
    writers = [
        DispatchWriter(
            builder=builder,
            table=CsvTable.open(file),
            agent_key=agents.key,
            process=process,
            shapes=shapes,
            indexed=file == first and bool(traces and counter_files),
        )
        for file in (*traces, *counter_files)
    ]
    for writer in writers:
        table = writer.table
        if "counter" in table.columns:
            reader = LongReader(writer, writers[0].rows if traces else None)
            reader.read()
            if reader.apart:
                builder.note(
                    f"{group.name}: {reader.apart:,} dispatches of {table.path.name} are others "
                    f"than those of {traces[0].name} with the same ids (kernel, size or time "
                    "differ): kept apart"
                )
        else:
            table.each(writer.add)
        table.report(builder)
    for writer in writers:
        name, unknown = writer.table.path.name, writer.table.unknown_columns()
        if unknown:
            listing = ", ".join(unknown[:_MAX_LISTED_COLUMNS])
            more = ", …" if len(unknown) > _MAX_LISTED_COLUMNS else ""
            builder.note(f"{name}: unknown columns are left out: {listing}{more}")
        if writer.rounded:
            builder.note(f"{name}: timestamps are rounded, durations are unknown")
    for text in sorted(agents.ambiguous):
        builder.note(f"{text} is taken as a relative index, rocprofv3's default")


def _shared_process(trace: Path | None, counter_file: Path) -> int | None:
    """The process id that a counters' file states, for a kernel trace beside it that states none.

    None if the first rows show that the two are not of one process.
    """
    table = CsvTable.open(counter_file)
    _, cells = next(table.rows(), (0, []))
    process = table.cell(cells, "process") if cells else ""
    if not process.isdecimal():
        return None
    if trace is not None:
        traced = _first_kernels(CsvTable.open(trace))
        for dispatch, kernel in _first_kernels(table).items():
            if traced.get(dispatch, kernel) != kernel:
                return None
    return int(process[:_MOST_DIGITS])


def _first_kernels(table: CsvTable) -> dict[str, tuple[str, str]]:
    """Dispatch id -> (kernel id, kernel name) in the first rows, as the cells have them."""
    if not {"number", "kernel_id"} <= table.columns.keys():
        return {}
    return {
        table.cell(cells, "number"): (table.cell(cells, "kernel_id"), table.cell(cells, "name"))
        for _, cells in islice(table.rows(), _COMPARED_ROWS)
    }
