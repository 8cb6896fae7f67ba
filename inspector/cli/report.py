"""`kinspect report`: writes a report or a profiler's run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..base.errors import KinspectError
from .collected import collected
from .declared import command, option
from .options import ARGUMENTS, EMULATE, result_stream
from .progress import print_problems
from .target_options import ScriptCommand, TargetOptions, targets

if TYPE_CHECKING:
    from ..pipeline.jobs import Request


@command(cls=ScriptCommand)
def report_command(
    output: Path = option(
        "Where to write the page.", "--output", "-o", required=True, metavar="FILE.html"
    ),
    joined: tuple[str, ...] = option(
        "For a profiler's run: also analyse this and show it.", "--with", metavar="TARGET"
    ),
    emulate: bool = EMULATE,
    arguments: str | None = ARGUMENTS,
    target: TargetOptions = targets("RUN|TARGET...", nargs=-1, point=True),
) -> int:
    """Write a report, or a profiler's run with the kernels that it launched, as one HTML page.

    RUN is a folder of `kinspect profile`, or any recording that `kinspect profile import` reads;
    TARGET is what `kinspect analyze` takes, saved reports included. The page needs no network and
    no other file: plots are inline SVG.
    """
    from ..pipeline.jobs import beside, timing
    from ..pipeline.recording_input import is_recording

    analysis = timing(**beside(arguments))
    request, targets = target.request(emulate=emulate, analysis=analysis), target.targets
    runs = [name for name in targets if is_recording(Path(name))]
    if runs and len(targets) > 1:
        raise KinspectError(
            f"{runs[0]}: a page shows one run alone",
            "write a page for each, compare two with `kinspect profile compare`, or add targets "
            "to a run with --with",
        )
    if runs:
        return _write_run(request, joined, output)
    if joined:
        raise KinspectError(
            f"--with: {targets[0]} is not a recording of a profiler", "name a run, or drop --with"
        )
    return _write_report(request, output)


def _write_run(request: Request, joined: tuple[str, ...], output: Path) -> int:
    """Writes the page of a profiler's run, joined with targets; returns the exit status."""
    # Imported only here: other commands need no templates.
    from ..formats.html import page
    from ..formats.html.kernel import page_kernels
    from ..pipeline import profiling
    from ..pipeline.collecting import collect

    options = profiling.Options(
        kernel=request.kernel,
        targets=joined,
        arch=request.archs[0] if request.archs else None,
        request=replace(request, targets=joined, archs=(), kernel=None),
    )
    profile = profiling.profile_of(Path(request.targets[0]), options, collect)
    with result_stream(output, log=False) as stream:
        page.write_profile(profile, page_kernels(profile.reports), stream)
    errors = (*profile.recording.errors, *profile.errors)
    print_problems(errors, ())
    return 2 if errors else 0


def _write_report(request: Request, output: Path) -> int:
    """Analyses the targets and writes the page of their report; returns the exit status."""
    from ..explain import view
    from ..formats.html import page
    from ..formats.html.kernel import page_kernels

    report = collected(request)
    with result_stream(output, log=False) as stream:
        page.write_report(report, page_kernels(view.worst_first(report.kernels)), stream)
    print_problems(report.errors, report.notes)
    return 2 if report.errors else 0
