"""Runs the user's program in the foreground: passes signals through and copies its stderr."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from ..base.errors import KinspectError
from ..base.lifetimes import signals_for, supervised

_CHUNK_BYTES = 1 << 16
_LAST_OUTPUT_SECONDS = 2
"""How long stderr is read after the program has ended: a child of it may keep it open."""


@contextmanager
def started(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    tool: str,
    failure: int,
    read_stderr: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the user's command, for the block to follow to its end; see `lifetimes.supervised`.

    Args:
        read_stderr: whether its stderr goes through a pipe, for `wait` to copy.

    Raises:
        KinspectError: it cannot be started.
    """
    sys.stdout.flush()
    stderr = subprocess.PIPE if read_stderr else None
    with ExitStack() as stack:
        try:
            process = stack.enter_context(supervised(command, environment, stderr=stderr))
        except OSError as error:
            raise _start_error(error, command, tool, failure) from None
        yield process


def _start_error(error: OSError, command: Sequence[str], tool: str, failure: int) -> KinspectError:
    hint = "name a program, as you would without kinspect"
    if command[0].endswith(".py"):
        hint = f"did you mean `{tool} -- python {' '.join(command)}`?"
    reason = error.strerror or str(error)
    return KinspectError(f"{command[0]}: cannot be run ({reason})", hint, failure)


def shell_status(status: int) -> int:
    """Returns the exit status of a process as a shell has it: 128 + N if signal N ended it."""
    return 128 - status if status < 0 else status


def wait(process: subprocess.Popen[bytes], stderr_copy: Path) -> int:
    """Follows a command, whose stderr is read, to its end."""
    assert process.stderr is not None
    with (
        signals_for(process, (signal.SIGINT, signal.SIGQUIT)),
        stderr_copy.open("wb") as copy,
    ):
        reader = threading.Thread(target=_copy_stderr, args=(process.stderr, copy), daemon=True)
        reader.start()
        status = process.wait()
        reader.join(timeout=_LAST_OUTPUT_SECONDS)
    return shell_status(status)


def _copy_stderr(source: IO[bytes], copy: IO[bytes]) -> None:
    """Copies the program's stderr to ours and to a file, until the program closes it."""
    own_stderr: int | None = sys.stderr.fileno()
    while chunk := os.read(source.fileno(), _CHUNK_BYTES):
        if not copy.closed:
            copy.write(chunk)
        if own_stderr is not None:
            try:
                _write_all(own_stderr, chunk)
            except OSError:
                own_stderr = None


def _write_all(descriptor: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]
