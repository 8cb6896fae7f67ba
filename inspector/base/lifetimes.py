"""Processes that end with the one that started them, however that ends (Linux).

Passes signals on to a child command.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from .programs import absolute_folders
from .status import terminal_given_away

if TYPE_CHECKING:
    import subprocess


_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
_ENDING_SECONDS = 5.0
"""For ending processes that start others meanwhile; what hangs in a driver cannot be ended."""
_STEP_SECONDS = 0.005
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 3600.0
"""How often to look after a child where the kernel tells its end."""


def die_with(parent: int) -> None:
    """In a child that was just forked: the kernel ends it with the thread that forked it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    import ctypes  # in the child: few commands need it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def run_to_end(
    words: Sequence[str],
    seconds: float,
    *,
    data: bytes = b"",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    memory: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program, which ends with this process if that ends first.

    What it starts in turn, such as the interpreter of a script, it finds in absolute folders alone.

    Args:
        folder: its working folder; None for this process's.
        environment: its variables; None for those of this process.
        memory: limit on the bytes of its data; None for that of this process.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it was ended for its time.
    """
    import ctypes  # noqa: F401  (before the fork: the child must not wait for another's import)
    import subprocess

    def bind(parent: int = os.getpid()) -> None:
        die_with(parent)
        if memory is not None:
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            least = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (least, hard))

    variables = os.environ if environment is None else environment
    return subprocess.run(
        words,
        input=data,
        capture_output=True,
        timeout=seconds,
        cwd=folder,
        env={**variables, "PATH": absolute_folders(variables.get("PATH"))},
        check=False,
        preexec_fn=bind,
    )


def marked(entry: str) -> Iterator[int]:
    """Yields the processes that have an entry, NAME=VALUE, in their environment, but this one."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            # Another user's process, or one that has just ended: neither is ours.
            with suppress(OSError):
                if entry.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def signal_marked(entry: str, number: signal.Signals) -> int:
    """Sends a signal to the processes with an entry in their environment; returns their count."""
    count = 0
    for pid in marked(entry):
        with suppress(OSError):
            os.kill(pid, number)
            count += 1
    return count


def kill_marked(entry: str) -> None:
    """Ends all processes with an entry in their environment."""
    until = time.monotonic() + _ENDING_SECONDS
    with suppress(OSError):  # no /proc
        while signal_marked(entry, signal.SIGKILL) and time.monotonic() < until:
            time.sleep(_STEP_SECONDS)


def descendants(pid: int) -> set[int]:
    """Returns the processes below one, from /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has just ended
                parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    pending = [pid]
    while pending:
        new = children.pop(pending.pop(), [])
        found.update(new)
        pending += new
    return found


def signal_descendants(pid: int, number: signal.Signals) -> None:
    """Sends a signal to the processes below one."""
    for below in descendants(pid):
        with suppress(OSError):
            os.kill(below, number)


@contextmanager
def supervised(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    stderr: int | None = None,
    own_group: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a command, for the block to follow to its end, below a supervisor.

    Once the command has ended, the supervisor ends all that it has left, whatever sessions and
    environments that has given itself; the command too, once the block or this process has ended,
    however it does (Linux).

    Args:
        own_group: whether the command gets a process group of its own.

    Yields:
        The supervisor: it ends as the command does, and signals that are sent to it go to the
        command, to all of a group of its own.

    Raises:
        OSError: it cannot be started.
    """
    import ctypes  # noqa: F401  (before the fork: the child must not wait for another's import)
    import subprocess

    alive, held = os.pipe()
    try:
        process = subprocess.Popen(
            words,
            env=environment,
            stderr=stderr,
            preexec_fn=lambda: _fork_supervised(alive, own_group=own_group),
        )
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(alive)
    try:
        with terminal_given_away():
            yield process
    finally:
        os.close(held)
        process.wait()


_PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def _fork_supervised(alive: int, *, own_group: bool) -> None:
    """Forks; returns in the child, which becomes the command. The parent supervises it."""
    supervisor = os.getpid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # A signal that comes before there are handlers for it waits.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if not child:
        if own_group:
            os.setpgrp()
        die_with(supervisor)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    status = 1
    try:
        os.setsid()  # what is sent to the group or by the terminal goes to the command itself
        if own_group:
            with suppress(OSError):  # the child does the same; either may be first
                os.setpgid(child, child)
        status = _supervise(child, alive, own_group=own_group)
    finally:
        os._exit(status)


def _supervise(child: int, alive: int, *, own_group: bool) -> int:
    """Waits for a command's end or this process's parent's; ends all that is left."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            if own_group:
                os.killpg(child, number)
            else:
                os.kill(child, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    # Among others the output's, and the one by which our parent sees that the command has begun.
    for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - {alive}:
        with suppress(OSError):  # the one of the listing
            os.close(descriptor)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    if not _has_ended_before(child, alive):
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    # Until the child has been waited for, its id and its group's can be no other's.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    _, state = os.waitpid(child, 0)
    _end_descendants()
    if os.WIFSIGNALED(state):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ended_by = os.WTERMSIG(state)
        if ended_by != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    return os.WEXITSTATUS(state)


def _has_ended_before(child: int, alive: int) -> bool:
    """Waits for a child's end, or for that of whoever holds a pipe; whether the child has ended."""
    watched = [alive]
    step = _POLL_SECONDS
    with suppress(OSError, AttributeError):  # Linux < 5.3
        watched.append(os.pidfd_open(child))
        step = _LOOK_SECONDS
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if alive in select.select(watched, [], [], step)[0]:
            return False
    return True


def _end_descendants() -> None:
    """Ends all processes below this one, which adopts those whose parents end."""
    until = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < until and (left := descendants(os.getpid())):
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):  # some become ours only when their parents end
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_STEP_SECONDS)


_SENT_ON = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_for(
    process: subprocess.Popen[bytes],
    waited: Sequence[signal.Signals] = (signal.SIGINT,),
    *,
    repeated: signal.Signals | None = None,
) -> Iterator[None]:
    """Passes SIGTERM and SIGHUP on to a command, and ignores those that the terminal sends it.

    Args:
        waited: signals that the terminal sends to the command as well: this process goes on, to
            read its output.
        repeated: what is sent to the command for a waited signal that comes again; None: nothing.
    """
    count = 0

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    def wait(number: int, frame: FrameType | None) -> None:
        """Waits: the terminal sends the signal to the command as well."""
        nonlocal count
        count += 1
        if count > 1 and repeated is not None:
            process.send_signal(repeated)

    handlers = {**dict.fromkeys(waited, wait), **dict.fromkeys(_SENT_ON, pass_on)}
    previous_handlers = {
        number: signal.signal(number, handler) for number, handler in handlers.items()
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
