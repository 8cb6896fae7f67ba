"""Compiles a run's targets: captures them one after another, and compiles at the same time.

Files of a folder that define kernels and launch none, and the files that launch these.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError, unforeseen
from ..capture.folders import launching_target
from ..capture.labels import labelled
from ..capture.records import CapturedVariant, CaptureEnd
from ..capture.targets import Target
from ..compile.pool import Compiler
from ..model import ErrorRecord, Variant
from .capturing import captured
from .events import Captured, Compiled, Event, Failed, Reported
from .jobs import CompileOutcome, Job, Request, compile_and_report, settings_of
from .naming import label_with_arch
from .sweep_point import PointNames


def compile_targets(
    targets: Sequence[tuple[int, Target]], request: Request, executor: Executor | None
) -> Iterator[Event]:
    """Captures, compiles and reports on targets.

    Args:
        executor: where compiles run; None starts `request.jobs` threads, each with a worker.

    Yields:
        Events as they come. An interrupt (Ctrl-C) ends the running compiles, yields the finished
        ones and one `Failed` that counts the others, and is raised again.
    """
    with Compiler(settings_of(request)) as compiler:
        pool = ThreadPoolExecutor(request.jobs, "kinspect") if executor is None else None
        run = Compiles(request, compiler, executor or pool, shared=pool is not None)
        try:
            if pool is not None:
                compiler.prestart(request.jobs)
            yield from run.events(targets)
        except KeyboardInterrupt:
            # Compiles at work are ended, not waited for.
            compiler.abort()
            yield from run.after_interrupt()
            raise
        except BaseException:
            compiler.abort()
            raise
        finally:
            run.cancel()
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)


_LAUNCHERS = 1 << 31
"""Places in the run from here on are of files that launch other files' kernels."""


class Compiles:
    """The compiles of one run.

    Args:
        shared: whether the pool's threads can use `compiler`; another process makes its own.
    """

    def __init__(
        self, request: Request, compiler: Compiler, pool: Executor | None, *, shared: bool
    ) -> None:
        assert pool is not None
        self._request = request
        self._compiler = compiler
        self._pool = pool
        self._run = partial(compile_and_report, compiler=compiler) if shared else compile_and_report
        self._jobs: dict[Future[CompileOutcome], Job] = {}
        self._unreported: dict[Future[CompileOutcome], None] = {}  # in order
        # Jobs whose variant has a larger launch than was known; seconds that the first compile
        # took, and whether it was in the store.
        self._outdated: set[Future[CompileOutcome]] = set()
        self._first: dict[Future[CompileOutcome], tuple[float, bool]] = {}
        self._compiled_now = 0  # compiles that the store did not have
        self._variants: dict[tuple[int, int], Variant] = {}  # of the current target, by place
        self._target: tuple[int, str] = (0, "")
        self._libraries: list[Library] = []
        self._launched_by: dict[str, str] = {}  # file with kernels -> the target that launched one
        options = compiler.toolchain().options if request.point else ()
        self._names = PointNames(request.point, options)
        self._held: list[Job] = []  # until all names of the point are known to be right

    def events(self, targets: Sequence[tuple[int, Target]]) -> Iterator[Event]:
        """Captures and compiles all targets; yields the events in the order in which they come.

        Raises:
            KinspectError: a name of the request's point is unknown.
        """
        for index, target in targets:
            yield from self._events_of_target(index, target)
        yield from self._events_of_libraries({target.path for _, target in targets})
        self._names.check(str(target.path) for _, target in targets)
        self._submit_held()
        while self._unreported:
            for future in as_completed(list(self._unreported)):
                yield from self._events_of(future)
        if self._compiled_now:
            self._compiler.store.prune()

    def _events_of_target(self, index: int, target: Target) -> Iterator[Event]:
        self._target = index, str(target.path)
        self._variants = {}
        yield from self._capture(index, target)
        for future in [f for f in self._unreported if f.done()]:
            yield from self._events_of(future)

    def _events_of_libraries(self, tried: set[Path]) -> Iterator[Event]:
        """Runs files that launch the kernels of a folder's files that launched nothing."""
        while launcher := next_launcher(self._unlaunched(), tried, self._libraries):
            tried.add(launcher.path)
            yield from self._events_of_target(_LAUNCHERS + len(tried), launcher)
        unlaunched = self._unlaunched()
        for library in self._libraries:
            path = str(library.target.path)
            if library in unlaunched:
                yield from self._failures(library.index, library.end)
            else:
                note = f"{path}: its kernels are launched by {self._launched_by[library.file]}"
                yield Captured(path, (), (note,))

    def _unlaunched(self) -> list[Library]:
        return [one for one in self._libraries if one.file not in self._launched_by]

    @staticmethod
    def _failures(index: int, end: CaptureEnd) -> Iterator[Failed]:
        for number, error in enumerate(end.errors):
            yield Failed((index, number), error)

    def after_interrupt(self) -> Iterator[Event]:
        """Yields the finished compiles that were not reported yet, and the count of the others."""
        self._name(list(labelled(list(self._variants.values()))))
        unfinished = 0
        for future in list(self._unreported):
            if future.done() and not future.cancelled() and future not in self._outdated:
                events = list(self._events_of(future))
                killed = any(isinstance(event, Failed) for event in events)
                unfinished += killed
                yield from [] if killed else events
            else:
                unfinished += 1
        index, path = self._target
        message = (
            f"interrupted: {len(self._jobs)} specialisations captured, {unfinished} not compiled"
        )
        hint = "the same command again goes on from the store"
        yield Failed(
            (index, 1 << 30),
            ErrorRecord(file=path, kernel=None, stage="compile", message=message, hint=hint),
        )

    def cancel(self) -> None:
        """Cancels the compiles that have not begun."""
        for future in self._unreported:
            future.cancel()

    def _capture(self, index: int, target: Target) -> Iterator[Event]:
        """Captures a target and submits its compiles; yields the target's errors and labels."""
        path = str(target.path)
        for item in captured(target, self._request, self._compiler):
            if isinstance(item, CapturedVariant):
                # Compiled while the script still runs; its label is known at the end.
                order = (index, len(self._variants))
                self._variants[order] = item.variant
                if item.variant.source is not None:
                    source = os.path.realpath(item.variant.source.file)
                    self._launched_by.setdefault(source, path)
                job = Job.of(self._request, path, item.variant, self._compiler.settings, order)
                self._names.add(item.variant)
                self._held.append(job)
                if self._names.all_known:
                    self._submit_held()
                continue
            self._name(item.variants)
            library = library_of(index, target, item)
            if library is not None:
                self._libraries.append(library)
            elif item.variants or index < _LAUNCHERS:  # else the library's error says it all
                yield from self._failures(index, item)
            if item.variants or item.notes:
                yield Captured(path, item.variants, item.notes)

    def _submit_held(self) -> None:
        held, self._held = self._held, []
        for job in held:
            self._submit(job)

    def _submit(self, job: Job) -> Future[CompileOutcome]:
        future = self._pool.submit(self._run, job)
        self._jobs[future] = job
        self._unreported[future] = None
        return future

    def _name(self, variants: Sequence[Variant]) -> None:
        """Replaces the variants of the current target's jobs by those with their final labels.

        A compile that has begun is done again, from the store, where a later launch was larger.
        """
        final = dict(zip(self._variants, variants, strict=False))
        self._held = [
            replace(job, variant=final[job.order]) if job.order in final else job
            for job in self._held
        ]
        for future, job in list(self._jobs.items()):
            if job.order not in final:
                continue
            self._jobs[future] = replace(job, variant=final[job.order])
            if _launch_of(job.variant) != _launch_of(final[job.order]):
                self._outdated.add(future)

    def _events_of(self, future: Future[CompileOutcome]) -> Iterator[Event]:
        """Yields the events of a finished compile."""
        del self._unreported[future]
        job = self._jobs[future]
        try:
            outcome = future.result()
            if future in self._outdated:
                self._first[self._submit(job)] = outcome.seconds, outcome.from_store
                return
        except KinspectError as error:
            yield Failed(job.order, job.record("compile", error))
            return
        except Exception as error:
            # A bug in the analysis of one kernel must not take the others' reports with it.
            yield Failed(job.order, job.record("analyze", unforeseen(error)))
            return
        seconds, from_store = self._first.get(future, (outcome.seconds, outcome.from_store))
        self._compiled_now += not from_store
        yield Compiled(job.variant, seconds, from_store)
        for report in outcome.reports:
            notes = dict.fromkeys((*report.notes, *job.variant.notes))
            variant = job.variant
            if job.analysis.time is None:  # what was passed is large, and no longer needed
                variant = replace(variant, passed=None)
            yield Reported(job.order, replace(report, variant=variant, notes=tuple(notes)))
        if outcome.error is not None:
            yield Failed(job.order, replace(outcome.error, kernel=label_with_arch(job.variant)))


