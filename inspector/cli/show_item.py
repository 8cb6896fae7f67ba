"""The kernel of a printed id, analysed again, and the part that `kinspect show ID` opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..explain import items
from ..explain.items import NamedItem, item_of, located
from ..formats.agent_calls import AgentCalls
from ..lint.rule import RuleText
from ..model import KernelReport
from ..pipeline.analysis import recommended_pack
from ..pipeline.analysis_options import AnalysisOptions
from ..pipeline.jobs import Request, beside, timing
from ..pipeline.printed_ids import PrintedKernel, PrintedRun, runs
from .options import split_list
from .target_options import TargetOptions, next_steps, target_of

if TYPE_CHECKING:
    from ..pipeline.lint_plan import LintPlan

_PRINT_THEM = "`kinspect analyze TARGET --format agent` prints those of a target"


class ShownItem(Struct, frozen=True):
    """What an id names, worked out anew.

    Args:
        rule: of the findings; None where no pack at hand has it, or something else is named.
        calls: names commands that find the kernel as the run did that printed the id.
    """

    named: NamedItem
    rule: RuleText | None
    calls: AgentCalls


@contextmanager
def opened(text: str, item: items.ItemId) -> Iterator[ShownItem]:
    """What an id names, worked out anew, in the folder of its run: its files are relative to that.

    Raises:
        KinspectError: no recorded run printed it, or what it named is no longer there.
    """
    run, printed, fingerprint = _located(text, item)
    with _in_folder(run.folder, text):
        context = _context(run)
        kernel, rules = _analyzed(run, context, printed)
        if kernel is None:
            raise KinspectError(
                f"{text}: {printed.label} of {printed.path} is no longer there, or not as it was",
                "analyse it again with --format agent for its present ids",
            )
        named = item_of(text, item, fingerprint, kernel)
        rule = rules.get(named.findings[0].rule) if named.findings else None
        yield ShownItem(named, rule, next_steps(context))


def _located(text: str, item: items.ItemId) -> tuple[PrintedRun, PrintedKernel, str | None]:
    """The newest run that printed an id, its kernel, and the fingerprint if it is a finding's."""
    for run in runs():
        named = located(text, item, run.kernels)
        if named is not None:
            return run, run.kernels[named.position], named.fingerprint
    raise KinspectError(f"{text}: no file, and no id that was printed", _PRINT_THEM)


@contextmanager
def _in_folder(folder: str, text: str) -> Iterator[None]:
    """In the folder of the run: its targets and the ids of its kernels are relative to that."""
    before = os.getcwd()
    try:
        os.chdir(folder)
    except OSError:
        raise KinspectError(
            f"{text} was printed in {folder}, which has gone", _PRINT_THEM
        ) from None
    try:
        yield
    finally:
        os.chdir(before)


def _context(run: PrintedRun) -> click.Context:
    """The command line of a run, parsed again."""
    from .group import cli

    command = cli.get_command(click.Context(cli), run.command)
    assert command is not None
    return command.make_context(run.command, list(run.words))


def _analyzed(
    run: PrintedRun, context: click.Context, printed: PrintedKernel
) -> tuple[KernelReport | None, dict[str, RuleText]]:
    """Analyses a kernel as the run did, with the run's rules; None if it is not there any more.

    The options are those of `analyze`, `lint` and `try`, by the names of their parameters.
    """
    options = context.params
    target: TargetOptions = target_of(context).with_triton(options["tritons"])
    pack, plan = recommended_pack(), None
    analysis: AnalysisOptions | None
    if run.command == "lint":
        from ..pipeline.linting import analysis_for

        plan = _plan(options)
        analysis = replace(
            analysis_for(plan, whole=True, arguments=options["arguments"]), values=True
        )
        request = target.request(emulate=options["emulate"], analysis=analysis)
    elif run.command == "try":
        from ..compare.trials.planning import judging_pack

        pack, _ = judging_pack(split_list(",".join(options["rules"])))
        analysis = timing(AnalysisOptions(rules=pack), prices=not options["rules"])
        request = target.request(analysis=analysis)
    else:
        analysis = None if options["no_time"] else timing(**beside(options["arguments"]))
        passes = not options["no_passes"]
        request = target.request(passes=passes, emulate=options["emulate"], analysis=analysis)
    kernel = _kernel(_narrowed(request, printed), printed.key) or _kernel(request, printed.key)
    if kernel is not None and plan is not None:
        return _judged(kernel, plan)
    return kernel, {rule.text.id: rule.text for rule in pack.rules}


def _kernel(request: Request, key: str) -> KernelReport | None:
    from .collected import collected

    return next((k for k in collected(request).kernels if items.kernel_key(k.id) == key), None)


def _narrowed(request: Request, printed: PrintedKernel) -> Request:
    """The request for the file, name and target of one kernel, as far as that can be stated."""
    files = tuple(t for t in request.targets if t.partition("::")[0] == printed.path)
    return replace(
        request,
        targets=files or request.targets,
        kernel=request.kernel or printed.label,
        archs=(printed.arch,) if printed.arch is not None else request.archs,
    )


def _plan(options: dict[str, Any]) -> LintPlan:
    """What a lint run judged by. What a baseline knows was not printed: none is read."""
    from ..lint import settings
    from ..pipeline.lint_plan import LintOptions, make_plan

    select, ignore = (split_list(",".join(options[name])) for name in ("select", "ignore"))
    chosen = LintOptions(rules=options["rules"], select=select, ignore=ignore)
    return make_plan(chosen, replace(settings.load(options["config"]), baseline=None))


def _judged(kernel: KernelReport, plan: LintPlan) -> tuple[KernelReport, dict[str, RuleText]]:
    """The kernel with the findings of a lint run's rules."""
    from ..pipeline.lint_judge import Judge

    findings = tuple(placed.finding for placed in Judge(plan)(kernel).findings)
    texts = {rule.text.id: rule.text for rule in plan.rules.values()}
    return replace(kernel, findings=findings), texts
