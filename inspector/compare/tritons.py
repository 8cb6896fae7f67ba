"""Compiles kernels with two or more Tritons and compares the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..capture.resolving import resolve_all
from ..capture.targets import Target, only_of
from ..compile.failures import PARSE_STAGE
from ..compile.pool import Compiler
from ..compile.tritons import Interpreter
from ..compile.tritons import resolve as interpreter
from ..model import ErrorRecord, KernelReport, SourceLoc, Variant
from ..pipeline.analysis import tool_versions
from ..pipeline.capturing import COMPILED, variants_of
from ..pipeline.jobs import CompileOutcome, Job, Request, settings_of
from ..pipeline.naming import label_of
from ..pipeline.sweep_point import check_names
from .points import compile_job
from .stages import Comparison, Side, compare


class Build(Struct, frozen=True):
    """One Triton of the run: the user's label for it, its interpreter and its version."""

    label: str
    python: str
    triton_version: str
    triton_key: str


class KernelComparison(Struct, frozen=True):
    """One kernel compiled by two of the builds.

    Args:
        kernel: its name, with the case in brackets where it has one.
        variant: the specialisation, as the first build's front end made it.
        same_ttir: whether both compiled the first build's TTIR. Otherwise the other build did not
            understand that, and each compiled the TTIR of its own front end.
        comparison: None where a build failed, see `errors`.
        errors: label of a build -> why it failed.
        reports: the reports of the left and the right build; None for one that failed.
    """

    kernel: str
    arch: str
    file: str
    source: SourceLoc | None
    variant: Variant
    left: int
    right: int
    same_ttir: bool
    comparison: Comparison | None
    errors: Mapping[str, ErrorRecord]
    notes: tuple[str, ...] = ()
    reports: tuple[KernelReport | None, KernelReport | None] = (None, None)


class BuildsReport(Struct, frozen=True):
    """The result of one run.

    Args:
        tool: name -> version of the software that made the report.
        builds: all builds; the others are compared with the first.
        kernels: one entry for each kernel and each build but the first.
    """

    target: str
    tool: Mapping[str, str]
    builds: tuple[Build, ...]
    kernels: tuple[KernelComparison, ...]
    errors: tuple[ErrorRecord, ...]


Progress = Callable[[int, int], None]
"""Called with the number of finished compiles and that of all planned so far."""


def compare_builds(
    request: Request, tritons: Sequence[str], progress: Progress | None = None
) -> BuildsReport:
    """Compiles the request's kernels with several Tritons and compares each with the first.

    Args:
        request: targets that can be compiled, and how; its `python` is not used.
        tritons: interpreters or labels, at least two; see `compile.tritons`.

    Raises:
        KinspectError: an unknown label, fewer than two, a Triton that cannot be used, or a target
            that is not source.
    """
    if len(tritons) < 2:
        raise KinspectError("one Triton alone cannot be compared", "name two with --triton")
    targets = only_of(
        resolve_all(request.targets),
        COMPILED,
        "it is compiled already, so another Triton cannot compile it",
        "pass the .py or .ttir file",
    )
    interpreters = [interpreter(name) for name in tritons]
    with ExitStack() as stack:
        compilers = [
            stack.enter_context(Compiler(settings_of(replace(request, python=triton.python))))
            for triton in interpreters
        ]
        builds = _with_unique_labels(tuple(map(_build, interpreters, compilers)))
        run = _BuildsRun(request, builds, compilers, progress)
        kernels, errors = run.compared(targets)
    return BuildsReport(" ".join(request.targets), tool_versions(), builds, kernels, errors)


