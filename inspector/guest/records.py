"""The records of a capture: one JSON object a line, from the guest to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .record.unpatched import append, encode_json

Emit = Callable[[dict[str, Any]], None]


def error(
    stage: str,
    message: str,
    hint: str,
    kernel: str | None = None,
    case: str | None = None,
    *,
    place: str | None = None,
    arch: str | None = None,
) -> dict[str, Any]:
    """The record of an error.

    Args:
        stage: "capture" or "frontend".
        message: the error, in one line.
        hint: what to do about it.
        kernel: name of the kernel.
        case: name of the case, or the configuration in words.
        place: `file:line`, unless the message names it.
        arch: gfx name, if the error may differ by target; the host joins those with equal messages.
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
    """The record of a remark for the reader of the results."""
    return {"note": one_line(text)}


def one_line(text: object) -> str:
    """A text with each run of white space replaced by one blank."""
    return " ".join(str(text).split())


def writer(path: str) -> Emit:
    """A function that appends records to a file, which it opens anew each time.

    While the user's code runs, no descriptor of ours is open that it could close or inherit, and
    its patches of `json` or `os` have no effect (`record/unpatched.py`).
    """

    def emit(record: dict[str, Any]) -> None:
        append(path, encode_json(record) + "\n")

    return emit
