"""Guests that outlive a run: the tests of a module share them, with PyTorch imported.

Importing PyTorch takes a guest longer than what most scripts of tests do. Each script runs in a
fork of its guest, whichever run the guest was started for: only tests of a guest's own life need
their own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.bench import checking
from kinspect.inspector.compile import pool
from kinspect.inspector.compile.worker import Worker
from torch_beforehand import site_with_torch

MOST_IDLE = 3
"""Of guests that wait for the next run: one captures, two compile. Others are ended."""
OF_ONE_TEST = (
    "PYTEST_CURRENT_TEST",
    "KINSPECT_CACHE_DIR",
    "KINSPECT_DATA_DIR",
    "KINSPECT_STATE_DIR",
)
"""Variables in which the environments of two tests may differ and still share a guest: it reads
none of them."""


def lasting(environment: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What of an environment decides whether a process can serve another test."""
    return frozenset((k, v) for k, v in environment.items() if k not in OF_ONE_TEST)


_of_session: SharedGuests | None = None


def of_session() -> SharedGuests:
    """The guests that the tests of this process share."""
    assert _of_session is not None, "conftest.py makes them"
    return _of_session


@contextmanager
def made_for_session(folder: Path) -> Iterator[SharedGuests]:
    """Makes what `of_session` returns, and ends all of them."""
    global _of_session
    _of_session = guests = SharedGuests(folder)
    try:
        yield guests
    finally:
        _of_session = None
        guests.end()


class SharedWorker(Worker):
    """A worker whose guest goes back to those that wait when its run closes it."""

    def __init__(self, guests: SharedGuests, python: str, environment: Mapping[str, str]) -> None:
        super().__init__(python, guests.environment(environment))
        self.key = guests.key(python, environment)
        self._guests = guests
        self._reusable = True

    def stream(self, message: Mapping[str, Any], time_limit: float) -> Iterator[dict[str, Any]]:
        self._reusable = False  # until it has answered
        yield from super().stream(message, time_limit)
        self._reusable = True

    def terminate(self) -> None:
        self._reusable = False
        super().terminate()

    def close(self) -> None:
        alive = self._process is not None and self._process.poll() is None
        if not (alive and self._reusable and self._guests.take_back(self)):
            self.end()

    def end(self) -> None:
        """Ends the guest, as other workers do when they are closed."""
        super().close()
        self._reusable = True


class SharedGuests:
    """The guests that wait for the next run of a process.

    Args:
        folder: where the module that imports PyTorch is written.
    """

    def __init__(self, folder: Path) -> None:
        self._site = site_with_torch(folder)
        self._idle: list[SharedWorker] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._ended = False

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of a guest that imports PyTorch first."""
        path = os.pathsep.join(filter(None, (str(self._site), environment.get("PYTHONPATH"))))
        return {**environment, "PYTHONPATH": path}

    def key(self, python: str, environment: Mapping[str, str]) -> tuple[str, object]:
        """What two runs must have in common to share a guest."""
        return python, lasting(environment)

    def lend(
        self, python: str = sys.executable, environment: Mapping[str, str] | None = None
    ) -> Worker:
        """A worker with a guest that waits, or one that will start its own."""
        environment = os.environ if environment is None else environment
        key = self.key(python, environment)
        with self._lock:
            for worker in self._idle if self._pid == os.getpid() else ():
                if worker.key == key:
                    self._idle.remove(worker)
                    return worker
        return SharedWorker(self, python, environment)

    def take_back(self, worker: SharedWorker) -> bool:
        """Keeps a guest for the next run; False: it is to be ended."""
        if self._pid != os.getpid() or self._ended:
            return False
        with self._lock:
            if worker not in self._idle:
                self._idle.append(worker)
            surplus, self._idle = self._idle[:-MOST_IDLE], self._idle[-MOST_IDLE:]
        for old in surplus:
            old.end()
        return True

    def end(self) -> None:
        """Ends all that wait."""
        self._ended = True
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Runs of this process that begin meanwhile have these guests."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (pool, checking):
                patch.setattr(module, "Worker", self.lend)
            yield
