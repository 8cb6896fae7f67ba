"""`kinspect emulate`: runs a script, or one kernel of a file, on an emulated GPU."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..base.errors import KinspectError
from ..base.lifetimes import signals_for
from ..base.streams import dump_json
from .declared import argument, command, option, options
from .options import (
    ARGUMENTS,
    OUTPUT,
    ROOTS,
    WORDS,
    Amount,
    format_option,
    result_stream,
)
from .progress import print_error, print_message
from .target_options import HIP, number_or_all

if TYPE_CHECKING:
    from ..pipeline.emulated_code import CodeLaunch
    from ..pipeline.emulation import EmulationResult

_SAMPLE = 8
"""Workgroups that a smaller run than that of whole launches executes."""


class EmulateCommand(click.Command):
    """Keeps the words of its command line, for one that it names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)


@command(cls=EmulateCommand, context_settings={"allow_interspersed_args": True})
def emulate(
    target: Path = argument(),
    argv: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED),
    arch: str | None = option(
        "The GPU to emulate: gfx942 or mi300x.  [gfx942, or what code is for]"
    ),
    kernel: str | None = option("Of a file of code: the kernel."),
    grid: str | None = option("Of a file of code: workgroups.", metavar="X[,Y[,Z]]"),
    block: str | None = option(
        "Of a file of code: work-items of a workgroup.",
        "--workgroup",
        "--block",
        metavar="X[,Y[,Z]]",
    ),
    arguments: str | None = ARGUMENTS,
    lds: int = option("Of a file of code: bytes added.", type=click.IntRange(0), default=0),
    hip: dict[str, Any] = options(*HIP),
    python: str | None = option("Interpreter with PyTorch and Triton.", metavar="PATH"),
    _roots: None = ROOTS,
    sample: int | None = option(
        "Execute only N workgroups of each launch: counts without results.",
        type=click.IntRange(1),
        metavar="N",
    ),
    configs: int | None = option(
        "Configurations of an autotuner: TARGET runs once with each.",
        default="1",
        callback=number_or_all,
        show_default=True,
        metavar="N|all",
    ),
    sets: int | None = option(
        "x values of each triton.testing benchmark that run.",
        default="1",
        callback=number_or_all,
        show_default=True,
        metavar="N|all",
    ),
    time_limit: float = option(
        "Seconds that one launch may take.",
        type=Amount(0.1),
        default=600.0,
        show_default=True,
        metavar="S",
    ),
    profile: bool = option("Show what kernels executed, by source line, too."),
    form: str = format_option("text", "agent", "json"),
    output: Path | None = OUTPUT,
) -> int:
    """Run TARGET on an emulated AMD GPU: kernels are compiled for it and executed on the CPU.

    TARGET is a Python script with the arguments after --, or a test file, which pytest runs
    (FILE::TEST runs any other file as tests). It may also be assembly, a code object or a HIP
    source with the compiler's flags after --; then one of its kernels is launched as --grid,
    --workgroup and --args say. Tensors hold what the compiled code computes. Nothing is timed.

    Findings are: outside, outside_lds, outside_scratch, misaligned (accesses); unwaited,
    uninitialised, lds_uninitialised (values); lds_race, global_race, divergent_barrier, hang (waves
    and workgroups); mfma_hazard (wait states). docs/guides/emulate.md explains each.

    Exit status: that of TARGET; 1 if it succeeds but has findings; 2 for an error in the command
    line or a file; 125 if a launch was given up, or the emulation itself fails.
    """
    from ..capture.resolving import split
    from ..capture.targets import named_kind
    from ..compile.hip.options import HipOptions
    from ..machines.loader import DEFAULT_ARCH
    from ..machines.loader import load as load_machine
    from ..pipeline.emulated_code import CodeLaunch
    from ..pipeline.emulation import EmulationRequest
    from ..pipeline.emulation import emulate as run_emulation

    try:
        path, test = split(str(target))
        kind = named_kind(path)
        if kind in ("asm", "code_object", "hip"):
            code = CodeLaunch(
                path=path,
                kernel=test or kernel,
                arch=load_machine(arch).arch if arch is not None else None,
                grid=_extents(grid, "--grid") or (1, 1, 1),
                block=_extents(block, "--workgroup"),
                arguments=arguments or "",
                lds_bytes=lds,
                sample=sample,
                seconds=time_limit,
            )
            if kind == "hip":
                from ..pipeline.hip_sources import launch_of_source

                how = HipOptions(argv, **hip, seconds=time_limit)
                code = launch_of_source(code, how, is_stated=grid is not None)
            return _emulate_code(code, form, output, profile=profile)
        request = EmulationRequest(
            path=path,
            argv=argv,
            arch=load_machine(arch or DEFAULT_ARCH).arch,
            python=python or sys.executable,
            sample=sample,
            configs=configs,
            sets=sets,
            seconds=time_limit,
            test=test,
            advice=_advice(sample),
        )
        signals = partial(signals_for, repeated=signal.SIGTERM)
        result = run_emulation(request, dict(os.environ), signals)
    except KinspectError as error:
        print_error(error.message, error.hint)
        return error.exit_code
    status = _write_script(result, form, output, profile=profile)
    if result.gave_times:
        words = [*(["--arch", arch] if arch else []), *(["--", *argv] if argv else [])]
        command = shlex.join(["kinspect", "time", str(path), *words])
        print_message(
            f"times that {path.name} printed are not measured: no GPU ran; kinspect's estimates:"
            f" {command}"
        )
    return status


