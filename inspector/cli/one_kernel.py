"""The only kernel of a target, for commands that show one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.errors import KinspectError
from ..model import KernelReport
from ..pipeline.analysis_options import AnalysisOptions
from .target_options import TargetOptions

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
