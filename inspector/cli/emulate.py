"""`kinspect emulate`: a script runs on a GPU that is emulated on the CPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ..errors import KinspectError
from .options import format_option, output_option, result_stream
from .signals import signals_for

OWN_FAILURE = 125
FINDINGS = 1


@click.command(context_settings={"allow_interspersed_args": True})
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--arch", default="gfx942", show_default=True, help="The GPU to emulate.")
@click.option("--python", metavar="PATH", help="Interpreter with PyTorch and Triton.")
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Execute only N workgroups of each launch: counts without results.",
)
@click.option(
    "--configs",
    default="1",
    show_default=True,
    metavar="N|all",
    help="Configurations of an autotuner that run.",
)
@click.option(
    "--sets",
    default="1",
    show_default=True,
    metavar="N|all",
    help="x values of each triton.testing benchmark that run.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0.1),
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds that one launch may take.",
)
@format_option("text", "json")
@output_option
def emulate(
    target: Path,
    argv: tuple[str, ...],
    arch: str,
    python: str | None,
    sample: int | None,
    configs: str,
    sets: str,
    time_limit: float,
    form: str,
    output: Path | None,
) -> int:
    """Run TARGET on an emulated AMD GPU: kernels are compiled for it and executed on the CPU.

    TARGET is a Python script, run with the arguments behind --, or a file of tests, which pytest
    runs. Tensors hold what the compiled code computes. Accesses outside of tensors or LDS, and
    results that are used before their wait, are told. There is no timing and there are no caches.

    Exit status: that of TARGET; 1 where it succeeds and something was found; 125 where the
    emulation itself fails.
    """
    from ..formats import emulation as text
    from ..machines.loader import load as load_machine
    from ..pipeline.emulation import EmulationRequest
    from ..pipeline.emulation import emulate as run_emulation

    try:
        request = EmulationRequest(
            target,
            argv,
            load_machine(arch).arch,
            python or sys.executable,
            sample,
            _count(configs, "--configs"),
            _count(sets, "--sets"),
            time_limit,
        )
        result = run_emulation(request, dict(os.environ), signals_for)
    except KinspectError as error:
        sys.stderr.write(f"kinspect: error: {error.message}; {error.hint}\n")
        return OWN_FAILURE
    with result_stream(output) as stream:
        if form == "json":
            text.write_json(result, stream)
        else:
            text.write_text(result, stream)
    if not result.status and any(kernel.findings for kernel in result.kernels):
        return FINDINGS
    return result.status


def _count(value: str, option: str) -> int | None:
    if value == "all":
        return None
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise click.BadParameter(f"{value!r} is neither a number from 1 on nor 'all'", None, None)
    return number