def _advice(sample: int | None) -> str:
    """The command line with fewer workgroups of each launch, in words; "" where one is run."""
    fewer = _SAMPLE if sample is None else sample // 8
    if not fewer:
        return ""
    from ..explain.view import plural

    words = [*click.get_current_context().meta[WORDS]]
    end = words.index("--") if "--" in words else len(words)
    words[end:end] = ["--sample", str(fewer)]
    command = shlex.join(["kinspect", "emulate", *words])
    return f"for faults and counts of {plural(fewer, 'workgroup')} a launch, no results: {command}"


def _write_script(result: EmulationResult, form: str, output: Path | None, *, profile: bool) -> int:
    """Writes the result of a script; returns the exit status."""
    from ..formats import emulation as formats
    from ..present import text

    with result_stream(output) as stream:
        if form == "json":
            dump_json(formats.fields(result), stream)
        elif form == "agent":
            from ..formats import emulation_agent

            emulation_agent.write(result, stream)
        else:
            text.show(formats.document(result, profile=profile), stream)
    return result.exit_status


def _emulate_code(code: CodeLaunch, form: str, output: Path | None, *, profile: bool) -> int:
    """Launches a kernel of a file and writes the result; returns the exit status."""
    from ..formats import emulation as formats
    from ..pipeline.emulated_code import launch_code
    from ..pipeline.emulation import exit_status_of
    from ..present import text

    result = launch_code(code, lambda warning: print_message(f"{warning}; {_advice(code.sample)}"))
    for is_error, printed in result.printed:
        click.echo(printed, nl=False, err=is_error or (form == "json" and output is None))
    with result_stream(output) as stream:
        if form == "json":
            dump_json(formats.code_fields(result), stream)
        elif form == "agent":
            from ..formats import emulation_agent

            emulation_agent.write_code(result, stream)
        else:
            text.show(formats.code_document(result, profile=profile), stream)
    return exit_status_of((result.profile,))


def _extents(value: str | None, option: str) -> tuple[int, int, int] | None:
    """Parses `X[,Y[,Z]]`; missing extents are 1."""
    if value is None:
        return None
    try:
        numbers = [int(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise click.UsageError(f"{option} takes one to three numbers from 1 on, not {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z
