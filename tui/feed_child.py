"""The process that runs the pipeline for the UI, started by `feed.Feed`.

It has a single thread, because the pipeline forks it to read many files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..inspector.base import named_files
from ..inspector.base.errors import KinspectError
from ..inspector.model import ErrorRecord
from ..inspector.pipeline import collecting as pipeline
from ..inspector.pipeline import profiling
from ..inspector.pipeline.events import Failed, Happening, Profiled, Reported
from ..inspector.pipeline.jobs import Request
from ..inspector.pipeline.recording_input import is_recording

if TYPE_CHECKING:
    from collections.abc import Generator


def feed(request: Request, send: Callable[[str, Any], None]) -> None:
    target = " ".join(request.targets)
    try:
        with closing(_events(request)) as events:
            allowed = None
            for event in events:
                if named_files.state() != allowed:  # before the kernel whose sources it is about
                    allowed = named_files.state()
                    send("allowed", allowed)
                send("event", event)
    except KinspectError as error:
        record = ErrorRecord(target, None, "open", error.message, error.hint)
        send("event", Failed((0, 0), record))
    except BrokenPipeError:
        raise
    except Exception as error:
        # A bug must be seen in the UI, beside everything that was analysed before it.
        message = f"internal error: {type(error).__name__}: {error}"
        bug = ErrorRecord(target, None, "analyze", message, "please report it")
        send("event", Failed((0, 0), bug))


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
