"""Signals while a command of the user's runs below us."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_for(
    process: subprocess.Popen[bytes], waited: Sequence[signal.Signals] = (signal.SIGINT,)
) -> Iterator[None]:
    """SIGTERM and SIGHUP are passed on to the command; what the terminal tells both is waited out.

    Args:
        process: the command.
        waited: signals of the terminal, which reach the command by themselves: what it leaves is
            still to be read here.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    def wait(number: int, frame: FrameType | None) -> None:
        """The command was told too."""

    handlers = {**dict.fromkeys(waited, wait), **dict.fromkeys(_PASSED_ON, pass_on)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
