"""Handles Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from ..base.status import counted

T = TypeVar("T")

INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C."""


def end_as_interrupted() -> None:
    """Lets SIGTERM end this command as Ctrl-C does, so that a partial result is written.

    Where SIGTERM is ignored, it stays so.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def interrupted(events: Iterable[T], *takers: Callable[[T], object]) -> bool:
    """Feeds a run's events to what takes them; returns whether Ctrl-C ended the run."""
    end_as_interrupted()
    try:
        for event in events:
            for take in takers:
                take(event)
    except KeyboardInterrupt:
        return True
    finally:
        counted("")
    return False


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
