"""Composes the stages: targets -> variants -> artifacts -> reports, as a stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..base import limits, named_files
from ..base.blas_threads import no_blas_threads
from ..base.errors import KinspectError, unforeseen
from ..capture.resolving import resolve_all
from ..capture.targets import Kind, Target, only_of
from ..model import ErrorRecord, KernelReport, Report
from . import analysis
from .events import Captured, Compiled, Event, Failed, Reported, until_interrupted
from .inputs import read_text
from .jobs import Request
from .reading import READ, Transformed, Work, interrupted, read_target
from .source_positions import source_positions

if TYPE_CHECKING:
    from concurrent.futures import Executor

_CODE: frozenset[Kind] = frozenset({"asm", "code_object", "hip"})


def collect(
    request: Request,
    on_event: Callable[[Event], None] | None = None,
    *,
    partial: bool = True,
) -> Report:
    """Runs a request and returns one report, kernels in the order of the targets.

    Args:
        partial: whether an interrupt returns a report of the finished kernels.

    Raises:
        KinspectError: the request itself is wrong (no such file, unknown target).
        KeyboardInterrupt: interrupted, and `partial` is off or there is nothing to report.
    """
    kernels: list[tuple[tuple[int, int], KernelReport]] = []
    errors: list[tuple[tuple[int, int], ErrorRecord]] = []
    notes: dict[str, None] = {}
    events = analyze(request)
    for event in until_interrupted(events) if partial else events:
        if on_event is not None:
            on_event(event)
        if isinstance(event, Reported):
            kernels.append((event.order, event.report))
        elif isinstance(event, Failed):
            errors.append((event.order, event.error))
        elif isinstance(event, Captured):
            notes.update(dict.fromkeys(event.notes))
    reports = tuple(r for _, r in sorted(kernels, key=lambda item: item[0]))
    sources = {place.file for report in reports for place in source_positions(report)}
    left_out = named_files.left_out(sorted(sources))
    return Report(
        target=" ".join(request.targets),
        tool=analysis.tool_versions(),
        kernels=reports,
        errors=tuple(e for _, e in sorted(errors, key=lambda item: item[0])),
        notes=(*notes, *filter(None, [left_out])),
    )


def analyze(request: Request, executor: Executor | None = None) -> Iterator[Event]:
    """Runs a request and yields its events as they come, in no fixed order across kernels.

    Args:
        executor: where compiles run; None starts `request.jobs` threads, each with a worker.
    """
    for event in transformed_reports(request, _itself, executor):
        yield Reported(event.order, event.value) if isinstance(event, Transformed) else event


def transformed_reports(
    request: Request,
    transform: Callable[[KernelReport], Any],
    executor: Executor | None = None,
    artifacts: frozenset[str] | None = None,
) -> Iterator[Transformed | Captured | Compiled | Failed]:
    """Yields the events of a run with each report replaced by what `transform` makes of it.

    Reports are large: this way, only what is needed of them is kept and sent between processes.

    Args:
        request: the run. Many targets that are read are read by `request.jobs` processes.
        transform: called with each report, maybe in another process: it must keep no state but
            caches, and return something that can be pickled.
        artifacts: the kinds that `transform` needs of an archive; None: all.
    """
    read: list[tuple[int, Target]] = []
    compiled: list[tuple[int, Target]] = []
    for index, target in enumerate(_targets(request)):
        is_read = target.kind in READ and not _compilable(target)
        (read if is_read else compiled).append((index, target))
    work = Work(request, transform, artifacts)
    if compiled or request.analysis.sample is not None:
        # Long runs, and products of the emulator: NumPy's threads pay.
        yield from _read(read, work)
    else:
        with no_blas_threads():
            yield from _read(read, work)
    if compiled:
        # Only targets that are compiled need the workers' machinery.
        from .streaming import compile_targets

        for event in compile_targets(compiled, request, executor):
            if isinstance(event, Reported):
                yield _transformed(event, transform)
            else:
                yield event


def _targets(request: Request) -> Sequence[Target]:
    """Returns the request's targets, without those that its recording or point excludes."""
    targets = resolve_all(request.targets, request.archs)
    if request.reads_only:
        targets = only_of(
            targets, _CODE, "a source beside a recording is not run", "name it by --with"
        )
    if request.point:
        from .capturing import COMPILED
        from .sweep_point import ALREADY_COMPILED

        targets = only_of(targets, COMPILED | {"hip"}, *ALREADY_COMPILED)
    return targets


def _read(files: list[tuple[int, Target]], work: Work) -> Iterator[Transformed | Failed]:
    """Yields the outcomes of the targets that are not compiled; an interrupt as its last error."""
    if _in_parallel(files, work.request.jobs):
        from . import forked

        yield from forked.read_targets(files, work)
        return
    finished = 0
    try:
        for index, target in files:
            yield from read_target(index, target, work)
            finished += 1
    except KeyboardInterrupt:
        index, target = files[-1]
        yield interrupted(target, index, read=finished, total=len(files))
        raise


def _transformed(event: Reported, transform: Callable[[KernelReport], Any]) -> Transformed | Failed:
    """Applies `transform` to a report; an exception fails that kernel alone."""
    try:
        return Transformed(event.order, transform(event.report))
    except Exception as error:
        # A bug in what judges one kernel must not take the others with it.
        bug, report = unforeseen(error), event.report
        record = ErrorRecord(
            file=report.file,
            kernel=report.name,
            stage="analyze",
            message=bug.message,
            hint=bug.hint,
        )
        return Failed(event.order, record)


def _in_parallel(files: list[tuple[int, Target]], jobs: int) -> bool:
    if jobs <= 1 or len(files) <= 1:
        return False
    from . import forked

    return forked.is_worthwhile(files, jobs)


def _itself(report: KernelReport) -> KernelReport:
    return report


def _compilable(target: Target) -> bool:
    """Tells whether a target is TTGIR for an AMD GPU, which is compiled; other TTGIR is read."""
    if target.kind != "ttgir" or target.fault is not None:
        return False
    from ..capture.ttir import compilable_ttgir

    try:
        with limits.reading(str(target.path), target.path.stat().st_size):
            return compilable_ttgir(read_text(target.path))
    except (KinspectError, OSError):
        return False  # reported when it is read
