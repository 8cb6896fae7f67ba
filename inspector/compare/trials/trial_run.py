"""Tries cures: findings -> changes -> compiles -> outcomes, as a stream of events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.limits import TRY_SECONDS
from ...base.named_files import file_text
from ...capture.resolving import resolve_all
from ...capture.targets import Target
from ...compile.environment import guest_environment
from ...explain.trials_view import changes_text
from ...lint.rule import Pack
from ...model import Change, ErrorRecord, KernelReport, Report, Variant
from ...pipeline.capturing import COMPILED
from ...pipeline.hip_sources import options_of
from ...pipeline.jobs import Job, Request, settings_of
from ...pipeline.naming import label_with_arch, portable
from ..points import Points
from .capturing import (
    capture_pattern,
    capture_points,
    changed_variant,
    most_like,
    other_work,
    point_of,
)
from .hip_changes import OPTIONS, changed, changes_of, is_hip, variant_of
from .kernel_trials import KernelTrialsProgress
from .outcome import TrialOutcome, run_trial
from .planning import candidates_by_kernel, changes_for, is_compilable
from .trial_results import TrialRun

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ...compile.pool import Compiler


TRIAL_SECONDS = 40.0
"""That one change may compile: a knob that makes LLVM run for minutes is no cure."""
_REFUSED = "the front end or the launch refuses it"
_NO_LAUNCH = "nothing says how it is launched"
_NOT_ASKED = "no times were asked for"
_STATED_GRID = "the stated --grid may be for another {}: state the launch in the source"
_NO_SOURCE = "the kernel's source, which it needs, is not at hand"

Work = Callable[[Job], TrialOutcome]
_Place = tuple[KernelTrialsProgress, int]
"""A kernel, and the number of one of its changes."""
_Points = Points[_Place, TrialOutcome]
Specialise = Callable[[Variant, Mapping[str, Any]], Variant]
"""Makes the specialisation of a kernel with other constexprs; raises KinspectError if refused."""


class TryRequest(Struct, frozen=True):
    """What to try.

    Args:
        run: targets, archs and how to compile: the run that made the report.
        rules: ids of the rules whose findings are tried; None for all.
        budget: seconds that the trials may take, after the report.
        first: tries only the first findings of each kernel, so many of those that have changes
            which the captured TTIR serves, and only these, one at a time; None for all.
    """

    run: Request
    pack: Pack
    rules: frozenset[str] | None = None
    budget: float = TRY_SECONDS
    first: int | None = None


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
        specialise: for kernels that no file holds; None: their files are captured again.
    """

    def __init__(
        self, request: TryRequest, report: Report, specialise: Specialise | None = None
    ) -> None:
        self._request = request
        kernels = [_with_asked(kernel, request.rules) for kernel in report.kernels]
        self._report = replace(report, kernels=tuple(kernels))
        self._specialise = specialise
        self._run = replace(request.run, passes=False)
        self._settings = settings_of(
            replace(self._run, time_limit=min(request.run.time_limit, TRIAL_SECONDS))
        )
        self._targets: dict[str, Target] = {}
        self._kernels: list[KernelTrialsProgress] = []
        self._untried: list[str] = []
        self._errors: list[ErrorRecord] = list(report.errors)
        self._points: _Points | None = None
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
        kernels = self._report.kernels
        if not any(is_compilable(kernel) or is_hip(kernel) for kernel in kernels):
            self._untried = [_label(kernel) for kernel in self._report.kernels]
            return
        with _Points(self._settings, self._run.jobs, run_trial, _failed, executor, work) as points:
            self._points = points
            try:
                self._started = time.perf_counter()
                self._plan(points.compiler)
                yield TrialsPlanned(self._planned)
                is_triton = any(not is_hip(progress.kernel) for progress in self._kernels)
                if is_triton and self._seconds_left > 0:
                    points.prestart()
                yield from self._all_events(points)
                self._out_of_budget = points.unfinished > 0 or any(k.missing for k in self._kernels)
                if self._out_of_budget:
                    points.cancel()
                    points.compiler.abort()
                else:
                    points.compiler.store.prune()
            except KeyboardInterrupt:
                points.cancel()
                for _ in self._finished(points):
                    pass
                raise

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
        for (kernel, number), job in self._points.submitted() if self._points is not None else ():
            yield kernel.kernel.id, kernel.changes[number], job.variant

    @property
    def _planned(self) -> int:
        return sum(kernel.planned for kernel in self._kernels)

    @property
    def _seconds_left(self) -> float:
        return self._started + self._request.budget - time.perf_counter()

    def _plan(self, compiler: Compiler) -> None:
        """Makes the changes to try for each kernel's findings."""
        self._plan_hip()
        if not any(map(is_compilable, self._report.kernels)):
            return
        options = compiler.toolchain().options
        if self._specialise is None:
            with suppress(KinspectError):
                for target in resolve_all(self._run.targets, self._run.archs):
                    if target.kind in COMPILED:
                        self._targets.setdefault(portable(str(target.path)), target)
        rules = {rule.text.id: rule for rule in self._request.pack.rules}
        kernels = self._report.kernels
        self._untried += [
            _label(kernel) for kernel in kernels if not (is_compilable(kernel) or is_hip(kernel))
        ]
        environment = guest_environment(os.environ)
        no_time = _NO_LAUNCH if self._run.analysis.time is not None else _NOT_ASKED
        for kernel, candidates in candidates_by_kernel(kernels, environment, lambda _: options):
            first = self._request.first
            progress = KernelTrialsProgress(
                kernel, self._request.pack, no_time, is_whole=first is None
            )
            for index, changes in changes_for(kernel, candidates, rules, self._request.rules):
                if first is None:
                    progress.plan(index, changes)
                elif len(progress.findings) < first:
                    cheap = [c for c in changes if self._is_tried(kernel, c)]
                    if cheap:
                        progress.plan(index, cheap)
            if kernel.time is not None and self._request.rules is None:
                neighbours = candidates.neighbours()
                progress.plan_unasked([c for c in neighbours if self._is_tried(kernel, c)])
            if progress.findings or progress.planned:
                self._kernels.append(progress)

    def _is_tried(self, kernel: KernelReport, changes: tuple[Change, ...]) -> bool:
        """Whether changes are tried: of a few, those alone that the captured TTIR serves."""
        return self._request.first is None or not point_of(kernel, changes, self._run)

    def _plan_hip(self) -> None:
        """Makes the changes to try for kernels of HIP sources, whatever their findings are."""
        no_time = _NO_LAUNCH if self._run.analysis.time is not None else _NOT_ASKED
        sources: dict[str, str] = {}
        for kernel in filter(is_hip, self._report.kernels):
            path = kernel.file
            source = sources.setdefault(path, file_text(path))
            changes = [*changes_of(kernel, source, self._run.capture.argv)]
            progress = KernelTrialsProgress(kernel, self._request.pack, no_time)
            progress.plan_unasked(changes)
            for number, (change, *_) in enumerate(changes):
                if change.name not in OPTIONS and self._run.overrides.grid is not None:
                    progress.does_other_work(number, _STATED_GRID.format(change.name))
            self._kernels.append(progress)

    def _all_events(self, points: _Points) -> Iterator[Event]:
        """Compiles everything planned, the first changes of all kernels before further ones."""
        if self._seconds_left <= 0:
            return
        numbered = sorted(
            (number, place)
            for place, kernel in enumerate(self._kernels)
            for number in range(kernel.planned)
        )
        for number, place in numbered:
            self._submit_same_ttir(self._kernels[place], number, points)
        groups = self._groups() if self._request.first is None else []
        for group in groups:
            yield from self._capture(group, points)
            yield from self._finished(points)
        while True:
            for group in list(groups):
                if all(kernel.is_done for kernel in group) and self._seconds_left > 0:
                    if (yield from self._go_further(group, points)):
                        continue
                    groups.remove(group)
                    yield from self._combine(group, points)
            if not points.unfinished or self._seconds_left <= 0:
                return
            yield from self._finished(points, max(0.01, self._seconds_left))

    def _groups(self) -> list[list[KernelTrialsProgress]]:
        """The kernels in groups that one run of their file captures."""
        groups: dict[tuple[str, str, str, str], list[KernelTrialsProgress]] = {}
        for kernel in self._kernels:
            if is_hip(kernel.kernel):
                continue
            groups.setdefault(self._capture_key(kernel), []).append(kernel)
        return list(groups.values())

    def _capture_key(self, kernel: KernelTrialsProgress) -> tuple[str, str, str, str]:
        """The file, the pattern, the target and the numbers by which it is captured again."""
        base, path = kernel.kernel.variant, kernel.kernel.file
        target = self._targets.get(path)
        assert base is not None
        pattern = capture_pattern(base, target, self._run) if target is not None else base.kernel
        return path, pattern, base.arch, repr(sorted((base.values or {}).items()))

    def _go_further(
        self, group: Sequence[KernelTrialsProgress], points: _Points
    ) -> Generator[Event, None, bool]:
        """Submits further steps in the directions that helped; returns whether there are any."""
        planned = self._planned
        for kernel in group:
            first = kernel.planned
            kernel.go_further()
            for number in range(first, kernel.planned):
                self._submit_same_ttir(kernel, number, points)
        if self._planned == planned:
            return False
        yield TrialsPlanned(self._planned)
        yield from self._capture(group, points)
        return True

    def _combine(self, group: Sequence[KernelTrialsProgress], points: _Points) -> Iterator[Event]:
        """Submits the best changes of the findings of some kernels together."""
        for kernel in group:
            first = kernel.planned
            kernel.combine()
            for number in range(first, kernel.planned):
                self._submit_same_ttir(kernel, number, points)
        yield TrialsPlanned(self._planned)
        yield from self._capture(group, points)

    def _submit_same_ttir(
        self,
        kernel: KernelTrialsProgress,
        number: int,
        points: _Points,
    ) -> None:
        """Submits a change that the captured TTIR or HIP source serves; else does nothing."""
        if is_hip(kernel.kernel):
            self._submit(points, kernel, number, variant_of(kernel.kernel))
            return
        base = kernel.kernel.variant
        changes = kernel.changes[number]
        if base is not None and not point_of(kernel.kernel, changes, self._run):
            self._submit(points, kernel, number, changed_variant(base, changes, base))

    def _capture(self, group: Sequence[KernelTrialsProgress], points: _Points) -> Iterator[Event]:
        """Captures a group with the constexprs that were not tried yet, and submits them."""
        wanted = [
            (kernel, number, point)
            for kernel in group
            for number in sorted(kernel.waiting)
            if (point := point_of(kernel.kernel, kernel.changes[number], self._run))
        ]
        if not wanted or self._seconds_left <= 0:
            return
        constexprs = {repr(sorted(point.items())): point for _, _, point in wanted}
        variants, reasons = self._variants(group[0], list(constexprs.values()), points.compiler)
        for kernel, number, point in wanted:
            base = kernel.kernel.variant
            variant = most_like(base, point, variants) if base is not None else None
            if variant is not None and base is not None:
                if reason := other_work(variant, base):
                    kernel.does_other_work(number, reason)
                    variant = replace(variant, passed=None)
                self._submit(
                    points, kernel, number, changed_variant(variant, kernel.changes[number], base)
                )
            elif self._seconds_left > 0:
                kernel.fail(number, reasons[0] if len(reasons) == 1 else _REFUSED)
                yield TrialDone(_label(kernel.kernel), changes_text(kernel.changes[number]))

    def _variants(
        self, kernel: KernelTrialsProgress, points: Sequence[Mapping[str, Any]], compiler: Compiler
    ) -> tuple[list[Variant], list[str]]:
        """The specialisations of a kernel with other constexprs, and why there are not all."""
        base = kernel.kernel.variant
        if self._specialise is not None and base is not None:
            variants, refusals = [], []
            for point in points:
                try:
                    variants.append(self._specialise(base, point))
                except KinspectError as error:
                    refusals.append(error.message)
            return variants, list(dict.fromkeys(refusals))
        path, pattern, arch, _ = self._capture_key(kernel)
        target = self._targets.get(path)
        if target is None:
            return [], [_NO_SOURCE]
        variants, errors = capture_points(
            pattern=pattern,
            arch=arch,
            target=target,
            points=points,
            like=(base.values if base is not None else None) or {},
            request=self._run,
            compiler=compiler,
            seconds=self._seconds_left,
        )
        return variants, list(dict.fromkeys(error.message for error in errors))

    def _submit(
        self, points: _Points, kernel: KernelTrialsProgress, number: int, variant: Variant
    ) -> None:
        analysis = replace(self._run.analysis, rules=self._request.pack, sample=None, values=False)
        if analysis.time is not None:
            how = replace(analysis.time, savings=False, prices=False, warm=False)
            analysis = replace(analysis, time=how)
        job = Job(
            order=(0, number),
            path=kernel.kernel.file,
            variant=variant,
            settings=self._settings,
            overrides=self._run.overrides,
            analysis=analysis,
        )
        if is_hip(kernel.kernel):
            own = changed(options_of(self._run), kernel.changes[number])
            job = replace(job, hip=replace(own, seconds=TRIAL_SECONDS))
            if kernel.is_other_work(number):
                job = replace(job, analysis=replace(analysis, time=None))
        kernel.waiting.discard(number)
        points.submit((kernel, number), job)

    def _finished(self, points: _Points, seconds: float = 0.0) -> Iterator[Event]:
        """Yields the events of changes that have finished; see `Points.finished`."""
        for (kernel, number), outcome in points.finished(seconds):
            kernel.done(number, outcome)
            yield TrialDone(_label(kernel.kernel), changes_text(kernel.changes[number]))


def _failed(error: ErrorRecord) -> TrialOutcome:
    return TrialOutcome(None, error=error)


def with_trials(report: Report, run: TrialRun) -> Report:
    """A report whose findings have what was tried for them."""
    by_id = {trials.kernel.id: trials.kernel for trials in run.kernels}
    return replace(report, kernels=tuple(by_id.get(kernel.id, kernel) for kernel in report.kernels))


def _with_asked(kernel: KernelReport, rules: frozenset[str] | None) -> KernelReport:
    """The kernel whose leads of rules that are asked for by name are findings, too."""
    asked = tuple(lead for lead in kernel.leads if lead.rule in (rules or ()))
    if not asked:
        return kernel
    leads = tuple(lead for lead in kernel.leads if lead not in asked)
    return replace(kernel, findings=(*kernel.findings, *asked), leads=leads)


def _label(kernel: KernelReport) -> str:
    variant = kernel.variant
    return label_with_arch(variant) if variant is not None else f"{kernel.name} on {kernel.arch}"