def _launch_of(variant: Variant) -> tuple[object, ...]:
    """What a variant's report depends on of its launch."""
    return variant.grid, variant.values, variant.passed


_MOST_TRIED = 2
"""Of the files that may launch a library's kernels."""


class Library(Struct, frozen=True):
    """A file of a folder that launched nothing.

    Args:
        launchers: files of the folder that use its kernels, scripts before tests.
    """

    index: int
    target: Target
    end: CaptureEnd
    launchers: tuple[Target, ...]

    @property
    def file(self) -> str:
        """Its path, as kernels name their source."""
        return os.path.realpath(self.target.path)


def library_of(index: int, target: Target, end: CaptureEnd) -> Library | None:
    """The library that a target is; None where it launched something or nothing launches it."""
    if end.variants or target.folder is None:
        return None
    found = [launching_target(file, target) for file in end.launchers]
    launchers = sorted(filter(None, found), key=lambda launcher: _is_test(launcher.path))
    return Library(index, target, end, tuple(launchers)) if launchers else None


def next_launcher(
    libraries: Iterable[Library], tried: Collection[Path], every: Sequence[Library]
) -> Target | None:
    """The file that launches most of some libraries, a script before a test; None without one.

    Args:
        every: all libraries: of copies of a package each has its own launchers.
    """
    counts: dict[Path, int] = {}
    targets: dict[Path, Target] = {}
    for library in libraries:
        launchers = [one for one in library.launchers if _is_of(one.path, library, every)]
        if sum(launcher.path in tried for launcher in launchers) < _MOST_TRIED:
            for launcher in launchers:
                if launcher.path not in tried:
                    counts[launcher.path] = counts.get(launcher.path, 0) + 1
                    targets[launcher.path] = launcher
    best = min(counts, key=lambda path: (_is_test(path), -counts[path]), default=None)
    return targets[best] if best is not None else None


def _is_of(launcher: Path, library: Library, every: Sequence[Library]) -> bool:
    """Whether no copy of a library's file is nearer to a launcher."""

    def shared(one: Library) -> int:
        return len(Path(os.path.commonpath((os.path.realpath(launcher), one.file))).parts)

    copies = (other for other in every if Path(other.file).name == Path(library.file).name)
    return all(shared(other) <= shared(library) for other in copies)


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name.endswith("_test.py")
