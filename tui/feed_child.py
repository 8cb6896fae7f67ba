"""The process that runs the pipeline for the UI, started by `feed.Feed`.

It reads the request from its standard input and writes events to its standard output, pickled;
`None` is the last. It has a single thread, because the pipeline forks it to read many files.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from ..inspector.errors import KinspectError
from ..inspector.model import ErrorRecord
from ..inspector.pipeline import collecting as pipeline
from ..inspector.pipeline import profiling
from ..inspector.pipeline.events import Failed, Happening, Profiled, Reported
from ..inspector.pipeline.jobs import Request
from ..inspector.pipeline.recording_input import is_recording
from . import child_process

if TYPE_CHECKING:
    from collections.abc import Generator


def main() -> None:
    """Runs the request on standard input; the body of the process."""
    channel = child_process.result_channel()
    child_process.interrupt_on_signals()
    status = 0
    try:
        request = pickle.load(sys.stdin.buffer)
        child_process.interrupt_on_closed_input()
        feed(request, channel)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        status = 1
    finally:
        with suppress(OSError):
            channel.flush()
    os._exit(status)  # at once: nothing is left to clean up


def feed(request: Request, stream: IO[bytes]) -> None:
    """Runs a request and writes its events and then None, each pickled.

    Args:
        request: the targets and options of the run.
        stream: the channel to the UI's process.
    """
    target = " ".join(request.targets)
    events = _events(request)
    try:
        with closing(events):
            for event in events:
                _write(event, stream)
    except KinspectError as error:
        _write(Failed((0, 0), ErrorRecord(target, None, "open", error.message, error.hint)), stream)
    except Exception as error:
        # A bug must be seen in the UI, beside everything that was analysed before it.
        message = f"internal error: {type(error).__name__}: {error}"
        bug = ErrorRecord(target, None, "analyze", message, "please report it")
        _write(Failed((0, 0), bug), stream)
    _write(None, stream)


def _events(request: Request) -> Generator[Happening, None, None]:
    """Yields a run's events: a recording with its kernels, or the targets' kernels."""
    first = Path(request.targets[0])
    if not is_recording(first):
        yield from pipeline.analyze(request)
        return
    options = profiling.Options(
        targets=request.targets[1:],
        arch=request.archs[0] if request.archs else None,
        request=replace(request, targets=request.targets[1:]),
    )
    profile = profiling.profile_of(first, options, pipeline.collect)
    yield Profiled(profile)
    for number, report in enumerate(profile.reports):
        yield Reported((0, number), report)
    for error in (*profile.recording.errors, *profile.errors):
        yield Failed((1, 0), error)


def _write(event: Happening | None, stream: IO[bytes]) -> None:
    pickle.dump(event, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()
