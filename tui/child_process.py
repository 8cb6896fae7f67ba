"""What the UI's child processes have in common, for the UI and for the processes themselves.

A child takes its work from its standard input and writes pickled results to its standard output.
One that has compilers of its own ends them and itself on a signal, and once its input is closed,
which happens however the UI ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import IO

SECONDS_TO_END = 5
"""Time that a child has to end its compilers before SIGALRM ends it."""
_POLL_SECONDS = 0.1
_TAIL_BYTES = 2000
"""Bytes at the end of a child's error output in which its last line is looked for."""


def command(module: str) -> list[str]:
    """The command line of a child that calls a module's `main`.

    Not by -m: pickles of classes in `__main__` could not be read by the other process. The child
    finds modules where this process does.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
    return [sys.executable, "-c", code]


def ending(status: int, errors: IO[bytes]) -> str:
    """How a child ended, as the end of a sentence, with the last line of its error output."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
    last_line = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    how = f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
    return f"{how}: {last_line[0]}" if last_line else how


def chunks(stream: int, is_cancelled: Callable[[], bool]) -> Iterator[bytes]:
    """Yields what a child writes, up to its end or until the work is cancelled.

    Args:
        stream: the file descriptor of its output.
        is_cancelled: polled while nothing arrives.
    """
    while not is_cancelled():
        if not select.select([stream], [], [], _POLL_SECONDS)[0]:
            continue
        chunk = os.read(stream, 1 << 20)
        if not chunk:
            return
        yield chunk


def result_channel() -> IO[bytes]:
    """In a child: the stream for results, which the output of other code cannot get into."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def interrupt_on_signals() -> None:
    """In a child: raises KeyboardInterrupt on SIGTERM and SIGINT."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)


def interrupt_on_closed_input() -> None:
    """In a child that has read its input: raises KeyboardInterrupt once that is closed.

    The kernel sends SIGIO then, even if the UI was killed.
    """
    signal.signal(signal.SIGIO, _interrupt)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    closed = select.poll()
    closed.register(0, 0)  # no events: a closed input is always reported
    if closed.poll(0):  # closed before the kernel was to send SIGIO
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Further signals are ignored; the alarm limits how long the compilers may take to end.
    for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGIO):
        signal.signal(caught, signal.SIG_IGN)
    signal.alarm(SECONDS_TO_END)
    raise KeyboardInterrupt
