"""Ctrl-C, and signals while a command of the user's runs below us."""

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
    """Lets SIGTERM end this command as Ctrl-C does: a job with a time limit gives what it has.

    Where SIGTERM is ignored, it stays so.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def interrupts(*, watched: bool = True) -> Iterator[Callable[[], bool]]:
    """Remembers whether Ctrl-C was pressed, whoever handled the `KeyboardInterrupt` that it raises.

    Where SIGINT is ignored (a shell's background job) or has another handler, it stays so.

    Args:
        watched: whether to do so at all.
    """
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    ours = (
        watched
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: came
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def signals_for(
    process: subprocess.Popen[bytes], waited: Sequence[signal.Signals] = (signal.SIGINT,)
) -> Iterator[None]:
    """Passes SIGTERM and SIGHUP on to the command, and waits out signals that reach it by itself.

    Args:
        process: the command.
        waited: signals of the terminal, which reach the command by themselves: what it leaves is
            still to be read here.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    def wait(number: int, frame: FrameType | None) -> None:
        """Does nothing: the terminal has told the command as well."""

    handlers = {**dict.fromkeys(waited, wait), **dict.fromkeys(_PASSED_ON, pass_on)}
    previous_handlers = {
        number: signal.signal(number, handler) for number, handler in handlers.items()
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
