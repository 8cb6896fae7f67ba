"""Messages of a run on stderr: progress, failures and notes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from ..base.errors import in_lines
from ..base.long_names import with_short_names
from ..base.status import counted
from ..model import ErrorRecord
from ..pipeline.events import Captured, Compiled

T = TypeVar("T")

MOST_OUTPUT = 15
"""Lines of a script's output that are shown when it failed."""


@contextmanager
def counting() -> Iterator[Callable[[int, int], None]]:
    """Yields a function that says `compiled DONE of TOTAL`."""
    try:
        yield lambda done, total: counted(f"compiled {done} of {total}")
    finally:
        counted("")


class CompileProgress:
    """Says how many of a run's compiles are done."""

    def __init__(self) -> None:
        self._captured = self._compiled = 0

    def watched(self, events: Iterable[T]) -> Iterator[T]:
        """Passes events on and counts them."""
        try:
            for event in events:
                self.on_event(event)
                yield event
        finally:
            self.close()

    def on_event(self, event: object) -> None:
        if isinstance(event, Captured):
            self._captured += len(event.variants)
        elif isinstance(event, Compiled):
            self._compiled += 1
        else:
            return
        counted(f"compiled {self._compiled} of {max(self._captured, self._compiled)}")

    def close(self) -> None:
        counted("")


def print_message(text: str) -> None:
    """Writes `kinspect: TEXT` to stderr."""
    sys.stderr.write(f"kinspect: {text}\n")
    sys.stderr.flush()


def print_error(text: str, hint: str = "") -> None:
    """Writes `kinspect: error: TEXT; HINT` to stderr, in one line but for a command of the hint."""
    sys.stderr.write(f"kinspect: error: {in_lines(text, hint)}\n")


def problem(error: ErrorRecord) -> str:
    """Returns an error in words: file, kernel, stage and message."""
    for file in (error.file, os.path.abspath(error.file)) if error.file else ():
        if error.message.startswith(file):  # it names file and line
            return f"{error.file}{error.message[len(file) :]}"
    where = " ".join(part for part in (error.file, error.kernel) if part)
    return f"{where}: {error.stage}: {error.message}"


def print_problems(
    errors: Sequence[ErrorRecord], notes: Sequence[str], *, are_told: bool = False
) -> None:
    """Writes errors, the end of the user's code's output, and notes to stderr.

    Args:
        errors: a line each, and one for the command of a hint.
        are_told: whether the errors stand in the result, where stderr goes as well.
    """
    for error in errors if not are_told else ():
        print_error(problem(error), error.hint)
    _show_output(errors)
    for note in notes:
        sys.stderr.write(f"kinspect: note: {with_short_names(note)}\n")


def _show_output(errors: Sequence[ErrorRecord]) -> None:
    """Writes the end of the user's code's output, once for each file with an error."""
    shown_files = set()
    for error in errors:
        lines = error.output.rstrip().splitlines()[-MOST_OUTPUT:]
        if not lines or error.file in shown_files:
            continue
        shown_files.add(error.file)
        sys.stderr.write(f"kinspect: the last that {error.file} printed:")
        if len(lines) == 1:
            sys.stderr.write(f" {lines[0]}\n")
        else:
            sys.stderr.writelines(f"\n  | {line}" for line in lines)
            sys.stderr.write("\n")
