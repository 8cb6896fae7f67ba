"""A request run to its report, with a line of progress and the same errors in every command.

The only kernel of a target, for commands that show one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import ErrorRecord, KernelReport, Report
from ..pipeline.analysis_options import AnalysisOptions
from ..pipeline.collecting import collect
from ..pipeline.jobs import Request
from .progress import CompileProgress
from .signals import end_as_interrupted
from .target_options import TargetOptions


def collected(request: Request, *, partial: bool = True) -> Report:
    """Runs a request, with a line of progress on stderr; `partial` as of `collect`.

    A launch that `--args` states and that is impossible is an error of the report.

    Raises:
        KinspectError: as `collect`.
        KeyboardInterrupt: as `collect`.
    """
    progress = CompileProgress()
    end_as_interrupted()
    try:
        report = collect(request, progress.on_event, partial=partial)
    finally:
        progress.close()
    time = request.analysis.time if request.analysis is not None else None
    if time is None or time.arguments is None:
        return report
    refused = (
        ErrorRecord(None, kernel.name, "time", f"--args: {kernel.no_time}", "")
        for kernel in report.kernels
        if kernel.no_time and kernel.variant is None
    )
    return replace(report, errors=(*report.errors, *refused))


def check_any(report: Report) -> None:
    """Raises a KinspectError where there is neither a kernel nor an error that says why."""
    if not report.kernels and not report.errors:
        raise KinspectError("there is no kernel in it", "see `kinspect analyze` for what it takes")


def check_one_launch(report: Report, time_us: float | None) -> None:
    """Raises a KinspectError where a measured time is stated for several kernels."""
    if time_us is not None and len(report.kernels) > 1:
        raise KinspectError(
            f"--time-us {time_us:g} is of one launch, but there are {len(report.kernels)} kernels",
            "narrow the targets down with --kernel, --arch or --first 1",
        )


CASE_HELP = (
    "Of several specialisations of a kernel the one whose label (as `analyze` prints it) is or"
    " contains this."
)
_MOST_NAMED = 8


def only_kernel(
    target: TargetOptions,
    case: str | None,
    analysis: AnalysisOptions,
    *,
    is_shown: Callable[[KernelReport], bool],
    nothing: tuple[str, str],
) -> KernelReport:
    """Analyses the target and returns its only kernel, or the only one of that case.

    Args:
        target: the options; the first of its targets is analysed.
        case: a label, or a part of one; None for any.

    Raises:
        KinspectError: there is none, or more than one.
    """
    from ..pipeline.collecting import collect

    name = target.targets[0]
    report = collect(target.request(analysis=analysis))
    kernels = [kernel for kernel in report.kernels if is_shown(kernel)]
    of_case = kernels if case is None else _of_case(kernels, case)
    if len(of_case) == 1:
        return of_case[0]
    if of_case:
        raise KinspectError(
            f"{name}: it has {len(of_case)} kernels",
            f"choose one with --kernel, --arch or --case: {_listed(of_case)}",
        )
    if kernels:
        raise KinspectError(f"{name}: it has no case {case}", f"there are: {_listed(kernels)}")
    if report.errors:
        raise KinspectError(f"{name}: {report.errors[0].message}", report.errors[0].hint)
    message, hint = nothing
    raise KinspectError(f"{name}: {message}", hint)


def _label(kernel: KernelReport) -> str:
    """Returns `kernel[case]@arch`."""
    case = _case(kernel)
    return f"{kernel.name}[{case}]@{kernel.arch}" if case else f"{kernel.name}@{kernel.arch}"


def _case(kernel: KernelReport) -> str | None:
    return kernel.variant.case if kernel.variant is not None else None


def _listed(kernels: Sequence[KernelReport]) -> str:
    """The first kernels by their labels."""
    names = ", ".join(map(_label, kernels[:_MOST_NAMED]))
    return f"{names}, …" if len(kernels) > _MOST_NAMED else names


def _of_case(kernels: Sequence[KernelReport], case: str) -> list[KernelReport]:
    """The kernels whose label is `case`, else those whose label contains it."""
    labelled = [kernel for kernel in kernels if case in (_case(kernel) or "")]
    return [kernel for kernel in labelled if _case(kernel) == case] or labelled
