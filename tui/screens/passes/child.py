"""Reads a big pass dump in a process of its own, whose `main` is below.

A regular expression over many megabytes keeps every other thread of its process waiting, and with
them the screen. Arguments: the file, and two passes to compare; without them the whole dump is
read. Standard output carries pairs, each pickled and led by its length, then None:
("dump", PassDump), ("text", (span, PassText)) or ("error", (span or None, KinspectError)).
"""

from __future__ import annotations

import itertools
import os
import pickle
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from ....inspector.compile.passes import PassDump, diff, read_passes
from ....inspector.errors import KinspectError

BIG = 4 << 20
"""Bytes from which on a dump is worth the start of a process."""

MOST = 1 << 20
"""Characters of a text that are shown: 10,000 lines that nobody reads to their end."""

Result = tuple[str, object]
_HEAD = struct.Struct("<Q")  # the length of what follows
_LOOK = 0.1  # seconds


class Change(Struct, frozen=True):
    """Lines that a pass added to the module and took from it."""

    added: int
    removed: int

    def __str__(self) -> str:
        return f"+{self.added} −{self.removed}"


def change_of(diff: str) -> Change:
    """How many lines a unified diff adds and removes."""
    lines = diff.splitlines()[2:]  # the first two name what is compared
    return Change(
        sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
    )


class PassText(Struct, frozen=True):
    """A diff or the text of a module.

    Attributes:
        text: its lines, as many as one can read.
        change: how much all of a diff changes.
    """

    text: str
    change: Change | None = None


def work(path: Path, span: tuple[int, int] | None = None) -> Iterator[Result]:
    """Everything about a dump, or one diff of it.

    Args:
        path: the dump.
        span: the states to compare; where both are one, its text is read.

    Yields:
        What is found, as said above; the dump comes twice, at first without what changed.
    """
    try:
        dump = read_passes(path, changes=False)
        if span is not None:
            yield "text", (span, pass_text(dump, span))
            return
        yield "dump", dump
        dump = read_passes(path)
        yield "dump", dump
        for compiler_pass in dump.passes:
            if compiler_pass.changed:
                span = (compiler_pass.index, compiler_pass.index + 1)
                yield "text", (span, pass_text(dump, span))
    except OSError as error:
        message = f"{path}: the pass dump cannot be read: {error.strerror or error}"
        hint = "it may have been cleaned away: compile the kernel again"
        yield "error", (span, KinspectError(message, hint))
    except KinspectError as error:
        yield "error", (span, error)


def pass_text(dump: PassDump, span: tuple[int, int]) -> PassText:
    """The diff of two states, or the one state itself."""
    first, last = span
    if first == last:
        return PassText(_cut(dump.state(first)))
    text = diff(dump, first, last)
    return PassText(_cut(text), change_of(text))


def _cut(text: str) -> str:
    if len(text) <= MOST:
        return text
    end = text.rfind("\n", 0, MOST) + 1
    return f"{text[:end]}… {text.count(chr(10), end):,} more lines are left out\n"


def found_in(
    path: Path, span: tuple[int, int] | None, given_up: Callable[[], bool]
) -> Iterator[Result]:
    """As `work`, in a process of its own where the file is big; ends it when given up."""
    try:
        big = path.stat().st_size >= BIG
    except OSError:
        big = False
    if not big:
        yield from work(path, span)
        return
    # Not by -m: what is then called __main__ could not be unpickled here.
    start = f"from {__name__} import main; main()"
    command = [sys.executable, "-c", start, str(path), *map(str, span or ())]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    ended = False
    try:
        for packed in _received(process.stdout.fileno(), given_up):
            result: Result | None = pickle.loads(packed)
            if result is None:
                ended = True
            else:
                yield result
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    if not ended and not given_up():
        message = f"{path}: the process that read the pass dump has ended"
        yield "error", (span, KinspectError(message, "open the page again"))


def _received(stream: int, given_up: Callable[[], bool]) -> Iterator[bytes]:
    """What was sent, piece by piece; looks up from time to time, so that nobody waits for it."""
    buffer = bytearray()
    while not given_up():
        if not select.select([stream], [], [], _LOOK)[0]:
            continue
        read = os.read(stream, 1 << 20)
        if not read:
            return
        buffer += read
        while len(buffer) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(buffer)
            if len(buffer) < _HEAD.size + size:
                break
            yield bytes(buffer[_HEAD.size : _HEAD.size + size])
            del buffer[: _HEAD.size + size]


def main() -> None:
    """Writes what `work` finds, and None at the end."""
    path, *ends = sys.argv[1:]
    span = (int(ends[0]), int(ends[1])) if ends else None
    for result in itertools.chain(work(Path(path), span), (None,)):
        packed = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
        sys.stdout.buffer.write(_HEAD.pack(len(packed)) + packed)
        sys.stdout.buffer.flush()
