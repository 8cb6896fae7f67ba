"""`kinspect blame`: which layer of two Tritons makes a figure differ."""

from __future__ import annotations

from pathlib import Path

import click

from ..limits import COMPILE_SECONDS
from ..pipeline.jobs import request_for
from .options import Amount, format_option, output_option, result_stream


@click.command()
@click.argument("target", metavar="TARGET")
@click.option(
    "--triton",
    "tritons",
    multiple=True,
    required=True,
    metavar="PATH|LABEL",
    help="The two Tritons: an interpreter, or a label such as 3.6.  Twice.",
)
@click.option(
    "--metric",
    metavar="NAME",
    help="The figure to explain: a metric of `kinspect metrics list`, or compile_seconds, the CPU"
    " time from TTIR to the code object.  [the first that differs]",
)
@click.option("--arch", metavar="A", help="Target to compile for.  [gfx942]")
@click.option("--kernel", help="Which kernel or case, where the target has several.")
@format_option("text", "json")
@output_option
@click.option("--time-limit", type=Amount(1), default=COMPILE_SECONDS, show_default=True)
def blame(
    target: str,
    tritons: tuple[str, ...],
    metric: str | None,
    arch: str | None,
    kernel: str | None,
    form: str,
    output: Path | None,
    time_limit: float,
) -> None:
    """Name the layer of the compiler that makes a figure differ between two Tritons.

    TARGET is one kernel's .py or .ttir file. It is compiled by both, and by the second with the
    first one's LLVM IR, LLVM flags, TTGIR, TTIR and defaults in turn: each layer's share of the
    change is what the figure changes by when that layer is exchanged. Passes on TTGIR are bisected:
    the first Triton's run up to a point, the second's from there.
    """
    if len(tritons) != 2:
        raise click.UsageError("name two Tritons with --triton")
    from ..compare.blame import swaps

    archs = (arch,) if arch else ()
    request = request_for(
        (target,), archs=archs, kernel=kernel, jobs=1, passes=True, time_limit=time_limit
    )
    result = swaps.blame(request, (tritons[0], tritons[1]), metric)
    from ..formats import blame_json, blame_text

    with result_stream(output) as stream:
        (blame_json if form == "json" else blame_text).write(result, stream)
