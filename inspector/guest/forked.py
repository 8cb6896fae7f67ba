"""Runs one job in a forked child, so that it cannot harm this process or the next job.

The child gets its own process group, /dev/null for stdin and a file for stdout and stderr. It may
crash, call `os._exit`, loop for ever or start processes: the parent ends them all.

JSON lines over a pair of inherited file descriptors.

Stdin and stdout are not used: the user's code prints there, and so do Triton's dumps.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import math
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

from .process_tree import descendants, die_with, end_orphans, has_children
from .record.unpatched import encode_json, write_all
from .records import Follower

POLL_SECONDS = 0.01
"""Interval of the checks for the child's end where the kernel lacks pidfd_open (Linux < 5.3)."""

RECORDS = "findings.jsonl"
"""File of a job's records; the host looks into it where the guest is lost."""
MOST_WRITTEN = 2 << 30
"""Bytes of a file that a job with a limit of memory writes: dumps of passes are the longest."""
WATCH_SECONDS = 0.02
"""Interval at which `watch` is called."""

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
    most_data: int | None = None,
    watch: Callable[[], None] | None = None,
) -> ChildOutcome:
    """Runs `job` in a forked child and waits for its end.

    `job`: the function to run; its exception is printed to `stderr` and ends the child with status
    1.
    `channel`: closed in the child; watched here, so that a job does not outlive the host.
    `time_limit`: seconds after which the child and all processes that it started are killed.
    `memory_limit`: bytes of address space that the child may use (RLIMIT_AS); None for no limit.
    `most_data`: bytes of data that it may use beyond what this process has (RLIMIT_DATA).

    Raises:
        HostGoneError: the host closed its end; the child has been killed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    start = time.monotonic()
    parent = os.getpid()
    own_children = descendants(parent) if has_children() else frozenset()
    # No signal may interrupt between the fork and the block that ends the child.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        enter = functools.partial(_become_job, channel, parent, stdout, stderr)
        _run_child(enter, functools.partial(_limited, job, memory_limit, most_data))
    has_ended = False
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does the same; either may be first
        if channel.stopped:
            raise HostGoneError
        has_ended = wait(pid, start + time_limit, channel.requests_fd, watch)
    finally:
        status = _kill_and_reap(pid)
        end_orphans(own_children)
    return _outcome(status if has_ended else None, time.monotonic() - start)


class _StepTooLongError(Exception):
    """A step of a job took longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


def run_recorded(
    job: Callable[[str], None],
    channel: Channel,
    *,
    folder: str,
    output: str,
    stderr: str | None = None,
    take: Callable[[dict[str, Any]], None],
    too_long: Callable[[], float | None] = lambda: None,
    time_limit: float = math.inf,
    memory_limit: int | None = None,
    most_data: int | None = None,
) -> tuple[dict[str, Any], ChildOutcome]:
    """Runs a job that writes records, as `run_forked` does; returns the last one and how it ended.

    `job`: gets the path to write to, in `folder`.
    `output`: file for what it prints; `stderr` one for its descriptor 2, if another.
    `take`: called with each record while the job runs.
    `too_long`: the seconds of a step that takes too long, by which the job is ended; else None.
    """
    path = os.path.join(folder, RECORDS)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    follower = Follower(path)

    def watch() -> None:
        for record in follower.new_records():
            take(record)
        seconds = too_long()
        if seconds is not None:
            raise _StepTooLongError(seconds)

    try:
        end = run_forked(
            functools.partial(job, path),
            channel,
            stdout=output,
            stderr=stderr or output,
            time_limit=time_limit,
            memory_limit=memory_limit,
            most_data=most_data,
            watch=watch,
        )
    except _StepTooLongError as ended:
        end = ChildOutcome("timeout", None, ended.seconds)
    for record in follower.new_records():
        take(record)
    return follower.last, end


def _kill_and_reap(pid: int) -> int:
    # Until the child is reaped, no other group can have its id.
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _outcome(status: int | None, seconds: float) -> ChildOutcome:
    if status is None:
        return ChildOutcome("timeout", None, seconds)
    if os.WIFSIGNALED(status):
        return ChildOutcome("signal", os.WTERMSIG(status), seconds)
    code = os.WEXITSTATUS(status)
    return ChildOutcome("exit" if code else "done", code, seconds)


def _run_child(enter: Callable[[], None], job: Callable[[], None]) -> NoReturn:
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


def _limited(job: Callable[[], None], memory_limit: int | None, most_data: int | None) -> None:
    lower_limit(resource.RLIMIT_AS, memory_limit)
    if most_data is not None:
        lower_limit(resource.RLIMIT_DATA, _data_bytes() + most_data)
        lower_limit(resource.RLIMIT_FSIZE, MOST_WRITTEN)
    job()


def lower_limit(kind: int, value: int | None) -> None:
    """Sets a limit of this process, unless a lower one holds already."""
    if value is None:
        return
    limits = [limit for limit in (value, *resource.getrlimit(kind)) if limit >= 0]
    with contextlib.suppress(ValueError, OSError):  # the system knows no such limit
        resource.setrlimit(kind, (min(limits), min(limits)))


def _data_bytes() -> int:
    """Bytes of data that this process has mapped; 0 if the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[5]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _become_job(channel: Channel, parent: int, stdout: str, stderr: str) -> None:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    die_with(parent)
    channel.close()
    gc.freeze()  # a collection would copy every page that it marks
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    _redirect(os.open(os.devnull, os.O_RDONLY), 0)
    _redirect(os.open(stdout, flags, 0o600), 1)
    _redirect(os.open(stderr, flags, 0o600), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _redirect(fd: int, target: int) -> None:
    if fd != target:
        os.dup2(fd, target)
        os.close(fd)
    else:
        os.set_inheritable(fd, True)


def wait(
    pid: int, deadline: float, hangup_fd: int, watch: Callable[[], None] | None = None
) -> bool:
    """Waits for the end of a child, without reaping it.

    `deadline`: when to stop waiting, by `time.monotonic`.
    `hangup_fd`: descriptor whose other end the host closes when it ends.

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


CHUNK = 1 << 16


class Channel:
    """The guest's end of the connection to the host.

    `stopped`: whether the host asked this process to end.
    """

    def __init__(self, requests_fd: int, replies_fd: int) -> None:
        self.requests_fd = requests_fd
        self.replies_fd = replies_fd
        self.stopped = False
        self._pending = bytearray()
        for fd in (requests_fd, replies_fd):
            os.set_inheritable(fd, False)

    def receive(self) -> dict[str, Any] | None:
        """The next request; None once the host has closed its end.

        Raises:
            ValueError: the request is not a JSON object.
        """
        while b"\n" not in self._pending:
            chunk = os.read(self.requests_fd, CHUNK)
            if not chunk:
                return None
            self._pending += chunk
        line, _, remainder = bytes(self._pending).partition(b"\n")
        self._pending = bytearray(remainder)
        request = json.loads(line)
        if not isinstance(request, dict):
            raise ValueError("a request must be a JSON object")
        return request

    def send(self, reply: dict[str, Any]) -> None:
        """Writes one reply.

        Raises:
            BrokenPipeError: the host has closed its end.
        """
        write_all(self.replies_fd, encode_json(reply).encode() + b"\n")

    def close(self) -> None:
        """Closes both descriptors, so that a forked job cannot write to the host."""
        os.close(self.requests_fd)
        os.close(self.replies_fd)
