"""`kinspect lint`: applies rules to kernels, with an exit status for CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, get_args

import click

from ..base.errors import KinspectError
from ..lint import settings
from ..lint.lint_results import FailOn, LintReport
from ..model import Finding, KernelReport
from ..pipeline.jobs import Request
from ..pipeline.lint_judge import Judge
from ..pipeline.lint_plan import LintOptions, LintPlan, make_plan
from ..pipeline.linting import analysis_for, judged_events
from ..pipeline.linting import lint as run
from .declared import command, option
from .options import (
    ARGUMENTS,
    COLOR,
    EMULATE,
    HISTORY,
    LABEL,
    OUTPUT,
    format_option,
    history_recorder,
    result_stream,
    split_list,
)
from .progress import CompileProgress, print_problems
from .signals import end_as_interrupted
from .storage_errors import storing
from .target_options import (
    SET,
    ScriptCommand,
    TargetOptions,
    next_steps,
    printed_words,
    targets,
)

if TYPE_CHECKING:
    from ..bench.history.recorder import HistoryRecorder

RENDERERS: Mapping[str, str] = MappingProxyType(
    {
        # format -> function, whose module is imported if it is used
        "text": "present.lint.write",
        "json": "formats.lint_json.write",
        "sarif": "formats.sarif.write",
        "junit": "formats.junit.write",
        "github": "formats.github.write",
        "md": "present.lint.write_markdown",
        "agent": "formats.lint_agent.write",
    }
)
_WITH_IDS = frozenset({"agent", "json", "sarif"})
"""Formats that print what `kinspect show` opens."""


@command(cls=ScriptCommand)
def lint(
    rules: tuple[str, ...] = option(
        "Rules to ask: a pack by name, or a YAML file; may be repeated.  [recommended]",
        metavar="PACK|FILE",
    ),
    select: tuple[str, ...] = option("Only these: ids, names, prefixes, tags.", metavar="R[,R...]"),
    ignore: tuple[str, ...] = option("Not these.", metavar="R[,R...]"),
    fail_on: FailOn | None = option(
        "Least severity of a new finding that makes the exit status 1: error (a kernel that cannot"
        " launch or is wrong), warning (also 10 % of a launch's time), ...  [error]",
        type=click.Choice(get_args(FailOn)),
    ),
    form: str = format_option(*RENDERERS),
    output: Path | None = OUTPUT,
    details: bool = option("text: explain every rule that found something."),
    baseline: Path | None = option(
        "Findings in this file are known and do not count.",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
    ),
    update_baseline: bool = option("Write what is found now to that file."),
    config: Path | None = option(
        "Read [tool.kinspect] here.  [the nearest pyproject.toml that has it]",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
    ),
    emulate: bool = EMULATE,
    target: TargetOptions = targets("TARGET...", nargs=-1),
    arguments: str | None = ARGUMENTS,
    _set: None = SET,
    history: bool = HISTORY,
    label: str | None = LABEL,
    color: bool | None = COLOR,
) -> int:
    """Apply rules to kernels, and fail if they find something.

    TARGET: as for `kinspect analyze`; saved assembly and reports need no Triton.

    --format agent: for coding agents, at most 2,000 tokens a kernel, the worst first; `kinspect
    show ID` prints what an id stands for.

    A comment suppresses findings: `# kinspect: ignore[KI009] why` (in assembly after `;`) at the
    end of the line or on the line before, `# kinspect: ignore-file[KI009]` for the whole file.
    Settings: [tool.kinspect] in pyproject.toml; the command line takes precedence.

    Exit status: 0 clean; 1 if there are new findings at or above --fail-on; 2 for a usage, settings
    or input error, also if only some targets failed.
    """
    loaded = settings.load(config)
    if select and not _names(select):
        raise KinspectError("--select: it is empty", "name rules, or leave the option out")
    options = LintOptions(
        rules=rules,
        select=_names(select),
        ignore=_names(ignore),
        fail_on=fail_on,
        baseline=baseline,
        update=update_baseline,
    )
    plan = make_plan(options, loaded)
    recorder = history_recorder("lint", history, label)
    whole = recorder is not None or form == "agent"
    wanted = analysis_for(plan, whole=whole, arguments=arguments)
    request = target.request(emulate=emulate, analysis=wanted)
    end_as_interrupted()
    judge = Judge(plan, _to_try if form == "agent" else None)
    report = _linted(request, plan, judge, recorder, loaded.arch)
    is_seen = form == "text" and output is None and _is_one_place()
    # Where nothing was linted, the errors say it all.
    is_written = not is_seen or bool(report.kernels) or not report.errors
    if is_written:
        with result_stream(output) as stream:
            _write(report, form, stream, details, color)
    # Text on the terminal shows the notes already; other formats are mostly read by programs.
    notes = () if form == "text" and output is None and is_written else report.notes
    if form in _WITH_IDS:
        from ..pipeline.printed_ids import record

        unrecorded = record("lint", printed_words(), report.kernels)
        notes += unrecorded if form == "agent" else ()
    print_problems(report.errors, notes, are_told=is_seen and is_written)
    if report.errors:
        return 2
    return 1 if report.failing else 0


def _is_one_place() -> bool:
    """Whether stdout and stderr go to one terminal, pipe or file, where all is to be said once."""
    try:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))
    except (AttributeError, OSError, ValueError):
        return False


def _linted(
    request: Request,
    plan: LintPlan,
    judge: Judge,
    recorder: HistoryRecorder | None,
    archs: tuple[str, ...],
) -> LintReport:
    """Runs the rules; keeps the figures and writes the baseline where that was asked for."""
    if recorder is None:
        events = judged_events(request, judge, archs)
    else:
        from ..bench.history.recorder import WithHistoryFigures

        events = recorder.record_events(judged_events(request, WithHistoryFigures(judge), archs))
    report, accepted = run(CompileProgress().watched(events), request, plan)
    if recorder is not None:
        with storing():
            recorder.write_lint(report)
    if accepted is not None and plan.baseline is not None:
        from ..lint import baseline as baselines

        with storing():
            baselines.write(accepted, plan.baseline)
    return report


def _to_try(report: KernelReport, findings: Sequence[Finding]) -> frozenset[str]:
    from ..compare.trials.planning import to_try_of  # imported only where a format says it

    return to_try_of(report, findings)


def _names(options: tuple[str, ...]) -> tuple[str, ...]:
    """Splits the values of an option that may be repeated, each a list."""
    return split_list(",".join(options))


def _write(
    report: LintReport, form: str, stream: TextIO, details: bool, color: bool | None
) -> None:
    module, _, name = RENDERERS[form].rpartition(".")
    options: dict[str, Any] = {}
    if form == "text":
        options = {"details": details, "color": color}
    elif form == "agent":
        options = {"calls": next_steps()}
    getattr(import_module(f"kinspect.inspector.{module}"), name)(report, stream, **options)
