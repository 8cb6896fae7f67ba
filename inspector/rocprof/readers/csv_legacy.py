"""CSV of rocprof v1 (`results.csv`, `results.stats.csv`) and rocprofv2: a column per counter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kinspect.inspector.recording import Part
from kinspect.inspector.rocprof.builder import Builder
from kinspect.inspector.rocprof.readers.csv_agents import Agents
from kinspect.inspector.rocprof.readers.csv_counters import Counters, WideReader
from kinspect.inspector.rocprof.readers.csv_dispatches import Sink
from kinspect.inspector.rocprof.readers.csv_v3 import names_of, read_stats
from kinspect.inspector.rocprof.readers.rows import Table, folded
from kinspect.inspector.rocprof.reading import Group

FORMAT = "rocprof CSV"

_V1 = frozenset({"kernelname", "gpuid", "index"})
_V2 = frozenset({"kernelname", "gpuid", "dispatchid"})
_STATS = frozenset({"name", "calls", "totaldurationns", "averagens", "percentage"})
_NOT_KERNELS = ("hip_stats", "hsa_stats", "copy_stats", "roctx_stats", "kfd_stats")
_ENDS = (".stats.csv", ".hip_stats.csv", ".hsa_stats.csv", ".copy_stats.csv", ".csv")


def find(files: Sequence[Path]) -> list[Group]:
    """Files of one output name (`-o NAME.csv`) in one folder."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        if file.suffix.lower() == ".csv" and _kind(file):
            end = next(end for end in _ENDS if file.name.lower().endswith(end))
            groups.setdefault((file.parent, file.name[: -len(end)]), []).append(file)
    names = names_of(groups)
    return [Group(names[place], tuple(found)) for place, found in groups.items()]


def read(group: Group, builder: Builder) -> None:
    """Reads the dispatches; where there are none, the summary."""
    kinds = [(file, _kind(file)) for file in group.files]
    before = len(builder.dispatches)
    for file, kind in kinds:
        if kind in ("v1", "v2"):
            builder.tool.setdefault("name", "rocprof" if kind == "v1" else "rocprofv2")
            if read_wide(Table.open(file), builder, Part(group.name, str(file), FORMAT)):
                builder.note(f"{file.name}: timestamps are rounded, durations are unknown")
        elif kind == "api":
            builder.note(f"{file.name}: statistics of calls or copies, not read")
        elif kind == "empty":
            builder.note(f"{file.name}: empty file")
    for file, kind in kinds:
        if kind == "stats" and len(builder.dispatches) == before:
            builder.tool.setdefault("name", "rocprof")
            read_stats(Table.open(file), builder)


def read_wide(
    table: Table, builder: Builder, part: Part, renamed: dict[str, str] | None = None
) -> bool:
    """Reads a table of one row per dispatch with a column per counter, as a part of its own.

    Returns:
        Whether its timestamps have lost digits.
    """
    builder.begin(part)
    sink = Sink(builder, table, Agents().key, None, len(builder.parts) - 1)
    reader = WideReader(sink, Counters(builder), renamed or {})
    reader.read()
    table.report(builder)
    if reader.foreign:
        shown = ", ".join(reader.foreign[:4]) + (", …" if len(reader.foreign) > 4 else "")
        builder.note(f"{table.path.name}: unknown columns are left out: {shown}")
    return bool(sink.rounded)


def _kind(file: Path) -> str:
    names = folded(file)
    if not names:
        return "empty" if file.name == "results.csv" else ""
    if names >= _V1:
        return "v1"
    if names >= _V2:
        return "v2"
    if names >= _STATS:
        return "api" if any(word in file.name for word in _NOT_KERNELS) else "stats"
    return ""
