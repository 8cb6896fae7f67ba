"""Reads rocprofv3's database (rocpd, the default since ROCm 7.0) and rocprof v1's `results.db`.

rocpd keeps one set of tables per process, `rocpd_<what><uuid>` (`rocpd_process.py`), and views over
all of them. The tables are read, because the views differ between versions and may be missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ...model.recording import KernelShape, Part
from ..builder import RecordingBuilder, int64
from ..reading import FileGroup
from .gzip_files import head
from .process_files import is_twin
from .rocpd_process import AGAIN, RocpdProcess, hint_of
from .sqlite_file import SIGN, Database, open_database, unfinished

FORMAT = "rocpd"

_V1 = "rocprof v1 database"
_DISPATCH = "rocpd_kernel_dispatch"
_SYMBOL = "rocpd_info_kernel_symbol"


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Databases with rocpd's or rocprof v1's tables, and files by their names that are broken."""
    return [FileGroup.of_file(file) for file in files if _is_ours(file)]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads the databases of a group; damaged tables are left out, with an error in the builder."""
    (path,) = group.files
    if not path.stat().st_size:
        builder.begin(Part(group.name, str(path), FORMAT, profiler="rocpd"))
        builder.fail(path, f"{path.name}: is empty: nothing was written", AGAIN)
        return
    try:
        with open_database(path) as database:
            _read(path, group.name, database, builder)
    except sqlite3.Error as error:
        builder.fail(path, f"{path.name}: cannot be read: {error}", hint_of(error))


def _read(path: Path, name: str, database: Database, builder: RecordingBuilder) -> None:
    old = _is_v1(database)
    form = _V1 if old else FORMAT
    builder.begin(Part(name, str(path), form, profiler="rocprof" if old else "rocpd"))
    if unfinished(path):
        builder.fail(
            path,
            f"{path.name}: its journal is still there: the last rows are missing",
            "wait until the profiled program has ended, or profile again",
        )
    if not is_twin(path, path.with_suffix(".json"), builder):
        (_read_v1 if old else _read_rocpd)(path, database, builder)


def _is_ours(path: Path) -> bool:
    """Tells whether a file is a database of rocprofv3 or rocprof v1, or an empty one."""
    try:
        empty = path.name.endswith("results.db") and not path.stat().st_size
    except OSError:
        return False
    if empty:
        return True
    if head(path, len(SIGN)) != SIGN:
        return False
    try:
        with open_database(path) as database:
            return _is_v1(database) or any(
                name.startswith((_DISPATCH, _SYMBOL)) for name in database.tables
            )
    except (sqlite3.Error, OSError):
        return path.suffix == ".db"  # broken or locked: reading it will report that


def _is_v1(database: Database) -> bool:
    return {"OPS", "COPY"}.issubset(database.tables) and "BeginNs" in database.columns("OPS")


def _read_v1(path: Path, database: Database, builder: RecordingBuilder) -> None:
    """Reads the kernels and copies of a database of rocprof v1."""
    builder.tool.setdefault("name", "rocprof v1")
    builder.note(f"{path.name} is of rocprof v1: it has kernels' names and times, no sizes")
    columns = ("BeginNs", "EndNs", "dev-id", "queue-id", "Name", "pid")
    for begin, end, device, queue, name, pid in database.rows("OPS", columns):
        agent = int64(device)
        shape = KernelShape(
            name=str(name), agent=None if agent is None else str(agent), process=int64(pid)
        )
        builder.dispatch(
            builder.shape(shape), None, int64(begin), int64(end), int64(queue), find_again=False
        )

    for begin, end, name in database.rows("COPY", ("BeginNs", "EndNs", "Name")):
        begin_ns, end_ns = int64(begin), int64(end)
        if begin_ns is not None and end_ns is not None:
            builder.transfer(str(name), end_ns - begin_ns)


def _read_rocpd(path: Path, database: Database, builder: RecordingBuilder) -> None:
    builder.tool.setdefault("name", "rocprofv3")
    suffixes = [name[len(_SYMBOL) :] for name in database.tables if name.startswith(_SYMBOL)] or [
        name[len(_DISPATCH) :] for name in database.tables if name.startswith(_DISPATCH)
    ]
    for suffix in suffixes:
        guids = {guid for (guid,) in database.rows(f"rocpd_info_process{suffix}", ("guid",))}
        for guid in sorted(guids, key=str) or [None]:
            RocpdProcess(
                path=path, database=database, builder=builder, suffix=suffix, guid=guid
            ).read()