def compile_all(
    tasks: Sequence[tuple[Job, Compiler]],
    threads: int,
    progress: Progress | None = None,
    before: int = 0,
) -> list[CompileOutcome]:
    """Compiles and analyses jobs in several threads, each with its compiler; in their order.

    Where one raises an exception, the compiles of all others are ended.

    Args:
        before: compiles of the run that are done already.
    """
    with ThreadPoolExecutor(threads, "kinspect") as pool:
        futures = [pool.submit(compile_job, job, compiler) for job, compiler in tasks]
        outcomes = []
        try:
            for done, future in enumerate(futures, before + 1):
                outcomes.append(future.result())
                if progress is not None:
                    progress(done, before + len(tasks))
        except BaseException:
            for _, compiler in tasks:
                compiler.abort()
            for future in futures:
                future.cancel()
            raise
    return outcomes


def _build(triton: Interpreter, compiler: Compiler) -> Build:
    toolchain = compiler.toolchain()
    if not triton.holds(toolchain.triton_version):
        raise KinspectError(
            f"{triton.label!r} names {triton.python}, which has Triton {toolchain.triton_version}",
            "correct KINSPECT_TRITONS or the virtual environment, or pass the interpreter's path",
        )
    label = triton.label
    if label in (triton.python, toolchain.python):
        label = f"Triton {toolchain.triton_version}"
    return Build(label, toolchain.python, toolchain.triton_version, toolchain.triton_key)


class _CapturedKernel(Struct, frozen=True):
    """A kernel of a target, as the first build captured it; `order` is its place in the run."""

    target: Target
    variant: Variant
    order: tuple[int, int]


class _Outcomes(Struct, frozen=True):
    """The outcomes of the first build and of another one, by index, for one kernel.

    `ttir_note` says why the other build compiled its own TTIR; None if it compiled the same.
    """

    build: int
    first: CompileOutcome
    other: CompileOutcome
    ttir_note: str | None = None


_Capture = tuple[Mapping[str, Variant], Sequence[ErrorRecord]]
"""The variants of a build's own front end by identity, and the errors of its capture."""


