"""One line on stderr that says how far a command is, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..printable import printable_line
from ..streams import underneath

_CLEARED = "\r\x1b[K"


@contextmanager
def counting() -> Iterator[Callable[[int, int], None]]:
    """Counts compiles in one line: called with those done and all."""
    line = ProgressLine()
    try:
        yield lambda done, total: line.show(f"compiled {done} of {total}")
    finally:
        line.clear()


class ProgressLine:
    """A line that is written over and over, and is gone in the end."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._shown = False

    def show(self, text: str) -> None:
        """Puts `text` in place of what the line said."""
        if self.live:
            self._write(f"{_CLEARED}  {printable_line(text)}")
            self._shown = True

    def clear(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._write(_CLEARED)
            self._shown = False

    def _write(self, text: str) -> None:
        stream = underneath(sys.stderr)
        stream.write(text)
        stream.flush()
