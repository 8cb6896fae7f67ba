"""Options and helpers that several commands share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar, cast

import click

from ..limits import COMPILE_SECONDS
from ..streams import PlainStream, plain
from ..writing import replacing_text, unwritable

if TYPE_CHECKING:
    from ..bench.history.keeping import Keeper

F = TypeVar("F", bound=Callable[..., Any])


def format_option(*formats: str) -> Callable[[F], F]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def output_option(function: F) -> F:
    return click.option(
        "--output",
        "-o",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the result to this file instead of stdout.",
    )(function)


def compile_options(function: F) -> F:
    """How kernels are compiled: `jobs`, `python`, `time_limit`."""
    for option in (
        click.option(
            "--time-limit",
            type=click.FloatRange(1),
            default=COMPILE_SECONDS,
            show_default=True,
            help="Seconds that one compile may take.",
        ),
        click.option(
            "--python",
            metavar="PATH",
            help="Interpreter whose Triton compiles.  [the one that runs kinspect]",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(1),
            metavar="N",
            help="Compiles, or files read, at a time.  [CPUs]",
        ),
    ):
        function = option(function)
    return function


def launch_options(function: F) -> F:
    """What the user states of a launch that the file does not: `lds`, `waves`, `workgroup`."""
    waves = click.option(
        "--waves", type=click.IntRange(1, 32), metavar="N", help="Waves of a workgroup."
    )
    workgroup = click.option(
        "--workgroup",
        callback=workgroup_shape,
        metavar="X[,Y[,Z]]",
        help="Work-items of a workgroup in x, y and z, as HIP's block has them.",
    )
    lds = click.option(
        "--lds", type=click.IntRange(0), metavar="BYTES", help="LDS of a workgroup, if dynamic."
    )
    return lds(waves(workgroup(function)))


def workgroup_shape(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int, int] | None:
    """`16,16` -> (16, 16, 1)."""
    if value is None:
        return None
    sizes = [int(part) if part.strip().isdecimal() else 0 for part in value.split(",")]
    if len(sizes) > 3 or min(sizes) < 1:
        raise click.BadParameter(f"{value!r} is not X, X,Y or X,Y,Z, each from 1 on")
    if math.prod(sizes) > MOST_WORK_ITEMS:
        raise click.BadParameter(
            f"{value!r} is {math.prod(sizes):,} work-items; a workgroup has {MOST_WORK_ITEMS:,}"
            " at most"
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


MOST_WORK_ITEMS: Final = 1024
"""Of a workgroup, on any target: HIP's `maxThreadsPerBlock`."""


def emulate_option(function: F) -> F:
    return click.option(
        "--emulate",
        is_flag=True,
        help="Execute a few workgroups of each launch on the CPU and report what they did.",
    )(function)


@contextmanager
def result_stream(output: Path | None, *, log: bool = True) -> Iterator[TextIO]:
    """stdout, or a file that appears only when it is complete; neither lets a terminal be steered.

    A device or pipe (/dev/null, /dev/stderr) is written to, never replaced.

    Args:
        output: the file; None for stdout.
        log: whether a CI runner may come to read the result as its log.
    """
    if output is None:
        stream = plain(sys.stdout, log=log)
        yield stream
        stream.flush()  # it holds lines back until there are many
        return
    try:
        if output.exists() and not output.is_file():
            with output.open("w", encoding="utf-8") as stream:
                yield from _plainly(stream, output, log)
        else:
            with replacing_text(output) as stream:
                yield from _plainly(stream, output, log)
    except OSError as error:
        raise unwritable(output, error, "check --output") from None


def _plainly(stream: TextIO, output: Path, log: bool) -> Iterator[TextIO]:
    clean = PlainStream(stream, log=log, name=str(output))
    yield cast(TextIO, clean)
    clean.flush()


def split_list(text: str | None) -> tuple[str, ...]:
    """`a,b` -> ("a", "b"), blanks and repeats dropped."""
    if not text:
        return ()
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def history_options(function: F) -> F:
    """Gives a command `history` (a flag) and `label`, which asks for the same."""
    label = click.option(
        "--label", metavar="TEXT", help="Keep it under this name.  [the commit, in a git checkout]"
    )
    flag = click.option(
        "--history", is_flag=True, help="Keep the figures; see `kinspect history plot`."
    )
    return flag(label(function))


def keeper_for(command: str, history: bool, label: str | None) -> Keeper | None:
    """What keeps the run; None if that was not asked for.

    Raises:
        KinspectError: the history cannot be used.
    """
    if not history and label is None:
        return None
    from ..bench.history.keeping import Keeper

    return Keeper(command, label)
