"""Runs a sweep: targets -> points -> figures, as a stream of events.

Values of kernel parameters go through the front end: the guest launches the kernel anew for each
(`CaptureOptions.axes`). Options that only the backend reads are set on the same TTIR here. Points
are compiled while the capture still runs. The figures of a point are noted in the store beside
the compile that it follows from, so that a second sweep neither compiles nor analyses.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ... import machines
from ...capture.axes import BACKEND_ONLY, Axis, count, refused_name, unresolved_names
from ...capture.resolving import resolve_all
from ...capture.script import Found
from ...capture.targets import Target, only_of
from ...errors import KinspectError, unforeseen
from ...model import ErrorRecord, Variant
from ...pipeline.analysis import ANALYSIS_VERSION, Overrides
from ...pipeline.capturing import COMPILED, captured
from ...pipeline.jobs import Job, Request, compile_and_report, job_record, settings_of
from ...version import VERSION
from . import figures as figures_room
from .figures import Figures, figures_of
from .table import Gathering, Point, Row, Sweep

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from ...compile.pool import Compiler

MOST_POINTS = 1024
MOST_TUNED = 256
"""Default limit on the points of the TUNING spaces of a file's cases, all together."""
NOTE = f"figures-v{figures_room.FORMAT}-{ANALYSIS_VERSION}-{VERSION}.json"
"""Name of the store's note beside a compile: it holds all else that the figures depend on."""


class SweepRequest(Struct, frozen=True):
    """One sweep.

    Args:
        run: targets, archs and how to compile.
        axes: names and values; none with `autotune` alone.
        autotune: whether all configurations of the file's own autotuners are swept.
        most_points: a sweep of more points is refused.
    """

    run: Request
    axes: tuple[Axis, ...] = ()
    autotune: bool = False
    most_points: int = MOST_POINTS


class Outcome(Struct, frozen=True):
    """The result of one point's job: plain values, so that any Executor can pass it on."""

    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


class Planned(Struct, frozen=True):
    """How many points are known by now; `complete`: there will be no more."""

    points: int
    complete: bool
    seconds: float


class Done(Struct, frozen=True):
    """A point is done, or has failed."""

    row: Row


class NotCaptured(Struct, frozen=True):
    """Something could not be captured; everything else still is."""

    error: ErrorRecord


class Noted(Struct, frozen=True):
    """A note on the run as a whole."""

    text: str


Event = Planned | Done | NotCaptured | Noted
Work = Callable[[Job], Outcome]


def gathering(request: SweepRequest) -> Gathering:
    """An empty result, to be filled by `gather`."""
    tool = {"name": "kinspect", "version": VERSION, "analysis": str(ANALYSIS_VERSION)}
    return Gathering(request.run.targets, tool, request.axes)


def gather(into: Gathering, event: Event) -> None:
    """Adds an event to the result."""
    if isinstance(event, Planned):
        into.planned, into.complete = event.points, event.complete
        into.capture_seconds = event.seconds
    elif isinstance(event, Done):
        into.rows.append(event.row)
    elif isinstance(event, NotCaptured):
        into.errors.append(event.error)
    else:
        into.notes[event.text] = None


def collect(request: SweepRequest, executor: Executor | None = None) -> Sweep:
    """Runs a sweep and returns its result.

    Raises:
        KinspectError: see `sweep`.
    """
    started = time.perf_counter()
    result = gathering(request)
    for event in sweep(request, executor):
        gather(result, event)
    return result.result(time.perf_counter() - started)


def sweep(
    request: SweepRequest, executor: Executor | None = None, work: Work | None = None
) -> Iterator[Event]:
    """Yields events as they come.

    Interrupted by Ctrl-C it yields what was done by then, and lets the interruption through.

    Args:
        request: the sweep.
        executor: where points are compiled; None starts `run.jobs` threads, each with a worker.
        work: the function of the executor's tasks, by default `run_point`; for processes
            it must be picklable.

    Raises:
        KinspectError: nothing to sweep, an unknown name, too many points, or a wrong target.
    """
    if not request.axes and not request.autotune:
        raise KinspectError(
            "nothing to sweep", "name axes, e.g. --set num_warps=4,8, or pass --autotune"
        )
    if count(request.axes) > request.most_points:
        raise _too_many(f"{count(request.axes)} points per kernel and target", request)
    for arch in request.run.archs:
        machines.load(arch)  # an unknown target is an error before anything is compiled
    targets = only_of(
        resolve_all(request.run.targets),
        COMPILED,
        "it is compiled already, so there is nothing to sweep",
        "name the .py file or the .ttir it was made from",
    )
    yield from _Run(request, targets, executor, work).events()


