"""Reads SQLite files of other programs safely; columns may be missing, and nothing is changed.

A database can hold code: views and virtual tables that yield rows without end, columns that are
computed, indices that do not say what their table says. Only rows that are stored in ordinary
tables are read, by plain SELECTs that SQLite is held to (`_is_allowed`); how long that takes and
how much it gives is bounded by the size of the file.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ...base import limits
from ...base.limits import LimitError

SIGN = b"SQLite format 3\x00"

_WAIT = 0.2  # seconds to wait for a lock: a writer that is slower is still at work
_STEPS = 10_000
"""Instructions of SQLite between two looks at the clock: some hundred microseconds."""
_LEAST_ROW = 4
"""Least bytes of a stored row: its header, and its pointer in the page."""
_SCANS = 8
"""Times that the same text may be read: usually once for each process of a table."""
_LONGEST_TEXT = 1 << 24
_ORDINARY = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)  # and no CREATE VIRTUAL TABLE
_PRAGMAS = frozenset({"table_info"})
_DAMAGED_HINT = "it is damaged, or was not written by a profiler: profile again"


class Database:
    """A database, opened to read its ordinary tables."""

    def __init__(self, connection: sqlite3.Connection, name: str, size: int) -> None:
        """Reads its list of tables.

        `size`: bytes of the file.

        Raises:
            sqlite3.Error: it is locked or damaged.
            LimitError: its list alone takes too long.
        """
        self._connection = connection
        self._name = name
        self._most_rows = size // _LEAST_ROW + 1
        self._text_left = _SCANS * (size + (1 << 20))
        self._bounds = limits.BoundedReading(name, size)
        self._bounds.seconds -= min(1.0, self._bounds.seconds / 2)  # before the reading's own end
        self._end = time.thread_time() + self._bounds.seconds
        # Names come from the profiled program; one that is not UTF-8 must not stop the reading.
        connection.text_factory = self._text
        connection.set_progress_handler(self._is_late, _STEPS)
        with self._in_time():
            master = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
        self.tables: tuple[str, ...] = tuple(
            str(table)
            for table, kind, sql in master
            if kind == "table" and _ORDINARY.match(str(sql))
        )
        self._known = frozenset(self.tables)
        self._computed = frozenset(
            str(table) for table, kind, _ in master if kind in ("table", "view")
        ).difference(self._known)

    def columns(self, table: str) -> set[str]:
        """Returns the names of the columns that a table stores; empty if there is no such table.

        Columns that are computed from others are not among them.
        """
        if table not in self._known:
            return set()
        rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
        return {str(row[1]) for row in rows}

    def rows(
        self, table: str, names: Sequence[str], where: Mapping[str, object] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a table in the order in which they were written.

        Args:
            table: its name; without such a table there are no rows.
            names: columns; None stands in those that the table lacks.
            where: values that columns must have; columns that the table lacks are ignored.

        Raises:
            sqlite3.Error: it is locked or damaged, or its rows are computed: it is a view or
                virtual table. The rows before that are sound.
            LimitError: it takes longer or gives more than a file of its size can hold.
        """
        if table in self._computed:
            raise sqlite3.DatabaseError(f"{table} is not a table that stores rows")
        present = self.columns(table)
        if not present:
            return
        chosen = ", ".join(_cell(name) if name in present else "NULL" for name in names)
        conditions_on = {name: value for name, value in (where or {}).items() if name in present}
        conditions = " AND ".join(f"{_quoted(name)} = ?" for name in conditions_on)
        # An index may give other rows than its table, and in another order.
        text = f"SELECT {chosen} FROM {_quoted(table)} NOT INDEXED"
        text += f" WHERE {conditions}" if conditions else ""
        if self._is_late():
            raise self._bounds.out_of_time()
        count = 0
        with (
            self._in_time(),
            closing(self._connection.execute(text, [*conditions_on.values()])) as cursor,
        ):
            for row in cursor:
                count += 1
                if count > self._most_rows:
                    raise LimitError(
                        f"{self._name}: has more rows than can be in it", _DAMAGED_HINT
                    )
                yield row

    def _is_late(self) -> bool:
        return time.thread_time() > self._end

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Turns SQLite's "interrupted" into the error of a time limit, if that was the cause."""
        try:
            yield
        except sqlite3.OperationalError:
            if self._is_late():
                raise self._bounds.out_of_time() from None
            raise

    def _text(self, raw: bytes) -> str:
        self._text_left -= len(raw)
        if self._text_left < 0:
            raise LimitError(f"{self._name}: has more text than can be in it", _DAMAGED_HINT)
        return raw.decode("utf-8", "replace")


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Opens a database without changing it, and waits for locks only briefly.

    Raises:
        sqlite3.Error: it is locked or damaged.
        LimitError: opening it takes too long.
    """
    # With a log beside it, the file alone lacks the last writes; reading the log needs locks.
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=_WAIT)
    try:
        _restrict(connection)
        yield Database(connection, path.name, path.stat().st_size)
    except UnicodeDecodeError as error:  # SQLite quotes what it cannot read in its message
        raise sqlite3.DatabaseError("the list of its tables is damaged") from error
    finally:
        connection.close()


def unfinished(path: Path) -> bool:
    """Tells whether a database has a journal: its writer is still at work, or has crashed."""
    journal = path.with_name(path.name + "-journal")
    return journal.exists() and journal.stat().st_size > 0


def _restrict(connection: sqlite3.Connection) -> None:
    """Restricts SQLite to reading stored rows."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")  # a mapped file that shrinks would crash us
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_is_allowed)


def _is_allowed(
    action: int, first: str | None, second: str | None, base: str | None, view: str | None
) -> int:
    """Allows a statement only to select and to read columns of tables, but not through views."""
    if action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_READ and view is None):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second == "typeof":  # our own, in `_cell`
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _cell(name: str) -> str:
    """Returns SQL for a column, NULL for blobs: any column may hold them; profilers write none."""
    column = _quoted(name)
    return f"CASE typeof({column}) WHEN 'blob' THEN NULL ELSE {column} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
