"""Runs an emulated script in a child process, and ends all that it started, whoever ends first."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from ..forked import HostGoneError, wait
from ..process_tree import END_STEP_SECONDS, adopt_orphans, descendants, die_with, end_orphans

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
ENDING_SECONDS = 5
"""What the script has to end once it was asked to; one that is stopped or ignores it is killed."""
LOOK_SECONDS = 3600.0
EMULATOR_SECONDS = 5.0
"""What the emulator has to write its profile once the script's process was killed."""
_EMULATOR = b"pipeline.emulating"
"""Stands in its command line."""


def supervised(run: Callable[[], int], hangup_fd: int) -> int:
    """Runs a function in a child; returns its status, of a signal 128 and its number.

    `hangup_fd` is a pipe whose other end the host holds: when the host is gone, however it ended,
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
    asked: list[int] = []  # signals that were passed on

    def pass_on(number: int, frame: FrameType | None) -> None:
        """Ends the child at once if it was asked before, or does not end in time."""
        os.kill(child, signal.SIGKILL if asked else number)
        asked.append(number)
        signal.alarm(ENDING_SECONDS)

    for number in (*PASSED_ON, signal.SIGALRM):
        signal.signal(number, pass_on)
    try:
        while not wait(child, time.monotonic() + LOOK_SECONDS, hangup_fd):
            pass
    except HostGoneError:
        for pid in {child, *descendants(supervisor)}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    for number in (*PASSED_ON, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    _, state = os.waitpid(child, 0)
    if os.WIFSIGNALED(state):
        _await_emulator(supervisor)
    end_orphans(frozenset())
    if os.WIFSIGNALED(state):
        return 128 + (asked[0] if asked else os.WTERMSIG(state))
    return os.WEXITSTATUS(state)


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
