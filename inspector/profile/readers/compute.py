"""Workloads of rocprof-compute (formerly Omniperf): a folder of wide tables and `sysinfo.csv`.

Each table is a run of the program of its own, with the counters that fitted into it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from ...base.named_files import opened
from ...model.recording import Agent, Part
from ..builder import LARGEST, RecordingBuilder
from ..reading import FileGroup
from .csv_dispatches import read_long, read_wide
from .csv_table import CsvTable, folded, real
from .recorded_files import names_of

FORMAT = "rocprof-compute workload"

_MERGED = "pmc_perf.csv"
_PASS = re.compile(r"pmc_perf_\d+\.csv$")
_ABOUT = "sysinfo.csv"
_DISPATCH = frozenset({"dispatchid", "gpuid", "kernelname"})
_ASIDE = ("pmc_dispatch_info.csv", "roofline.csv")
"""What else a workload holds: a list of dispatches that its tables have too; a benchmark."""
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"
_TOOL = re.compile(rb"(omniperf|rocprof-compute|rocprofiler-compute) version: *([\w.]+)", re.I)


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Folders with `sysinfo.csv` or a `pmc_perf*.csv`, with all that rocprof-compute put there."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    workloads = {}
    for folder, inside in folders.items():
        names = {file.name for file in inside}
        tables = {
            file.name
            for file in inside
            if file.suffix == ".csv" and file.name not in _ASIDE and folded(file) >= _DISPATCH
        }
        perf = {name for name in names if name == _MERGED or _PASS.match(name)}
        if (_ABOUT in names and tables) or perf & tables:
            ours = tables | perf | ({_ABOUT, "log.txt", *_ASIDE} & names)
            workloads[folder] = tuple(file for file in inside if file.name in ours)
    called = names_of((folder, "") for folder in workloads)
    return [FileGroup(called[folder, ""], inside) for folder, inside in workloads.items()]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads a workload: the device, then each table as a part."""
    files = {file.name: file for file in group.files}
    builder.tool.setdefault("name", "rocprof-compute")
    if "log.txt" in files:
        _read_tool(files["log.txt"], builder)
    about = _about(files[_ABOUT], builder) if _ABOUT in files else {}
    tables = [name for name in files if name.endswith(".csv") and name not in (_ABOUT, *_ASIDE)]
    merged = _MERGED in files and bool(folded(files[_MERGED]))
    if merged:  # its passes' own tables were kept: they would count twice
        tables = [name for name in tables if not _PASS.match(name)]
    rounded: list[str] = []
    for name in sorted(tables, key=lambda name: (name != _MERGED, name)):
        first = len(builder.dispatches)
        part = Part(
            f"{group.name}/{name.removesuffix('.csv')}",
            str(files[name]),
            FORMAT,
            profiler="rocprof-compute",
            repeats_run=True,
        )
        table = CsvTable.open(files[name])
        rounded += [name] * _read_table(table, builder, part)
        wide = "counter" not in table.columns
        if name == _MERGED and wide and len(builder.dispatches) > first and name not in rounded:
            builder.note(f"{_MERGED}: times are means over the runs that it was merged from")
    if rounded:
        builder.note(
            f"{group.name}: timestamps are rounded, durations are unknown: {', '.join(rounded)}"
        )
    _add_agents(about, builder)


def _read_table(table: CsvTable, builder: RecordingBuilder, part: Part) -> bool:
    """Reads a table as a part; whether its timestamps have lost digits."""
    if not table.names:
        table.report(builder)
        return False
    if "counter" in table.columns and "value" in table.columns:
        return read_long(table, builder, part)
    renamed = {}
    if _ACCUMULATED in table.names and not part.path.endswith(_MERGED):
        # One name for the sum over time of whichever level the run was about.
        renamed[_ACCUMULATED] = f"{Path(part.path).stem}_ACCUM"
    return read_wide(table, builder, part, renamed)


def _about(file: Path, builder: RecordingBuilder) -> Mapping[str, str]:
    """The first row of sysinfo.csv; sets the command."""
    table = CsvTable.open(file)
    _, cells = next(table.rows(), (0, None))
    if cells is None:
        table.report(builder)
        return {}
    about = {
        name.strip().lower(): cell.strip() for name, cell in zip(table.names, cells, strict=True)
    }
    command = about.get("command", "")
    try:
        builder.command = builder.command or tuple(shlex.split(command))
    except ValueError:  # an open quote
        builder.command = builder.command or tuple(command.split())
    return about


def _add_agents(about: Mapping[str, str], builder: RecordingBuilder) -> None:
    """The device of sysinfo.csv, for each GPU id that dispatches name."""
    if not about:
        return
    parts = {number for number, part in enumerate(builder.parts) if part.repeats_run}
    table = builder.dispatches
    used = {shape for shape, part in zip(table.shape, table.part, strict=True) if part in parts}
    shapes = builder.finish().shapes
    for key in sorted({shapes[shape].agent or "0" for shape in used}):
        builder.agents.setdefault(key, described(key, about))


def described(key: str, about: Mapping[str, object]) -> Agent:
    """Returns a GPU by the workload's system information; what is missing there stays unknown."""
    simds, waves = _count(about, "simd_per_cu"), _count(about, "max_waves_per_cu")
    bandwidth = _figure(about.get("hbm_bw"))
    return Agent(
        key=key,
        arch=_text(about, "gpu_arch"),
        product=_text(about, "gpu_model") or _text(about, "name"),
        cus=_count(about, "cu_per_gpu"),
        simds_per_cu=simds,
        xccs=_count(about, "num_xcd"),
        shader_engines=_count(about, "se_per_gpu"),
        wave_size=_count(about, "wave_size"),
        max_waves_per_simd=waves // simds if waves and simds else None,
        clock_mhz=_count(about, "max_sclk"),
        memory_bytes_per_s=bandwidth * 1e9 if bandwidth else None,  # GB/s
    )


def _text(about: Mapping[str, object], name: str) -> str | None:
    return str(about.get(name) or "") or None


def _count(about: Mapping[str, object], name: str) -> int | None:
    value = _figure(about.get(name))
    return round(value) if value and 0 < value < LARGEST else None


def _figure(value: object) -> float | None:
    try:
        number = real(str(value))
    except (ValueError, OverflowError):  # empty, "NA", "N/A"
        return None
    return number if isfinite(number) else None


def _read_tool(file: Path, builder: RecordingBuilder) -> None:
    try:
        with opened(file) as stream:
            match = _TOOL.search(stream.read(4096))
    except OSError:
        return
    if match:
        builder.tool["name"] = match[1].decode().lower()
        builder.tool["version"] = match[2].decode()
