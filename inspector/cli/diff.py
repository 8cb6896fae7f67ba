"""`kinspect diff`: compares two reports, targets, option sets or Tritons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..compare.diff.diff_results import DiffReport
from ..compare.diff.isa import assembly_of
from ..compare.diff.pairing import ARCH
from ..compare.diff.reports import DiffOptions, NamedReport, diff_reports
from ..compare.diff.tolerances import tolerances_of
from ..model import Report
from ..pipeline.jobs import Request, beside, timing
from .declared import command, option
from .options import (
    ARGUMENTS,
    COLOR,
    EMULATE,
    OUTPUT,
    format_option,
    result_stream,
)
from .progress import CompileProgress, counting, print_error, problem
from .target_options import ScriptCommand, TargetOptions, targets

FAIL_ON = ("never", "regression", "difference")


@command("diff", cls=ScriptCommand)
def diff_command(
    tritons: tuple[str, ...] = option(
        "Triton that compiles: an interpreter, or a label such as 3.6.  Twice: compare the two.",
        "--triton",
        metavar="PATH|LABEL",
    ),
    sets: tuple[str, ...] = option(
        "Options of the backend, compiled from the same TTIR; of a HIP source, macros and template "
        "parameters.  Once: against the kernel as it is; twice: one against the other.",
        "--set",
        "--with",
        metavar="NAME=V[,NAME=V...]",
    ),
    form: str = format_option("text", "json", "md", "agent"),
    output: Path | None = OUTPUT,
    fail_on: str = option(
        "Exit with 1 where something that matters got worse, or anything differs.  With "
        "`regression`, exit with 2 where something could not be compared.",
        type=click.Choice(FAIL_ON),
        default="never",
        show_default=True,
    ),
    allow_new: bool = option("Kernels that B alone has do not fail --fail-on regression."),
    tolerances: tuple[str, ...] = option(
        "How much worse a figure may get, e.g. vgpr_count=5%; more is a regression.",
        "--tolerance",
        metavar="NAME=N[%]",
    ),
    isa: bool = option("Show the code of every kernel that changed, in full."),
    details: bool = option("Show every kernel that changed, not the worst only."),
    no_passes: bool = option("Do not record the MLIR dump (faster compiles)."),
    emulate: bool = EMULATE,
    target: TargetOptions = targets("A [B]", nargs=-1, triton=False),
    arguments: str | None = ARGUMENTS,
    color: bool | None = COLOR,
) -> int:
    """Say what changed, kernel by kernel, and whether it matters.

    Give two of anything that `analyze` takes (A is before, B after), or one TARGET with
    two --arch, two --triton, or --set.  More registers are not a regression while the same number
    of waves is resident; nor are spills outside of hot loops.

    Exit status: 0, or 1 as --fail-on says. 2 if something failed or, with `--fail-on regression`,
    could not be compared.
    """
    target = target.with_triton(tritons)
    analysis = timing(**beside(arguments))
    request = target.request(passes=not no_passes, emulate=emulate, analysis=analysis)
    comparison = _comparison(request.targets, request.archs, tritons, sets)
    options = DiffOptions(tolerances_of(tolerances))
    if isa:
        options = replace(options, most_isa=None)
    report = _COMPARISONS[comparison](_DiffRun(request, options, tritons, sets))
    with result_stream(output) as stream:
        if form == "json":
            from ..formats import diff_json

            diff_json.write(report, stream)
        elif form == "agent":
            from ..formats import diff_agent

            diff_agent.write(report, stream)
        elif form == "md":
            from ..present.diff import write_markdown

            write_markdown(report, stream, details=details)
        else:
            from ..present.diff import write_text

            write_text(report, stream, details=details or isa, isa_in_full=isa, color=color)
    return _status(report, fail_on, allow_new)


def _comparison(
    targets: Sequence[str], archs: Sequence[str], tritons: Sequence[str], sets: Sequence[str]
) -> str:
    """Returns the key of `_COMPARISONS` that the arguments ask for."""
    ways = {
        "targets": len(targets) > 1,
        "tritons": len(tritons) > 1,
        "options": bool(sets),
        "archs": len(archs) > 1 and len(targets) == 1 and len(tritons) < 2 and not sets,
    }
    chosen = [way for way, holds in ways.items() if holds]
    if not chosen:
        raise KinspectError(
            "one target alone cannot be compared",
            "name a second one, two --arch, two --triton, or --set NAME=VALUE",
        )
    if len(chosen) > 1:
        raise KinspectError(
            f"this asks for several comparisons at once: by {' and by '.join(chosen)}",
            "compare in one way at a time",
        )
    numbers = {"targets": targets, "tritons": tritons, "options": sets, "archs": archs}
    if len(numbers[chosen[0]]) > 2:
        raise KinspectError(
            f"diff compares two, not {len(numbers[chosen[0]])}", f"name two {chosen[0]}"
        )
    return chosen[0]


class _DiffRun(Struct, frozen=True):
    """A run and the things that are compared in it, if they are not its targets."""

    request: Request
    options: DiffOptions
    tritons: Sequence[str]
    sets: Sequence[str]


def _targets(run: _DiffRun) -> DiffReport:
    names = run.request.targets
    reports = [_report(replace(run.request, targets=(name,))) for name in names]
    labels = names if names[0] != names[1] else (f"{names[0]} (1)", f"{names[1]} (2)")
    left, right = (
        NamedReport(label, report) for label, report in zip(labels, reports, strict=True)
    )
    return diff_reports(left, right, run.options, assembly_of)


def _archs(run: _DiffRun) -> DiffReport:
    report = _report(run.request)
    left, right = (
        NamedReport(
            arch, replace(report, kernels=tuple(k for k in report.kernels if k.arch == arch))
        )
        for arch in run.request.archs
    )
    # Both sides have the same errors: they are reported once.
    right = NamedReport(right.label, replace(right.report, errors=()))
    return diff_reports(left, right, replace(run.options, varied=(ARCH,)), assembly_of)


def _tritons(run: _DiffRun) -> DiffReport:
    from ..compare.diff.two_compiles import diff_builds

    with counting() as progress:
        return diff_builds(run.request, run.tritons, run.options, assembly_of, progress)


def _options(run: _DiffRun) -> DiffReport:
    from ..compare.diff.two_compiles import OptionSet, diff_options, option_set

    sets = [option_set(text) for text in run.sets]
    left, right = sets if len(sets) == 2 else (OptionSet({}), sets[0])
    with counting() as progress:
        return diff_options(run.request, (left, right), run.options, assembly_of, progress)


_COMPARISONS: dict[str, Callable[[_DiffRun], DiffReport]] = {
    "targets": _targets,
    "archs": _archs,
    "tritons": _tritons,
    "options": _options,
}


def _report(request: Request) -> Report:
    """Analyses one side, with a line of progress on stderr."""
    from ..pipeline.collecting import collect

    progress = CompileProgress()
    try:
        return collect(request, progress.on_event, partial=False)
    finally:
        progress.close()


def _status(report: DiffReport, fail_on: str, allow_new: bool) -> int:
    """Returns the exit status; every reason for a 2 is a line on stderr."""
    reasons = [(f"{side}: {problem(error)}", error.hint) for side, error in report.errors]
    if fail_on == "regression":
        failed = len(report.errors)
        reasons += [
            (f"cannot be compared: {reason}", "")
            for reason in report.not_compared(allow_new=allow_new)[failed:]
        ]
    for reason, hint in reasons:
        print_error(reason, hint)
    if reasons:
        return 2
    if fail_on == "regression":
        return 1 if report.regressed else 0
    return 1 if fail_on == "difference" and report.differs else 0
