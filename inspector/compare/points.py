"""Points: jobs that each compile a kernel in one way, in threads of this process or by an executor.

What is made of a point's report is stored beside its compile, so that a second run neither compiles
nor analyses.

Runs compiles on a Dask cluster, for sweeps and trials that outgrow one machine.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError, unforeseen
from ..base.version import VERSION
from ..model import ErrorRecord, KernelReport
from ..pipeline.analysis_options import Overrides
from ..pipeline.jobs import CompileOutcome, Job, compile_and_report

if TYPE_CHECKING:
    from ..compile.pool import Compiler, CompileSettings


Kept = TypeVar("Kept")
Key = TypeVar("Key")
Outcome = TypeVar("Outcome")


class Ran(Struct, Generic[Kept], frozen=True):
    """What became of one job: what was made of its report, or why there is none."""

    kept: Kept | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float


def run(
    job: Job,
    compiler: Compiler | None,
    note: str,
    made: Callable[[KernelReport], Kept],
    kind: type[Kept],
) -> Ran[Kept]:
    """Compiles and analyses a point, in any thread or process, or takes it from the store.

    Args:
        compiler: this process's workers; None: a cached one per process and settings.
        note: the store's name for it beside the compile: it holds all else that it depends on.
        made: what is kept of the report, of type `kind`.

    Raises:
        KinspectError: nothing can be compiled at all: no usable Triton, or an unwritable store.
    """
    if job.hip is not None:
        outcome = compiled(job)
        kept = made(outcome.reports[0]) if outcome.reports else None
        return Ran(kept, outcome.error, outcome.from_store, outcome.seconds)
    from ..compile.pool import compiler_of_process

    compiler = compiler_of_process(job.settings) if compiler is None else compiler
    started = time.perf_counter()
    # A compile with its pass dump serves as well.
    keys = (compiler.key(job.variant), compiler.key(job.variant, passes=True))
    # Keys do not cover `overrides`, such as LDS: what depends on them is not stored.
    is_storable = job.overrides == Overrides() and compiler.settings.read_store
    if is_storable:
        for data in filter(None, (compiler.store.noted(key, note) for key in keys)):
            if (stored := decoded(data, kind)) is not None:
                return Ran(stored, None, True, time.perf_counter() - started)
    outcome = compiled(job, compiler)
    seconds = time.perf_counter() - started
    if not outcome.reports:
        return Ran(None, outcome.error, outcome.from_store, seconds)
    report = outcome.reports[0]  # a TTIR module holds one kernel
    kept = made(report)
    if is_storable and _is_lasting(job, report):
        for key in keys:  # does nothing if there is no such entry
            compiler.store.note(key, note, msgspec.json.encode(kept))
    return Ran(kept, None, outcome.from_store, seconds)


def compiled(job: Job, compiler: Compiler | None = None) -> CompileOutcome:
    """Compiles and analyses one variant, of Triton or a HIP source, in any thread or process.

    Args:
        compiler: this process's workers; None: a cached one per process and settings.
    """
    if job.hip is not None:
        from ..pipeline.hip_sources import compile_point

        return compile_point(job)
    return compile_and_report(job, compiler)


def _is_lasting(job: Job, report: KernelReport) -> bool:
    """Whether another run finds the same; a busy machine may be why no time is known."""
    return report.time is not None or job.analysis.time is None or job.variant.passed is None


def decoded(data: bytes, kind: type[Kept]) -> Kept | None:
    """What was kept, from the store; None where it is damaged."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Points(Generic[Key, Outcome]):
    """The jobs of one run, each with a key; a context, which ends what still runs.

    Args:
        task: what is done with a job; for processes it must be picklable.
        failed: the outcome of a job that raised an exception, which is an error of it alone.
        executor: where jobs run; None starts `threads` threads, each with a worker.
        work: the function of the executor's tasks in place of `task`.
    """

    def __init__(
        self,
        settings: CompileSettings,
        threads: int,
        task: Callable[..., Outcome],
        failed: Callable[[ErrorRecord], Outcome],
        executor: Executor | None = None,
        work: Callable[[Job], Outcome] | None = None,
    ) -> None:
        from ..compile.pool import Compiler  # only where something is compiled

        self.compiler = Compiler(settings)
        self.unfinished = 0
        self._threads = threads
        self._failed = failed
        self._own = ThreadPoolExecutor(threads, "kinspect") if executor is None else None
        self._executor: Executor = executor or self._own  # type: ignore[assignment]
        # Threads share the compiler; another process makes its own from the settings.
        self._work = work or (partial(task, compiler=self.compiler) if self._own else task)
        self._jobs: dict[Future[Outcome], tuple[Key, Job]] = {}
        self._ready: SimpleQueue[Future[Outcome]] = SimpleQueue()

    def __enter__(self) -> Points[Key, Outcome]:
        self.compiler.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is not None:
                # There will be no result: running compiles are ended, not waited for.
                self.compiler.abort()
            self.cancel()
            if self._own is not None:
                self._own.shutdown(wait=True, cancel_futures=True)
            self.compiler.store.tidy()
        finally:
            self.compiler.__exit__(kind, error, traceback)

    def prestart(self) -> None:
        """Starts the workers of this process, where it compiles by itself."""
        if self._own is not None:
            self.compiler.prestart(self._threads)

    def submit(self, key: Key, job: Job) -> None:
        """Has a job run."""
        future = self._executor.submit(self._work, job)
        self._jobs[future] = key, job
        self.unfinished += 1
        future.add_done_callback(self._ready.put)

    def finished(self, seconds: float | None = 0.0) -> Iterator[tuple[Key, Outcome]]:
        """Yields what has finished.

        Args:
            seconds: that it waits for the first; None: as long as it takes.
        """
        with suppress(Empty):
            while True:
                future = self._ready.get(seconds != 0, seconds)
                seconds = 0.0
                if future.cancelled():
                    continue
                self.unfinished -= 1
                key, job = self._jobs[future]
                yield key, self._outcome(job, future)

    def submitted(self) -> list[tuple[Key, Job]]:
        """All jobs so far."""
        return list(self._jobs.values())

    def cancel(self) -> None:
        """Cancels the jobs that have not begun."""
        for future in self._jobs:
            future.cancel()

    def _outcome(self, job: Job, future: Future[Outcome]) -> Any:
        try:
            return future.result()
        except KinspectError as error:
            return self._failed(job.record("compile", error))
        except Exception as error:
            return self._failed(job.record("analyze", unforeseen(error)))


