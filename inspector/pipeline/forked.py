"""Many targets that are read, by several processes: forks of this one.

Each worker is sent the numbers of targets and sends back what was made of them. One that dies (a
bug in a parser, no memory left) takes the target with it that it was at and no other.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from msgspec import Struct, field

from ..capture.targets import Target
from ..errors import KinspectError, unforeseen
from .events import Failed
from .jobs import record
from .reading import Made, Work, interrupted, read_target

LEAST_BYTES = 1 << 20
"""What a fork is worth: reading this much assembly takes half a second."""
_AHEAD = 2  # targets that a worker has at hand, so that it never waits for the next

Indexed = tuple[int, Target]


def worth_it(targets: Sequence[Indexed], jobs: int) -> bool:
    """Whether several processes would be faster than this one, and can be had.

    Forks are safe on Linux alone, and only while there is no second thread.
    """
    if jobs < 2 or len(targets) < 2 or sys.platform != "linux" or threading.active_count() > 1:
        return False
    size = 0
    for _, target in targets:
        try:
            size += target.path.stat().st_size
        except OSError:
            continue  # said when it is read
        if size >= LEAST_BYTES:
            return True
    return False


def read_targets(targets: Sequence[Indexed], work: Work) -> Iterator[Made | Failed]:
    """Reports on all targets, as they come.

    Args:
        targets: each with its place in the run.
        work: what to do, in at most `work.request.jobs` processes.

    Yields:
        As `read_target` does, those of one target together and in order. An interrupt (Ctrl-C)
        yields what is done by then and one `Failed` that says how much is not.
    """
    left = deque(range(len(targets)))
    # The first warms what is read once per process (tables, rules): the forks have it then.
    first = left.popleft()
    done = 0
    workers: list[_Worker] = []
    try:
        yield from read_target(*targets[first], work)
        done += 1
        gc.collect()
        gc.freeze()  # or the workers' collector would copy every page that it looks at
        for _ in range(min(work.request.jobs, len(left))):
            workers.append(_start(targets, work, workers))
        while workers:
            for ahead in range(1, _AHEAD + 1):  # one for each before a second for any
                for worker in workers:
                    if left and len(worker.pending) < ahead:
                        worker.give(left.popleft())
            for worker in [w for w in workers if not w.pending]:
                workers.remove(worker)  # nothing is left for it: it would wait forever
                worker.end()
            for worker in _ready(workers):
                answer = worker.answer()
                if answer is not None:
                    done += 1
                    yield from answer
                elif worker.pending:
                    lost = worker.pending.popleft()
                    left.extendleft(reversed(worker.pending))
                    worker.pending.clear()
                    done += 1
                    yield _died(targets[lost], worker.process)
                if answer is None:
                    workers.remove(worker)
                    worker.end()
                    if left:
                        workers.append(_start(targets, work, workers))
    except KeyboardInterrupt:
        for worker in _ready(workers, 0):
            answer = worker.answer()
            done += answer is not None
            yield from answer or ()
        index, target = targets[-1]
        yield interrupted(target, index, done, len(targets))
        raise
    finally:
        for worker in workers:
            worker.process.kill()
            worker.end()
        gc.unfreeze()


def _died(at: Indexed, process: ForkProcess) -> Failed:
    index, target = at
    process.join()
    code = process.exitcode or 0
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    error = KinspectError(
        f"internal error: the process that read it ended with {how}",
        "please report it; or free memory, and use fewer --jobs",
    )
    return Failed((index, 0), record(target, "read", error))


# --------------------------------------------------------------------------- a worker


class _Worker(Struct):
    """A worker as its parent sees it; `pending` are the targets that it has not answered for."""

    process: ForkProcess
    pipe: Connection
    pending: deque[int] = field(default_factory=deque)

    def give(self, number: int) -> None:
        """Sends it a target."""
        self.pending.append(number)
        with contextlib.suppress(OSError):  # it has died: seen when its answer is waited for
            self.pipe.send(number)

    def answer(self) -> list[Made | Failed] | None:
        """What it has to say of the next of its targets; None: it has died."""
        try:
            outcomes: list[Made | Failed] = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.pending.popleft()
        return outcomes

    def end(self) -> None:
        """Waits until it has ended; without its pipe it does."""
        self.pipe.close()
        self.process.join()


def _ready(workers: Sequence[_Worker], seconds: float | None = None) -> list[_Worker]:
    ready = wait([worker.pipe for worker in workers], seconds) if workers else ()
    return [worker for worker in workers if worker.pipe in ready]


def _start(targets: Sequence[Indexed], work: Work, siblings: Sequence[_Worker]) -> _Worker:
    parent_end, worker_end = multiprocessing.Pipe()
    unwanted = [parent_end, *(sibling.pipe for sibling in siblings)]
    context = multiprocessing.get_context("fork")
    process = context.Process(
        target=_serve, args=(targets, work, worker_end, unwanted), daemon=True
    )
    process.start()
    worker_end.close()
    return _Worker(process, parent_end)


def _serve(
    targets: Sequence[Indexed], work: Work, pipe: Connection, unwanted: Sequence[Connection]
) -> None:
    """What a worker does: answers for one target after the other until its pipe is closed."""
    for connection in unwanted:
        connection.close()  # or it would keep a sibling's pipe open whose parent has gone
    # Ctrl-C reaches the whole group: the parent says what becomes of the run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            os._exit(0)
        index, target = targets[number]
        answer = list(read_target(index, target, work))
        try:
            pipe.send(answer)
        except Exception as error:  # what was made of it is no plain value
            pipe.send([Failed((index, 0), record(target, "analyze", unforeseen(error)))])
