"""The records that a capture writes down: one JSON object a line, from the guest to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .record.bound import append, encode_json

Emit = Callable[[dict[str, Any]], None]


def error(
    stage: str,
    message: str,
    hint: str,
    kernel: str | None = None,
    case: str | None = None,
    place: str | None = None,
    arch: str | None = None,
) -> dict[str, Any]:
    """What went wrong, on one line, and what to do about it.

    `place` is `file:line`, where the message does not name it itself; `arch` is set where it may be
    another story for another target: the host joins those that tell the same.
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
        }
    }


def note(text: str) -> dict[str, Any]:
    """What a reader of the results should know, though nothing failed."""
    return {"note": one_line(text)}


def one_line(text: object) -> str:
    """The text with all white space folded."""
    return " ".join(str(text).split())


def writer(path: str) -> Emit:
    """Appends records to a file, which is opened anew each time.

    While the user's code runs no descriptor of ours is open: it could be closed, or inherited. Nor
    does what that code puts in the place of `json` or `os` matter.
    """

    def emit(record: dict[str, Any]) -> None:
        append(path, encode_json(record) + "\n")

    return emit
