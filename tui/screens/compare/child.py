"""Compares two large kernels in a child process, whose `main` is below.

Aligning thousands of instructions holds the interpreter's lock for tenths of a second, which would
freeze the screen. The process's standard input carries the two reports, its standard output the
result: `Compared`, or a text that says why there is none. Both are pickled.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ....inspector.errors import KinspectError
from ....inspector.explain import view
from ....inspector.model import KernelReport
from .both import Compared, compared

CHILD_BYTES = 150_000
"""Bytes of assembly of both kernels together from which on a process pays for its start."""
_POLL_SECONDS = 0.1  # seconds


def compared_in_child(
    left: KernelReport, right: KernelReport, is_cancelled: Callable[[], bool]
) -> Compared | str:
    """Compares two kernels as `compared` does, large ones in a child process.

    Args:
        left: the old kernel.
        right: the new kernel.
        is_cancelled: polled while the process runs, which is ended once it returns True.

    Returns:
        The comparison, or why there is none.
    """
    if sum(map(_size, (left, right))) < CHILD_BYTES:
        return _compared(left, right)
    # Not by -m: pickles of classes in __main__ could not be read here.
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # the process has died: unpickling fails below
            pickle.dump((left, right), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        packed = _received(process.stdout.fileno(), is_cancelled)
    finally:
        process.kill()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        process.wait()
    try:
        result: Compared | str = pickle.loads(packed)
    except (EOFError, pickle.UnpicklingError):
        return "the process that compares has ended; choose them again"
    return result


def _size(report: KernelReport) -> int:
    """The size in bytes of a kernel's assembly, or of the file that it was read from."""
    artifact = report.artifacts.get("amdgcn")
    path = artifact.path if artifact is not None else Path(view.path_of(report))
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _compared(left: KernelReport, right: KernelReport) -> Compared | str:
    try:
        return compared(left, right)
    except KinspectError as error:
        return str(error)
    except Exception as error:
        # A bug must be seen on the page, not end the UI.
        return f"internal error: {type(error).__name__}: {error}"


def _received(stream: int, is_cancelled: Callable[[], bool]) -> bytes:
    """The bytes from a pipe up to its end, or until the comparison is cancelled."""
    buffer = bytearray()
    while not is_cancelled():
        if not select.select([stream], [], [], _POLL_SECONDS)[0]:
            continue
        read = os.read(stream, 1 << 20)
        if not read:
            break
        buffer += read
    return bytes(buffer)


def main() -> None:
    """Compares the kernels on standard input; the body of the child process."""
    left, right = pickle.load(sys.stdin.buffer)
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of other code must not get into the result
    pickle.dump(_compared(left, right), channel, pickle.HIGHEST_PROTOCOL)
    channel.flush()