CONNECT_SECONDS = 10.0


class ExpectedSoftware(Struct, frozen=True):
    """The software that a worker must have for its results to be those of this machine.

    `host` is the machine that asks; `own_python` lets a worker compile with the interpreter that
    it runs in, where the user named none.
    """

    version: str
    triton_key: str
    host: str
    own_python: bool


class Cluster(Struct, frozen=True):
    """A connected cluster: where tasks go, and how many can run at a time."""

    executor: Executor
    threads: int


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """A cluster's executor, until the block ends.

    Args:
        address: address of the scheduler, e.g. `tcp://host:8786`.

    Raises:
        KinspectError: Dask is not installed, nobody answers there, or there are no workers.
    """
    try:
        # Half a second: only for those who have a cluster.
        from distributed import Client
    except ImportError:
        raise KinspectError(
            "--scheduler needs Dask, which is not installed", "pip install 'kinspect[dask]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        message = " ".join(str(error).split())
        raise KinspectError(
            f"no Dask scheduler answers at {address}: {message}", "start one with: dask scheduler"
        ) from None
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise KinspectError(
                f"the Dask scheduler at {address} has no workers",
                f"start some with: dask worker {address} --nthreads 1",
            )
        threads = sum(int(worker["nthreads"]) for worker in workers.values())
        yield Cluster(client.get_executor(), threads)
    finally:
        with suppress(Exception):  # the results are here; a lost scheduler takes nothing back
            client.close(timeout=CONNECT_SECONDS)


class HostedOutcome(Protocol):
    """A struct with the outcome of a job, and the machine that has the artifacts."""

    @property
    def host(self) -> str | None:
        """None for the machine that asks."""
        ...


Hosted = TypeVar("Hosted", bound=HostedOutcome)


def work_for(
    triton_key: str, python: str | None, task: Callable[[Job, Compiler], Hosted]
) -> Callable[[Job], Hosted]:
    """The function of the cluster's tasks: a picklable `task` that checks its machine first.

    Args:
        python: the interpreter that the user named; None for each worker's own.
        task: what is done with a job: a function of a module.
    """
    expected = ExpectedSoftware(VERSION, triton_key, socket.gethostname(), python is None)
    return partial(_run_there, expected, task)


def _run_there(
    expected: ExpectedSoftware, task: Callable[[Job, Compiler], Hosted], job: Job
) -> Hosted:
    """Runs in a worker."""
    from ..compile.pool import compiler_of_process

    host = socket.gethostname()
    if expected.version != VERSION:
        raise KinspectError(
            f"the worker on {host} has kinspect {VERSION}, not {expected.version}",
            "install the same version there",
        )
    if expected.own_python:
        job = replace(job, settings=replace(job.settings, python=sys.executable))
    compiler = compiler_of_process(job.settings)
    if compiler.toolchain().triton_key != expected.triton_key:
        raise KinspectError(
            f"the worker on {host} has another build of Triton"
            f" ({compiler.toolchain().triton_version})",
            "install the same one there: another compiler gives other code",
        )
    outcome: Any = task(job, compiler)
    hosted: Hosted = replace(outcome, host=host if host != expected.host else None)
    return hosted
