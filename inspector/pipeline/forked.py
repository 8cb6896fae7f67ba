"""Reads saved targets in several processes, which are forks of this one."""

from __future__ import annotations

import contextlib
import functools
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..base.errors import KinspectError, unforeseen
from ..base.lifetimes import die_with
from ..base.named_files import own_cache
from ..base.status import counted
from ..capture.targets import Target
from ..model import KernelReport
from .error_records import target_record
from .events import Failed
from .reading import Transformed, Work, interrupted, read_target
from .stored_reports import StoredReports

MIN_BYTES = 1 << 19
"""Size of targets from which on forking pays: reading this much assembly takes a quarter second."""
_TARGETS_AHEAD = 2
"""Targets that a worker has been sent at a time, so that it never waits for the next."""

Indexed = tuple[int, Target]
"""A target with its place in the run."""
Outcomes = list[Transformed | Failed]
"""The results of one target: its transformed reports, and what could not be read."""


def is_worthwhile(targets: Sequence[Indexed], jobs: int) -> bool:
    """Tells whether several processes are possible here and would be faster than this one.

    Forks are safe on Linux alone, and only while there is no second thread.
    """
    if jobs < 2 or len(targets) < 2 or sys.platform != "linux" or threading.active_count() > 1:
        return False
    size = 0
    for _, target in targets:
        try:
            size += target.path.stat().st_size
        except OSError:
            continue  # reported when it is read
        if size >= MIN_BYTES:
            return True
    return False


def read_targets(targets: Sequence[Indexed], work: Work) -> Iterator[Transformed | Failed]:
    """Reads all targets and yields their outcomes in the order in which they are finished.

    Yields:
        As `read_target` does, the outcomes of one target together and in order. An interrupt
        (Ctrl-C) yields the outcomes finished so far and one `Failed` that counts the others.
    """
    first, *later = range(len(targets))
    work = replace(work, stored=StoredReports(own_cache()))
    pool = _Pool(targets, work, later)
    finished = 0
    try:
        # This process reads the first: tables and rules, which are read once per process, are
        # loaded by it before the forks.
        yield from read_target(*targets[first], work)
        finished += 1
        gc.freeze()  # or the workers' collector would copy every page that it looks at
        for outcomes in pool.outcomes():
            finished += 1
            counted(f"read {finished} of {len(targets)} files")
            yield from outcomes
    except KeyboardInterrupt:
        for outcomes in pool.finished_outcomes():
            finished += 1
            yield from outcomes
        index, target = targets[-1]
        yield interrupted(target, index, read=finished, total=len(targets))
        raise
    finally:
        pool.kill()
        gc.unfreeze()


class _Pool:
    """The workers, and the numbers of the targets that were not sent to any yet.

    Args:
        waiting: the numbers of those that the workers are to read.
    """

    def __init__(self, targets: Sequence[Indexed], work: Work, waiting: Iterable[int]) -> None:
        self._targets = targets
        self._work = work
        self._waiting = deque(waiting)
        self._workers: list[_Worker] = []

    def outcomes(self) -> Iterator[Outcomes]:
        """Starts the workers; yields the outcomes of each target as it is finished."""
        for _ in range(min(self._work.request.jobs, len(self._waiting))):
            self._start_worker()
        while self._workers:
            self._hand_out()
            self._end_idle_workers()
            for worker in _ready(self._workers):
                outcomes = worker.receive()
                if outcomes is None:
                    outcomes = [self._replace(worker)]
                yield outcomes

    def finished_outcomes(self) -> Iterator[Outcomes]:
        """Yields the outcomes that workers have sent already; waits for nothing."""
        for worker in _ready(self._workers, 0):
            outcomes = worker.receive()
            if outcomes is not None:
                yield outcomes

    def kill(self) -> None:
        """Ends all workers at once."""
        for worker in self._workers:
            worker.process.kill()
            worker.end()

    def _hand_out(self) -> None:
        """Sends targets: one to every worker before a second one to any."""
        for ahead in range(1, _TARGETS_AHEAD + 1):
            for worker in self._workers:
                if self._waiting and len(worker.pending) < ahead:
                    worker.send(self._waiting.popleft())

    def _end_idle_workers(self) -> None:
        """Ends the workers that have no target left; they would wait for ever."""
        for worker in [worker for worker in self._workers if not worker.pending]:
            self._workers.remove(worker)
            worker.end()

    def _replace(self, dead: _Worker) -> Failed:
        """Puts another worker in a dead one's place; returns the failure of its target."""
        self._workers.remove(dead)
        dead.end()
        lost = dead.pending.popleft()
        self._waiting.extendleft(reversed(dead.pending))
        if self._waiting:
            self._start_worker()
        return _death(self._targets[lost], dead.process)

    def _start_worker(self) -> None:
        """Forks a worker; in it, the parent's ends of all pipes are closed."""
        parent_end, worker_end = multiprocessing.Pipe()
        parent_ends = [parent_end, *(worker.pipe for worker in self._workers)]
        context = multiprocessing.get_context("fork")
        arguments = (os.getpid(), self._targets, self._work, worker_end, parent_ends)
        process = context.Process(target=_serve, args=arguments, daemon=True)
        process.start()
        worker_end.close()
        self._workers.append(_Worker(process, parent_end))


