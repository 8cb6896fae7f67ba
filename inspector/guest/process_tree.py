"""The processes that a job starts, and their end: none may outlive the job or the host."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
END_SECONDS = 5.0
"""Time limit for ending the processes of a job, which may start others meanwhile."""
END_STEP_SECONDS = 0.005
"""Interval of the attempts to do so."""


def die_with(parent: int) -> None:
    """Makes the kernel end this process when its parent ends (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Makes orphans of a job children of this process (Linux only).

    Otherwise a process that left the job's group, by `setsid` or as a daemon, would outlive it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> frozenset[int]:
    """The ids of a process's descendants, from /proc."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return frozenset()
    for name in names:
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as stream:
                    parent = int(stream.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    result: set[int] = set()
    pending = [pid]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in result:
                result.add(child)
                pending.append(child)
    return frozenset(result)


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_orphans(own_children: frozenset[int]) -> None:
    """Ends the processes that a job left, now this process's descendants (`adopt_orphans`).

    Args:
        own_children: descendants that this process had before, which stay.
    """
    deadline = time.monotonic() + END_SECONDS
    while has_children() and time.monotonic() < deadline:
        orphans = descendants(os.getpid()) - own_children
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(OSError):  # some become ours only when their parents end
                os.waitpid(pid, os.WNOHANG)
        time.sleep(END_STEP_SECONDS)
