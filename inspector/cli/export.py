"""`kinspect export`: a folder from which plain Triton compiles a kernel again."""

from __future__ import annotations

from pathlib import Path

import click

from .declared import command, option
from .progress import print_problems
from .signals import end_as_interrupted
from .target_options import ScriptCommand, TargetOptions, targets


@command(cls=ScriptCommand)
def export(
    output: Path = option(
        "A new or empty folder.", "--output", "-o", required=True, metavar="FOLDER"
    ),
    target: TargetOptions = targets("TARGET", point=True),
) -> int:
    """Write a reproducer of one kernel, for a bug report about the compiler.

    The folder has the kernel's TTIR, the options and variables it is compiled with, its assembly,
    and reproduce.py, which compiles it with Triton alone: without a GPU, PyTorch, the script or
    kinspect. A kernel that does not compile is exported all the same.

    TARGET is a script, a .ttir file, a trace, or a report saved with --save; --kernel and --arch
    choose one of several kernels. For example:

    \b
      kinspect export attention.py --kernel attn_fwd --arch gfx950 -o repro/
      python repro/reproduce.py
    """
    from ..compile import reproducer
    from ..pipeline.exporting import NothingCapturedError, reproducer_of

    reproducer.refuse_occupied(output)
    end_as_interrupted()
    try:
        kernel = reproducer_of(target.request())
    except NothingCapturedError as error:
        print_problems((error.record,), ())
        return error.exit_code
    reproducer.write(kernel, output)
    written = f"{output} has {kernel.label} on {kernel.variant.arch}: run {output / 'reproduce.py'}"
    click.echo(written)
    failure = (f"it does not compile: {kernel.failure}",) if kernel.failure else ()
    print_problems((), (*failure, *kernel.notes))
    return 0
