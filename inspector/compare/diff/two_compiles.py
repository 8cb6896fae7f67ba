"""Compiles kernels in two ways to compare them: with other options, or by two Tritons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...capture.resolving import resolve_all
from ...capture.sweep_axes import Axis, Value, axes_of, refused_name, unresolved_names
from ...capture.targets import Target, only_of
from ...compile.pool import Compiler
from ...model import ErrorRecord, KernelReport, Variant
from ...pipeline.analysis import tool_versions
from ...pipeline.capturing import COMPILED, variants_of
from ...pipeline.error_records import target_record
from ...pipeline.hip_sources import kernels_of, knobs_of, options_of
from ...pipeline.jobs import Job, Request, settings_of
from ...pipeline.naming import label_of
from ..stages import Comparison
from ..tritons import Progress, compare_builds, compile_all
from .diff_results import Alone, DiffReport, KernelDiff
from .reports import DiffOptions, TextReader, diff_kernels, finished

_NO_OPTIONS = "as it is"


class OptionSet(Struct, frozen=True):
    """Options of one side, which replace or join those that a kernel was captured with."""

    values: Mapping[str, Value]

    @property
    def label(self) -> str:
        """`num_stages=3, waves_per_eu=2`; `as it is` for an empty set."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or _NO_OPTIONS


def option_set(text: str) -> OptionSet:
    """Parses `num_stages=3,waves_per_eu=2`.

    Raises:
        KinspectError: the text is not of that form, or names an option twice.
    """
    values: dict[str, Value] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        (axis,) = axes_of([part])
        if len(axis.values) != 1 or axis.name in values:
            raise KinspectError(
                f"--set {text}: one value for each option", "write --set num_stages=3,kpack=2"
            )
        values[axis.name] = axis.values[0]
    if not values:
        raise KinspectError("--set names no option", "write e.g. --set num_stages=3")
    return OptionSet(values)


def diff_options(
    request: Request,
    sets: tuple[OptionSet, OptionSet],
    options: DiffOptions,
    text: TextReader,
    progress: Progress | None = None,
) -> DiffReport:
    """Compiles each kernel with two sets of options, from one TTIR, and compares.

    Args:
        sets: the options of the left side and of the right.

    Raises:
        KinspectError: a target that is compiled already, or an option that the front end reads.
    """
    targets = only_of(
        resolve_all(request.targets, request.archs),
        COMPILED | {"hip"},
        "it is compiled already, so other options change nothing",
        "name the .py or .hip file, or the .ttir that it was made from",
    )
    of_triton = [target for target in targets if target.kind != "hip"]
    kernels = _ComparedKernels((sets[0].label, sets[1].label), options)
    with Compiler(settings_of(request)) as compiler:
        if of_triton:
            _refuse_unknown(sets, compiler, of_triton)
        for index, target in enumerate(targets):
            variants, errors = _variants(target, request, sets, compiler)
            for error in errors:
                kernels.add_error("capture", error)
            jobs = [
                _job(request, target, variant, option_set, compiler, (index, number))
                for number, variant in enumerate(variants)
                for option_set in sets
            ]
            outcomes = compile_all([(job, compiler) for job in jobs], request.jobs, progress)
            for variant, left, right in zip(variants, outcomes[::2], outcomes[1::2], strict=True):
                reports = [side.reports[0] if side.reports else None for side in (left, right)]
                kernels.add(variant, reports, [left.error, right.error])
        return finished(kernels.report(tool_versions()), options, text)


def _variants(
    target: Target, request: Request, sets: Sequence[OptionSet], compiler: Compiler
) -> tuple[Sequence[Variant], Sequence[ErrorRecord]]:
    """The kernels of a target, and why some of them are missing."""
    if target.kind != "hip":
        return variants_of(target, request, compiler)
    try:
        for option_set in sets:
            knobs_of(target, option_set.values)
        return kernels_of(target, request, sets[0].values), ()
    except KinspectError as error:
        return (), (target_record(target, "compile", error),)


