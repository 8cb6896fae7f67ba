"""A line of the terminal that says what is being done, until something else is written there."""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .printable import printable_line

DELAY_SECONDS = 1.0
"""What ends sooner shows no line."""
TICK_SECONDS = 0.25
CLEARED = "\r\x1b[K"
"""Steers a terminal to the beginning of its line, which is emptied."""


class StatusLine:
    """The line of a command, on a terminal; it stands from `start` to `end`.

    A thread draws it, and it is taken away before anything is written beside it. The thread is none
    of `threading`'s, which are counted before a fork: it holds nothing that a child needs.
    """

    def __init__(self, descriptor: int) -> None:
        self.step, self.count = "starting", ""
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._started = self._written = time.monotonic()
        self._shown = ""
        self._is_ended = False
        self._is_in_line = False  # something else was written, and not the end of its line
        self._quiet = 0

    def start(self) -> None:
        """Shows what is being done from now on."""
        _thread.start_new_thread(self._draw_until_ended, ())

    def end(self) -> None:
        """Takes the line away for good."""
        self.make_room()
        self._is_ended = True

    def make_room(self, text: str = "") -> None:
        """Takes the line away, for a text that is written now."""
        if os.getpid() != self._owner:  # a fork: the thread that draws is not there
            return
        with self._lock:
            self._take_away()
            self._written = time.monotonic()
            if text:
                self._is_in_line = not text.endswith("\n")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Shows no line in the block, in which another program has the terminal."""
        with self._lock:
            self._quiet += 1
            self._take_away()
        try:
            yield
        finally:
            self._quiet -= 1
            self._written = time.monotonic()

    def _take_away(self) -> None:
        if self._shown:
            self._write(CLEARED)
            self._shown = ""

    def _draw_until_ended(self) -> None:
        while not self._is_ended:
            time.sleep(TICK_SECONDS)
            with self._lock:
                now = time.monotonic()
                is_late = now - self._started >= DELAY_SECONDS
                is_free = not (self._is_in_line or self._quiet or self._is_ended)
                if is_late and is_free and now - self._written >= TICK_SECONDS:
                    self._draw(now - self._started)

    def _draw(self, seconds: float) -> None:
        text = "; ".join(filter(None, (self.count, self.step)))
        line = printable_line(f"  {seconds:.0f} s  {text}")[: self._columns() - 1]
        if line != self._shown:
            self._write(f"{CLEARED}{line}")
            self._shown = line

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        try:
            os.write(self._descriptor, text.encode())
        except OSError:  # the terminal has gone
            self._is_ended = True


def doing(step: str) -> None:
    """Says what is being done now, to the command's line if it has one."""
    line = _line()
    if line is not None:
        line.step = step


def counted(count: str) -> None:
    """Says how much is done, in front of what is being done; "" ends the count."""
    line = _line()
    if line is not None:
        line.count, line.step = count, ""


@contextmanager
def terminal_given_away() -> Iterator[None]:
    """Shows no line in the block, in which another program writes to the terminal."""
    line = _line()
    if line is None:
        yield
        return
    with line.quiet():
        yield


def _line() -> StatusLine | None:
    """The line of the command that runs: its stderr (`PlainStream`) has it."""
    line = getattr(sys.stderr, "status", None)
    return line if isinstance(line, StatusLine) else None
