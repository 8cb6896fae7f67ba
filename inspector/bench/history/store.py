"""Keeps results of benchmarks and analyses in one SQLite file under the user's data folder.

Several processes may write at the same time, and any of them may be killed: a run and its cases are
written in one transaction, in write-ahead mode. `KINSPECT_DATA_DIR` names another folder.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.writing import reason
from ...machines.products import find_product
from ..suite.results import GIB, Bench, EarlierResult, Timed
from . import analysis_rows
from .analyses import Analysis, AnalysisRun, Sighting
from .analysis_rows import checked_as
from .schema import ANALYSES_SINCE, SCHEMA_VERSION, VARIABLE, guard, set_up, version_of

__all__ = ["FILE", "SCHEMA_VERSION", "History", "Run", "StoredCase", "data_folder", "identity"]

FILE = "results.sqlite"
BUSY_SECONDS = 30.0
"""How long to wait for other processes' writes."""
_CODES = {
    8: "it is read-only",
    10: "reading or writing failed, or the disk is full",
    13: "the disk is full",
    14: "the folder is read-only, or not there",
}
"""SQLite's error codes SQLITE_READONLY, _IOERR, _FULL and _CANTOPEN -> explanation."""
_NAMELESS = ("name", "atol", "rtol")
_NEXT = """
SELECT coalesce(max(id), 0) + 1 FROM (SELECT id FROM run UNION ALL SELECT id FROM analysis)
"""


class Run(Struct, frozen=True):
    """A run in the history."""

    id: int  # its number in the file
    date: str  # its date, ISO 8601 in UTC
    kernel: str  # name of the kernel
    device: str  # name of the GPU
    versions: Mapping[str, str | None]  # name -> version, of torch, triton, the driver, …
    mode: str  # `time` or `once`
    cases: int  # how many of its cases have times


