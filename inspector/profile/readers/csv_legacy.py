"""CSV of rocprof v1 (`results.csv`, `results.stats.csv`) and rocprofv2: a column per counter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ...model.recording import Part
from ..builder import RecordingBuilder
from ..reading import FileGroup
from .csv_summaries import STATISTICS, read_copy_statistics, read_stats
from .csv_table import CsvTable, folded, header
from .csv_wide import read_wide
from .process_files import names_of

FORMAT = "rocprof CSV"

Kind = Literal["v1", "headless", "v2", "stats", "copies", "api", "empty"]
"""The contents of a file: dispatches of rocprof v1 (with and without a header) or of rocprofv2;
summed durations of kernels, copies or API calls; or nothing.
"""

_V1 = frozenset({"kernelname", "gpuid", "index"})
_V2 = frozenset({"kernelname", "gpuid", "dispatchid"})
_STATS = frozenset({"name", "calls", "totaldurationns", "averagens", "percentage"})
_LAUNCH = (
    "Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds",
    "scr",
)  # fmt: skip
_REGISTERS = {
    13: ("vgpr", "sgpr"),
    14: ("vgpr", "sgpr", "fbar"),
    15: ("arch_vgpr", "accum_vgpr", "sgpr", "wave_size"),
}
"""Index of the signal's address -> the columns of registers before it, of several versions."""
_TIMES = ("DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs")
_MOST_DIGITS = 19  # of a time in ns that fits 64 bits
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
        if kind in ("v1", "v2", "headless"):
            builder.tool.setdefault("name", "rocprofv2" if kind == "v2" else "rocprof")
            if read_wide(
                _table(file, kind, builder),
                builder,
                Part(group.name, str(file), FORMAT, profiler="rocprof"),
            ):
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


def _table(file: Path, kind: Kind, builder: RecordingBuilder) -> CsvTable:
    """Opens a file of dispatches; without a header, its columns are guessed."""
    if kind != "headless":
        return CsvTable.open(file)
    builder.note(f"{file.name}: it has no header: its columns are taken for those of rocprof v1")
    return CsvTable.open(file, _headless(header(file)))


def _headless(cells: Sequence[str]) -> list[str]:
    """Guesses the columns of rocprof v1 if a file begins with a row; empty if it does not.

    The positions of the addresses of signal and kernel object give them away. Counters come behind
    these; without a header their names are lost, and they are left out.
    """
    signal = next((k for k, cell in enumerate(cells) if cell.startswith("0x")), -1)
    registers = _REGISTERS.get(signal)
    if registers is None or len(cells) < signal + 2 or not cells[signal + 1].startswith("0x"):
        return []
    numbers = [cell for k, cell in enumerate(cells[:signal]) if k != 1]
    if not all(cell.isdecimal() for cell in numbers) or cells[1].isdecimal() or not cells[1]:
        return []
    names = [*_LAUNCH, *registers, "sig", "obj"]
    unnamed = len(cells) - len(names)
    for times in (_TIMES, _TIMES[:-1]):
        tail = cells[len(cells) - len(times) :]
        if unnamed >= len(times) and _are_times(tail):
            return [*names, *[""] * (unnamed - len(times)), *times]
    return [*names, *[""] * unnamed]


def _are_times(cells: Sequence[str]) -> bool:
    """Tells whether cells are times: dispatched, begun, ended, completed, maybe the duration."""
    if not all(cell.isascii() and cell.isdecimal() and len(cell) <= _MOST_DIGITS for cell in cells):
        return False
    times = [int(cell) for cell in cells]
    if len(times) == len(_TIMES) and times[4] != times[2] - times[1]:
        return False
    return 0 < times[0] <= times[1] <= times[2] <= times[3]


def _kind(file: Path) -> Kind | None:
    """Returns the kind of a file by its first line; None if it is not of these profilers."""
    names = folded(file)
    if _headless(header(file)):
        return "headless"
    if not names:
        return "empty" if file.name == "results.csv" else None
    if names >= _V1:
        return "v1"
    if names >= _V2:
        return "v2"
    if names >= _STATS:
        if _COPIES in file.name:
            return "copies"
        return "api" if any(word in file.name for word in _NOT_KERNELS) else "stats"
    return None
