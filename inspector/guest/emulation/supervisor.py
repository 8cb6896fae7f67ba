"""Runs an emulated script in a child process, and ends all that it started, whoever ends first."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from ..forked import HostGoneError, wait
from ..process_tree import END_STEP_SECONDS, adopt_orphans, descendants, die_with, end_orphans

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
LOOK_SECONDS = 3600.0
EMULATOR_SECONDS = 5.0
"""What the emulator has to write its profile once the script's process was killed."""
_EMULATOR = b"pipeline.emulating"
"""Stands in its command line."""


def supervised(run: Callable[[], int], hangup_fd: int) -> int:
    """Runs a function in a child; returns its status, of a signal 128 and its number.

    Args:
        run: the function; it is called in the child.
        hangup_fd: a pipe whose other end the host holds: when the host is gone, however it ended,
            the child and all that it started are ended.
    """
    os.set_inheritable(hangup_fd, False)
    adopt_orphans()
    supervisor = os.getpid()
    child = os.fork()
    if not child:
        os.close(hangup_fd)
        die_with(supervisor)
        return run()
    # The terminal's Ctrl-C is for the child as well, which decides what comes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in PASSED_ON:
        signal.signal(number, lambda n, frame: os.kill(child, n))
    try:
        while not wait(child, time.monotonic() + LOOK_SECONDS, hangup_fd):
            pass
    except HostGoneError:
        for pid in {child, *descendants(supervisor)}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    _, state = os.waitpid(child, 0)
    if os.WIFSIGNALED(state):
        _await_emulator(supervisor)
    end_orphans(frozenset())
    return 128 + os.WTERMSIG(state) if os.WIFSIGNALED(state) else os.WEXITSTATUS(state)


def _await_emulator(supervisor: int) -> None:
    """Waits for the emulator to end, which sees its input end."""
    until = time.monotonic() + EMULATOR_SECONDS
    while time.monotonic() < until and any(map(_is_emulator, descendants(supervisor))):
        time.sleep(END_STEP_SECONDS)


def _is_emulator(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return _EMULATOR in stream.read()
    except OSError:
        return False