class StoredCase(Struct, frozen=True):
    """One case of a run in the history; times in µs.

    `memory_share` is the part of the best time, in percent, that the least bytes of the case take
    at the peak of the device's memory: 100 is the best there is, unless caches held them. None
    where bytes or peak are not known.
    """

    name: str
    config: Mapping[str, Any]
    clocks: Mapping[str, int | None]
    runs: int
    best_us: float
    mean_us: float
    slowest_us: float
    error_us: float | None
    tflops: float | None
    gib_per_s: float | None
    memory_share: float | None = None


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for data that must not be lost, unlike a cache."""
    stated = (os.environ if environment is None else environment).get(VARIABLE)
    if stated:
        return Path(stated).expanduser()
    try:
        from platformdirs import user_data_path
    except ImportError:  # an interpreter without our packages, on a GPU machine with Linux
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Path(base).expanduser() / "kinspect"
    return user_data_path("kinspect", appauthor=False)


class History:
    """The file of results.

    Args:
        folder: its folder; None for `data_folder()`. Nothing is created before the first write.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (data_folder() if folder is None else folder) / FILE

    def add(self, bench: Bench) -> None:
        """Keeps the cases of a run that have times; a run without any leaves no trace.

        Raises:
            KinspectError: the file cannot be written, or is damaged.
        """
        gpu = bench.gpu
        if gpu is None or not bench.timed:
            return
        with self._open(write=True) as connection:
            number = int(connection.execute(_NEXT).fetchone()[0])
            connection.execute(
                "INSERT INTO run (id, date, kernel, path, device, arch, mode, gpu, versions)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    number,
                    bench.date,
                    bench.kernel,
                    bench.path,
                    gpu.name,
                    gpu.arch,
                    bench.mode,
                    _json({"compute_units": gpu.compute_units, "memory_bytes": gpu.memory_bytes}),
                    _json(dict(bench.versions)),
                ),
            )
            connection.executemany(
                "INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(number, *_row(case)) for case in bench.timed],
            )

    def before(self, kernel: str, device: str, case: Mapping[str, Any]) -> EarlierResult | None:
        """The last fully timed result of a case of a kernel on a device of this name.

        Raises:
            KinspectError: the file is damaged.
        """
        if not self.path.exists():
            return None
        with self._open() as connection:
            row = connection.execute(
                "SELECT mean_us, date FROM result JOIN run ON run.id = result.run"
                " WHERE identity = ? AND kernel = ? AND device = ? AND mode = 'time'"
                " ORDER BY run.id DESC LIMIT 1",
                (identity(case), kernel, device),
            ).fetchone()
        return EarlierResult(float(row[0]), str(row[1])) if row is not None else None

    def runs(self, kernel: str | None = None, limit: int = 50) -> list[Run]:
        """Returns the last runs, newest first; -1 for `limit`: all.

        Raises:
            KinspectError: the file is damaged.
        """
        if not self.path.exists():
            return []
        where = "WHERE kernel = ?" if kernel is not None else ""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT id, date, kernel, device, versions, mode,"
                f" (SELECT count(*) FROM result WHERE run = run.id) FROM run {where}"
                " ORDER BY id DESC LIMIT ?",
                ((kernel,) if kernel is not None else ()) + (limit,),
            ).fetchall()
            return [
                checked_as(Run, (run, date, name, device, json.loads(versions), mode, cases))
                for run, date, name, device, versions, mode, cases in rows
            ]

    def results(self, run: int) -> list[StoredCase]:
        """Returns the cases of a run.

        Raises:
            KinspectError: the file is damaged.
        """
        if not self.path.exists():
            return []
        with self._open() as connection:
            rows = connection.execute(
                "SELECT device, name, config, clocks, runs, best_us, mean_us, slowest_us, error_us,"
                " tflops, gib_per_s FROM result JOIN run ON run.id = result.run WHERE run = ?"
                " ORDER BY result.rowid",
                (run,),
            ).fetchall()
            cases = [
                (
                    str(device),
                    checked_as(
                        StoredCase, (name, json.loads(config), json.loads(clocks), *figures, None)
                    ),
                )
                for device, name, config, clocks, *figures in rows
            ]
        return [replace(case, memory_share=_memory_share(case, device)) for device, case in cases]

    def measured(self, kernel: str) -> list[tuple[Run, StoredCase]]:
        """Returns every case of every fully timed run of a kernel, the oldest run first.

        Raises:
            KinspectError: the file is damaged.
        """
        return [
            (run, case)
            for run in reversed(self.runs(kernel, limit=-1))
            if run.mode == "time"
            for case in self.results(run.id)
        ]

    def add_analysis(self, analysis: Analysis) -> int | None:
        """Stores a run of `analyze` or `lint`, unless it has no kernels.

        Returns:
            The run's number.

        Raises:
            KinspectError: the file cannot be written, or is damaged.
        """
        if not analysis.kernels:
            return None
        with self._open(write=True) as connection:
            number = int(connection.execute(_NEXT).fetchone()[0])
            analysis_rows.insert(connection, number, analysis)
        return number

    def analyses(self, kernel: str | None = None, limit: int = 50) -> list[AnalysisRun]:
        """Returns the last analyses, newest first; if a kernel is named, those that analysed it.

        Raises:
            KinspectError: the file is damaged.
        """
        with self._reading() as connection:
            return (
                analysis_rows.latest_runs(connection, kernel, limit)
                if connection is not None
                else []
            )

    def analysed(self, run: int) -> list[Sighting]:
        """Returns the kernels of an analysis.

        Raises:
            KinspectError: the file is damaged.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            return analysis_rows.sightings(connection, "analysis.id = ?", (run,))

    def sightings(self, kernel: str) -> list[Sighting]:
        """Returns everything stored about the kernels of a name, the oldest run first.

        Raises:
            KinspectError: the file is damaged.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            return analysis_rows.sightings(connection, "kernel = ?", (kernel,))

    def names(self) -> list[str]:
        """Returns the names of all kernels in the history.

        Raises:
            KinspectError: the file is damaged.
        """
        kernel_names = {run.kernel for run in self.runs(limit=-1)}
        with self._reading() as connection:
            if connection is not None:
                rows = connection.execute("SELECT DISTINCT kernel FROM analysed").fetchall()
                kernel_names.update(str(row[0]) for row in rows)
        return sorted(kernel_names)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection to a file that has analyses; None if it has none."""
        if not self.path.exists():
            yield None
            return
        with self._open() as connection:
            yield connection if version_of(connection) >= ANALYSES_SINCE else None

    def check_readable(self) -> None:
        """Reads one entry, so that a damaged file is an error before a long run, not after it.

        Raises:
            KinspectError: the file is damaged or cannot be read.
        """
        self.runs(limit=1)

    @contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection within a transaction, which is rolled back on any error."""
        try:
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(
                sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA foreign_keys = ON")
                guard(connection)
                set_up(connection, self.path, write)
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise KinspectError(
                f"{self.path}: the history cannot be used: {_in_words(error)}",
                f"check the folder and its free space, or name another one with {VARIABLE}",
            ) from None
        except (sqlite3.DatabaseError, ValueError, TypeError, RecursionError) as error:
            raise KinspectError(
                f"{self.path}: the history is damaged: {error}",
                f"move the file away (what can be saved: sqlite3 FILE .recover), or name another"
                f" folder with {VARIABLE}",
            ) from None
        except OSError as error:
            raise KinspectError(
                f"{self.path}: the history cannot be written ({reason(error)})",
                f"name another folder with {VARIABLE}",
            ) from None


def _in_words(error: sqlite3.OperationalError) -> str:
    explanation = _CODES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)  # Python 3.11 and newer
    return f"{explanation}: {error}" if explanation else str(error)


def _memory_share(case: StoredCase, device: str) -> float | None:
    """See `StoredCase`."""
    product = find_product(device)
    if case.gib_per_s is None or product is None or not case.best_us:
        return None
    least_bytes = case.gib_per_s * GIB * case.mean_us / 1e6
    return round(100 * least_bytes / product.memory_bytes_per_s / (case.best_us / 1e6), 1)


def identity(case: Mapping[str, Any]) -> str:
    """Returns a key that is equal for cases with equal values, name and tolerance aside."""
    return _json({key: value for key, value in case.items() if key not in _NAMELESS})


def _row(case: Timed) -> tuple[Any, ...]:
    """Returns the columns of a timed case."""
    summary = case.summary
    assert summary is not None
    other_means = {
        other.name: other.summary.mean for other in case.others if other.summary is not None
    }
    return (
        case.name,
        identity(case.case),
        summary.runs,
        summary.best,
        summary.mean,
        summary.slowest,
        summary.error,
        case.tflops(summary.mean),
        case.gib_per_s(summary.mean),
        _json(dict(case.config)),
        _json(other_means),
        _json(dict(case.clocks)),
    )


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
