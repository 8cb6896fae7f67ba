"""Compiles one point of a sweep and computes its figures.

Runs a sweep: targets -> points -> figures, as a stream of events.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.version import VERSION
from ...capture.records import CapturedVariant
from ...capture.resolving import resolve_all
from ...capture.sweep_axes import (
    Axis,
    backend_axes,
    check_varied,
    count,
    refused_name,
    unresolved_names,
)
from ...capture.targets import Target, only_of
from ...model import ErrorRecord, Variant
from ...pipeline.analysis import ANALYSIS_VERSION, tool_versions
from ...pipeline.analysis_options import AnalysisOptions, TimeOptions
from ...pipeline.capturing import COMPILED, captured
from ...pipeline.error_records import target_record
from ...pipeline.jobs import Job, Request, settings_of
from ..points import Points, run
from .figures import FORMAT, Figures, figures_of
from .swept_points import PointResult, Sweep, SweepPoint
from .table import SweepProgress

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ...compile.pool import Compiler, CompileSettings


class PointOutcome(Struct, frozen=True):
    """The result of one point's job: plain values, so that any Executor can pass it on."""

    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


def run_point(job: Job, compiler: Compiler | None = None) -> PointOutcome:
    """Compiles a point and computes its figures; see `points.run`."""
    launch = "0"
    if job.analysis.time is not None:
        passed = msgspec.json.encode((job.variant.grid, job.variant.passed, job.analysis.time))
        launch = hashlib.sha256(passed).hexdigest()[:16]
    note = f"figures-v{FORMAT}-{ANALYSIS_VERSION}-{VERSION}-{launch}.json"
    ran = run(job, compiler, note, figures_of, Figures)
    return PointOutcome(ran.kept, ran.error, ran.from_store, ran.seconds)


MOST_POINTS = 1024
MOST_TUNED = 256
"""Default limit on the points of the TUNING spaces of a file's cases, all together."""


class SweepRequest(Struct, frozen=True):
    """One sweep.

    Args:
        axes: names and values; none with `autotune` alone.
        autotune: whether all configurations of the file's own autotuners are swept.
    """

    run: Request
    axes: tuple[Axis, ...] = ()
    autotune: bool = False
    most_points: int = MOST_POINTS


class PointsPlanned(Struct, frozen=True):
    """The number of points known so far; `complete`: there will be no more. Seconds of capture."""

    points: int
    complete: bool
    seconds: float


class PointDone(Struct, frozen=True):
    """A point has been compiled, or has failed."""

    row: PointResult


class NotCaptured(Struct, frozen=True):
    """Something could not be captured; everything else still is."""

    error: ErrorRecord


class RunNote(Struct, frozen=True):
    """A note on the run as a whole."""

    text: str


Event = PointsPlanned | PointDone | NotCaptured | RunNote
Work = Callable[[Job], PointOutcome]


def gathering(request: SweepRequest) -> SweepProgress:
    """Returns an empty result, to be filled by `gather`."""
    return SweepProgress(request.run.targets, tool_versions(), request.axes)


