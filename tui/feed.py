"""Runs the pipeline in a child process, whose events the UI fetches at its own pace.

Analysis is hundreds of milliseconds of Python at a time: in a thread it would delay every key
press. A process does not, can be ended at any moment, and leaves the UI running if it dies. The
process and its compilers end once its standard input is closed: when the run is stopped, and when
the UI ends for any reason.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any

from msgspec import Struct

from ..inspector.model import ErrorRecord
from ..inspector.pipeline.events import Failed, Happening
from ..inspector.pipeline.jobs import Request
from . import child_process

GRACE_SECONDS = 8.0
"""Time that a stopped run has to end its compilers before it is killed."""


class RunEnded(Struct, frozen=True):
    """The last event of every run."""


class Feed:
    """Runs a request in a child process and queues its events.

    Args:
        request: the targets and options of the run.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._events: queue.SimpleQueue[Happening | RunEnded] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="kinspect feed", daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the run's process; None before it is started."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the run."""
        self._thread.start()

    def new_events(self, limit: int = 500) -> Iterator[Happening | RunEnded]:
        """Yields the events since the last call, at most `limit`; never waits."""
        for _ in range(limit):
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return

    def stop(self, seconds: float = 5.0) -> None:
        """Ends the run and its compilers.

        Args:
            seconds: how long to wait for them at most.
        """
        with self._lock:
            self._stopped.set()
            process = self._process
            if process is not None:
                process.terminate()
                if process.stdin is not None:
                    with contextlib.suppress(OSError):
                        process.stdin.close()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        # The process's error output, for when it dies without reporting an error as an event.
        with tempfile.TemporaryFile() as errors:
            try:
                process = self._start_process(errors)
                if process is not None:
                    self._receive(process, errors)
            except OSError as error:
                self._fail(f"the process that analyses cannot be started: {error.strerror}")
            finally:
                self._events.put(RunEnded())

    def _start_process(self, errors: IO[bytes]) -> subprocess.Popen[bytes] | None:
        """Starts the process and sends it the request; None when the run is stopped already."""
        with self._lock:
            if self._stopped.is_set():
                return None
            process = self._process = subprocess.Popen(
                child_process.command(f"{__package__}.feed_child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C in the terminal is for the UI, which then stops the run.
                start_new_session=True,
            )
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # stopped already
            pickle.dump(self.request, process.stdin)
            process.stdin.flush()
        return process

    def _receive(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        """Queues the process's events until it ends; a crash becomes a failure."""
        assert process.stdout is not None
        complete = False
        with process.stdout as stream:
            while not self._stopped.is_set():
                message: Any = None
                try:
                    message = pickle.load(stream)
                except (EOFError, pickle.UnpicklingError, OSError):
                    break
                if message is None:
                    complete = True
                    break
                self._events.put(message)
        try:
            status = process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if not complete and not self._stopped.is_set():
            self._fail(f"the process that analyses {child_process.ending(status, errors)}")

    def _fail(self, message: str) -> None:
        hint = "free memory or use fewer --jobs; else please report it"
        target = " ".join(self.request.targets)
        self._events.put(Failed((0, 0), ErrorRecord(target, None, "analyze", message, hint)))
