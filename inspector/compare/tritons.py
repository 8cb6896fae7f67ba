"""Compiles kernels with two or more Tritons and compares the results.

The first build's front end makes the TTIR and every build compiles that same text, so that only the
compilers differ. Where a build does not understand the TTIR (operations come and go between
versions), its own front end reads the file, and the comparison notes that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from .. import machines
from ..capture.resolving import resolve_all
from ..capture.targets import Target, only_of
from ..compile.failures import PARSE
from ..compile.pool import Compiler
from ..compile.tritons import Interpreter
from ..compile.tritons import resolve as interpreter
from ..errors import KinspectError
from ..model import ErrorRecord, KernelReport, SourceLoc, Variant
from ..pipeline import analysis
from ..pipeline.capturing import COMPILED, variants_of
from ..pipeline.jobs import Job, Outcome, Request, compile_and_report, label_of, settings_of
from ..version import VERSION
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
        arch: gfx name of the target.
        file: the target as the user named it.
        source: where the kernel is defined.
        variant: the specialisation, as the first build's front end made it.
        left: index of the first build among the run's builds.
        right: index of the other build.
        same_ttir: whether both compiled the first build's TTIR. Otherwise the other build did not
            understand that, and each compiled the TTIR of its own front end.
        comparison: None where a build failed, see `errors`.
        errors: label of a build -> why it failed.
        notes: further notes.
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
        target: what was compared, as the user named it.
        tool: name -> version of the software that made the report.
        builds: all builds; the others are compared with the first.
        kernels: one entry for each kernel and each build but the first.
        errors: what could not be captured.
    """

    target: str
    tool: Mapping[str, str]
    builds: tuple[Build, ...]
    kernels: tuple[KernelComparison, ...]
    errors: tuple[ErrorRecord, ...]


# --------------------------------------------------------------------------- the run

Progress = Callable[[int, int], None]
"""Called with the number of finished compiles and that of all planned so far."""


def compare_builds(
    request: Request, tritons: Sequence[str], progress: Progress | None = None
) -> BuildsReport:
    """Compiles the request's kernels with several Tritons and compares each with the first.

    Args:
        request: targets that can be compiled, and how; its `python` is not used.
        tritons: interpreters or labels, at least two; see `compile.tritons`.
        progress: called after every compile.

    Raises:
        KinspectError: an unknown label, fewer than two, a Triton that cannot be used, or a target
            that is not source.
    """
    if len(tritons) < 2:
        raise KinspectError("one Triton alone cannot be compared", "name two with --triton")
    for arch in request.archs:
        machines.load(arch)
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
        builds = tuple(map(_build, interpreters, compilers))
        run = _Run(request, builds, compilers, progress)
        kernels: list[KernelComparison] = []
        errors: list[ErrorRecord] = []
        try:
            for index, target in enumerate(targets):
                compared, failed = run.target(index, target)
                kernels += compared
                errors += failed
        except BaseException:
            for compiler in compilers:
                compiler.abort()
            raise
        return BuildsReport(
            target=" ".join(request.targets),
            tool={"name": "kinspect", "version": VERSION, "analysis": str(_analysis_version())},
            builds=builds,
            kernels=tuple(kernels),
            errors=tuple(errors),
        )


def _analysis_version() -> int:
    return analysis.ANALYSIS_VERSION


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