def gather(into: SweepProgress, event: Event) -> None:
    """Adds an event to the result."""
    if isinstance(event, PointsPlanned):
        into.planned, into.complete = event.points, event.complete
        into.capture_seconds = event.seconds
    elif isinstance(event, PointDone):
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
    """Runs a sweep and yields its events as they come.

    An interrupt (Ctrl-C) yields the finished points and is raised again.

    Args:
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
    targets = only_of(
        resolve_all(request.run.targets, request.run.archs),
        COMPILED | {"hip"},
        "it is compiled already, so there is nothing to sweep",
        "name the .py or .hip file, or the .ttir that it was made from",
    )
    yield from _SweepRun(request, targets, executor, work).events()


def collect_points(
    points: Sequence[SweepPoint], request: SweepRequest, settings: CompileSettings, started: float
) -> Sweep:
    """Compiles points that were captured already, and returns their tables."""
    from concurrent.futures import ThreadPoolExecutor

    result = gathering(request)
    gather(result, PointsPlanned(len(points), True, time.perf_counter() - started))
    jobs = [_job(point, settings, request.run) for point in points]
    with ThreadPoolExecutor(request.run.jobs, "kinspect") as threads:
        for point, outcome in zip(points, threads.map(run_point, jobs), strict=True):
            gather(result, _done(point, outcome))
    return result.result(time.perf_counter() - started)


def _job(point: SweepPoint, settings: CompileSettings, run: Request) -> Job:
    """Returns the job that compiles a point."""
    # No figure of a sweep depends on lanes' addresses, races or the values in registers.
    return Job(
        order=point.order[:2],
        path=point.file,
        variant=point.variant,
        settings=settings,
        overrides=run.overrides,
        analysis=AnalysisOptions(lanes=False, races=False, values=False, time=_time(run)),
    )


def _time(run: Request) -> TimeOptions | None:
    time = run.analysis.time
    return None if time is None else replace(time, prices=False, warm=False)


def _done(point: SweepPoint, outcome: PointOutcome) -> PointDone:
    return PointDone(
        PointResult(
            point=point,
            figures=outcome.figures,
            error=outcome.error,
            from_store=outcome.from_store,
            seconds=outcome.seconds,
            host=outcome.host,
        )
    )


class _SweepRun:
    """The state of a sweep: the points that were captured, submitted and finished."""

    def __init__(
        self,
        request: SweepRequest,
        targets: Sequence[Target],
        executor: Executor | None,
        work: Work | None,
    ) -> None:
        self._request = request
        self._targets = targets
        run = replace(request.run, passes=False)  # the dumps of a sweep are not used
        self._points: Points[SweepPoint, PointOutcome] = Points(
            settings_of(run), run.jobs, run_point, _failed, executor, work
        )
        self._waiting: list[tuple[SweepPoint, Job]] = []
        self._parameters: dict[str, None] = {}
        self._planned = self._compiled_count = 0
        self._started = time.perf_counter()

    def events(self) -> Iterator[Event]:
        """Captures and compiles all points; see `sweep`."""
        with self._points as points:
            try:
                if not self._is_hip:
                    points.prestart()
                yield from self._capture(points.compiler)
                while points.unfinished:
                    yield from self._finished(None)
                if self._compiled_count:
                    points.compiler.store.prune()
            except KeyboardInterrupt:
                points.cancel()
                yield from self._finished()
                raise

    def _capture(self, compiler: Compiler) -> Iterator[Event]:
        """Captures the targets; submits points once all names of axes are known to be right."""
        request = self._capture_request()
        options = frozenset(() if self._is_hip else compiler.toolchain().options)
        for index, target in enumerate(self._targets):
            if target.kind == "hip":
                yield from self._hip_points(target, index, compiler.settings)
                continue
            kernel_index = 0
            for item in captured(target, request, compiler):
                if not isinstance(item, CapturedVariant):
                    yield from map(NotCaptured, item.errors)
                    yield from map(RunNote, item.notes)
                    continue
                self._parameters.update(dict.fromkeys(item.variant.signature))
                for point in self._expanded(item.variant, (index, kernel_index), target):
                    job = _job(point, compiler.settings, request)
                    self._waiting.append((point, job))
                    self._planned += 1
                kernel_index += 1
                if self._planned > self._request.most_points:
                    raise _too_many(f"{self._planned} points or more", self._request)
                # A name that is unknown so far may be a parameter of the next kernel.
                if not self._unresolved(options):
                    self._submit_waiting()
                yield PointsPlanned(self._planned, False, self._elapsed())
                yield from self._finished()
        unknown = [] if self._is_hip else self._unresolved(options)
        if unknown and self._planned:
            where = ", ".join(dict.fromkeys(str(t.path) for t in self._targets))
            raise refused_name(unknown[0], options, list(self._parameters), where)
        self._submit_waiting()
        yield PointsPlanned(self._planned, True, self._elapsed())

    @property
    def _is_hip(self) -> bool:
        """Whether all targets are HIP sources, for which no Triton is needed."""
        return all(target.kind == "hip" for target in self._targets)

    def _hip_points(self, target: Target, index: int, settings: CompileSettings) -> Iterator[Event]:
        """Submits the points of a HIP source's kernels, each with the axes that it has."""
        from ...pipeline.hip_sources import kernels_of, knobs_of, options_of

        run, axes = self._request.run, self._request.axes
        values = {axis.name: axis.values[0] for axis in axes}
        try:
            kernels = kernels_of(target, run, values)
            knobs = knobs_of(target, values)
        except KinspectError as error:
            yield NotCaptured(target_record(target, "compile", error))
            return
        named = {knobs.with_names(variant.kernel): variant for variant in kernels}
        for kernel_index, (name, variant) in enumerate(named.items()):
            own = [axis for axis in axes if knobs.is_of(axis.name, variant.kernel)]
            if not own:
                continue
            for number, point_values in enumerate(itertools.product(*(a.values for a in own))):
                point = SweepPoint(
                    (index, kernel_index, number),
                    str(target.path),
                    replace(variant, kernel=name),
                    dict(zip((axis.name for axis in own), point_values, strict=True)),
                )
                hip = replace(options_of(run), values=point.values)
                job = replace(_job(point, settings, run), variant=variant, hip=hip)
                self._points.submit(point, job)
                self._planned += 1
        yield PointsPlanned(self._planned, False, self._elapsed())

    def _capture_request(self) -> Request:
        """Returns the request of the capture: without --autotune, one configuration per launch."""
        run, axes = self._request.run, self._request.axes
        capture = replace(
            run.capture,
            axes={axis.name: axis.values for axis in axes},
            max_configs=run.capture.max_configs if self._request.autotune else 1,
            all_configs=self._request.autotune,
        )
        return replace(run, capture=capture)

    def _expanded(
        self, variant: Variant, order: tuple[int, int], target: Target
    ) -> Iterator[SweepPoint]:
        """Yields a specialisation's points: the product of the options for the backend alone."""
        check_varied(self._request.axes, variant, str(target.path))
        tuning = dict(variant.tuning or {})
        axes = backend_axes(self._request.axes, variant)
        for number, values in enumerate(itertools.product(*(a.values for a in axes))):
            backend_options = dict(zip((a.name for a in axes), values, strict=True))
            options = {**variant.options, **backend_options}
            yield SweepPoint(
                order=(*order, number),
                file=str(target.path),
                variant=replace(variant, options=options) if backend_options else variant,
                values={**tuning, **backend_options},
            )

    def _unresolved(self, options: frozenset[str]) -> list[str]:
        return unresolved_names(self._request.axes, options, self._parameters.keys())

    def _submit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for point, job in waiting:
            self._points.submit(point, job)

    def _finished(self, seconds: float | None = 0.0) -> Iterator[Event]:
        """Yields the events of points that have finished; see `Points.finished`."""
        for point, outcome in self._points.finished(seconds):
            self._compiled_count += not outcome.from_store
            yield _done(point, outcome)

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started


def _failed(error: ErrorRecord) -> PointOutcome:
    return PointOutcome(None, error, False, 0.0)


def _too_many(amount: str, request: SweepRequest) -> KinspectError:
    return KinspectError(
        f"{amount}: the limit is {request.most_points}",
        "sweep fewer values, name one --kernel, or raise --max-points",
    )