class _Worker(Struct):
    """A worker as its parent sees it.

    Args:
        pending: numbers of the targets that were sent to it and are not finished, in order.
    """

    process: ForkProcess
    pipe: Connection
    pending: deque[int] = field(default_factory=deque)

    def send(self, number: int) -> None:
        """Sends it a target to read."""
        self.pending.append(number)
        with contextlib.suppress(OSError):  # it has died, which `receive` will notice
            self.pipe.send(number)

    def receive(self) -> Outcomes | None:
        """The outcomes of its next target; None if it has died."""
        try:
            outcomes = _unpacked(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None
        self.pending.popleft()
        return outcomes

    def end(self) -> None:
        """Closes its pipe, upon which it ends, and waits until it has."""
        self.pipe.close()
        self.process.join()


def _ready(workers: Sequence[_Worker], seconds: float | None = None) -> list[_Worker]:
    """Workers that have sent something or died; waits for one, at most so many seconds."""
    ready = wait([worker.pipe for worker in workers], seconds) if workers else ()
    return [worker for worker in workers if worker.pipe in ready]


def _death(indexed: Indexed, process: ForkProcess) -> Failed:
    """The failure of a target whose worker died."""
    index, target = indexed
    code = process.exitcode or 0
    ending = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    error = KinspectError(
        f"internal error: the process that read it ended with {ending}",
        "please report it; or free memory, and use fewer --jobs",
    )
    return Failed((index, 0), target_record(target, "read", error))


def _serve(
    parent: int,
    targets: Sequence[Indexed],
    work: Work,
    pipe: Connection,
    parent_ends: Sequence[Connection],
) -> None:
    """The worker's loop: reads the targets that it is sent until its pipe is closed."""
    die_with(parent)
    for connection in parent_ends:
        connection.close()  # or a sibling's pipe would stay open after the parent has gone
    # Ctrl-C reaches the whole group: the parent says what becomes of the run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            os._exit(0)
        index, target = targets[number]
        outcomes = list(read_target(index, target, work))
        try:
            message = _packed(outcomes)
        except Exception as error:  # `work.transform` made something that cannot be pickled
            failure = target_record(target, "analyze", unforeseen(error))
            message = _packed([Failed((index, 0), failure)])
        pipe.send_bytes(message)


_REPORTS, _ANYTHING = b"r", b"p"
"""The first byte of a message: reports alone follow, in MessagePack, or any outcomes, pickled."""

_Reports = list[tuple[tuple[int, int], KernelReport]]


def _packed(outcomes: Outcomes) -> bytes:
    """The message of some outcomes: reports in MessagePack, a quarter of the work of a pickle."""
    reports = [(item.order, item.value) for item in outcomes if isinstance(item, Transformed)]
    if len(reports) == len(outcomes) and all(isinstance(r, KernelReport) for _, r in reports):
        # Of a report with paths of artifacts there is no MessagePack.
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return _REPORTS + msgspec.msgpack.encode(reports)
    return _ANYTHING + pickle.dumps(outcomes, pickle.HIGHEST_PROTOCOL)


def _unpacked(message: bytes) -> Outcomes:
    kind, body = message[:1], memoryview(message)[1:]
    if kind == _REPORTS:
        return [Transformed(order, report) for order, report in _reports().decode(body)]
    outcomes: Outcomes = pickle.loads(body)
    return outcomes


@functools.cache
def _reports() -> msgspec.msgpack.Decoder[_Reports]:
    return msgspec.msgpack.Decoder(_Reports)
