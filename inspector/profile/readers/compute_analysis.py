"""Databases of `rocprof-compute analyze --output-format db`: dispatches and their times.

Schemas 1.3 and 2.0 name their tables and columns alike as far as they are read here: workloads,
kernels, dispatches. Values of metrics are left out: their formulas are rocprof-compute's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.documents import json_value
from ...base.errors import KinspectError
from ...model.recording import KernelShape, Part
from ..builder import RecordingBuilder, int64
from ..reading import FileGroup
from .compute import described
from .recorded_files import head
from .sqlite_file import SIGN, Database, open_database

FORMAT = "rocprof-compute analysis"

_DISPATCH = "compute_dispatch"
_KERNEL = "compute_kernel"
_AGAIN = "run `rocprof-compute analyze --output-format db` again"


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns the databases that have its tables of kernels and dispatches."""
    return [
        FileGroup.of_file(file)
        for file in files
        if head(file, len(SIGN)) == SIGN and _is_ours(file)
    ]


def _is_ours(path: Path) -> bool:
    try:
        with open_database(path) as database:
            return {_DISPATCH, _KERNEL}.issubset(database.tables)
    except (sqlite3.Error, OSError):
        return False


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads databases, a part for each workload; damage is reported as an error."""
    (path,) = group.files
    builder.tool.setdefault("name", "rocprof-compute")
    try:
        with open_database(path) as database:
            _read(path, group.name, database, builder)
    except sqlite3.Error as error:
        builder.fail(path, f"{path.name}: cannot be read: {error}", _AGAIN)


def _read(path: Path, name: str, database: Database, builder: RecordingBuilder) -> None:
    """Reads the dispatches of a database, workload by workload."""
    for (version,) in database.rows("compute_metadata", ("compute_version",)):
        if version:
            builder.tool.setdefault("version", str(version))
    workloads = {
        number: (str(title or ""), _object(about))
        for number, title, about in database.rows(
            "compute_workload", ("workload_id", "name", "sys_info_extdata")
        )
    }
    kernels: dict[object, dict[int, str]] = {}
    for kernel, workload, title in database.rows(
        _KERNEL, ("kernel_uuid", "workload_id", "kernel_name")
    ):
        if isinstance(kernel, int) and title is not None:
            kernels.setdefault(workload, {})[kernel] = str(title)
    columns = ("kernel_uuid", "dispatch_id", "gpu_id", "start_timestamp", "end_timestamp")
    dispatches = list(database.rows(_DISPATCH, columns))
    for workload, names in kernels.items():
        title, about = workloads.get(workload, ("", {}))
        builder.begin(
            Part(
                f"{name}/{title}" if title else name, str(path), FORMAT, profiler="rocprof-compute"
            )
        )
        for kernel, *dispatch in dispatches:
            if kernel in names:
                _add_dispatch(names[kernel], dispatch, about, builder)
    orphans = sum(all(row[0] not in names for names in kernels.values()) for row in dispatches)
    if orphans:
        builder.fail(
            path, f"{path.name}: {orphans:,} dispatches without a kernel, left out", _AGAIN
        )
    builder.note(
        f"{path.name}: times are read; rocprof-compute's own metrics in it are not: it shows them "
        "itself, and the workload that they were computed from can be imported"
    )


def _add_dispatch(
    kernel: str, dispatch: Sequence[object], about: Mapping[str, Any], builder: RecordingBuilder
) -> None:
    """Adds a dispatch (its number, GPU, start and end) and its GPU, which `about` describes."""
    number, gpu, start, end = map(int64, dispatch)
    agent = None if gpu is None else str(gpu)
    builder.dispatch(
        builder.shape(KernelShape(kernel.removesuffix(".kd"), agent)),
        number,
        start,
        end,
        find_again=False,
    )
    if about and agent is not None:
        builder.agents.setdefault(agent, described(agent, about))


def _object(text: object) -> dict[str, Any]:
    try:
        value = json_value(text, "sys_info_extdata") if isinstance(text, str | bytes) else None
    except KinspectError:
        return {}
    if isinstance(value, list) and value:  # the rows of sysinfo.csv, of which there is one
        value = value[0]
    return value if isinstance(value, dict) else {}