def run_point(job: Job, compiler: Compiler | None = None) -> Outcome:
    """Compiles one point and works out its figures; runs in any thread or process.

    Args:
        job: the point's job.
        compiler: this process's workers; None: one is kept per process and settings.
    """
    from ...compile.pool import compiler_of_process

    compiler = compiler_of_process(job.settings) if compiler is None else compiler
    started = time.perf_counter()
    # A compile with its pass dump serves as well, and may be all there is.
    keys = (compiler.key(job.variant), compiler.key(job.variant, passes=True))
    # No key holds typed LDS and the like: figures that depend on them are not noted.
    notable = job.overrides == Overrides() and compiler.settings.read_store
    if notable:
        for data in filter(None, (compiler.store.noted(key, NOTE) for key in keys)):
            noted_figures = figures_room.decode(data)
            if noted_figures is not None:
                return Outcome(noted_figures, None, True, time.perf_counter() - started)
    outcome = compile_and_report(job, compiler)
    seconds = time.perf_counter() - started
    if not outcome.reports:
        return Outcome(None, outcome.error, outcome.from_store, seconds)
    figures = figures_of(outcome.reports[0])  # a TTIR module holds one kernel
    if notable:
        for key in keys:  # where there is no such entry this does nothing
            compiler.store.note(key, NOTE, figures_room.encode(figures))
    return Outcome(figures, None, outcome.from_store, seconds)


# --------------------------------------------------------------------------- one run


