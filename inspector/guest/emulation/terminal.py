"""Says on the terminal what is being done while the script waits for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_ROOM_BELOW = "\x1bD\x1bM"
"""Moves the cursor down and up: the terminal scrolls where there is no line below."""
_TO_LINE_BELOW, _BACK = "\x1b7\x1b[B\r\x1b[K", "\x1b8"


class WaitLine:
    """A line below the cursor, so that a line that the script has begun stays as it is.

    It is shown only while the script can write nothing: while it waits for a compile or a launch.
    Its descriptor is a copy, since tests have their standard error caught.
    """

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = os.dup(descriptor)
        self._is_live = os.isatty(descriptor) and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    @contextlib.contextmanager
    def showing(self, text: str = "") -> Iterator[None]:
        """Shows a text in the block; without one only what is shown in it."""
        if text:
            self.show(text)
        try:
            yield
        finally:
            self._take_away()

    def show(self, text: str) -> None:
        if self._is_live:
            clean = "".join(letter for letter in text if letter.isprintable())
            line = f"  {clean}"[: self._columns() - 1]
            self._write(f"{_ROOM_BELOW}{_TO_LINE_BELOW}{line}{_BACK}")
            self._is_shown = True

    def say(self, text: str) -> None:
        """Writes a line that stays, to any kind of standard error."""
        self._take_away()
        self._write(f"{text}\n")

    def _take_away(self) -> None:
        if self._is_shown:
            self._write(f"{_TO_LINE_BELOW}{_BACK}")
            self._is_shown = False

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal has gone
            os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))
