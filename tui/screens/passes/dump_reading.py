"""Reads a pass dump, a large one in a child process.

A regular expression over many megabytes holds the interpreter's lock, which would freeze the
screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from ....inspector.base.errors import KinspectError
from ....inspector.compare.passhistory import History, history_of
from ....inspector.compile.passes import PassDump, diff, read_passes
from ...child_process import MessagingChild

CHILD_BYTES = 4 << 20
"""Bytes from which on reading a dump pays for the start of a process."""

MAX_CHARS = 1 << 20
"""A text is cut after this many characters, which are some 10,000 lines."""

Span = tuple[int, int]
"""Two states of the module; twice the same for that state itself."""


class LineChange(Struct, frozen=True):
    """The numbers of lines that a pass added to the module and removed from it."""

    added: int
    removed: int

    def __str__(self) -> str:
        return f"+{self.added} −{self.removed}"


def line_change(diff: str) -> LineChange:
    """The numbers of lines that a unified diff adds and removes."""
    lines = diff.splitlines()[2:]  # the first two name what is compared
    return LineChange(
        sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
    )


class PassText(Struct, frozen=True):
    """A diff or the text of a module.

    Attributes:
        text: its lines, cut to `MAX_CHARS`.
        change: of the whole diff; None for a module.
    """

    text: str
    change: LineChange | None = None


class SpanResult(Struct, frozen=True):
    """The text of a span of states.

    Attributes:
        span: the states; None: the dump cannot be read.
        result: the text, or why there is none.
    """

    span: Span | None
    result: PassText | KinspectError


class HistoryResult(Struct, frozen=True):
    """What the passes did to a line or an operation, or why that is not known."""

    result: History | KinspectError


Result = PassDump | SpanResult | HistoryResult


def results(path: Path, span: Span | None = None, thing: str = "") -> Iterator[Result]:
    """Reads a dump and the diffs of its passes, or only one diff.

    Yields:
        The dump, twice: at first without its changes, and then the history of `thing`. Then the
        text of each pass that changed something. With `span` its text alone.
    """
    try:
        dump = read_passes(path, changes=False)
        if span is not None:
            yield SpanResult(span, pass_text(dump, span))
            return
        yield dump
        if thing:
            yield _history(dump, thing)
        dump = read_passes(path)
        yield dump
        for compiler_pass in dump.passes:
            if compiler_pass.changed:
                span = (compiler_pass.index, compiler_pass.index + 1)
                yield SpanResult(span, pass_text(dump, span))
    except OSError as error:
        message = f"{path}: the pass dump cannot be read: {error.strerror or error}"
        hint = "it may have been cleaned away: compile the kernel again"
        yield SpanResult(span, KinspectError(message, hint))
    except KinspectError as error:
        yield SpanResult(span, error)


def _history(dump: PassDump, thing: str) -> HistoryResult:
    try:
        return HistoryResult(history_of(dump, thing))
    except KinspectError as error:
        return HistoryResult(error)


def pass_text(dump: PassDump, span: Span) -> PassText:
    """The diff of two states; if they are equal, that state's module."""
    first, last = span
    if first == last:
        return PassText(_cut(dump.state(first)))
    text = diff(dump, first, last)
    return PassText(_cut(text), line_change(text))


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    end = text.rfind("\n", 0, MAX_CHARS) + 1
    return f"{text[:end]}… {text.count(chr(10), end):,} more lines are left out\n"


def results_from_child(
    path: Path, span: Span | None, is_cancelled: Callable[[], bool], thing: str = ""
) -> Iterator[Result]:
    """Reads a dump as `results` does, a large one in a child process.

    Args:
        path: the dump.
        span: the states to compare; None: the whole dump.
        is_cancelled: polled while the process runs, which is ended once it returns True.
        thing: what to follow through the passes; "" for nothing.
    """
    try:
        is_large = path.stat().st_size >= CHILD_BYTES
    except OSError:
        is_large = False
    if not is_large:
        yield from results(path, span, thing)
        return
    child = MessagingChild(f"{__name__}:send_results", (path, span, thing), "reads the pass dump")
    try:
        for _, result in child.messages(is_cancelled):
            yield result
    except KinspectError as error:
        if not is_cancelled():
            yield SpanResult(span, error)


def send_results(job: tuple[Path, Span | None, str], send: Callable[[str, Any], None]) -> None:
    for result in results(*job):
        send("result", result)
