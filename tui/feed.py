"""Runs the pipeline in a child process, whose events the UI fetches when it is told of them.

Analysis is hundreds of milliseconds of Python at a time: in a thread it would delay every key
press. A process does not, can be ended at any moment, and leaves the UI running if it dies. The
process and its compilers end once its standard input is closed: when the run is stopped, and when
the UI ends for any reason.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from ..inspector.base import named_files
from ..inspector.base.errors import KinspectError
from ..inspector.model import ErrorRecord
from ..inspector.pipeline.events import Failed, Happening
from ..inspector.pipeline.jobs import Request
from .child_process import MessagingChild


class RunEnded(Struct, frozen=True):
    """The last event of every run."""


class Feed:
    """Runs a request in a child process and queues its events.

    Args:
        notify: called in a thread when there are events, and not again before they are fetched.
    """

    def __init__(self, request: Request, notify: Callable[[], object] = lambda: None) -> None:
        self.request = request
        for target in request.targets:  # texts are read here, the rest by the child
            named_files.allow_target(Path(target.partition("::")[0]))
        self._notify = notify
        self._notified = False
        self._events: queue.SimpleQueue[Happening | RunEnded] = queue.SimpleQueue()
        self._child = MessagingChild(f"{__package__}.feed_child:feed", request, "analyses")
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="kinspect feed", daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the run's process; None before it is started."""
        return self._child.pid

    def start(self) -> None:
        self._thread.start()

    def new_events(self, limit: int = 500) -> Iterator[Happening | RunEnded]:
        """Yields the events since the last call, at most `limit`; never waits."""
        self._notified = False
        for _ in range(limit):
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return
        self._notify_once()

    def stop(self, seconds: float = 5.0) -> None:
        """Ends the run and its compilers.

        Args:
            seconds: how long to wait for them at most.
        """
        self._stopped = True
        self._child.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        """Queues the process's events until it ends; a crash becomes a failure."""
        try:
            for kind, event in self._child.messages():
                if kind == "allowed":
                    named_files.restore(event)
                else:
                    self._put(event)
        except KinspectError as error:
            if not self._stopped:
                target = " ".join(self.request.targets)
                record = ErrorRecord(target, None, "analyze", error.message, error.hint)
                self._put(Failed((0, 0), record))
        finally:
            self._put(RunEnded())

    def _put(self, event: Happening | RunEnded) -> None:
        self._events.put(event)
        self._notify_once()

    def _notify_once(self) -> None:
        if not self._notified:
            self._notified = True
            self._notify()
