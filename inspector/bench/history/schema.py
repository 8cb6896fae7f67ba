"""The tables of the history file, how an older file becomes one of now, and its guard.

A file is changed by a writer alone and in one transaction: a reader leaves an older one as it is
and makes the tables of an empty one; whoever is killed on the way leaves the old or the new.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from ...base.errors import KinspectError
from ...base.limits import base_seconds

SCHEMA_VERSION = 2
ANALYSES_SINCE = 2
"""The first version that has analyses."""
VARIABLE = "KINSPECT_DATA_DIR"

_BENCHES = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    date TEXT NOT NULL,
    kernel TEXT NOT NULL,
    path TEXT NOT NULL,
    device TEXT NOT NULL,
    arch TEXT,
    mode TEXT NOT NULL,
    gpu TEXT NOT NULL,
    versions TEXT NOT NULL
);
CREATE TABLE result (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    identity TEXT NOT NULL,
    runs INTEGER NOT NULL,
    best_us REAL NOT NULL,
    mean_us REAL NOT NULL,
    slowest_us REAL NOT NULL,
    error_us REAL,
    tflops REAL,
    gib_per_s REAL,
    config TEXT NOT NULL,
    others TEXT NOT NULL,
    clocks TEXT NOT NULL
);
CREATE INDEX result_of_run ON result (run);
CREATE INDEX result_by_identity ON result (identity);
CREATE INDEX run_by_kernel ON run (kernel, device)
"""

# Numbers of runs are one sequence over both kinds, so that a number names one run.
_ANALYSES = """
CREATE TABLE analysis (
    id INTEGER PRIMARY KEY,
    date TEXT NOT NULL,
    label TEXT,
    command TEXT NOT NULL,
    target TEXT NOT NULL,
    versions TEXT NOT NULL,
    units TEXT NOT NULL
);
CREATE TABLE analysed (
    analysis INTEGER NOT NULL REFERENCES analysis (id) ON DELETE CASCADE,
    kernel TEXT NOT NULL,
    identity TEXT NOT NULL,
    arch TEXT,
    name TEXT,
    config TEXT NOT NULL,
    figures TEXT NOT NULL,
    findings TEXT
);
CREATE INDEX analysed_of_analysis ON analysed (analysis);
CREATE INDEX analysed_by_kernel ON analysed (kernel, analysis)
"""

_STEPS: Mapping[int, str] = MappingProxyType({1: _BENCHES, 2: _ANALYSES})
"""Version -> what makes it of the one before."""


def version_of(connection: sqlite3.Connection) -> int:
    """The file's schema version; 0 if it is new."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def set_up(connection: sqlite3.Connection, path: Path, *, write: bool) -> None:
    """Makes the tables if the file is new, and for a writer those that it lacks.

    `write`: whether something is to be written.

    Raises:
        KinspectError: the file was made by a later kinspect.
    """
    version = version_of(connection)
    if version == 0:
        # Where the file system can; another process that is at it too refuses without waiting.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
    if version == 0 or (write and version < SCHEMA_VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done it in the meantime.
            for step in range(version_of(connection) + 1, SCHEMA_VERSION + 1):
                for statement in _STEPS[step].split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {step}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        version = version_of(connection)
    if version > SCHEMA_VERSION:
        raise KinspectError(
            f"{path}: the history has schema_version {version}, this kinspect knows"
            f" {SCHEMA_VERSION}",
            f"use a later kinspect, or name another folder with {VARIABLE}",
        )


def guard(connection: sqlite3.Connection) -> None:
    """Makes a file safe to read that may be a stranger's: tables alone, for so many seconds.

    Views and triggers are the file's own SQL and would be run by ours. A query that takes longer
    ends as "interrupted": no signal reaches SQLite at work.

    Raises:
        sqlite3.DatabaseError: it is no database, or brings views or triggers.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    end = time.monotonic() + base_seconds()
    connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    extra = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')"
    ).fetchone()
    if extra is not None:
        kind, name = str(extra[0]), str(extra[1])
        quoted = repr(name if len(name) <= 60 else f"{name[:57]}...")
        raise sqlite3.DatabaseError(f"it holds a {kind}, {quoted}")
