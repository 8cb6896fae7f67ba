"""`kinspect try`: compiles the cures of findings, and says what came of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..base.limits import TRY_SECONDS
from ..base.status import counted
from ..compare.trials.outcome import run_trial
from ..compare.trials.planning import judging_pack
from ..compare.trials.trial_results import TrialRun
from ..compare.trials.trial_run import Event, Trials, TrialsPlanned, TryRequest
from ..explain.view import plural
from ..model import Report
from ..pipeline.analysis_options import AnalysisOptions
from ..pipeline.collecting import collect
from ..pipeline.jobs import timing
from .cluster import executor_for
from .declared import command, option
from .options import (
    ARGUMENTS,
    COLOR,
    OUTPUT,
    Amount,
    format_option,
    result_stream,
    split_list,
)
from .progress import (
    CompileProgress,
    print_error,
    print_message,
    print_problems,
)
from .signals import INTERRUPTED, end_as_interrupted, interrupted
from .target_options import (
    ScriptCommand,
    TargetOptions,
    next_steps,
    printed_words,
    targets,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..compare.trials.trial_run import Work


@command("try", cls=ScriptCommand)
def try_command(
    rules: tuple[str, ...] = option(
        "Only findings of these rules: ids, names, prefixes, tags; of any pack.",
        "--for",
        metavar="R[,R...]",
    ),
    budget: float = option(
        "Seconds that all trials may take; the results by then are reported.",
        type=Amount(0),
        default=TRY_SECONDS,
        show_default=True,
        metavar="SECONDS",
    ),
    form: str = format_option("text", "json", "agent"),
    output: Path | None = OUTPUT,
    scheduler: str | None = option(
        "Compile on this Dask cluster, e.g. tcp://host:8786 (kinspect[dask]).", metavar="ADDRESS"
    ),
    target: TargetOptions = targets("TARGET...", nargs=-1, point=True),
    arguments: str | None = ARGUMENTS,
    color: bool | None = COLOR,
) -> int:
    """Compile the changes that findings suggest, and report their effect.

    For each finding of a kernel, the changes that its rule names are compiled one by one: options
    (waves_per_eu, num_warps, num_stages, matrix_instr_nonkdim, kpack, llvm_fn_attrs), tile sizes,
    switches of the file's tuning space, and Triton's variables in the environment. Mechanical
    changes of the source are made on the TTIR. Then the two best changes for a finding are
    combined, and so are the best changes for different findings. Neighbouring configurations
    are tried whatever the findings are: twice and half of num_warps, of each tile, and of the
    parts that a launch cuts work into (SPLIT_K). This needs the time of the launch, and no
    --for. Each line says how long the launch takes with the change, by the timing model, and
    whether the finding is gone: the fastest first. A change that is not faster is not advised;
    times less than 10 % apart are equal. If the launch is not known, or the target has no
    rates, only facts are reported, and why there is no time.

    Of a HIP source, macros between #ifndef and #endif and template arguments are halved and
    doubled, whatever the findings are. Kernels are bounded to the launch's workgroup, and held
    down to VGPRs for more waves.

    TARGET: what `kinspect analyze` compiles: a .py script or file of cases, .ttir, .ttgir, a HIP
    source. Code that is compiled already (.s, .hsaco) cannot be compiled again. With other tile
    sizes the results are not checked, and the launch's grid has to change too.

    What was compiled before comes from the store; after Ctrl-C the same command continues.
    """
    pack, ids = judging_pack(split_list(",".join(rules)))
    how = {} if arguments is None else {"arguments": arguments}
    analysis = timing(AnalysisOptions(rules=pack), **how)
    run = target.request(analysis=analysis)
    end_as_interrupted()
    progress = CompileProgress()
    try:
        # After Ctrl-C nothing is tried: the analysis goes on from the store.
        report = collect(run, progress.on_event, partial=False)
    finally:
        progress.close()
    with executor_for(scheduler, run, target.python, run_trial) as (executor, work):
        result, ended = run_trials(TryRequest(run, pack, ids, budget), report, executor, work)
    with result_stream(output) as stream:
        if form == "text":
            from ..present import trials

            trials.write(result, stream, color=color)
        elif form == "agent":
            from ..formats import try_agent

            try_agent.write(result, stream, next_steps())
        else:
            from ..formats import try_json

            try_json.write(result, stream)
    if form != "text":
        from ..pipeline.printed_ids import record

        record("try", printed_words(), [trials.kernel for trials in result.kernels])
    print_problems(result.errors, result.notes)
    return status_of(result, ended)


def run_trials(
    request: TryRequest,
    report: Report,
    executor: Executor | None = None,
    work: Work | None = None,
) -> tuple[TrialRun, bool]:
    """Tries everything; returns what came of it, and whether Ctrl-C ended the run."""
    trials = Trials(request, report)
    planned = done = 0

    def count(event: Event) -> None:
        nonlocal planned, done
        if isinstance(event, TrialsPlanned):
            planned = event.changes
        else:
            done += 1
            counted(f"tried {done} of {planned}: {event.kernel}: {event.change}")

    ended = interrupted(trials.events(executor, work), count)
    return trials.result(), ended


def status_of(result: TrialRun, ended: bool) -> int:
    """Returns 130 after Ctrl-C; 2 if something failed, or nothing could be tried; else 0."""
    print_trials(result, ended)
    if ended:
        return INTERRUPTED
    nothing = bool(result.untried) and not result.kernels
    return 2 if result.errors or nothing else 0


def print_trials(result: TrialRun, ended: bool) -> None:
    """Says on stderr what could not be tried, one line each."""
    if result.untried:
        names = ", ".join(result.untried[:3]) + (", …" if len(result.untried) > 3 else "")
        print_error(
            f"{names}: compiled already, so that no change can be tried; name the .py file or .ttir"
        )
    if ended:
        print_error(
            f"interrupted: not tried: {plural(result.missing, 'change')}; the same command goes on"
            " from here"
        )
    elif result.out_of_budget:
        print_message(
            f"not tried: {plural(result.missing, 'change')}, for the budget of {result.budget:g} s"
            " ended"
        )
