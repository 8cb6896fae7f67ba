"""`kinspect.try_`: the cures of findings, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.limits import MOST_SECONDS, TRY_SECONDS
from ..compare.trials.planning import judging_pack
from ..compare.trials.trial_run import Trials, TryRequest
from ..model import Report
from ..pipeline.analysis import with_findings
from ..pipeline.analysis_options import AnalysisOptions
from ..pipeline.jobs import request_for, timing
from .analysing import analysis_of
from .jit_kernels import Grid
from .results import Analysis, AnalyzedKernel, Origin, TrialResult
from .targets import Target


def try_(
    target: Target | Analysis | AnalyzedKernel,
    *args: Any,
    arch: str | Sequence[str] | None = None,
    kernel: str | None = None,
    grid: Grid = None,
    rules: Sequence[str] = (),
    budget: float = TRY_SECONDS,
    **options: Any,
) -> TrialResult:
    """Compiles the cures of each finding, and tells what came of them: their time, if it is known.

    >>> analysis = kinspect.analyze("docs/examples/column_sums.py", arch="gfx942")
    >>> kinspect.try_(analysis.kernel, rules=["KI044"]).cures
    {}

    Here nothing that can be compiled by itself helps: the source has to walk along the rows.

    Args:
        target: a `@triton.jit` kernel or a path, as `analyze` takes it, or what `analyze` returned:
            an `Analysis` or one of its kernels, whose findings are tried without compiling them
            again. For other tiles a file is captured again, and a kernel specialised again.
        args: of a kernel, the arguments of a launch.
        arch: gfx names of the targets.
        kernel: of a file, the kernels by name.
        grid: of a kernel, the workgroups of the launch, without which no time is known; a function
            of the arguments where it follows a tile.
        rules: only findings of these rules; none: all that speak by default.
        budget: seconds that all trials may take; what is done by then is told.
        options: as for `analyze`.

    Raises:
        KinspectError: the target or a rule is unknown, nothing could be analysed, or all of it is
            code without its TTIR, as assembly and reports that were loaded.
    """
    pack, ids = judging_pack(tuple(rules))
    wanted = timing(AnalysisOptions(rules=pack))
    if isinstance(target, (Analysis, AnalyzedKernel)):
        if args or options or any(value is not None for value in (arch, kernel, grid)):
            raise KinspectError(
                "what was analysed already is tried as it was compiled",
                "leave out arguments, arch, kernel, grid and options; or pass the kernel itself",
            )
        report, origin = _judged(target, wanted)
    else:
        analysis = analysis_of(
            target,
            args,
            arch=arch,
            kernel=kernel,
            grid=grid,
            options=options,
            analysis_options=wanted,
        )
        report, origin = analysis.report, analysis.origin
    run = origin.run if origin is not None else request_for(())
    run = replace(run, analysis=replace(run.analysis, rules=pack))
    launch = origin.launch if origin is not None else None
    specialise = launch.at if launch is not None else None
    trials = Trials(TryRequest(run, pack, ids, min(budget, MOST_SECONDS)), report, specialise)
    for _ in trials.events(None, None):
        pass
    result = trials.result()
    if result.untried and not result.kernels:
        raise KinspectError(
            f"{', '.join(result.untried[:3])}: compiled already, so that no change can be tried",
            "pass the kernel, or the file that launches it",
        )
    return TrialResult(result)


def _judged(
    target: Analysis | AnalyzedKernel, wanted: AnalysisOptions
) -> tuple[Report, Origin | None]:
    """The report of what was analysed, its kernels judged by the rules that are wanted."""
    if isinstance(target, AnalyzedKernel):
        report = Report(target.label, {}, (target.report,), ())
    else:
        report = target.report
    kernels = tuple(with_findings(report.kernels, wanted))
    return replace(report, kernels=kernels), target.origin
