"""Reads thread traces (ATT) as rocprofv3's decoder writes them.

A trace is a folder `ui_output_agent_<handle>_dispatch_<id>` with `code.json`, `filenames.json`,
`occupancy.json`, `realtime.json`, `wstates<n>.json` and one `se*_sm*_sl*_wv*.json` per wave, and
beside it `stats_<folder>.csv`; either may be missing. Newer versions write PC samples in the same
form. Meaning of the columns: ROCm/rocprofiler-sdk, `source/lib/att-tool/` and
`source/docs/how-to/using-thread-trace.rst`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ...base.named_files import opened
from ...model.recording import (
    NO_CODE,
    CodePlace,
    KernelShape,
    Part,
    RecordedCodeObject,
    ThreadTrace,
    Traced,
)
from ..builder import RecordingBuilder
from ..reading import FileGroup
from .att_code import CodeRow, Names, code_rows, stats_rows
from .att_waves import Sums, clock_mhz, occupancy, sum_waves

FORMAT = "rocprofv3 thread trace (ATT)"
_SAMPLES = "rocprofv3 PC samples by address"

_FOLDER = re.compile(r"ui_output(?:_|$)")
_NUMBERS = re.compile(r"ui_output_agent_(?P<agent>[^_]+)_dispatch_(?P<dispatch>\d{1,18})")
_STATS = re.compile(r"stats_(?P<trace>ui_output.*)\.csv$")
_OLDER_STATS = "att_output.csv"
"""The same of older decoders, in the trace's folder."""
_OBJECT = re.compile(
    r"(?:(?P<process>\d{1,9})_)?.*?(?:code_object_id|codeobj)_(?P<id>\d{1,9})(?:\.\w+)?$"
)
_OBJECT_SUFFIXES = frozenset({".out", ".co", ".hsaco", ".elf", ".o", ""})
# A folder with two of these, or with code.json, is a trace whatever its name.
_TELLING = frozenset({"code.json", "occupancy.json", "filenames.json"})
_PART = re.compile(
    r"(?:code|filenames|occupancy|realtime|snapshots|wstates\d*|se\d+_sm\d+_sl\d+_wv\d+"
    r"|other_simd_\w+|shaderdata_\w+|se\d+_perfcounter|counters\w*)\.json$|source_\d+_"
    r"|att_output\.csv$"
)
"""Names of a trace's files, needed where its folder has another name and may hold other files."""
_WAVE = re.compile(r"se\d+_sm\d+_sl\d+_wv\d+\.json$")
_RAW = ".att"
_NO_WAVE = (
    "code was decoded but no wave traced: none ran on the traced compute unit. Launch more "
    "workgroups, or trace another (--att-target-cu, --att-shader-engine-mask)"
)
_CODE_BESIDE = (
    "a part of a thread trace: code.json, which says what its lines are, lies beside it; name the"
    " folder"
)
_NO_STALLS = (
    "its decoder, an older one, wrote stall cycles to the wave files alone, some of which are not"
    " here: name the trace's whole folder"
)


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns the traces among the files; the first gets code objects and raw traces."""
    trace_folders = _trace_folders(files)
    traces: dict[Path, list[Path]] = {}
    objects: list[Path] = []
    raw: list[Path] = []
    for file in files:
        stats = _STATS.match(file.name)
        if stats is not None:
            traces.setdefault(file.parent / stats["trace"], []).append(file)
        elif (folder := _trace_of(file, trace_folders)) is not None:
            traces.setdefault(folder, []).append(file)
        elif _OBJECT.match(file.name) and file.suffix in _OBJECT_SUFFIXES:
            objects.append(file)
        elif file.suffix == _RAW:
            raw.append(file)
        elif len(files) == 1 and (_WAVE.match(file.name) or _is_stats(file)):
            traces.setdefault(file.parent, []).append(file)
    groups = [
        FileGroup(folder.name, tuple(members)) for folder, members in sorted(traces.items())
    ] or ([FileGroup("raw trace", ())] if raw else [])
    if not groups:
        return [FileGroup("code objects", tuple(objects))] if objects else []
    first = groups[0]
    return [FileGroup(first.name, (*first.files, *objects, *raw)), *groups[1:]]


def _trace_folders(files: Sequence[Path]) -> set[Path]:
    """Returns the folders that are traces by the files in them."""
    names_in: dict[Path, set[str]] = {}
    for file in files:
        if file.name in _TELLING:
            names_in.setdefault(file.parent, set()).add(file.name)
    is_only_file = len(files) == 1  # the user named this file
    return {
        folder
        for folder, names in names_in.items()
        if "code.json" in names or len(names) > 1 or is_only_file
    }


def _trace_of(file: Path, trace_folders: set[Path]) -> Path | None:
    """Returns the folder of the trace that a file belongs to; None if it belongs to none."""
    folder = next((parent for parent in file.parents if _FOLDER.match(parent.name)), None)
    if folder is None and file.parent in trace_folders and _PART.match(file.name):
        return file.parent
    return folder


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads one trace: the cost of each instruction, and when its waves ran."""
    files = group.files
    objects = [
        file for file in files if _OBJECT.match(file.name) and file.suffix in _OBJECT_SUFFIXES
    ]
    raw = [file for file in files if file.suffix == _RAW]
    traced_files = [file for file in files if file not in objects and file not in raw]
    folder = next((file.parent for file in traced_files if not _STATS.match(file.name)), None)
    path = folder or (traced_files or raw or objects)[0]
    builder.begin(Part(group.name, str(path), FORMAT, profiler="rocprofv3"))
    for file in objects:
        _add_code_object(file, builder)
    if traced_files:
        _read_trace(group.name, path, traced_files, builder)
    elif raw:
        builder.fail(
            raw[0],
            f"{len(raw)} raw traces, not decoded",
            "trace again with the decoder library at hand (rocprof-trace-decoder; "
            "--att-library-path says where it is)",
        )


