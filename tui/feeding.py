"""What the process of a run does: the pipeline's events, written to a stream."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import IO, TYPE_CHECKING, cast

from kinspect.inspector import pipeline
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import ErrorRecord
from kinspect.inspector.runs.events import Event, Failed
from kinspect.inspector.runs.jobs import Request

if TYPE_CHECKING:
    from collections.abc import Generator


def feed(request: Request, stream: IO[bytes]) -> None:
    """Runs a request; writes its events and then None, each pickled.

    Args:
        request: the run.
        stream: where to.
    """
    target = " ".join(request.targets)
    events = cast("Generator[Event, None, None]", pipeline.analyze(request))
    try:
        with closing(events):
            for event in events:
                _write(event, stream)
    except KinspectError as error:
        _write(Failed((0, 0), ErrorRecord(target, None, "open", error.message, error.hint)), stream)
    except Exception as error:
        # A bug must be seen in the UI, with all that was done by then.
        said = f"internal error: {type(error).__name__}: {error}"
        bug = ErrorRecord(target, None, "analyze", said, "please report it")
        _write(Failed((0, 0), bug), stream)
    _write(None, stream)


def _write(event: Event | None, stream: IO[bytes]) -> None:
    pickle.dump(event, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()
