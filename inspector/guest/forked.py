"""Runs one job in a forked child: whatever the job does, this process and the next job are safe.

The child gets its own process group, /dev/null for stdin and a file for stdout and stderr. It may
crash, call `os._exit`, loop for ever or start processes of its own: the parent ends them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .channel import Channel

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
POLL_SECONDS = 0.01
"""How often to look for the child's end where the kernel has no pidfd_open (Linux < 5.3)."""

WATCH_SECONDS = 0.02
"""How often to look at what a watched child has written so far."""

ENDING_SECONDS = 5.0
"""How long to look for processes of a job that multiply faster than they are ended."""
ENDING_STEP = 0.005

end_process = os._exit  # what user code finds there may be another by then


class HostGoneError(BaseException):
    """The host closed the channel while a job ran: there is nobody left to report to.

    Not an Exception: nothing but the server's loop may take it for a failure of the job.
    """


@dataclass(frozen=True)
class Outcome:
    """How a child ended.

    Args:
        reason: `done` (status 0), `exit` (another status), `signal` or `timeout`.
        code: the exit status or the signal's number; None for a timeout.
        seconds: wall time from fork to end.
    """

    reason: str
    code: int | None
    seconds: float

    def describe(self) -> dict[str, Any]:
        """The outcome as a JSON object."""
        name = None
        if self.reason == "signal" and self.code is not None:
            with contextlib.suppress(ValueError):
                name = signal.Signals(self.code).name
        return {
            "reason": self.reason,
            "code": self.code,
            "signal": name,
            "seconds": round(self.seconds, 6),
        }


def run_forked(
    job: Callable[[], None],
    channel: Channel,
    *,
    stdout: str,
    stderr: str,
    time_limit: float,
    memory_limit: int | None = None,
    watch: Callable[[], None] | None = None,
) -> Outcome:
    """Runs `job` in a forked child and waits for its end.

    Args:
        job: what to run; an exception that escapes it is printed to `stderr` and ends the child
            with status 1.
        channel: closed in the child; watched here, so that a job does not outlive the host.
        stdout: file that takes what the child prints; may be the same as `stderr`.
        stderr: file that takes what the child writes to descriptor 2, C++ code included.
        time_limit: seconds after which the child and all that it started are killed.
        memory_limit: bytes of address space the child may use (RLIMIT_AS); None for no limit.
        watch: called every now and then while the child runs.

    Raises:
        HostGoneError: the host went away; the child has been killed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    start = time.monotonic()
    parent = os.getpid()
    older = descendants(parent) if _has_children() else frozenset()
    # No stop request may come between the fork and the block that ends the child.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        _run_child(job, channel, parent, stdout, stderr, memory_limit)
    ended = False
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does the same: whoever comes first
        if channel.stopped:
            raise HostGoneError
        ended = _wait(pid, start + time_limit, channel.requests_fd, watch)
    finally:
        # Before the child is reaped its group id cannot belong to anybody else.
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        _end_children(older)
    seconds = time.monotonic() - start
    if not ended:
        return Outcome("timeout", None, seconds)
    if os.WIFSIGNALED(status):
        return Outcome("signal", os.WTERMSIG(status), seconds)
    code = os.WEXITSTATUS(status)
    return Outcome("exit" if code else "done", code, seconds)


def _run_child(
    job: Callable[[], None],
    channel: Channel,
    parent: int,
    stdout: str,
    stderr: str,
    memory_limit: int | None,
) -> NoReturn:
    status = 1
    try:
        _become_job(channel, parent, stdout, stderr, memory_limit)
        job()
        status = 0
    except BaseException:
        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        end_process(status)


def _become_job(
    channel: Channel, parent: int, stdout: str, stderr: str, memory_limit: int | None
) -> None:
    """Cuts the child off from the host and turns its standard descriptors to files."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    _die_with(parent)
    channel.close()
    gc.freeze()  # a collection would copy every page that it marks
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    _redirect(os.open(os.devnull, os.O_RDONLY), 0)
    _redirect(os.open(stdout, flags, 0o600), 1)
    _redirect(os.open(stderr, flags, 0o600), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _redirect(fd: int, target: int) -> None:
    if fd != target:
        os.dup2(fd, target)
        os.close(fd)
    else:
        os.set_inheritable(fd, True)


def _die_with(parent: int) -> None:
    """Asks the kernel to end this process with its parent, where the kernel can (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        end_process(1)


def adopt_orphans() -> None:
    """From now on what a job leaves behind becomes a child of this process (Linux).

    Without it a process that left the job's group, by `setsid` or as a daemon does, outlives it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> frozenset[int]:
    """The processes below one, as far as /proc tells."""
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
    below: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in below:
                below.add(child)
                waiting.append(child)
    return frozenset(below)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_children(older: frozenset[int]) -> None:
    """Ends what a job left behind. Its processes have become this one's, see `adopt_orphans`.

    Args:
        older: this process's own, which stay.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    while _has_children() and time.monotonic() < deadline:
        orphans = descendants(os.getpid()) - older
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(OSError):  # those below others of them become ours next
                os.waitpid(pid, os.WNOHANG)
        time.sleep(ENDING_STEP)


def _wait(
    pid: int, deadline: float, hangup_fd: int, watch: Callable[[], None] | None = None
) -> bool:
    """Waits for the end of `pid`, without reaping it.

    Returns:
        False when the deadline passed first.

    Raises:
        HostGoneError: the other end of `hangup_fd` was closed first.
    """
    poller = select.poll()
    poller.register(hangup_fd, 0)  # POLLHUP and POLLERR are reported unasked
    pidfd = _pidfd(pid)
    try:
        if pidfd is not None:
            poller.register(pidfd, select.POLLIN)
        while True:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return _ended(pid)
            step = seconds_left if pidfd is not None else min(seconds_left, POLL_SECONDS)
            if watch is not None:
                watch()
                step = min(step, WATCH_SECONDS)
            ready = [fd for fd, _ in poller.poll(step * 1000 + 1)]
            if hangup_fd in ready:
                raise HostGoneError
            if (pidfd is None and _ended(pid)) or (pidfd is not None and pidfd in ready):
                return True
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _ended(pid: int) -> bool:
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, flags) is not None


TAIL_BYTES = 4000


def tail_of(path: str) -> str:
    """The end of what a child printed into a file; empty where there is none yet."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
