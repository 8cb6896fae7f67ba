"""Kernels compiled in two ways to be compared: with other options, or by two Tritons.

Both ways start from one capture, so that what differs is what was asked for: every kernel's TTIR is
compiled with the options of one side and with those of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from msgspec import Struct
from msgspec.structs import replace

from ... import machines
from ...capture.axes import Axis, Value, axes_of, refused_name, unresolved_names
from ...capture.resolving import resolve_all
from ...capture.targets import Target, only_of
from ...compile.pool import Compiler
from ...errors import KinspectError
from ...model import ErrorRecord, KernelReport, Variant
from ...pipeline import analysis
from ...pipeline.capturing import COMPILED, variants_of
from ...pipeline.jobs import Job, Outcome, Request, compile_and_report, label_of, settings_of
from ...version import VERSION
from ..tritons import BuildsReport, KernelComparison, compare_builds
from .reports import Options, Text, diff_kernels, finished
from .results import Alone, DiffReport, KernelDiff

Progress = Callable[[int, int], None]
"""Is told how many compiles are done, of how many."""
AS_IT_IS = "as it is"


class OptionSet(Struct, frozen=True):
    """Options of one side, laid over those that a kernel was captured with."""

    values: Mapping[str, Value]

    @property
    def label(self) -> str:
        """`num_stages=3, waves_per_eu=2`."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or AS_IT_IS


def option_set(text: str) -> OptionSet:
    """What was typed: `num_stages=3,waves_per_eu=2`.

    Raises:
        KinspectError: it is not of that form, or names an option twice.
    """
    axes: list[Axis] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        part_axes = axes_of([part])
        if len(part_axes[0].values) != 1 or part_axes[0].name in {axis.name for axis in axes}:
            raise KinspectError(
                f"--set {text}: one value for each option", "write --set num_stages=3,kpack=2"
            )
        axes += part_axes
    if not axes:
        raise KinspectError("--set names no option", "write e.g. --set num_stages=3")
    return OptionSet({axis.name: axis.values[0] for axis in axes})


# --------------------------------------------------------------------------- options


def diff_options(
    request: Request,
    sets: tuple[OptionSet, OptionSet],
    options: Options,
    text: Text,
    progress: Progress | None = None,
) -> DiffReport:
    """Compiles each kernel with two sets of options, from one TTIR, and compares.

    Args:
        request: targets that can be compiled, and how.
        sets: the options of the left side and of the right.
        options: how to compare.
        text: the assembly of a kernel.
        progress: called after every compile.

    Raises:
        KinspectError: a target that is compiled already, or an option that the front end reads.
    """
    for arch in request.archs:
        machines.load(arch)
    targets = only_of(
        resolve_all(request.targets, request.archs),
        COMPILED,
        "it is compiled already, so other options change nothing",
        "name the .py file or the .ttir that it was made from",
    )
    with Compiler(settings_of(request)) as compiler:
        _refuse_unknown(sets, compiler, targets)
        pairs: list[KernelDiff] = []
        failed: list[tuple[str, ErrorRecord]] = []
        alone: tuple[list[Alone], list[Alone]] = ([], [])
        labels = sets[0].label, sets[1].label
        for index, target in enumerate(targets):
            variants, errors = variants_of(target, request, compiler)
            failed += [("capture", error) for error in errors]
            jobs = [
                Job(
                    (index, n),
                    str(target.path),
                    replace(variant, options={**variant.options, **side_options.values}),
                    compiler.settings,
                    request.overrides,
                )
                for n, variant in enumerate(variants)
                for side_options in sets
            ]
            outcomes = _compiled(jobs, compiler, request.jobs, progress)
            for n, variant in enumerate(variants):
                pair_outcomes = outcomes[2 * n], outcomes[2 * n + 1]
                reports = [o.reports[0] if o.reports else None for o in pair_outcomes]
                errors_of = [o.error for o in pair_outcomes]
                _collect(variant, reports, errors_of, labels, options, pairs, alone, failed)
        result = DiffReport(
            tool=_tool(),
            left=labels[0],
            right=labels[1],
            pairs=tuple(pairs),
            only_left=tuple(alone[0]),
            only_right=tuple(alone[1]),
            errors=tuple(failed),
            tolerances={name: str(t) for name, t in options.tolerances.stated.items()},
        )
        return finished(result, options, text)


