"""Keeps results of benchmarks and analyses in one SQLite file under the user's data folder.

Several processes may write at the same time, and any of them may be killed: a run and its cases are
written in one transaction, in write-ahead mode. `KINSPECT_DATA_DIR` names another folder.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.writing import reason
from ...machines.products import find_product
from ..suite.bench_results import GIB, Bench, EarlierResult, Timed
from .analyses import AnalysedKernel, Analysis, AnalysisRun, Sighting
from .schema import ANALYSES_SINCE, SCHEMA_VERSION, VARIABLE, guard, set_up, version_of

__all__ = ["FILE", "SCHEMA_VERSION", "History", "Run", "StoredCase", "data_folder", "identity"]

T = TypeVar("T")
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
    from platformdirs import user_data_path

    return user_data_path("kinspect", appauthor=False)


class History:
    """The file of results. Each method raises KinspectError where it is damaged or cannot be used.

    Args:
        folder: its folder; None for `data_folder()`. Nothing is created before the first write.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (data_folder() if folder is None else folder) / FILE

    def add(self, bench: Bench) -> None:
        """Keeps the cases of a run that have times; a run without any leaves no trace."""
        gpu = bench.gpu
        if gpu is None or not bench.timed:
            return
        memory = _json({"compute_units": gpu.compute_units, "memory_bytes": gpu.memory_bytes})
        run = (bench.date, bench.kernel, bench.path, gpu.name, gpu.arch, bench.mode, memory)
        self._add("run", (*run, _json(dict(bench.versions))), "result", map(_row, bench.timed))

    def add_analysis(self, analysis: Analysis) -> int | None:
        """Stores a run of `analyze` or `lint`, unless it has no kernels; returns its number."""
        if not analysis.kernels:
            return None
        words = map(_text, (analysis.label, analysis.command, analysis.target))
        run = (analysis.date, *words, _json(dict(analysis.versions)), _json(dict(analysis.units)))
        kernels = (
            (
                *map(_text, (kernel.kernel, kernel.identity, kernel.arch, kernel.case)),
                *(_json(dict(values)) for values in (kernel.config, kernel.figures)),
                None if kernel.findings is None else _json(dict(kernel.findings)),
            )
            for kernel in analysis.kernels
        )
        return self._add("analysis", run, "analysed", kernels)

    def before(self, kernel: str, device: str, case: Mapping[str, Any]) -> EarlierResult | None:
        """The last fully timed result of a case of a kernel on a device of this name."""
        rows = self._rows(
            lambda mean_us, date: EarlierResult(float(mean_us), str(date)),
            "SELECT mean_us, date FROM result JOIN run ON run.id = result.run"
            " WHERE identity = ? AND kernel = ? AND device = ? AND mode = 'time'"
            " ORDER BY run.id DESC LIMIT 1",
            (identity(case), kernel, device),
        )
        return next(iter(rows), None)

    def runs(self, kernel: str | None = None, limit: int = 50) -> list[Run]:
        """Returns the last runs, newest first; -1 for `limit`: all."""
        where = "WHERE kernel = ?" if kernel is not None else ""
        return self._rows(
            lambda number, date, name, device, versions, *rest: _checked(
                Run, number, date, name, device, json.loads(versions), *rest
            ),
            "SELECT id, date, kernel, device, versions, mode,"
            f" (SELECT count(*) FROM result WHERE run = run.id) FROM run {where}"
            " ORDER BY id DESC LIMIT ?",
            (*([kernel] if kernel is not None else ()), limit),
        )

    def results(self, run: int) -> list[StoredCase]:
        """Returns the cases of a run."""

        def case(device: str, name: str, config: str, clocks: str, *figures: Any) -> StoredCase:
            values = (name, json.loads(config), json.loads(clocks), *figures, None)
            stored: StoredCase = _checked(StoredCase, *values)
            return replace(stored, memory_share=_memory_share(stored, str(device)))

        return self._rows(
            case,
            "SELECT device, name, config, clocks, runs, best_us, mean_us, slowest_us, error_us,"
            " tflops, gib_per_s FROM result JOIN run ON run.id = result.run WHERE run = ?"
            " ORDER BY result.rowid",
            (run,),
        )

    def measured(self, kernel: str) -> list[tuple[Run, StoredCase]]:
        """Returns every case of every fully timed run of a kernel, the oldest run first."""
        return [
            (run, case)
            for run in reversed(self.runs(kernel, limit=-1))
            if run.mode == "time"
            for case in self.results(run.id)
        ]

    def analyses(self, kernel: str | None = None, limit: int = 50) -> list[AnalysisRun]:
        """Returns the last analyses, newest first; if a kernel is named, those that analysed it."""
        where = "WHERE id IN (SELECT analysis FROM analysed WHERE kernel = ?)" if kernel else ""

        def run(*row: Any) -> AnalysisRun:
            *fields, versions, archs, kernels = row
            sorted_archs = tuple(sorted(filter(None, str(archs or "").split(","))))
            stored: AnalysisRun = _checked(
                AnalysisRun, *fields, json.loads(versions), sorted_archs, kernels
            )
            return stored

        return self._rows(
            run,
            "SELECT id, date, label, command, target, versions,"
            " (SELECT group_concat(DISTINCT arch) FROM analysed WHERE analysis = analysis.id),"
            " (SELECT count(*) FROM analysed WHERE analysis = analysis.id)"
            f" FROM analysis {where} ORDER BY id DESC LIMIT ?",
            (*([kernel] if kernel else ()), limit),
            since=ANALYSES_SINCE,
        )

    def analysed(self, run: int) -> list[Sighting]:
        """Returns the kernels of an analysis."""
        return self._sightings("analysis.id = ?", run)

    def sightings(self, kernel: str) -> list[Sighting]:
        """Returns everything stored about the kernels of a name, the oldest run first."""
        return self._sightings("kernel = ?", kernel)

    def names(self) -> list[str]:
        """Returns the names of all kernels in the history."""
        names = {run.kernel for run in self.runs(limit=-1)}
        names.update(self._rows(str, "SELECT DISTINCT kernel FROM analysed", since=ANALYSES_SINCE))
        return sorted(names)

    def check_readable(self) -> None:
        """Reads one entry, so that a damaged file is an error before a long run, not after it."""
        self.runs(limit=1)

    def _sightings(self, condition: str, value: object) -> list[Sighting]:
        """Returns kernels of analyses, the oldest first, in the order of their reports."""

        def sighting(*row: Any) -> Sighting:
            number, date, label, units, *kernel, config, figures, findings = row
            values = (
                None if text is None else json.loads(text) for text in (config, figures, findings)
            )
            stored: Sighting = _checked(
                Sighting,
                number,
                date,
                label,
                json.loads(units),
                dict(zip(AnalysedKernel.__struct_fields__, (*kernel, *values), strict=True)),
            )
            return stored

        return self._rows(
            sighting,
            "SELECT analysis.id, date, label, units, kernel, identity, arch, name, config, figures,"
            " findings FROM analysed JOIN analysis ON analysis.id = analysed.analysis"
            f" WHERE {condition} ORDER BY analysis.id, analysed.rowid",
            (value,),
            since=ANALYSES_SINCE,
        )

    def _rows(
        self, made: Callable[..., T], statement: str, values: Sequence[object] = (), since: int = 1
    ) -> list[T]:
        """What `made` makes of each row; none without a file, or in one older than `since`."""
        if not self.path.exists():
            return []
        with self._open() as connection:
            if version_of(connection) < since:
                return []
            return [made(*row) for row in connection.execute(statement, values).fetchall()]

    def _add(
        self, table: str, run: Sequence[object], inner: str, rows: Iterable[Sequence[object]]
    ) -> int:
        """Adds a run to a table, and its rows to an inner one; returns the run's number."""
        with self._open(write=True) as connection:
            number = int(connection.execute(_NEXT).fetchone()[0])
            for name, values in [(table, run), *((inner, row) for row in rows)]:
                marks = ", ".join("?" * (len(values) + 1))
                connection.execute(f"INSERT INTO {name} VALUES ({marks})", (number, *values))
        return number

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
                set_up(connection, self.path, write=write)
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


def _checked(kind: Any, *values: Any) -> Any:
    """Makes a struct of a row, whose types are checked: SQLite stores any value in any column.

    Raises:
        ValueError: one is of another type.
    """
    try:
        return convert(dict(zip(kind.__struct_fields__, values, strict=True)), kind)
    except (ValidationError, UnicodeError) as error:  # a text with half a surrogate
        raise ValueError(str(error)) from None


def _text(value: str | None) -> str | None:
    """Returns a text that SQLite takes: bytes of file names that are not UTF-8 are escaped."""
    return None if value is None else value.encode("utf-8", "backslashreplace").decode()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
