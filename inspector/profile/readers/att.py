"""Thread traces (ATT) as rocprofv3's decoder leaves them.

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

from ...recording import CodeObject, KernelShape, Part, Place, ThreadTrace, Traced
from ..builder import Builder
from ..reading import Group
from .att_code import CodeRow, Names, code_rows, stats_rows
from .att_waves import Sums, clock_mhz, occupancy, sum_waves

FORMAT = "rocprofv3 thread trace (ATT)"
_SAMPLES = "rocprofv3 PC samples by address"

_FOLDER = re.compile(r"ui_output(?:_|$)")
_NUMBERS = re.compile(r"ui_output_agent_(?P<agent>[^_]+)_dispatch_(?P<dispatch>\d{1,18})")
_STATS = re.compile(r"stats_(?P<trace>ui_output.*)\.csv$")
_OBJECT = re.compile(
    r"(?:(?P<process>\d{1,9})_)?.*?(?:code_object_id|codeobj)_(?P<id>\d{1,9})(?:\.\w+)?$"
)
_OBJECT_SUFFIXES = frozenset({".out", ".co", ".hsaco", ".elf", ".o", ""})
# Two of these in a folder, or code.json alone, make it a trace whatever its name.
_TELLING = frozenset({"code.json", "occupancy.json", "filenames.json"})
_PART = re.compile(
    r"(?:code|filenames|occupancy|realtime|snapshots|wstates\d*|se\d+_sm\d+_sl\d+_wv\d+"
    r"|other_simd_\w+|shaderdata_\w+|se\d+_perfcounter|counters\w*)\.json$|source_\d+_"
)
"""Files of a trace, where its folder has another name and may hold more than the trace."""
_WAVE = re.compile(r"se\d+_sm\d+_sl\d+_wv\d+\.json$")
_RAW = ".att"
_NO_WAVE = (
    "code was decoded but no wave traced: none ran on the traced compute unit. Launch more "
    "workgroups, or trace another (--att-target-cu, --att-shader-engine-mask)"
)


def find(files: Sequence[Path]) -> list[Group]:
    """The traces among the files; code objects go with the first one."""
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
        elif len(files) == 1 and _WAVE.match(file.name):
            traces.setdefault(file.parent, []).append(file)
    groups = [Group(folder.name, tuple(members)) for folder, members in sorted(traces.items())] or (
        [Group("raw trace", ())] if raw else []
    )
    if not groups:
        return [Group("code objects", tuple(objects))] if objects else []
    first = groups[0]
    return [Group(first.name, (*first.files, *objects, *raw)), *groups[1:]]


def _trace_folders(files: Sequence[Path]) -> set[Path]:
    """Folders that are traces by what lies in them."""
    names_in: dict[Path, set[str]] = {}
    for file in files:
        if file.name in _TELLING:
            names_in.setdefault(file.parent, set()).add(file.name)
    alone = len(files) == 1  # the user named this file
    return {p for p, names in names_in.items() if "code.json" in names or len(names) > 1 or alone}


def _trace_of(file: Path, trace_folders: set[Path]) -> Path | None:
    """The folder of the trace that a file belongs to, if it belongs to one."""
    folder = next((p for p in file.parents if _FOLDER.match(p.name)), None)
    if folder is None and file.parent in trace_folders and _PART.match(file.name):
        return file.parent
    return folder


def read(group: Group, builder: Builder) -> None:
    """Reads one trace: what its waves did, instruction by instruction."""
    objects = [f for f in group.files if _OBJECT.match(f.name) and f.suffix in _OBJECT_SUFFIXES]
    raw = [f for f in group.files if f.suffix == _RAW]
    traced_files = [f for f in group.files if f not in objects and f not in raw]
    named = {f.name: f for f in traced_files}
    where = next((f.parent for f in traced_files if not _STATS.match(f.name)), None)
    path = where or (traced_files or raw or objects)[0]
    builder.begin(Part(group.name, str(path), FORMAT))
    for file in objects:
        _add_code_object(file, builder)
    if not traced_files:
        if raw:
            builder.fail(
                raw[0],
                f"{len(raw)} raw traces, not decoded",
                "trace again with the decoder library at hand (rocprof-trace-decoder; "
                "--att-library-path says where it is)",
            )
        return
    stats = next((f for f in traced_files if _STATS.match(f.name)), None)
    names, rows = _rows(named.get("code.json"), stats, builder)
    waves = sorted(f for f in traced_files if _WAVE.match(f.name))
    if rows and not any(row.counted for row in rows):
        rows = _with_sums(rows, sum_waves(waves, builder), builder)
    numbers = _NUMBERS.search(group.name)
    spans, peak, ran = occupancy(named.get("occupancy.json"), named.get("filenames.json"), builder)
    kernel = names.only or ran
    shapes = _shapes(rows, kernel, builder)
    if rows and not any(row.counted for row in rows):
        builder.note(f"{group.name}: {_NO_WAVE}")
        rows = ()
    processes = _processes(builder)
    places = [_place(row, shapes, processes.get(row.code_object)) for row in rows]
    pairs = list(zip(rows, places, strict=True))
    builder.samples.extend(row.samples(place) for row, place in pairs if row.method)
    lines = tuple(
        Traced(place, row.hits, row.latency, row.stall, row.idle)
        for row, place in pairs
        if not row.method
    )
    if any(row.method for row in rows) and not spans:
        # PC samples in a trace's form: nothing was traced.
        builder.parts[-1] = replace(builder.parts[-1], format=_SAMPLES)
        return
    builder.traces.append(
        ThreadTrace(
            path=str(path),
            agent=numbers["agent"] if numbers else None,
            dispatch=int(numbers["dispatch"]) if numbers else None,
            kernel=kernel,
            lines=lines,
            waves=spans,
            clock_mhz=clock_mhz(named.get("realtime.json"), builder),
            peak_waves_per_cu=peak,
        )
    )


def _rows(
    code: Path | None, stats: Path | None, builder: Builder
) -> tuple[Names, Sequence[CodeRow]]:
    """The instructions, of `code.json` if it is whole, else of the one that holds more."""
    names, whole = Names(), False
    rows: list[CodeRow] = []
    if code is not None:
        names, rows, whole = code_rows(code, builder)
    if stats is not None and not (whole and rows):
        stats_names, stats_lines = stats_rows(stats, builder)
        if len(stats_lines) > len(rows):
            return stats_names, stats_lines
    if code is None and stats is None:
        builder.note("a thread trace without code.json and stats CSV: no line of it is known")
    return names, rows


def _with_sums(rows: Sequence[CodeRow], sums: Sums, builder: Builder) -> Sequence[CodeRow]:
    """The rows with what the wave files say, where code.json itself counted nothing."""
    lost = [sums[line] for line in sums.keys() - {row.line for row in rows}]
    if lost:
        builder.note(
            f"{sum(s[0] for s in lost):,} executed instructions ({sum(s[1] for s in lost):,} "
            "cycles) of the wave files are not among those of code.json: they are not counted"
        )
    return [row.summed(sums.get(row.line)) for row in rows]


def _shapes(
    rows: Sequence[CodeRow], kernel: str | None, builder: Builder
) -> dict[tuple[str | None, int | None], int]:
    shapes: dict[tuple[str | None, int | None], int] = {}
    for row in rows:
        name = row.kernel or kernel
        if name is not None and (row.kernel, row.code_object) not in shapes:
            shape = KernelShape(name, code_object=row.code_object)
            shapes[row.kernel, row.code_object] = builder.shape(shape)
    return shapes


def _processes(builder: Builder) -> dict[int | None, int | None]:
    """Code object -> the process that saved it; None where several did. Traces name none."""
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
) -> Place:
    return Place(
        shape=shapes.get((row.kernel, row.code_object)),
        process=process,
        code_object=row.code_object,
        offset=row.address,
        text=row.text,
        comment=row.source or None,
    )


def _add_code_object(file: Path, builder: Builder) -> None:
    named = _OBJECT.match(file.name)
    try:
        with file.open("rb") as stream:
            whole = stream.read(4) == b"\x7fELF"
    except OSError:
        whole = False
    if not whole:
        builder.fail(file, "not a code object: it is no ELF file", "profile again")
        return
    assert named is not None
    builder.code_objects.append(
        CodeObject(
            id=int(named["id"]),
            process=int(named["process"]) if named["process"] else None,
            uri=None,
            load_base=None,
            load_size=None,
            path=str(file),
        )
    )
