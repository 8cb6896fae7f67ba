"""`kinspect time`: how long launches take by the timing model, and where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ..base.limits import natural
from ..lint.rule import NO_RULES
from ..metrics.kernel import Asked
from ..pipeline.analysis_options import EVERY_LOOP, RESIDENT, AnalysisOptions
from ..pipeline.jobs import timing
from .collected import check_any, check_one_launch, collected
from .declared import command, option
from .options import (
    ARGUMENTS,
    CLOCK,
    COLOR,
    GPU,
    OUTPUT,
    Amount,
    format_option,
    write_form,
)
from .progress import print_problems
from .target_options import ScriptCommand, TargetOptions, targets

_MOST_TRIPS: Final = 1_000_000_000


def _trips(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int]:
    trips = {}
    for value in values:
        loop, _, text = value.rpartition("=")
        count = natural(text)
        if not count or count > _MOST_TRIPS:
            raise click.BadParameter(f"{value[:60]!r} is not [LOOP=]N; L1=64, for example")
        trips[loop or EVERY_LOOP] = count
    return trips


@command(cls=ScriptCommand)
def time_command(
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
    arguments: str | None = ARGUMENTS,
    gpu: str | None = GPU,
    clock: float | None = CLOCK,
    time_us: float | None = option(
        "Measured time of one launch, to hold against the model's.  One kernel only.",
        type=Amount(0, 1e12, min_open=True),
        metavar="T",
    ),
    trips: dict[str, int] = option(
        "Of code without --args: iterations of a loop each time that it is entered, or of all.",
        multiple=True,
        metavar="[LOOP=]N",
        callback=_trips,
    ),
    no_savings: bool = option("Do not work out what would save how much."),
    target: TargetOptions = targets("TARGET...", nargs=-1, point=True),
    color: bool | None = COLOR,
) -> int:
    """Estimate how long kernels take on a GPU that is not here, and say where the time goes.

    The emulator executes a few workgroups of each launch. A model of a compute unit, with its share
    of the device's caches and memory, then simulates the executed instructions and their cache
    lines. TARGET is what `kinspect analyze` takes. Code (.s, .hsaco) needs the launch: --grid,
    --workgroup, --args; without these, the time of an iteration of each loop is given.

    Times are estimates; differences between two launches are more reliable than either time.
    """
    # The time rests on the code and on one metric: rules and the others cost as much as it does.
    only = Asked((RESIDENT,), lanes=arguments is None, values=False)
    analysis = timing(
        AnalysisOptions(rules=NO_RULES, lanes=False, races=False, values=False, asked=only),
        gpu=gpu,
        clock_mhz=clock,
        savings=not no_savings,
        arguments=arguments,
        trips=trips,
    )
    report = collected(target.request(analysis=analysis))
    check_any(report)
    check_one_launch(report, time_us)
    kernels = sorted(report.kernels, key=lambda k: -(k.time.us if k.time is not None else 0.0))
    from ..present import time as present

    document, fields = present.document(kernels, time_us), present.fields(kernels, time_us)
    write_form(form, document, fields, output, color)
    print_problems(report.errors, report.notes)
    return 2 if report.errors or not any(k.time or k.loop_times for k in report.kernels) else 0
