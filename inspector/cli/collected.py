"""A request run to its report, with a line of progress and the same errors in every command."""

from __future__ import annotations

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import ErrorRecord, Report
from ..pipeline.collecting import collect
from ..pipeline.jobs import Request
from .progress import CompileProgress
from .signals import end_as_interrupted


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
