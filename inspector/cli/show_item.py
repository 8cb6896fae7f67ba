"""What `kinspect show ID` opens: the kernel of a printed id, analysed again, and its part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ..errors import KinspectError
from ..explain import ids
from ..lint.rule import RuleText
from ..model import Finding, KernelReport, LoopReport, MemoryOp
from ..pipeline.analysis import recommended_pack
from ..pipeline.jobs import Request
from .options import split_list
from .printed_ids import PrintedKernel, PrintedRun, runs
from .progress import CompileProgress
from .target_options import TargetOptions, target_of

_PRINT_THEM = "`kinspect analyze TARGET --format agent` prints those of a target"


class ShownItem(Struct, frozen=True):
    """What an id names, and its kernel.

    Args:
        id: as it was printed.
        kernel: whose it is, or which it is.
        kernel_id: its shortened key.
        findings: those with the fingerprint that it names; empty where it names something else.
        rule: theirs; None where no pack at hand has it.
        loop: that it names.
        access: that it names.
        is_kernel: whether it names the kernel.
    """

    id: str
    kernel: KernelReport
    kernel_id: str
    findings: tuple[Finding, ...] = ()
    rule: RuleText | None = None
    loop: LoopReport | None = None
    access: MemoryOp | None = None
    is_kernel: bool = False


@contextmanager
def opened(text: str, item: ids.ItemId) -> Iterator[ShownItem]:
    """What an id names, worked out anew, in the folder of its run: its files are relative to that.

    Args:
        text: the id.
        item: its parts.

    Raises:
        KinspectError: no recorded run printed it, or what it named is no longer there.
    """
    run, printed, fingerprint = _located(text, item)
    with _in_folder(run.folder, text):
        kernel, rules = _analyzed(run, _context(run), printed)
        yield _item(text, item, printed, fingerprint, kernel, rules)


def _item(
    text: str,
    item: ids.ItemId,
    printed: PrintedKernel,
    fingerprint: str | None,
    kernel: KernelReport | None,
    rules: dict[str, RuleText],
) -> ShownItem:
    """The part of a kernel that an id names.

    Raises:
        KinspectError: it is not there.
    """
    if kernel is None:
        raise KinspectError(
            f"{text}: {printed.label} of {printed.path} is no longer there, or not as it was",
            "analyse it again with --format agent for its present ids",
        )
    kernel_id = printed.key[: max(len(item.key), ids.SHORTEST)]
    shown = ShownItem(id=text, kernel=kernel, kernel_id=kernel_id)
    if fingerprint is not None:
        return _with_findings(shown, fingerprint, rules)
    if item.loop is not None:
        loop = next((loop for loop in kernel.loops if loop.id == item.loop), None)
        if loop is None:
            raise _no_part(text, kernel, f"loop {item.loop}", kernel_id)
        return replace(shown, loop=loop)
    if item.line is not None:
        access = next((op for op in kernel.memory_ops if op.line == item.line), None)
        if access is None:
            raise _no_part(text, kernel, f"memory access in line {item.line}", kernel_id)
        return replace(shown, access=access)
    return replace(shown, is_kernel=True)


def _located(text: str, item: ids.ItemId) -> tuple[PrintedRun, PrintedKernel, str | None]:
    """The newest run that printed an id, its kernel, and the fingerprint if it is a finding's.

    Raises:
        KinspectError: none did, or the id is the beginning of several.
    """
    for run in runs():
        named = list(run.named(item.key))
        if item.loop is not None or item.line is not None:
            named = [(kernel, finding) for kernel, finding in named if finding is None]
        if len({finding or kernel.key for kernel, finding in named}) > 1:
            keys = ", ".join(dict.fromkeys(finding or kernel.key for kernel, finding in named))
            raise KinspectError(f"{text} is the beginning of several ids", f"name one: {keys}")
        if named:
            return run, *named[0]
    raise KinspectError(f"{text}: no file, and no id that was printed", _PRINT_THEM)


@contextmanager
def _in_folder(folder: str, text: str) -> Iterator[None]:
    """In the folder of the run: its targets and the ids of its kernels are relative to that.

    Raises:
        KinspectError: it is not there any more.
    """
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
    """Analyses a kernel as the run did, with the run's rules.

    Returns:
        The kernel, None where it is not there, and the texts of the rules by id.
    """
    options = context.params
    target: TargetOptions = target_of(context)
    if run.command == "lint":
        request = target.request(emulate=options["emulate"])
    else:
        target = target.with_triton(options["tritons"])
        request = target.request(passes=not options["no_passes"], emulate=options["emulate"])
    kernel = None
    for attempt in (_narrowed(request, printed), request):
        kernel = kernel or _kernel(attempt, printed.key)
    if kernel is None or run.command != "lint":
        return kernel, {rule.text.id: rule.text for rule in recommended_pack().rules}
    return _judged(kernel, options)


def _kernel(request: Request, key: str) -> KernelReport | None:
    from ..pipeline.collecting import collect

    progress = CompileProgress()
    try:
        report = collect(request, progress.on_event)
    finally:
        progress.close()
    return next((k for k in report.kernels if ids.kernel_key(k.id) == key), None)


def _narrowed(request: Request, printed: PrintedKernel) -> Request:
    """The request for the file, name and target of one kernel, as far as that can be stated."""
    files = tuple(t for t in request.targets if t.partition("::")[0] == printed.path)
    return replace(
        request,
        targets=files or request.targets,
        kernel=request.kernel or printed.label,
        archs=(printed.arch,) if printed.arch is not None else request.archs,
    )


def _judged(
    kernel: KernelReport, options: dict[str, Any]
) -> tuple[KernelReport, dict[str, RuleText]]:
    """The kernel with the findings of a lint run's rules."""
    from .. import settings
    from ..pipeline.lint_judge import Judge
    from ..pipeline.lint_plan import LintOptions, make_plan

    select, ignore = (split_list(",".join(options[name])) for name in ("select", "ignore"))
    # What a baseline knows was not printed: none is read.
    chosen = LintOptions(rules=options["rules"], select=select, ignore=ignore)
    plan = make_plan(chosen, replace(settings.load(options["config"]), baseline=None))
    findings = tuple(placed.finding for placed in Judge(plan)(kernel).findings)
    texts = {rule.text.id: rule.text for rule in plan.rules.values()}
    return replace(kernel, findings=findings), texts


def _with_findings(shown: ShownItem, fingerprint: str, rules: dict[str, RuleText]) -> ShownItem:
    findings = tuple(f for f in shown.kernel.findings if f.fingerprint == fingerprint)
    if not findings:
        raise KinspectError(
            f"{shown.id}: that finding is no longer there",
            f"`kinspect show {shown.kernel_id}` shows what {shown.kernel.name} is now",
        )
    return replace(shown, findings=findings, rule=rules.get(findings[0].rule))


def _no_part(text: str, kernel: KernelReport, part: str, kernel_id: str) -> KinspectError:
    return KinspectError(
        f"{text}: {kernel.name} has no {part}", f"`kinspect show {kernel_id}` shows what it has"
    )