def _read_trace(name: str, path: Path, files: Sequence[Path], builder: RecordingBuilder) -> None:
    """Reads the decoded files of a trace."""
    by_name = {file.name: file for file in files}
    stats = next((file for file in files if _is_stats(file)), None)
    names, rows = _rows(path, by_name.get("code.json"), stats, builder)
    if rows and (not any(row.counted for row in rows) or any(row.lacks_stalls for row in rows)):
        waves = sorted(file for file in files if _WAVE.match(file.name))
        rows = _with_sums(rows, sum_waves(waves, builder), builder)
        if any(row.counted and row.lacks_stalls for row in rows):
            builder.note(f"{name}: {_NO_STALLS}")
    spans, peak, most_run = occupancy(
        by_name.get("occupancy.json"), by_name.get("filenames.json"), builder
    )
    kernel = names.only or most_run
    pairs = _placed(name, rows, kernel, builder)
    builder.samples.extend(row.samples(place) for row, place in pairs if row.method)
    if any(row.method for row, _ in pairs) and not spans:
        # PC samples in the form of a trace, in which no wave was traced.
        builder.parts[-1] = replace(builder.parts[-1], format=_SAMPLES)
        return
    numbers = _NUMBERS.search(name)
    builder.traces.append(
        ThreadTrace(
            path=str(path),
            agent=numbers["agent"] if numbers else None,
            dispatch=int(numbers["dispatch"]) if numbers else None,
            kernel=kernel,
            lines=tuple(_traced(row, place) for row, place in pairs if not row.method),
            waves=spans,
            clock_mhz=clock_mhz(by_name.get("realtime.json"), builder),
            peak_waves_per_cu=peak,
        )
    )


def _is_stats(file: Path) -> bool:
    return _STATS.match(file.name) is not None or file.name == _OLDER_STATS