def _refuse_unknown(
    sets: Sequence[OptionSet], compiler: Compiler, targets: Sequence[Target]
) -> None:
    """Refuses options that this Triton's backend does not have, or its front end reads."""
    backend_options = frozenset(compiler.toolchain().options)
    axes = [
        Axis(name, (value,)) for side_options in sets for name, value in side_options.values.items()
    ]
    unknown = unresolved_names(axes, backend_options, ())
    if unknown:
        raise refused_name(unknown[0], backend_options, (), ", ".join(str(t.path) for t in targets))


def _compiled(
    jobs: Sequence[Job], compiler: Compiler, threads: int, progress: Progress | None
) -> list[Outcome]:
    with ThreadPoolExecutor(threads, "kinspect") as pool:
        futures: list[Future[Outcome]] = [
            pool.submit(compile_and_report, job, compiler) for job in jobs
        ]
        outcomes = []
        try:
            for done, future in enumerate(futures, 1):
                outcomes.append(future.result())
                if progress is not None:
                    progress(done, len(jobs))
        except BaseException:
            compiler.abort()
            for future in futures:
                future.cancel()
            raise
    return outcomes


# --------------------------------------------------------------------------- builds


def diff_builds(
    request: Request,
    tritons: Sequence[str],
    options: Options,
    text: Text,
    progress: Progress | None = None,
) -> DiffReport:
    """Compiles each kernel with two Tritons and compares; see `tritons.compare_builds`.

    Raises:
        KinspectError: likewise, or more than two Tritons.
    """
    if len(tritons) != 2:
        raise KinspectError(
            f"diff compares two Tritons, not {len(tritons)}",
            "name two with --triton, or use `kinspect analyze` with all of them",
        )
    builds_report = compare_builds(request, tritons, progress)
    return finished(of_builds(builds_report, options), options, text)


def of_builds(builds_report: BuildsReport, options: Options) -> DiffReport:
    """The comparison of two builds, judged."""
    labels = builds_report.builds[0].label, builds_report.builds[1].label
    pairs: list[KernelDiff] = []
    alone: tuple[list[Alone], list[Alone]] = ([], [])
    failed = [(labels[0], error) for error in builds_report.errors]
    for kernel in builds_report.kernels:
        errors = [kernel.errors.get(label) for label in labels]
        first_added = len(pairs)
        _collect(
            kernel.variant,
            kernel.reports,
            errors,
            labels,
            options,
            pairs,
            alone,
            failed,
            kernel,
        )
        for n in range(first_added, len(pairs)):
            pairs[n] = replace(pairs[n], notes=(*pairs[n].notes, *kernel.notes))
    return DiffReport(
        tool=builds_report.tool,
        left=labels[0],
        right=labels[1],
        pairs=tuple(pairs),
        only_left=tuple(alone[0]),
        only_right=tuple(alone[1]),
        errors=tuple(failed),
        tolerances={name: str(t) for name, t in options.tolerances.stated.items()},
    )


def _collect(
    variant: Variant,
    reports: Sequence[KernelReport | None],
    errors: Sequence[ErrorRecord | None],
    labels: tuple[str, str],
    options: Options,
    pairs: list[KernelDiff],
    alone: tuple[list[Alone], list[Alone]],
    failed: list[tuple[str, ErrorRecord]],
    kernel_comparison: KernelComparison | None = None,
) -> None:
    """Files one kernel: a pair, or a side alone with why the other one failed."""
    failed += [
        (label, error) for label, error in zip(labels, errors, strict=True) if error is not None
    ]
    left, right = reports
    if left is not None and right is not None:
        comparison = kernel_comparison.comparison if kernel_comparison is not None else None
        named = [replace(side, variant=_called(side, variant)) for side in (left, right)]
        pairs.append(diff_kernels(named[0], named[1], options.tolerances, labels, "", comparison))
        return
    for n, report in enumerate((left, right)):
        if report is not None:
            error = errors[1 - n]
            why = f"{error.stage}: {error.message}" if error is not None else ""
            alone[n].append(Alone(label_of(variant), variant.arch, report, why))


def _called(report: KernelReport, variant: Variant) -> Variant:
    """The report's own specialisation under the name that the capture gave it."""
    own = report.variant if report.variant is not None else variant
    return replace(own, case=variant.case)


def _tool() -> dict[str, str]:
    version = str(analysis.ANALYSIS_VERSION)
    return {"name": "kinspect", "version": VERSION, "analysis": version}