class _Run:
    """The state of one sweep: what was captured, submitted and done."""

    def __init__(
        self,
        request: SweepRequest,
        targets: Sequence[Target],
        executor: Executor | None,
        work: Work | None,
    ) -> None:
        self._request = request
        self._targets = targets
        self._executor = executor
        self._work = work
        self._points: dict[Future[Outcome], tuple[Point, Job]] = {}
        self._ready: SimpleQueue[Future[Outcome]] = SimpleQueue()
        self._held: list[tuple[Point, Job]] = []
        self._parameters: dict[str, None] = {}
        self._planned = self._done = self._fresh = 0
        self._started = time.perf_counter()

    def events(self) -> Iterator[Event]:
        # Only what compiles needs the workers' machinery.
        from concurrent.futures import ThreadPoolExecutor

        from ...compile.pool import Compiler

        run = replace(self._request.run, passes=False)  # nobody reads the dumps of a sweep
        with Compiler(settings_of(run)) as compiler:
            own = ThreadPoolExecutor(run.jobs, "kinspect") if self._executor is None else None
            executor = self._executor or own
            assert executor is not None
            # Threads share this compiler; another process makes its own from the settings.
            work = self._work or (partial(run_point, compiler=compiler) if own else run_point)
            submit = partial(self._submit, executor, work)
            try:
                if own is not None and self._work is None:
                    compiler.prestart(run.jobs)
                yield from self._capture(compiler, submit)
                while self._done < len(self._points):
                    yield from self._finished(self._ready.get())
                if self._fresh:
                    compiler.store.prune()
            except KeyboardInterrupt:
                for future in self._points:
                    future.cancel()
                yield from self._drained()
                compiler.abort()
                raise
            except BaseException:
                # The result is lost: end running compiles, do not wait for them.
                compiler.abort()
                raise
            finally:
                for future in self._points:
                    future.cancel()
                if own is not None:
                    own.shutdown(wait=True, cancel_futures=True)
                compiler.store.tidy()

    def _capture(self, compiler: Compiler, submit: Callable[[Point, Job], None]) -> Iterator[Event]:
        request = self._capture_request()
        options = frozenset(compiler.toolchain().options)
        for index, target in enumerate(self._targets):
            kernel_index = 0
            for item in captured(target, request, compiler):
                if not isinstance(item, Found):
                    yield from map(NotCaptured, item.errors)
                    yield from map(Noted, item.notes)
                    continue
                self._parameters.update(dict.fromkeys(item.variant.signature))
                for point in self._expanded(item.variant, (index, kernel_index), target):
                    settings, overrides = compiler.settings, request.overrides
                    order = (index, kernel_index)
                    # No figure of a sweep depends on lanes' addresses or races.
                    job = Job(
                        order=order,
                        path=point.file,
                        variant=point.variant,
                        settings=settings,
                        overrides=overrides,
                        lanes=False,
                        races=False,
                    )
                    self._held.append((point, job))
                    self._planned += 1
                kernel_index += 1
                if self._planned > self._request.most_points:
                    raise _too_many(f"{self._planned} points or more", self._request)
                # Names that nothing has explained yet may be parameters of the next kernel.
                if not self._unresolved(options):
                    self._release(submit)
                yield Planned(self._planned, False, self._elapsed())
                yield from self._drained()
        unknown = self._unresolved(options)
        if unknown and self._planned:
            where = ", ".join(dict.fromkeys(str(t.path) for t in self._targets))
            raise refused_name(unknown[0], options, list(self._parameters), where)
        self._release(submit)
        yield Planned(self._planned, True, self._elapsed())

    def _capture_request(self) -> Request:
        """The request of the capture: without --autotune, for one configuration of each launch."""
        run, axes = self._request.run, self._request.axes
        capture = replace(
            run.capture,
            axes={axis.name: axis.values for axis in axes},
            max_configs=run.capture.max_configs if self._request.autotune else 1,
            all_configs=self._request.autotune,
        )
        return replace(run, capture=capture)

    def _expanded(
        self, variant: Variant, place: tuple[int, int], target: Target
    ) -> Iterator[Point]:
        """The points of a specialisation: the product of the options that the backend alone reads.

        Parameters of the kernel, `num_warps` among them where a kernel has such a one, have come
        through the front end with their values.

        Raises:
            KinspectError: a parameter that the capture could not vary.
        """
        tuning = dict(variant.tuning or {})
        for axis in self._request.axes:
            if axis.name in variant.signature and axis.name not in tuning:
                raise KinspectError(
                    f"{target.path}: --set {axis.name}: {variant.kernel} has this parameter, but"
                    " it cannot be varied here",
                    "constexprs of a file with KINSPECT_CASES can be swept, and parameters of"
                    " kernels that a script launches",
                )
        axes = [
            a
            for a in self._request.axes
            if a.name in BACKEND_ONLY and a.name not in variant.signature
        ]
        for number, values in enumerate(itertools.product(*(a.values for a in axes))):
            chosen = dict(zip((a.name for a in axes), values, strict=True))
            options = {**variant.options, **chosen}
            yield Point(
                order=(*place, number),
                file=str(target.path),
                variant=replace(variant, options=options) if chosen else variant,
                values={**tuning, **chosen},
            )

    def _unresolved(self, options: frozenset[str]) -> list[str]:
        return unresolved_names(self._request.axes, options, self._parameters.keys())

    def _release(self, submit: Callable[[Point, Job], None]) -> None:
        held, self._held = self._held, []
        for point, job in held:
            submit(point, job)

    def _submit(self, executor: Executor, work: Work, point: Point, job: Job) -> None:
        future = executor.submit(work, job)
        self._points[future] = (point, job)
        future.add_done_callback(self._ready.put)

    def _drained(self) -> Iterator[Event]:
        """The events of points that are done by now, without waiting."""
        with suppress(Empty):
            while True:
                yield from self._finished(self._ready.get_nowait())

    def _finished(self, future: Future[Outcome]) -> Iterator[Event]:
        if future.cancelled():
            return
        point, job = self._points[future]
        outcome = _outcome(job, future)
        self._done += 1
        self._fresh += not outcome.from_store
        yield Done(
            Row(
                point=point,
                figures=outcome.figures,
                error=outcome.error,
                from_store=outcome.from_store,
                seconds=outcome.seconds,
                host=outcome.host,
            )
        )

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started


def _outcome(job: Job, future: Future[Any]) -> Outcome:
    try:
        outcome = future.result()
        assert isinstance(outcome, Outcome)
        return outcome
    except KinspectError as error:
        return Outcome(None, job_record(job, "compile", error), False, 0.0)
    except Exception as error:
        # One point's failure, be it a bug of ours, must not take the others with it.
        bug = unforeseen(error)
        return Outcome(None, job_record(job, "analyze", bug), False, 0.0)


def _too_many(amount: str, request: SweepRequest) -> KinspectError:
    return KinspectError(
        f"{amount}: the limit is {request.most_points}",
        "sweep fewer values, name one --kernel, or raise --max-points",
    )