class _Run(Struct):
    """Captures and compiles; the results are in the order of the variants."""

    request: Request
    builds: tuple[Build, ...]
    compilers: Sequence[Compiler]
    progress: Progress | None
    done: int = 0
    planned: int = 0

    def __post_init__(self) -> None:
        self.builds = _with_unique_labels(self.builds)

    def target(
        self, index: int, target: Target
    ) -> tuple[list[KernelComparison], list[ErrorRecord]]:
        """All comparisons of one target, and the errors of its capture."""
        variants, errors = variants_of(target, self.request, self.compilers[0])
        jobs = [
            (
                build,
                self._job(index=index, number=number, target=target, variant=variant, build=build),
            )
            for number, variant in enumerate(variants)
            for build in range(len(self.builds))
        ]
        outcomes = self._compiled(jobs)
        width = len(self.builds)
        captured_by_build: dict[int, tuple[Mapping[str, Variant], tuple[ErrorRecord, ...]]] = {}
        comparisons = []
        for number, variant in enumerate(variants):
            outcomes_of_variant = outcomes[number * width : (number + 1) * width]
            for build in range(1, width):
                first, outcome = outcomes_of_variant[0], outcomes_of_variant[build]
                same_ttir = True
                notes: tuple[str, ...] = ()
                error = outcome.error
                if error is not None and error.unlike and target.kind != "ttir":
                    labels = self.builds[0].label, self.builds[build].label
                    verb = "parse" if error.stage == PARSE else "compile"
                    notes = (f"TTIR of {labels[0]} does not {verb} in {labels[1]}: {error.unlike}",)
                    if build not in captured_by_build:
                        captured, failed = variants_of(target, self.request, self.compilers[build])
                        captured_by_build[build] = (
                            {_identity(own_variant): own_variant for own_variant in captured},
                            tuple(failed),
                        )
                    outcome = self._by_own_front_end(
                        index=index,
                        number=number,
                        target=target,
                        variant=variant,
                        build=build,
                        own=captured_by_build[build],
                        refused=outcome,
                    )
                    same_ttir = False
                comparisons.append(
                    self._comparison(
                        target=target,
                        variant=variant,
                        build=build,
                        first=first,
                        outcome=outcome,
                        same_ttir=same_ttir,
                        notes=notes,
                    )
                )
        return comparisons, errors

    def _by_own_front_end(
        self,
        index: int,
        number: int,
        target: Target,
        variant: Variant,
        build: int,
        own: tuple[Mapping[str, Variant], tuple[ErrorRecord, ...]],
        refused: Outcome,
    ) -> Outcome:
        """Compiles a kernel through the other build's own front end.

        Args:
            index: number of the target.
            number: number of the variant in the target.
            target: the target.
            variant: the specialisation, as the first build made it.
            build: index of the other build.
            own: the variants of the other build's front end by identity, and its errors.
            refused: the outcome of compiling the first build's TTIR, which failed.
        """
        variants, failed = own
        twin = variants.get(_identity(variant))
        if twin is None:
            names = (None, variant.kernel, label_of(variant))
            errors = [error for error in failed if error.kernel in names]
            return replace(refused, error=errors[0]) if errors else refused
        return self._compiled(
            [
                (
                    build,
                    self._job(index=index, number=number, target=target, variant=twin, build=build),
                )
            ]
        )[0]

    def _comparison(
        self,
        target: Target,
        variant: Variant,
        build: int,
        first: Outcome,
        outcome: Outcome,
        same_ttir: bool,
        notes: tuple[str, ...],
    ) -> KernelComparison:
        left, right = self.builds[0].label, self.builds[build].label
        pairs = ((left, first), (right, outcome))
        errors = {
            label: side_outcome.error
            for label, side_outcome in pairs
            if side_outcome.error is not None
        }
        comparison = None
        if not errors and first.reports and outcome.reports:
            comparison = compare(_side(left, first), _side(right, outcome))
        if self.builds[0].triton_key == self.builds[build].triton_key:
            notes = (*notes, f"{left} and {right} are the same Triton")
        return KernelComparison(
            kernel=label_of(variant),
            arch=variant.arch,
            file=str(target.path),
            source=variant.source,
            variant=variant,
            left=0,
            right=build,
            same_ttir=same_ttir,
            comparison=comparison,
            errors=errors,
            notes=notes,
            reports=(_report(variant, first), _report(variant, outcome)),
        )

    def _job(self, index: int, number: int, target: Target, variant: Variant, build: int) -> Job:
        settings = self.compilers[build].settings
        return Job(
            order=(index, number),
            path=str(target.path),
            variant=variant,
            settings=settings,
            overrides=self.request.overrides,
        )

    def _compiled(self, jobs: Sequence[tuple[int, Job]]) -> list[Outcome]:
        self.planned += len(jobs)
        with ThreadPoolExecutor(self.request.jobs, "kinspect") as pool:
            futures: list[Future[Outcome]] = [
                pool.submit(compile_and_report, job, self.compilers[build]) for build, job in jobs
            ]
            outcomes = []
            try:
                for future in futures:
                    outcomes.append(future.result())
                    self.done += 1
                    if self.progress is not None:
                        self.progress(self.done, self.planned)
            except BaseException:
                for compiler in self.compilers:
                    compiler.abort()
                for future in futures:
                    future.cancel()
                raise
        return outcomes


def _with_unique_labels(builds: tuple[Build, ...]) -> tuple[Build, ...]:
    """The builds with a number added to labels that occur more than once."""
    labels = [build.label for build in builds]
    return tuple(
        replace(build, label=f"{build.label} ({number})")
        if labels.count(build.label) > 1
        else build
        for number, build in enumerate(builds, 1)
    )


def _report(variant: Variant, outcome: Outcome) -> KernelReport | None:
    """The report of a build, under the name that the first build's front end gave the kernel."""
    if not outcome.reports:
        return None
    report = outcome.reports[0]
    return replace(report, variant=report.variant or variant)


def _side(label: str, outcome: Outcome) -> Side:
    report = outcome.reports[0]
    return Side(label, report.artifacts, report=report)


def _identity(variant: Variant) -> str:
    """A key that is equal for variants of two front ends that are the same specialisation."""
    fields = [
        label_of(variant),
        variant.arch,
        dict(variant.signature),
        dict(variant.constexprs),
        dict(variant.tuning or {}),
    ]
    return json.dumps(fields, sort_keys=True, default=str)
