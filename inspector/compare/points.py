"""Points: jobs that each compile a kernel in one way, in threads of this process or by an executor.

What is made of a point's report is stored beside its compile, so that a second run neither compiles
nor analyses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from ..base.errors import KinspectError, unforeseen
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

    Of a HIP source only the code is stored, by `hip_sources.compiled`.

    Args:
        compiler: as of `compile_job`.
        note: the store's name for it beside the compile: it holds all else that it depends on.
        made: what is kept of the report, of type `kind`.

    Raises:
        KinspectError: nothing can be compiled at all: no usable Triton, or an unwritable store.
    """
    if job.hip is not None:
        outcome = compile_job(job)
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
            if (stored := stored_value(data, kind)) is not None:
                return Ran(stored, None, True, time.perf_counter() - started)
    outcome = compile_job(job, compiler)
    seconds = time.perf_counter() - started
    if not outcome.reports:
        return Ran(None, outcome.error, outcome.from_store, seconds)
    report = outcome.reports[0]  # a TTIR module holds one kernel
    kept = made(report)
    if is_storable and _is_lasting(job, report):
        for key in keys:  # does nothing if there is no such entry
            compiler.store.note(key, note, msgspec.json.encode(kept))
    return Ran(kept, None, outcome.from_store, seconds)


def compile_job(job: Job, compiler: Compiler | None = None) -> CompileOutcome:
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


def stored_value(data: bytes, kind: type[Kept]) -> Kept | None:
    """Returns what the store has of a point; None where it is damaged."""
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