def _placed(
    name: str, rows: Sequence[CodeRow], kernel: str | None, builder: RecordingBuilder
) -> list[tuple[CodeRow, CodePlace]]:
    """Returns the rows with their places; none, and a note, where nothing was measured at any."""
    shapes = _shapes(rows, kernel, builder)
    if rows and not any(row.counted for row in rows):
        builder.note(f"{name}: {_NO_WAVE}")
        return []
    processes = _processes(builder)
    return [(row, _place(row, shapes, processes.get(row.code_object))) for row in rows]


def _traced(row: CodeRow, place: CodePlace) -> Traced:
    return Traced(place=place, hits=row.hits, latency=row.latency, stall=row.stall, idle=row.idle)


def _rows(
    path: Path, code: Path | None, stats: Path | None, builder: RecordingBuilder
) -> tuple[Names, Sequence[CodeRow]]:
    """Returns the instructions of `code.json`; if that is damaged, of the file that has more."""
    names, is_complete = Names(), False
    rows: list[CodeRow] = []
    if code is not None:
        names, rows, is_complete = code_rows(code, builder)
    if stats is not None and not (is_complete and rows):
        stats_names, stats_lines = stats_rows(stats, builder)
        if len(stats_lines) > len(rows):
            return stats_names, stats_lines
    if code is None and stats is None:
        builder.note(_CODE_BESIDE if (path / "code.json").is_file() else NO_CODE)
    return names, rows


def _with_sums(rows: Sequence[CodeRow], sums: Sums, builder: RecordingBuilder) -> Sequence[CodeRow]:
    """Adds the sums over the wave files to the rows, for a code.json without counts."""
    unmatched = [sums[line] for line in sums.keys() - {row.line for row in rows}]
    if unmatched:
        executions = sum(hits for hits, _, _, _ in unmatched)
        cycles = sum(latency for _, latency, _, _ in unmatched)
        builder.note(
            f"{executions:,} executed instructions ({cycles:,} "
            "cycles) of the wave files are not among those of code.json: they are not counted"
        )
    return [row.summed(sums.get(row.line)) for row in rows]


def _shapes(
    rows: Sequence[CodeRow], kernel: str | None, builder: RecordingBuilder
) -> dict[tuple[str | None, int | None], int]:
    """Returns (kernel of a row, code object) -> number of its shape, where the kernel is known."""
    shapes: dict[tuple[str | None, int | None], int] = {}
    for row in rows:
        name = row.kernel or kernel
        if name is not None and (row.kernel, row.code_object) not in shapes:
            shape = KernelShape(name, code_object=row.code_object)
            shapes[row.kernel, row.code_object] = builder.shape(shape)
    return shapes


def _processes(builder: RecordingBuilder) -> dict[int | None, int | None]:
    """Returns id of a code object -> the process that saved it; None if several did.

    Traces themselves do not name the process.
    """
    processes: dict[int | None, int | None] = {}
    for code_object in builder.code_objects:
        processes[code_object.id] = (
            code_object.process
            if processes.get(code_object.id, code_object.process) == code_object.process
            else None
        )
    return processes


def _place(
    row: CodeRow, shapes: dict[tuple[str | None, int | None], int], process: int | None
) -> CodePlace:
    return CodePlace(
        shape=shapes.get((row.kernel, row.code_object)),
        process=process,
        code_object=row.code_object,
        offset=row.address,
        text=row.text,
        comment=row.source or None,
    )


def _add_code_object(file: Path, builder: RecordingBuilder) -> None:
    """Adds a code object that the profiler saved; its name holds id and process."""
    name_match = _OBJECT.match(file.name)
    try:
        with opened(file) as stream:
            is_elf = stream.read(4) == b"\x7fELF"
    except OSError:
        is_elf = False
    if not is_elf:
        builder.fail(file, "not a code object: it is no ELF file", "profile again")
        return
    assert name_match is not None
    builder.code_objects.append(
        RecordedCodeObject(
            id=int(name_match["id"]),
            process=int(name_match["process"]) if name_match["process"] else None,
            uri=None,
            load_base=None,
            load_size=None,
            path=str(file),
        )
    )
