"""`kinspect analyze`: reports on the code of kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from msgspec.structs import replace

from ..base import limits
from ..base.errors import KinspectError
from ..model import KernelReport, Report, value_of
from ..pipeline.jobs import Request, beside, timing
from .collected import check_one_launch, collected
from .declared import command, option
from .options import (
    ARGUMENTS,
    CLOCK,
    COLOR,
    EMULATE,
    GPU,
    HISTORY,
    LABEL,
    OUTPUT,
    Amount,
    check_save,
    format_option,
    history_recorder,
    result_stream,
)
from .progress import print_problems
from .signals import INTERRUPTED
from .storage_errors import storing
from .target_options import (
    SET,
    ScriptCommand,
    TargetOptions,
    next_steps,
    printed_words,
    targets,
    triton_option,
)

if TYPE_CHECKING:
    from ..compare.trials.trial_results import TrialRun

_FEW = 2
"""Findings for which cures are tried without being asked; then other waves and stages are."""
SORTS = ("worst", "time", "name", "vgpr", "occupancy", "spills", "lds")


@command(cls=ScriptCommand)
def analyze(
    form: str = format_option("text", "json", "md", "agent"),
    output: Path | None = OUTPUT,
    sort: str = option(type=click.Choice(SORTS), default="worst", show_default=True),
    details: bool = option(
        "text, agent: all findings, registers, loops and accesses, of every kernel.  json:"
        " everything, such that it can be read again; else at most 20 KB a kernel."
    ),
    every: bool = option("text: also what would save less than 3 % of the launch's time.", "--all"),
    save: Path | None = option(
        "Write report and artifacts as one file, itself a target.",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE.kinspect",
    ),
    no_passes: bool = option("Do not record the MLIR dump (faster compiles)."),
    tritons: tuple[str, ...] = triton_option(
        "Triton that compiles: an interpreter, or a label such as 3.6.  Twice: compare them."
    ),
    emulate: bool = EMULATE,
    no_time: bool = option("Do not estimate how long launches take."),
    try_cures: bool = option(
        "Compile the changes that findings suggest, and report their effect (see `kinspect try`).",
        "--try",
    ),
    no_try: bool = option("Try no change; else a few options of the slowest kernel, 2 s at most."),
    try_budget: float = option(
        "Seconds that --try may take.",
        type=Amount(0),
        default=limits.TRY_SECONDS,
        show_default=True,
        metavar="S",
    ),
    time_us: float | None = option(
        "Measured time of one launch: its share of the bound is reported.  One kernel only.",
        type=Amount(0, 1e12, min_open=True),
        metavar="T",
    ),
    target: TargetOptions = targets("TARGET...", nargs=-1, triton=False),
    arguments: str | None = ARGUMENTS,
    gpu: str | None = GPU,
    clock: float | None = CLOCK,
    _set: None = SET,
    history: bool = HISTORY,
    label: str | None = LABEL,
    color: bool | None = COLOR,
) -> int:
    """Report what the compiler made of kernels.

    TARGET: a .py script (or script.py::kernel, or pkg.mod), which runs without a GPU to find the
    kernels that it launches; .hip, .cu or C++ with HIP kernels; .s/.amdgcn/.asm, .hsaco/.co, .ttir,
    .ttgir; Inductor's output_code.py; a folder, a Triton cache or dump folder; a trace of `kinspect
    record`; a saved report (.json) or .kinspect file.  Arguments after -- are passed to the script,
    or to the compiler of HIP.  Code and HIP have a time if their launch is stated: --grid,
    --workgroup, --args, or KINSPECT_LAUNCH in the source.

    --format agent: for coding agents, about 300 tokens a kernel, the worst first; `kinspect show
    ID` prints what an id stands for.
    """
    if save is not None:
        check_save(save)
    target = target.with_triton(tritons)
    if len(tritons) > 1 and save is not None:
        raise KinspectError("--save and two --triton exclude each other", "drop --save")
    if len(tritons) > 1 and try_cures:
        raise KinspectError("--try and two --triton exclude each other", "name one of them")
    if try_cures and no_try:
        raise KinspectError("--try and --no-try exclude each other", "drop one of them")
    if no_time and (gpu is not None or clock is not None):
        raise KinspectError("--no-time and --gpu or --clock exclude each other", "drop --no-time")
    analysis = None if no_time else timing(**beside(arguments), gpu=gpu, clock_mhz=clock)
    request = target.request(passes=not no_passes, emulate=emulate, analysis=analysis)
    if time_us is not None:
        request = replace(request, overrides=replace(request.overrides, time_us=time_us))
    if len(tritons) > 1:
        from .tritons import compare_tritons

        return compare_tritons(request, tritons, form, output)
    recorder = history_recorder("analyze", history, label)
    report = collected(request, partial=not try_cures)
    check_one_launch(report, time_us)
    if recorder is not None:
        with storing():
            recorder.write_report(report)
    interrupted = False
    if try_cures:
        report, interrupted = _with_trials(request, report, try_budget)
    elif not no_try and limits.FEW_TRY_SECONDS > 0:
        report, interrupted = _with_few_trials(request, report)
    report = _sorted(report, sort)
    with result_stream(output) as stream:
        _write(report, form, stream, details=details, every=every, color=color)
    notes = report.notes
    if form in ("agent", "json"):
        from ..pipeline.printed_ids import record

        unrecorded = record("analyze", printed_words(), report.kernels)
        notes += unrecorded if form == "agent" else ()
    if save is not None and not report.kernels:
        notes = (*notes, f"{save} was not written: there is no kernel to save")
    elif save is not None:
        from ..report import saved

        with storing():
            saved.save(report, save)
    # Failures are in the report and, one line each, on stderr.
    print_problems(report.errors, notes)
    if interrupted:
        return INTERRUPTED
    return 2 if report.errors else 0


def _with_trials(request: Request, report: Report, budget: float) -> tuple[Report, bool]:
    """Compiles the cures of the findings; returns them with the report, and whether Ctrl-C came."""
    from ..compare.trials.trial_run import with_trials
    from .try_ import print_trials

    trials, interrupted = _tried(request, report, budget)
    print_trials(trials, interrupted)
    return with_trials(report, trials), interrupted


def _with_few_trials(request: Request, report: Report) -> tuple[Report, bool]:
    """Compiles a few options for the kernel that takes longest, of those with findings if any.

    Of an autotuner's configurations the fastest counts.
    """
    from ..explain import view

    timed = [
        kernel
        for kernel, *_ in view.of_autotuners(report.kernels)
        if kernel.time is not None and kernel.variant is not None
    ]
    if not timed:
        return report, False
    from ..compare.trials.trial_run import with_trials

    longest = max(timed, key=lambda one: (bool(one.findings), view.time_of_launches(one)))
    worst = replace(report, kernels=(longest,), errors=(), notes=())
    trials, interrupted = _tried(request, worst, limits.FEW_TRY_SECONDS, first=_FEW)
    return with_trials(report, trials), interrupted


def _tried(
    request: Request, report: Report, budget: float, first: int | None = None
) -> tuple[TrialRun, bool]:
    """What came of cures that the default rules name, and whether Ctrl-C came."""
    from ..compare.trials.planning import judging_pack
    from ..compare.trials.trial_run import TryRequest
    from .try_ import run_trials

    pack, _ = judging_pack(())
    return run_trials(TryRequest(request, pack, None, budget, first), report)


def _write(
    report: Report, form: str, stream: TextIO, *, details: bool, every: bool, color: bool | None
) -> None:
    """Writes the report; each renderer is imported only if it is used: rich is slow to import."""
    if form == "json" and details:
        from ..report import json_write

        json_write.write(report, stream)
    elif form == "json":
        from ..report import json_brief

        json_brief.write(report, stream)
    elif form == "md":
        from ..present.report import write_markdown

        write_markdown(report, stream)
    elif form == "agent":
        from ..formats import agent

        agent.write(report, stream, next_steps(), whole=details)
    else:
        from ..present.report import write_text

        write_text(report, stream, details=details, every=every, color=color)


def _sorted(report: Report, sort: str) -> Report:
    """Sorts the kernels by one of `SORTS`; unknown figures are last, or first for occupancy."""
    from ..explain import view

    def figure(name: str, kernel: KernelReport) -> float:
        value = value_of(kernel.metrics, name)
        return float(value) if isinstance(value, int | float) else -1.0

    kernels = list(report.kernels)
    if sort == "worst":
        kernels = view.worst_first(kernels)
    elif sort == "time":
        kernels.sort(key=lambda k: -(k.time.us if k.time is not None else 0.0))
    elif sort == "name":
        kernels.sort(key=lambda k: k.id)
    elif sort == "occupancy":
        kernels.sort(key=lambda k: figure("occupancy.waves_per_eu", k))
    elif sort == "spills":
        kernels.sort(key=lambda k: (-view.hot_scratch(k), -figure("vgpr_spill_count", k)))
    else:
        name = {"vgpr": "vgpr_count", "lds": "lds_bytes"}[sort]
        kernels.sort(key=lambda k: -figure(name, k))
    return replace(report, kernels=tuple(kernels))
