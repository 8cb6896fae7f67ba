"""Runs one job in a forked child, so that it cannot harm this process or the next job.

The child gets its own process group, /dev/null for stdin and a file for stdout and stderr. It may
crash, call `os._exit`, loop for ever or start processes: the parent ends them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
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
"""Interval of the checks for the child's end where the kernel lacks pidfd_open (Linux < 5.3)."""

WATCH_SECONDS = 0.02
"""Interval at which `watch` is called."""

END_SECONDS = 5.0
"""Time limit for ending the processes of a job, which may start others meanwhile."""
END_STEP_SECONDS = 0.005

end_process = os._exit  # user code may replace it later


class HostGoneError(BaseException):
    """The host closed the channel while a job ran.

    No Exception, so that nothing except the server's loop handles it.
    """


@dataclass(frozen=True)
class ChildOutcome:
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
) -> ChildOutcome:
    """Runs `job` in a forked child and waits for its end.

    Args:
        job: the function to run; its exception is printed to `stderr` and ends the child with
            status 1.
        channel: closed in the child; watched here, so that a job does not outlive the host.
        stdout: file for the child's descriptor 1; may be the same as `stderr`.
        stderr: file for the child's descriptor 2.
        time_limit: seconds after which the child and all processes that it started are killed.
        memory_limit: bytes of address space that the child may use (RLIMIT_AS); None for no limit.
        watch: called every `WATCH_SECONDS` while the child runs.

    Raises:
        HostGoneError: the host closed its end; the child has been killed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    start = time.monotonic()
    parent = os.getpid()
    own_children = descendants(parent) if _has_children() else frozenset()
    # No signal may interrupt between the fork and the block that ends the child.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        enter = functools.partial(_become_job, channel, parent, stdout, stderr, memory_limit)
        _run_child(enter, job)
    has_ended = False
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does the same; either may be first
        if channel.stopped:
            raise HostGoneError
        has_ended = _wait(pid, start + time_limit, channel.requests_fd, watch)
    finally:
        # Until the child is reaped, no other group can have its id.
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        _end_children(own_children)
    seconds = time.monotonic() - start
    if not has_ended:
        return ChildOutcome("timeout", None, seconds)
    if os.WIFSIGNALED(status):
        return ChildOutcome("signal", os.WTERMSIG(status), seconds)
    code = os.WEXITSTATUS(status)
    return ChildOutcome("exit" if code else "done", code, seconds)


def _run_child(enter: Callable[[], None], job: Callable[[], None]) -> NoReturn:
    """Runs a job in the forked child, and ends the child.

    Args:
        enter: prepares the process; see `_become_job`.
        job: the job.
    """
    status = 1
    try:
        enter()
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
    """Separates the child from the host, redirects its descriptors to files and sets limits."""
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
    """Makes descriptor `target` refer to the file that is open as `fd`."""
    if fd != target:
        os.dup2(fd, target)
        os.close(fd)
    else:
        os.set_inheritable(fd, True)


def _die_with(parent: int) -> None:
    """Makes the kernel end this process when its parent ends (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        end_process(1)


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
    found_descendants: set[int] = set()
    pending = [pid]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found_descendants:
                found_descendants.add(child)
                pending.append(child)
    return frozenset(found_descendants)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_children(own_children: frozenset[int]) -> None:
    """Ends the processes that a job left, now this process's descendants (`adopt_orphans`).

    Args:
        own_children: descendants that this process had before, which stay.
    """
    deadline = time.monotonic() + END_SECONDS
    while _has_children() and time.monotonic() < deadline:
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


def _wait(
    pid: int, deadline: float, hangup_fd: int, watch: Callable[[], None] | None = None
) -> bool:
    """Waits for the end of a child, without reaping it.

    Args:
        pid: the child.
        deadline: when to stop waiting, by `time.monotonic`.
        hangup_fd: descriptor whose other end the host closes when it ends.
        watch: called every `WATCH_SECONDS`.

    Returns:
        Whether it ended before the deadline.

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
                return _has_ended(pid)
            step = seconds_left if pidfd is not None else min(seconds_left, POLL_SECONDS)
            if watch is not None:
                watch()
                step = min(step, WATCH_SECONDS)
            ready = [fd for fd, _ in poller.poll(step * 1000 + 1)]
            if hangup_fd in ready:
                raise HostGoneError
            if (pidfd is None and _has_ended(pid)) or (pidfd is not None and pidfd in ready):
                return True
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _pidfd(pid: int) -> int | None:
    """A descriptor that is readable when a process ends; None where the kernel lacks it."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _has_ended(pid: int) -> bool:
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, flags) is not None


TAIL_BYTES = 4000
"""Bytes of a child's output that are reported."""


def tail_of(path: str) -> str:
    """The last `TAIL_BYTES` of a child's output; empty if the file does not exist."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