def _job(
    request: Request,
    target: Target,
    variant: Variant,
    option_set: OptionSet,
    compiler: Compiler,
    order: tuple[int, int],
) -> Job:
    """The job of one side: options of Triton's backend, or values of a HIP source."""
    job = Job.of(request, str(target.path), variant, compiler.settings, order)
    if target.kind == "hip":
        own = options_of(request)
        return replace(job, hip=replace(own, values={**own.values, **option_set.values}))
    return replace(job, variant=replace(variant, options={**variant.options, **option_set.values}))


def diff_builds(
    request: Request,
    tritons: Sequence[str],
    options: DiffOptions,
    text: TextReader,
    progress: Progress | None = None,
) -> DiffReport:
    """Compiles each kernel with two Tritons and compares; see `tritons.compare_builds`.

    Args:
        tritons: the left one and the right one, by label or path.

    Raises:
        KinspectError: as `compare_builds`, or there are not two Tritons.
    """
    if len(tritons) != 2:
        raise KinspectError(
            f"diff compares two Tritons, not {len(tritons)}",
            "name two with --triton, or use `kinspect analyze` with all of them",
        )
    builds_report = compare_builds(request, tritons, progress)
    labels = builds_report.builds[0].label, builds_report.builds[1].label
    kernels = _ComparedKernels(labels, options)
    for error in builds_report.errors:
        kernels.add_error(labels[0], error)
    for kernel in builds_report.kernels:
        errors = [kernel.errors.get(label) for label in labels]
        kernels.add(kernel.variant, kernel.reports, errors, kernel.comparison, kernel.notes)
    return finished(kernels.report(builds_report.tool), options, text)


class _ComparedKernels:
    """The kernels of a run, compared: pairs, and those that only one side could compile."""

    def __init__(self, labels: tuple[str, str], options: DiffOptions) -> None:
        self._labels = labels
        self._options = options
        self._pairs: list[KernelDiff] = []
        self._only_left: list[Alone] = []
        self._only_right: list[Alone] = []
        self._errors: list[tuple[str, ErrorRecord]] = []

    def add_error(self, label: str, error: ErrorRecord) -> None:
        """Adds an error from before there was a kernel, with its stage or side as label."""
        self._errors.append((label, error))

    def add(
        self,
        variant: Variant,
        reports: Sequence[KernelReport | None],
        errors: Sequence[ErrorRecord | None],
        comparison: Comparison | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Adds a kernel: a pair, or one side alone with why the other one failed."""
        for label, error in zip(self._labels, errors, strict=True):
            if error is not None:
                self._errors.append((label, error))
        left, right = reports
        if left is not None and right is not None:
            pair = diff_kernels(
                _with_case(left, variant),
                _with_case(right, variant),
                self._options.tolerances,
                self._labels,
                comparison=comparison,
            )
            self._pairs.append(replace(pair, notes=(*pair.notes, *notes)) if notes else pair)
        elif left is not None:
            self._only_left.append(_alone(variant, left, errors[1]))
        elif right is not None:
            self._only_right.append(_alone(variant, right, errors[0]))

    def report(self, tool: Mapping[str, str]) -> DiffReport:
        """Returns the comparison of all kernels, in the order in which they were added."""
        stated = self._options.tolerances.stated
        return DiffReport(
            tool=tool,
            left=self._labels[0],
            right=self._labels[1],
            pairs=tuple(self._pairs),
            only_left=tuple(self._only_left),
            only_right=tuple(self._only_right),
            errors=tuple(self._errors),
            tolerances={name: str(tolerance) for name, tolerance in stated.items()},
        )


def _with_case(report: KernelReport, variant: Variant) -> KernelReport:
    """Gives a report's specialisation the case's name of the capture."""
    report_variant = report.variant if report.variant is not None else variant
    return replace(report, variant=replace(report_variant, case=variant.case))


def _alone(variant: Variant, report: KernelReport, error: ErrorRecord | None) -> Alone:
    """Returns a kernel that the other side could not compile, with the reason."""
    why = f"{error.stage}: {error.message}" if error is not None else ""
    return Alone(label_of(variant), variant.arch, report, why)


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
