"""Handles Ctrl-C, and passes signals on to a child command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C."""

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def end_as_interrupted() -> None:
    """Lets SIGTERM end this command as Ctrl-C does, so that a partial result is written.

    Where SIGTERM is ignored, it stays so.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def interrupts(*, watched: bool = True) -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether Ctrl-C was pressed, even if the interrupt was caught.

    Where SIGINT is ignored (a shell's background job) or has another handler, it stays so.

    Args:
        watched: whether to install the handler; else the function returns False.
    """
    was_interrupted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        signal.default_int_handler(number, frame)

    is_installed = (
        watched
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_installed:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: was_interrupted
    finally:
        if is_installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def signals_for(
    process: subprocess.Popen[bytes], waited: Sequence[signal.Signals] = (signal.SIGINT,)
) -> Iterator[None]:
    """Passes SIGTERM and SIGHUP on to a command, and ignores those that the terminal sends it.

    Args:
        process: the command.
        waited: signals that the terminal sends to the command as well: this process goes on, to
            read its output.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    def wait(number: int, frame: FrameType | None) -> None:
        """Does nothing: the terminal sends the signal to the command as well."""

    handlers = {**dict.fromkeys(waited, wait), **dict.fromkeys(_PASSED_ON, pass_on)}
    previous_handlers = {
        number: signal.signal(number, handler) for number, handler in handlers.items()
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
