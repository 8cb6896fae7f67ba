"""CSV of rocprof v1 (`results.csv`, `results.stats.csv`) and rocprofv2: a column per counter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...model.recording import Part
from ..builder import RecordingBuilder
from ..reading import FileGroup
from .csv_dispatches import read_wide
from .csv_table import STATISTICS, CsvTable, folded, read_copy_statistics, read_stats
from .recorded_files import names_of

FORMAT = "rocprof CSV"

_V1 = frozenset({"kernelname", "gpuid", "index"})
_V2 = frozenset({"kernelname", "gpuid", "dispatchid"})
_STATS = frozenset({"name", "calls", "totaldurationns", "averagens", "percentage"})
_COPIES = "copy_stats"
_NOT_KERNELS = ("hip_stats", "hsa_stats", "roctx_stats", "kfd_stats")
_ENDS = (".stats.csv", ".hip_stats.csv", ".hsa_stats.csv", ".copy_stats.csv", ".csv")


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns groups of the files of one output name (`-o NAME.csv`) in one folder."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        if file.suffix.lower() == ".csv" and _kind(file):
            end = next(end for end in _ENDS if file.name.lower().endswith(end))
            groups.setdefault((file.parent, file.name[: -len(end)]), []).append(file)
    names = names_of(groups)
    return [FileGroup(names[key], tuple(members)) for key, members in groups.items()]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads the dispatches; where there are none, the summary."""
    kinds = [(file, _kind(file)) for file in group.files]
    former_count = len(builder.dispatches)
    for file, kind in kinds:
        if kind in ("rocprof", "rocprofv2"):
            builder.tool.setdefault("name", kind)
            part = Part(group.name, str(file), FORMAT, profiler="rocprof")
            if read_wide(CsvTable.open(file), builder, part):
                builder.note(f"{file.name}: timestamps are rounded, durations are unknown")
        elif kind == "copies":
            read_copy_statistics(CsvTable.open(file), builder)
        elif kind == "api":
            builder.note(f"{file.name}: statistics of calls, not read")
        elif kind == "empty":
            builder.note(f"{file.name}: empty file")
    for file, kind in kinds:
        if kind == "stats" and len(builder.dispatches) == former_count:
            builder.tool.setdefault("name", "rocprof")
            builder.begin(Part(group.name, str(file), STATISTICS, profiler="rocprof"))
            read_stats(CsvTable.open(file), builder)


def _kind(file: Path) -> str:
    """The profiler whose dispatches a file has, or what else it holds; "" if it is not of these."""
    names = folded(file)
    if not names:
        return "empty" if file.name == "results.csv" else ""
    if names >= _V1:
        return "rocprof"
    if names >= _V2:
        return "rocprofv2"
    if names >= _STATS:
        if _COPIES in file.name:
            return "copies"
        return "api" if any(word in file.name for word in _NOT_KERNELS) else "stats"
    return ""
