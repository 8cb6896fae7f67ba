"""Checks quickly which files a pass left, and explains the profiler's error messages.

Files of millions of rows are not read for that.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml
from msgspec import Struct
from msgspec.structs import replace

_GLANCE = 4 * 1024 * 1024
"""Bytes read of each file: the counters of a dispatch are in neighbouring rows, and repeat."""


def returned(folder: Path, requested: Sequence[str]) -> tuple[str, ...]:
    """Returns the requested counters that are in none of a pass's files.

    Args:
        folder: the pass's folder.
        requested: names, maybe with `[instance]` or `:device=N`.

    Returns:
        Those missing; none if there are no rows of counters at all (that is another failure).
    """
    if not requested:
        return ()
    recorded: set[str] = set()
    for path in sorted(folder.rglob("*counter_collection.csv")):
        rows = _rows(path)
        header = next(rows, [])
        if "Counter_Name" not in header:
            continue
        column = header.index("Counter_Name")
        recorded.update(row[column] for row in rows if len(row) > column)
    bare = {_bare(name) for name in recorded}
    return tuple(name for name in requested if _bare(name) not in bare) if recorded else ()


def dispatched(folder: Path) -> bool:
    """Tells whether a kernel trace, or a file that replaces it, has a row below its header."""
    for path in folder.rglob("*.csv"):
        if path.name.endswith(("agent_info.csv", "_stats.csv")):
            continue
        rows = _rows(path)
        if next(rows, None) is not None and next(rows, None) is not None:
            return True
    return False


def _rows(path: Path) -> Iterator[list[str]]:
    """Yields the first rows of a CSV file, header included; none if it cannot be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_GLANCE)
    except OSError:
        return
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    if len(data) == _GLANCE:
        lines = lines[:-1]  # its last line may be cut
    try:
        yield from csv.reader(lines)
    except csv.Error:  # damage is reported by the readers
        return


def _bare(name: str) -> str:
    return re.sub(r"\[.*\]$|:.*$", "", name)


_NO_FAILURE = re.compile(r"^.*Opened result file:.*$", re.MULTILINE)
"""Logged as an error, but is none."""


class Complaint(Struct, frozen=True):
    """A problem that a profiler reported.

    `fatal`: ends the pass. `profilers`: the failure is the profiler's, not the program's.
    """

    message: str
    hint: str
    fatal: bool = True
    profilers: bool = True


class _Rule(Struct, frozen=True):
    """A pattern of error output, and the problem that it means."""

    pattern: re.Pattern[str]
    complaint: Complaint


@cache
def _rules() -> tuple[_Rule, ...]:
    """Reads the patterns of `complaints.yaml`."""
    rows = yaml.safe_load(
        files(__package__).joinpath("complaints.yaml").read_text(encoding="utf-8")
    )
    return tuple(
        _Rule(
            re.compile(row["pattern"], re.MULTILINE),
            Complaint(
                row["message"],
                row["hint"],
                row.get("fatal", True),
                row.get("by", "profiler") == "profiler",
            ),
        )
        for row in rows
    )


def complaints(text: str) -> tuple[Complaint, ...]:
    """Returns the problems that error output reports; of fatal ones only the first."""
    text = _NO_FAILURE.sub("", text)
    complained: list[Complaint] = []
    for rule in _rules():
        match = rule.pattern.search(text)
        if match is None:
            continue
        complaint = rule.complaint
        if complaint.fatal and any(former.fatal for former in complained):
            continue  # what follows from the first
        detail = next((word for word in match.groupdict().values() if word), None)
        message = f"{complaint.message}: {detail}" if detail else complaint.message
        complained.append(replace(complaint, message=message))
    return tuple(complained)
