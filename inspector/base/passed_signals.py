"""Passes signals on to a child command."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_SENT_ON = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_for(
    process: subprocess.Popen[bytes],
    waited: Sequence[signal.Signals] = (signal.SIGINT,),
    *,
    repeated: signal.Signals | None = None,
) -> Iterator[None]:
    """Passes SIGTERM and SIGHUP on to a command, and ignores those that the terminal sends it.

    Args:
        waited: signals that the terminal sends to the command as well: this process goes on, to
            read its output.
        repeated: what is sent to the command for a waited signal that comes again; None: nothing.
    """
    count = 0

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    def wait(number: int, frame: FrameType | None) -> None:
        """Waits: the terminal sends the signal to the command as well."""
        nonlocal count
        count += 1
        if count > 1 and repeated is not None:
            process.send_signal(repeated)

    handlers = {**dict.fromkeys(waited, wait), **dict.fromkeys(_SENT_ON, pass_on)}
    previous_handlers = {
        number: signal.signal(number, handler) for number, handler in handlers.items()
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
