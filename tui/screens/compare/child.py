"""Compares two big kernels in a process of its own, whose `main` is below.

Aligning thousands of instructions keeps every other thread of its process waiting for tenths of a
second, and with them the screen. Standard input carries the two reports, pickled; standard output
what came of it: Compared, or a text that says why nothing did.
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

BIG = 150_000
"""Bytes of assembly of both together from which on it is worth the start of a process."""
_LOOK = 0.1  # seconds


def compared_away(
    left: KernelReport, right: KernelReport, given_up: Callable[[], bool]
) -> Compared | str:
    """As `compared`, in a process of its own where there is much to compare.

    Args:
        left: what there was.
        right: what there is.
        given_up: asked from time to time; the process is ended then.

    Returns:
        What was found, or why nothing was.
    """
    if sum(map(_size, (left, right))) < BIG:
        return _compared(left, right)
    # Not by -m: what is then called __main__ could not be unpickled here.
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # its end says why
            pickle.dump((left, right), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        packed = _received(process.stdout.fileno(), given_up)
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
    """Bytes of its assembly: among its artifacts, or the file that was read."""
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


def _received(stream: int, given_up: Callable[[], bool]) -> bytes:
    """All that is sent, or what was sent when it was given up."""
    buffer = bytearray()
    while not given_up():
        if not select.select([stream], [], [], _LOOK)[0]:
            continue
        read = os.read(stream, 1 << 20)
        if not read:
            break
        buffer += read
    return bytes(buffer)


def main() -> None:
    """Compares what its standard input names."""
    left, right = pickle.load(sys.stdin.buffer)
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not stand in the answer
    pickle.dump(_compared(left, right), channel, pickle.HIGHEST_PROTOCOL)
    channel.flush()
