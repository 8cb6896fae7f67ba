"""Tries cures: findings -> changes -> compiles -> outcomes, as a stream of events.

The kernels are analysed already. Options and environment variables are changed on the TTIR that was
captured; for other constexprs the kernel's file is captured again. When all changes of a kernel are
done, the two that did most for each finding are compiled together. An interrupt or the end of the
budget keeps what is done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...capture.resolving import resolve_all
from ...capture.targets import Target
from ...compile.environment import guest_environment
from ...errors import KinspectError
from ...lint.rule import Pack
from ...model import Change, ErrorRecord, KernelReport, Report, Variant
from ...pipeline.analysis import catalogue
from ...pipeline.capturing import COMPILED
from ...pipeline.jobs import Job, Request, settings_of
from ...pipeline.naming import label_with_arch, portable
from .candidates import Candidates, joined
from .capturing import capture_points, changed_variant, point_of
from .combining import best_two
from .kernel_trials import KernelTrialsProgress
from .outcome import TrialOutcome, outcome_of, run_trial
from .results import TrialRun
from .space import own_space, space_of

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from ...compile.pool import Compiler

BUDGET_SECONDS = 120.0
"""Default of the seconds that all trials of a run may take."""
TRIAL_SECONDS = 40.0
"""That one change may compile: a knob that makes LLVM run for minutes is no cure."""
_REFUSED = "the front end or the launch refuses it"

Work = Callable[[Job], TrialOutcome]


class TryRequest(Struct, frozen=True):
    """What to try.

    Args:
        run: targets, archs and how to compile: the run that made the report.
        pack: the rules by which changed kernels are judged.
        rules: ids of the rules whose findings are tried; None for all.
        budget: seconds that the trials may take, after the report.
    """

    run: Request
    pack: Pack
    rules: frozenset[str] | None = None
    budget: float = BUDGET_SECONDS


class TrialsPlanned(Struct, frozen=True):
    """How many changes are planned so far."""

    changes: int


class TrialDone(Struct, frozen=True):
    """A change has been compiled, or has failed."""

    kernel: str
    change: str


Event = TrialsPlanned | TrialDone


class Trials:
    """A run of trials.

    Args:
        request: what to try.
        report: the analysed kernels, of `request.run`.
    """

    def __init__(self, request: TryRequest, report: Report) -> None:
        self._request = request
        self._report = report
        self._run = replace(request.run, passes=False)
        self._kernels: list[KernelTrialsProgress] = []
        self._untried: list[str] = []
        self._errors: list[ErrorRecord] = list(report.errors)
        self._jobs: dict[Future[TrialOutcome], tuple[KernelTrialsProgress, int, Job]] = {}
        self._ready: SimpleQueue[Future[TrialOutcome]] = SimpleQueue()
        self._unfinished = 0
        self._out_of_budget = False
        self._started = time.perf_counter()

    def events(self, executor: Executor | None = None, work: Work | None = None) -> Iterator[Event]:
        """Tries everything that is planned, and yields events as it goes on.

        Args:
            executor: where changes are compiled; None starts `run.jobs` threads, each with a
                worker.
            work: the function of the executor's tasks, by default `run_trial`; for processes it
                must be picklable.

        Raises:
            KinspectError: no Triton can be used.
        """
        if not any(_is_compilable(kernel) for kernel in self._report.kernels):
            self._untried = [_label(kernel) for kernel in self._report.kernels]
            return
        # Imported only where something is compiled.
        from concurrent.futures import ThreadPoolExecutor

        from ...compile.pool import Compiler

        settings = settings_of(self._run)
        settings = replace(settings, time_limit=min(settings.time_limit, TRIAL_SECONDS))
        with Compiler(settings) as compiler:
            own_pool = ThreadPoolExecutor(self._run.jobs, "kinspect") if executor is None else None
            pool = executor or own_pool
            assert pool is not None
            work = work or (partial(run_trial, compiler=compiler) if own_pool else run_trial)
            submit = partial(self._submit, pool, work)
            try:
                self._started = time.perf_counter()
                self._plan(compiler)
                yield TrialsPlanned(self._planned)
                if own_pool is not None and self._planned and self._seconds_left > 0:
                    compiler.prestart(self._run.jobs)
                yield from self._all_events(compiler, submit)
                self._out_of_budget = self._unfinished > 0 or any(k.missing for k in self._kernels)
                if self._out_of_budget:
                    self._cancel()
                    compiler.abort()
                else:
                    compiler.store.prune()
            except KeyboardInterrupt:
                self._cancel()
                for _ in self._drained():
                    pass
                compiler.abort()
                raise
            except BaseException:
                compiler.abort()
                raise
            finally:
                self._cancel()
                if own_pool is not None:
                    own_pool.shutdown(wait=True, cancel_futures=True)
                compiler.store.tidy()

    def result(self) -> TrialRun:
        """What was tried so far."""
        return TrialRun(
            targets=self._request.run.targets,
            tool=self._report.tool,
            kernels=tuple(kernel.result() for kernel in self._kernels),
            untried=tuple(self._untried),
            errors=tuple(self._errors),
            notes=self._report.notes,
            budget=self._request.budget,
            out_of_budget=self._out_of_budget,
            seconds=time.perf_counter() - self._started,
        )

    def variants(self) -> Iterator[tuple[str, tuple[Change, ...], Variant]]:
        """Yields what was submitted to be compiled: the kernel's id, the changes, the variant."""
        for kernel, number, job in self._jobs.values():
            yield kernel.kernel.id, kernel.changes[number], job.variant

    @property
    def _planned(self) -> int:
        return sum(kernel.planned for kernel in self._kernels)

    @property
    def _seconds_left(self) -> float:
        return self._started + self._request.budget - time.perf_counter()

    def _plan(self, compiler: Compiler) -> None:
        """Makes the changes to try for each kernel's findings."""
        options = compiler.toolchain().options
        environment = guest_environment(os.environ)
        rules = {rule.text.id: rule for rule in self._request.pack.rules}
        spaces = {
            path: own_space(path, (k for k in self._report.kernels if _path(k) == path))
            for path in dict.fromkeys(map(_path, self._report.kernels))
        }
        for kernel in self._report.kernels:
            if not _is_compilable(kernel):
                self._untried.append(_label(kernel))
                continue
            space = space_of(kernel, spaces[_path(kernel)].get(kernel.name, {}))
            candidates = Candidates(
                kernel,
                space,
                options=options,
                environment=environment,
                catalogue=catalogue(),
            )
            progress = KernelTrialsProgress(kernel, self._request.pack)
            for index, finding in enumerate(kernel.findings):
                chosen = self._request.rules is None or finding.rule in self._request.rules
                if chosen and finding.rule in rules:
                    progress.plan(index, candidates.of(finding, rules[finding.rule]))
            if progress.findings:
                self._kernels.append(progress)

    def _all_events(
        self, compiler: Compiler, submit: Callable[[KernelTrialsProgress, int, Variant], None]
    ) -> Iterator[Event]:
        """Compiles everything planned, the first changes of all kernels before further ones."""
        if self._seconds_left <= 0:
            return
        numbered = sorted(
            (number, place)
            for place, kernel in enumerate(self._kernels)
            for number in range(kernel.planned)
        )
        for number, place in numbered:
            self._submit_same_ttir(self._kernels[place], number, submit)
        for kernel in self._kernels:
            yield from self._capture(kernel, compiler, submit)
            yield from self._drained()
        combined: set[int] = set()
        while True:
            for place, kernel in enumerate(self._kernels):
                if place not in combined and kernel.is_done and self._seconds_left > 0:
                    combined.add(place)
                    yield from self._combine(kernel, compiler, submit)
            if not self._unfinished or self._seconds_left <= 0:
                return
            with suppress(Empty):
                yield from self._finished(self._ready.get(timeout=max(0.01, self._seconds_left)))

    def _combine(
        self,
        kernel: KernelTrialsProgress,
        compiler: Compiler,
        submit: Callable[[KernelTrialsProgress, int, Variant], None],
    ) -> Iterator[Event]:
        """Submits the two best changes of each finding together."""
        first = kernel.planned
        for index in kernel.findings:
            pair = best_two(kernel.tried_for(index))
            if pair is not None:
                kernel.plan_together(index, pair)
        if kernel.planned == first:
            return
        yield TrialsPlanned(self._planned)
        for number in range(first, kernel.planned):
            self._submit_same_ttir(kernel, number, submit)
        yield from self._capture(kernel, compiler, submit)

    def _submit_same_ttir(
        self,
        kernel: KernelTrialsProgress,
        number: int,
        submit: Callable[[KernelTrialsProgress, int, Variant], None],
    ) -> None:
        """Submits a change that the captured TTIR serves; does nothing for others."""
        base = kernel.kernel.variant
        changes = kernel.changes[number]
        if base is not None and not point_of(kernel.kernel, changes):
            submit(kernel, number, changed_variant(base, changes, base))

    def _capture(
        self,
        kernel: KernelTrialsProgress,
        compiler: Compiler,
        submit: Callable[[KernelTrialsProgress, int, Variant], None],
    ) -> Iterator[Event]:
        """Captures a kernel with the constexprs that were not tried yet, and submits them."""
        base = kernel.kernel.variant
        numbers = [
            number for number in kernel.waiting if point_of(kernel.kernel, kernel.changes[number])
        ]
        if base is None or not numbers or self._seconds_left <= 0:
            return
        target = self._target(_path(kernel.kernel))
        if target is None:
            for number in numbers:
                kernel.fail(number, "its file is not at hand any more")
            return
        points = [point_of(kernel.kernel, kernel.changes[number]) for number in numbers]
        variants, errors = capture_points(
            kernel.kernel, target, points, self._run, compiler, self._seconds_left
        )
        reasons = list(dict.fromkeys(error.message for error in errors))
        for number, variant in zip(numbers, variants, strict=True):
            if variant is not None:
                submit(kernel, number, changed_variant(variant, kernel.changes[number], base))
            elif self._seconds_left > 0:
                alone = len(reasons) == 1 and sum(v is None for v in variants) == 1
                kernel.fail(number, reasons[0] if alone else _REFUSED)
                yield TrialDone(_label(kernel.kernel), joined(kernel.changes[number]))

    def _target(self, path: str) -> Target | None:
        """The target that a kernel was captured from."""
        with suppress(KinspectError):
            for target in resolve_all(self._run.targets, self._run.archs):
                if target.kind in COMPILED and portable(str(target.path)) == path:
                    return target
        return None

    def _submit(
        self,
        executor: Executor,
        work: Work,
        kernel: KernelTrialsProgress,
        number: int,
        variant: Variant,
    ) -> None:
        analysis = replace(self._run.analysis, rules=self._request.pack, sample=None, values=False)
        settings = settings_of(self._run)
        job = Job(
            order=(0, number),
            path=_path(kernel.kernel),
            variant=variant,
            settings=replace(settings, time_limit=min(settings.time_limit, TRIAL_SECONDS)),
            overrides=self._run.overrides,
            analysis=analysis,
        )
        kernel.waiting.discard(number)
        future = executor.submit(work, job)
        self._jobs[future] = (kernel, number, job)
        self._unfinished += 1
        future.add_done_callback(self._ready.put)

    def _drained(self) -> Iterator[Event]:
        """Yields the events of changes that have finished; waits for none."""
        with suppress(Empty):
            while True:
                yield from self._finished(self._ready.get_nowait())

    def _finished(self, future: Future[TrialOutcome]) -> Iterator[Event]:
        if future.cancelled():
            return
        kernel, number, job = self._jobs[future]
        self._unfinished -= 1
        kernel.done(number, outcome_of(job, future))
        yield TrialDone(_label(kernel.kernel), joined(kernel.changes[number]))

    def _cancel(self) -> None:
        for future in self._jobs:
            future.cancel()


def with_trials(report: Report, run: TrialRun) -> Report:
    """A report whose findings have what was tried for them."""
    by_id = {trials.kernel.id: trials.kernel for trials in run.kernels}
    return replace(report, kernels=tuple(by_id.get(kernel.id, kernel) for kernel in report.kernels))


def _is_compilable(kernel: KernelReport) -> bool:
    """Whether a kernel can be compiled again: its TTIR or TTGIR is at hand."""
    return kernel.variant is not None and bool(kernel.variant.ttir)


def _path(kernel: KernelReport) -> str:
    return kernel.id.partition("::")[0]


def _label(kernel: KernelReport) -> str:
    variant = kernel.variant
    return label_with_arch(variant) if variant is not None else f"{kernel.name} on {kernel.arch}"
