"""SQLite files of others: opened without touching them, asked for columns that may not be there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

SIGN = b"SQLite format 3\x00"

_LARGEST = 2**63 - 1
_WAIT = 0.2  # seconds for a lock: a writer that is slower is still at work


class Base:
    """A database, read only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Reads its list of tables.

        Raises:
            sqlite3.Error: it is locked or damaged.
        """
        self._connection = connection
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables: tuple[str, ...] = tuple(str(name) for (name,) in rows)

    def columns(self, table: str) -> set[str]:
        """Names of a table's columns; empty where there is no such table."""
        rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
        return {str(row[1]) for row in rows}

    def rows(
        self, table: str, wanted: Sequence[str], where: Mapping[str, object] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a table in the order in which they were written.

        Args:
            table: its name; without such a table there are no rows.
            wanted: columns; None stands in those that the table lacks.
            where: values that columns must have; those that the table lacks are not asked.

        Raises:
            sqlite3.Error: it is locked or damaged; what came before is sound.
        """
        there = self.columns(table)
        if not there:
            return
        chosen = ", ".join(_quoted(name) if name in there else "NULL" for name in wanted)
        asked = {name: value for name, value in (where or {}).items() if name in there}
        limits = " AND ".join(f"{_quoted(name)} = ?" for name in asked)
        text = f"SELECT {chosen} FROM {_quoted(table)}" + (f" WHERE {limits}" if limits else "")
        with closing(self._connection.execute(text, tuple(asked.values()))) as cursor:
            yield from cursor


@contextmanager
def opened(path: Path) -> Iterator[Base]:
    """Opens a database so that nothing of it changes, and hardly waits for locks.

    Raises:
        sqlite3.Error: it is locked or damaged.
    """
    # With a log beside it the file alone lacks what was written last; the log needs locks.
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=_WAIT)
    # Names are what programs wrote; one that is not UTF-8 is no reason to stop.
    connection.text_factory = _text
    try:
        yield Base(connection)
    except UnicodeDecodeError as error:  # SQLite quotes what it cannot read in its message
        raise sqlite3.DatabaseError("the list of its tables is damaged") from error
    finally:
        connection.close()


def unfinished(path: Path) -> bool:
    """Whether a writer of it has not ended, or did not end well: its journal is still there."""
    journal = path.with_name(path.name + "-journal")
    return journal.exists() and journal.stat().st_size > 0


def whole(value: object) -> int | None:
    """A column's value as a machine number; None where it is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and -_LARGEST <= value <= _LARGEST else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
