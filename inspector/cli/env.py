"""`kinspect env check|set|reset`: the settings of this machine that matter to tuning."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..base.errors import KinspectError
from .declared import argument, command, option
from .options import OUTPUT, format_option, write_form
from .progress import print_message

if TYPE_CHECKING:
    from ..host.env.changing import ChangeResult, Ledger
    from ..host.env.host import Host, MachineFact


@click.group()
def env() -> None:
    """What of this machine matters to tuning: check it, set it, set it back."""


@command(group=env)
def check(
    python: str | None = option(
        "Whose packages to look at.  [the one that runs kinspect]", metavar="PATH"
    ),
    every: bool = option("List variables that are not set too.", "--all"),
    strict: bool = option("Exit 1 if something is worth changing."),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> int:
    """Compare this machine with what AMD's tuning guides say; changes nothing."""
    from ..formats import environment as formats
    from ..host.env.host import this_host
    from ..host.env.machine_facts import check as check_machine

    interpreter = python or sys.executable
    report = check_machine(this_host(), interpreter, _profilers(interpreter))
    document, fields = formats.check_document(report, every), formats.check_fields(report)
    write_form(form, document, fields, output)
    return 1 if strict and report.worth_changing else 0


@command("set", group=env)
def set_command(
    names: tuple[str, ...] = argument("[NAME]...", nargs=-1),
    yes: bool = option("Make the changes."),
    dry_run: bool = option("Only show them, even with --yes."),
    shell: bool = option('Print variables for `eval "$(…)"`, nothing else.'),
    form: str = format_option("text", "json"),
) -> int:
    """Show what would be changed, and with --yes change it.

    NAMEs are those of `env check`; without any, all that is worth changing. What was there before
    is kept for `env reset`. Variables can only be set by your shell:
    `eval "$(kinspect env set --shell --yes)"`.
    """
    from ..formats import environment as formats
    from ..host.env.changing import apply
    from ..host.env.host import this_host
    from ..host.env.settings import plan

    host = this_host()
    changes = plan(host, names)
    if shell:
        changes = [c for c in changes if c.is_variable]
        if yes and not dry_run and changes:
            apply(host, _ledger(host), changes, by_shell=True)
        sys.stdout.writelines(f"{line}\n" for line in formats.shell_lines(changes, back=False))
        return 0
    if not changes:
        print_message("nothing is to be changed")
        return 0
    if dry_run or not yes:
        formats.write_plan(changes, sys.stdout)
        _print_unchanged(dry_run)
        return 0
    results = apply(host, _ledger(host), changes)
    _write_results(results, form, back=False)
    if any(c.is_variable for c in changes):
        print_message('variables are your shell\'s: eval "$(kinspect env set --shell --yes)"')
    return _status(results)


@command(group=env)
def reset(
    yes: bool = option("Put it back."),
    force: bool = option("Also what someone else changed since; implies --yes."),
    dry_run: bool = option("Only show it, even with --yes."),
    shell: bool = option('Print variables for `eval "$(…)"`, nothing else.'),
    form: str = format_option("text", "json"),
) -> int:
    """Put back what was there before `env set`; twice is as good as once."""
    from ..formats import environment as formats
    from ..host.env import changing
    from ..host.env.host import this_host

    host = this_host()
    saved_settings = _ledger(host)
    entries = saved_settings.read()
    if shell:
        lines = formats.shell_lines([saved.change for saved in entries], back=True)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 0
    if not entries:
        print_message("nothing to put back: `kinspect env set` changed nothing here")
        return 0
    if dry_run or not (yes or force):
        _write_planned_reset(changing.planned_reset(host, entries))
        _print_unchanged(dry_run)
        return 0
    results = changing.reset(host, saved_settings, force)
    _write_results(results, form, back=True)
    if any(result.outcome is changing.ChangeOutcome.SHELL for result in results):
        print_message('variables are your shell\'s: eval "$(kinspect env reset --shell)"')
    return _status(results)


def _print_unchanged(dry_run: bool) -> None:
    print_message("nothing was changed" if dry_run else "nothing was changed; --yes does it")


def _write_results(results: Sequence[ChangeResult], form: str, *, back: bool) -> None:
    """Writes the outcomes of changes, or of undoing them, to stdout."""
    from ..formats import environment as formats

    if form == "json":
        formats.write_results_json(results, sys.stdout)
    else:
        formats.write_results(results, sys.stdout, back=back)


def _write_planned_reset(results: Sequence[ChangeResult]) -> None:
    """Writes what `reset` would put back, and why it would leave the others alone."""
    from ..formats import environment as formats
    from ..host.env.changing import ChangeOutcome

    for result in results:
        if result.outcome is ChangeOutcome.POSSIBLE:
            change = result.change
            sys.stdout.write(f"{change.name}: {change.after} -> {change.before}\n")
        else:
            formats.write_results([result], sys.stdout, back=True)


def _ledger(host: Host) -> Ledger:
    from ..host.env.changing import OVERRIDE, ledger

    return ledger(host.node, os.environ.get(OVERRIDE))


def _profilers(python: str) -> Iterator[MachineFact]:
    """Yields the facts on rocprofv3 and the decoder of its thread traces."""
    from ..host.env.host import MachineFact, Verdict
    from ..profile.running import installed

    group = "profilers"
    try:
        profiler = installed.find_profiler([python])
        yield MachineFact(group, profiler.tool, profiler.describe(), Verdict.GOOD)
    except KinspectError as error:
        profiler = installed.Profiler("rocprofv3", Path("/opt/rocm/bin/rocprofv3"), None)
        yield MachineFact(group, "rocprofv3", None, Verdict.ABSENT, advice=error.message)
    try:
        folder = installed.find_decoder(profiler)
        yield MachineFact(group, "thread trace decoder", str(folder), Verdict.GOOD)
    except KinspectError as error:
        yield MachineFact(group, "thread trace decoder", None, Verdict.ABSENT, advice=error.message)


def _status(results: Iterable[ChangeResult]) -> int:
    return 2 if any(result.failed for result in results) else 0
