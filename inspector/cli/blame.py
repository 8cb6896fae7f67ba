"""`kinspect blame`: which layer of two Tritons makes a figure differ."""

from __future__ import annotations

from pathlib import Path

import click

from ..metrics.given_metrics import US as TIME_US
from ..pipeline.jobs import timing
from .declared import command, option
from .options import OUTPUT, format_option, write_form
from .target_options import (
    ScriptCommand,
    TargetOptions,
    targets,
    triton_option,
)


@command(cls=ScriptCommand)
def blame(
    tritons: tuple[str, ...] = triton_option(
        "The two Tritons: an interpreter, or a label such as 3.6.  Twice.", required=True
    ),
    metric: str | None = option(
        "The figure to explain: a metric of `kinspect metrics list`, such as time.us, or"
        " compile_seconds, the CPU time from TTIR to the code object.  [the time of the launch if"
        " it is known and differs, else the first figure that differs]",
        metavar="NAME",
    ),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
    target: TargetOptions = targets("TARGET", point=True, triton=False),
) -> None:
    """Name the layer of the compiler that makes a figure differ between two Tritons.

    If the target launches the kernel, the figure is the time of that launch, estimated by the
    timing model. Without a launch it is a figure of the code: spills, registers or LDS.

    TARGET is one kernel's .py or .ttir file. Both Tritons compile it. Then the second one compiles
    it with the first one's LLVM IR, LLVM flags, TTGIR, TTIR and defaults in turn. A layer's share
    is how much the figure changes when that layer is exchanged. Passes on TTGIR are bisected: the
    first Triton runs them up to a point, the second runs the rest.
    """
    if len(tritons) != 2:
        raise click.UsageError("name two Tritons with --triton")
    from ..compare.blame import swaps

    # No other figure needs a launch to be executed.
    analysis = timing() if metric in (None, TIME_US) else None
    request = target.with_triton(tritons).request(passes=True, analysis=analysis)
    result = swaps.blame(request, (tritons[0], tritons[1]), metric)
    from ..formats import blame as formats

    write_form(form, formats.document(result), formats.fields(result), output)
