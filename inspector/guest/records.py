"""The records of a forked child: one JSON object a line, in a file that its parent follows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from .record.unpatched import append, encode_json, write_all

Emit = Callable[[dict[str, Any]], None]
MOST_OF_A_LINE = 2000
"""Characters of a message; a script's may have any number."""
TAIL_BYTES = 4000
"""Bytes of a child's output that are reported."""
_MOST_BYTES = 256 << 20
"""Read at once of the records of a process; its longest are of kernels with their TTIR."""


def error(
    stage: str,
    message: str,
    hint: str,
    kernel: str | None = None,
    case: str | None = None,
    *,
    place: str | None = None,
    arch: str | None = None,
    ran_well: bool = False,
    launchers: Sequence[str] = (),
) -> dict[str, Any]:
    """The record of an error.

    `stage`: "capture" or "frontend".
    `case`: name of the case, or the configuration in words.
    `place`: `file:line`, unless the message names it.
    `arch`: gfx name, if the error may differ by target; the host joins those with equal messages.
    `ran_well`: whether the user's code came to its end: little of what it printed explains it.
    `launchers`: files that launch the kernels of one that launched nothing, the likeliest first.
    """
    return {
        "error": {
            "stage": stage,
            "message": one_line(message),
            "hint": hint,
            "kernel": kernel,
            "case": case,
            "place": place,
            "arch": arch,
            "ran_well": ran_well,
            "launchers": [*launchers],
        }
    }


class HintedError(Exception):
    """An error for the user: a one-line message and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def note(text: str) -> dict[str, Any]:
    """The record of a remark for the reader of the results."""
    return {"note": one_line(text)}


def one_line(text: object) -> str:
    """A text with each run of white space replaced by one blank, and without what is too much."""
    written = str(text)
    line = " ".join(written[: 2 * MOST_OF_A_LINE].split())
    is_whole = len(written) <= 2 * MOST_OF_A_LINE and len(line) <= MOST_OF_A_LINE
    return line if is_whole else f"{line[:MOST_OF_A_LINE]}…"


def writer(path: str) -> Emit:
    """A function that appends records to a file, which it opens anew each time.

    While the user's code runs, no descriptor of ours is open that it could close or inherit, and
    its patches of `json` or `os` have no effect (`record/unpatched.py`).
    """

    def emit(record: dict[str, Any]) -> None:
        append(path, encode_json(record) + "\n")

    return emit


def open_writer(path: str) -> Emit:
    """The same with a descriptor that stays open, for a process that can open none to write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def emit(record: dict[str, Any]) -> None:
        write_all(descriptor, f"{encode_json(record)}\n".encode())

    return emit


class Follower:
    """Reads a JSON-lines file that another process is writing.

    `path`: need not exist yet.
    """

    def __init__(self, path: str) -> None:
        self.last: dict[str, Any] = {}
        self._path = path
        self._offset = 0

    def new_records(self) -> list[dict[str, Any]]:
        """The complete lines since the last call; an incomplete last line is left for later."""
        try:
            if os.path.getsize(self._path) <= self._offset:
                return []
            with open(self._path, "rb") as stream:
                stream.seek(self._offset)
                data = stream.read(_MOST_BYTES)
        except FileNotFoundError:
            return []
        complete_lines = data[: data.rfind(b"\n") + 1]
        is_cut = len(data) == _MOST_BYTES  # a line that is longer is none of ours
        self._offset += len((complete_lines or data) if is_cut else complete_lines)
        records = [record for line in complete_lines.splitlines() if (record := _record(line))]
        if records:
            self.last = records[-1]
        return records


def _record(line: bytes) -> dict[str, Any]:
    """A line's record; empty for what `writer` does not write: a process can break in any state."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def tail_of(path: str) -> str:
    """The last `TAIL_BYTES` of a child's output; empty if the file does not exist."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