class _BuildsRun(Struct):
    """Captures targets and compiles their kernels with every build."""

    request: Request
    builds: tuple[Build, ...]
    compilers: Sequence[Compiler]
    progress: Progress | None
    compiled: int = 0

    def compared(
        self, targets: Sequence[Target]
    ) -> tuple[tuple[KernelComparison, ...], tuple[ErrorRecord, ...]]:
        """Returns the comparisons of all targets' kernels, and the errors of their capture."""
        kernels: list[KernelComparison] = []
        errors: list[ErrorRecord] = []
        try:
            for index, target in enumerate(targets):
                compared, failed = self._target(index, target)
                kernels += compared
                errors += failed
            check_names([entry.variant for entry in kernels], self.request, self.compilers[0])
        except BaseException:
            for compiler in self.compilers:
                compiler.abort()
            raise
        return tuple(kernels), tuple(errors)

    def _target(
        self, index: int, target: Target
    ) -> tuple[list[KernelComparison], list[ErrorRecord]]:
        """Returns the comparisons of a target's kernels, and the errors of its capture."""
        variants, errors = variants_of(target, self.request, self.compilers[0])
        kernels = [
            _CapturedKernel(target, variant, (index, number))
            for number, variant in enumerate(variants)
        ]
        builds = range(len(self.builds))
        outcomes = iter(
            self._compile([(b, kernel, kernel.variant) for kernel in kernels for b in builds])
        )
        captures: dict[int, _Capture] = {}
        comparisons = []
        for kernel in kernels:
            first, *others = [next(outcomes) for _ in builds]
            for build, outcome in enumerate(others, 1):
                pair = _Outcomes(build, first, outcome)
                if outcome.error is not None and outcome.error.unsupported_ir:
                    pair = self._recaptured(kernel, pair, captures)
                comparisons.append(self._comparison(kernel, pair))
        return comparisons, errors

    def _recaptured(
        self, kernel: _CapturedKernel, refused: _Outcomes, captures: dict[int, _Capture]
    ) -> _Outcomes:
        """Compiles a kernel through another build's own front end, if its target has source."""
        error, build = refused.other.error, refused.build
        if error is None or kernel.target.kind == "ttir":
            return refused
        labels = self.builds[0].label, self.builds[build].label
        verb = "parse" if error.stage == PARSE_STAGE else "compile"
        note = f"TTIR of {labels[0]} does not {verb} in {labels[1]}: {error.unsupported_ir}"
        if build not in captures:
            captured, problems = variants_of(kernel.target, self.request, self.compilers[build])
            captures[build] = {_identity(v): v for v in captured}, problems
        variants, failures = captures[build]
        variant = variants.get(_identity(kernel.variant))
        outcome = refused.other
        if variant is not None:
            (outcome,) = self._compile([(build, kernel, variant)])
        else:
            names = (None, kernel.variant.kernel, label_of(kernel.variant))
            reasons = [failure for failure in failures if failure.kernel in names]
            outcome = replace(outcome, error=reasons[0]) if reasons else outcome
        return replace(refused, other=outcome, ttir_note=note)

    def _comparison(self, kernel: _CapturedKernel, pair: _Outcomes) -> KernelComparison:
        """Compares a kernel's outcome with that of the first build."""
        first_build, other_build = self.builds[0], self.builds[pair.build]
        left, right = first_build.label, other_build.label
        sides = ((left, pair.first), (right, pair.other))
        errors = {label: side.error for label, side in sides if side.error is not None}
        comparison = None
        if not errors and pair.first.reports and pair.other.reports:
            comparison = compare(_side(left, pair.first), _side(right, pair.other))
        notes = [pair.ttir_note] if pair.ttir_note is not None else []
        if first_build.triton_key == other_build.triton_key:
            notes.append(f"{left} and {right} are the same Triton")
        variant = kernel.variant
        return KernelComparison(
            kernel=label_of(variant),
            arch=variant.arch,
            file=str(kernel.target.path),
            source=variant.source,
            variant=variant,
            left=0,
            right=pair.build,
            same_ttir=pair.ttir_note is None,
            comparison=comparison,
            errors=errors,
            notes=tuple(notes),
            reports=(_report(variant, pair.first), _report(variant, pair.other)),
        )

    def _compile(
        self, tasks: Sequence[tuple[int, _CapturedKernel, Variant]]
    ) -> list[CompileOutcome]:
        """Compiles variants: (index of the build, the kernel, its variant); in their order."""
        jobs = [
            (
                Job.of(
                    self.request,
                    str(kernel.target.path),
                    variant,
                    self.compilers[build].settings,
                    kernel.order,
                ),
                self.compilers[build],
            )
            for build, kernel, variant in tasks
        ]
        outcomes = compile_all(jobs, self.request.jobs, self.progress, self.compiled)
        self.compiled += len(jobs)
        return outcomes


def _with_unique_labels(builds: tuple[Build, ...]) -> tuple[Build, ...]:
    """Adds a number to labels of builds that occur more than once."""
    labels = [build.label for build in builds]
    return tuple(
        replace(build, label=f"{build.label} ({number})")
        if labels.count(build.label) > 1
        else build
        for number, build in enumerate(builds, 1)
    )


def _report(variant: Variant, outcome: CompileOutcome) -> KernelReport | None:
    """Returns the report of a build; its variant is the first build's if it has none."""
    if not outcome.reports:
        return None
    report = outcome.reports[0]
    return replace(report, variant=report.variant or variant)


def _side(label: str, outcome: CompileOutcome) -> Side:
    report = outcome.reports[0]
    return Side(label, report.artifacts, report=report)


def _identity(variant: Variant) -> str:
    """Returns a key that is equal for the same specialisation of two front ends."""
    fields = [
        label_of(variant),
        variant.arch,
        dict(variant.signature),
        dict(variant.constexprs),
        dict(variant.tuning or {}),
    ]
    return json.dumps(fields, sort_keys=True, default=str)
