"""`kinspect env check|set|reset`: the settings of this machine that matter to tuning."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import KinspectError
from .options import format_option, output_option, result_stream
from .progress import print_message

if TYPE_CHECKING:
    from ..host.env.facts import Fact
    from ..host.env.host import Host
    from ..host.env.ledger import Ledger


@click.group()
def env() -> None:
    """What of this machine matters to tuning: check it, set it, set it back."""


@env.command()
@click.option(
    "--python", metavar="PATH", help="Whose packages to look at.  [the one that runs kinspect]"
)
@click.option("--all", "every", is_flag=True, help="List variables that are not set too.")
@click.option("--strict", is_flag=True, help="Exit 1 if something is worth changing.")
@format_option("text", "json")
@output_option
def check(python: str | None, every: bool, strict: bool, form: str, output: Path | None) -> int:
    """Compare this machine with what AMD's tuning guides say; changes nothing."""
    from ..formats import environment as render
    from ..host.env.host import this_host
    from ..host.env.system import check as look

    interpreter = python or sys.executable
    report = look(this_host(), interpreter, _profilers(interpreter))
    with result_stream(output) as stream:
        if form == "json":
            render.write_check_json(report, stream)
        else:
            render.write_check(report, stream, every)
    return 1 if strict and report.worth_changing else 0


@env.command("set")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--yes", is_flag=True, help="Make the changes.")
@click.option("--dry-run", is_flag=True, help="Only show them, even with --yes.")
@click.option("--shell", is_flag=True, help='Print variables for `eval "$(…)"`, nothing else.')
@format_option("text", "json")
def set_command(names: tuple[str, ...], yes: bool, dry_run: bool, shell: bool, form: str) -> int:
    """Show what would be changed, and with --yes change it.

    NAMEs are those of `env check`; without any, all that is worth changing. What was there before
    is kept for `env reset`. Variables can only be set by your shell:
    `eval "$(kinspect env set --shell --yes)"`.
    """
    from ..formats import environment as render
    from ..host.env.changing import apply
    from ..host.env.host import this_host
    from ..host.env.settings import plan

    host = this_host()
    changes = plan(host, names)
    if shell:
        changes = [c for c in changes if c.is_variable]
        if yes and not dry_run and changes:
            apply(host, _ledger(host), changes, by_shell=True)
        sys.stdout.writelines(f"{line}\n" for line in render.shell_lines(changes, back=False))
        return 0
    if not changes:
        print_message("nothing is to be changed")
        return 0
    if dry_run or not yes:
        render.write_plan(changes, sys.stdout)
        print_message(
            "nothing was changed; --yes does it" if not dry_run else "nothing was changed"
        )
        return 0
    steps = apply(host, _ledger(host), changes)
    if form == "json":
        render.write_steps_json(steps, sys.stdout)
    else:
        render.write_steps(steps, sys.stdout, back=False)
    if any(c.is_variable for c in changes):
        print_message('variables are your shell\'s: eval "$(kinspect env set --shell --yes)"')
    return _status(any(step.failed for step in steps))


@env.command()
@click.option("--yes", is_flag=True, help="Put it back.")
@click.option("--force", is_flag=True, help="Also what someone else changed since; implies --yes.")
@click.option("--dry-run", is_flag=True, help="Only show it, even with --yes.")
@click.option("--shell", is_flag=True, help='Print variables for `eval "$(…)"`, nothing else.')
@format_option("text", "json")
def reset(yes: bool, force: bool, dry_run: bool, shell: bool, form: str) -> int:
    """Put back what was there before `env set`; twice is as good as once."""
    from ..formats import environment as render
    from ..host.env import changing
    from ..host.env.host import this_host

    host = this_host()
    saved_settings = _ledger(host)
    entries = saved_settings.read()
    if shell:
        lines = render.shell_lines([saved.change for saved in entries], back=True)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 0
    if not entries:
        print_message("nothing to put back: `kinspect env set` changed nothing here")
        return 0
    if dry_run or not (yes or force):
        steps = changing.planned_reset(host, entries)
        for step in steps:
            if step.outcome is changing.ChangeOutcome.POSSIBLE:
                change = step.change
                sys.stdout.write(f"{change.name}: {change.after} -> {change.before}\n")
            else:
                render.write_steps([step], sys.stdout, back=True)
        print_message(
            "nothing was changed; --yes does it" if not dry_run else "nothing was changed"
        )
        return 0
    steps = changing.reset(host, saved_settings, force)
    if form == "json":
        render.write_steps_json(steps, sys.stdout)
    else:
        render.write_steps(steps, sys.stdout, back=True)
    if any(step.outcome is changing.ChangeOutcome.SHELL for step in steps):
        print_message('variables are your shell\'s: eval "$(kinspect env reset --shell)"')
    return _status(any(step.failed for step in steps))


def _ledger(host: Host) -> Ledger:
    from ..host.env.ledger import OVERRIDE, ledger

    return ledger(host.node, os.environ.get(OVERRIDE))


def _profilers(python: str) -> Iterator[Fact]:
    """Yields the facts on rocprofv3 and the decoder of its thread traces."""
    from ..host.env.facts import Fact, Verdict
    from ..profile.running import installed

    group = "profilers"
    try:
        profiler = installed.find_profiler([python])
        yield Fact(group, profiler.tool, profiler.describe(), Verdict.GOOD)
    except KinspectError as error:
        profiler = installed.Profiler("rocprofv3", Path("/opt/rocm/bin/rocprofv3"), None)
        yield Fact(group, "rocprofv3", None, Verdict.ABSENT, advice=error.message)
    try:
        folder = installed.find_decoder(profiler)
        yield Fact(group, "thread trace decoder", str(folder), Verdict.GOOD)
    except KinspectError as error:
        yield Fact(group, "thread trace decoder", None, Verdict.ABSENT, advice=error.message)


def _status(failed: bool) -> int:
    return 2 if failed else 0
