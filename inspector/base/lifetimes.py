"""Processes that end with the one that started them, however that ends (Linux)."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_PR_SET_PDEATHSIG = 1  # prctl(2)
_ENDING_SECONDS = 5.0
"""For ending processes that start others meanwhile; what hangs in a driver cannot be ended."""
_STEP_SECONDS = 0.005


def die_with(parent: int) -> None:
    """In a child that was just forked: the kernel ends it with the thread that forked it."""
    import ctypes  # in the child: few commands need it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


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

    Args:
        words: its command line, with an absolute path.
        seconds: limit on its time.
        data: its standard input.
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

    return subprocess.run(
        words,
        input=data,
        capture_output=True,
        timeout=seconds,
        cwd=folder,
        env=environment,
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


@contextmanager
def ending_with_this(variable: str) -> Iterator[tuple[str, str]]:
    """Yields a variable and its value for the environment of a command that the block runs.

    If this process ends within the block, so that it can end nothing itself, another one, which
    waits for that, ends all that has the variable. What runs when the block ends goes on.
    """
    value = secrets.token_hex(16)
    alive, held = os.pipe()
    watcher = os.fork()
    if not watcher:
        try:
            os.setsid()  # what is sent to the group or by the terminal is not for it
            os.close(held)
            if not os.read(alive, 1):
                kill_marked(f"{variable}={value}")
        finally:
            os._exit(0)
    os.close(alive)
    try:
        yield variable, value
    finally:
        os.write(held, b"x")
        os.close(held)
        os.waitpid(watcher, 0)
