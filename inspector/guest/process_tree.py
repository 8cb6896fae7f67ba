"""The processes that a job starts, and their end: none may outlive the job or the host."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from .record.unpatched import encode_json, write_all

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
CHUNK = 1 << 16
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

    `own_children`: descendants that this process had before, which stay.
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


class ChildError(Exception):
    """A child without an answer: why, and whether it was ended at its deadline."""

    def __init__(self, text: str, is_late: bool = False) -> None:
        super().__init__(text)
        self.is_late = is_late


def answer_of_child(work: Callable[[], Any], deadline: float, subject: str) -> Any:
    """What a function returns in a forked child, as JSON; the child is ended at the deadline.

    Args:
        work: the function, which may crash.
        deadline: by `time.monotonic`.
        subject: names the work, for messages.

    Raises:
        ChildError: the function raised an exception, crashed, or was not done in time.
    """
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():  # Python 3.12 warns where there are threads
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            write_all(write_end, encode_json(_answer(work)).encode())
        os._exit(0)  # nothing that the parent has buffered may be written twice
    os.close(write_end)  # the child's copy of this end closes when the child ends
    text = bytearray()
    try:
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            if not select.select([read_end], [], [], left)[0]:
                raise ChildError(f"{subject} takes too long", is_late=True)
            chunk = os.read(read_end, CHUNK)
            if not chunk:
                break
            text += chunk
    finally:
        os.close(read_end)
        with contextlib.suppress(OSError):  # where nobody waits for children, it may be gone
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    answer = json.loads(text) if text else {"failure": f"{subject} crashed"}
    if "failure" in answer:
        raise ChildError(answer["failure"])
    return answer["result"]


def _answer(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except BaseException as failure:
        first_line = (str(failure).splitlines() or [""])[0]
        return {"failure": f"{type(failure).__name__}: {first_line[:80]}"}
