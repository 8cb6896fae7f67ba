"""Options and helpers that several commands share."""

from __future__ import annotations

import io
import math
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import click

from ..base import named_files
from ..base.errors import KinspectError
from ..base.limits import COMPILE_SECONDS, MOST_SECONDS, natural
from ..base.streams import PlainStream, dump_json, plain, underneath
from ..base.writing import replacing_text, unwritable
from .declared import Options, option
from .progress import print_message
from .storage_errors import report_storage_error, storing

if TYPE_CHECKING:
    from ..bench.history.recorder import HistoryRecorder
    from ..present.document import Document

WORDS = "kinspect.words"
"""Key of click's context for the command line as it was typed, after the command."""
MOST_WORK_ITEMS: Final = 1024
"""The largest workgroup on any target: HIP's `maxThreadsPerBlock`."""
MOST_IN_GRID: Final = (1 << 31) - 1
"""Workgroups along one dimension: HIP's `maxGridSize`."""


class Amount(click.FloatRange):
    """A number of seconds, or of another unit, from `least` on; more than `most` is `most`.

    Timers and counters of the system take no number as large as `inf` or 1e30.
    """

    def __init__(self, least: float, most: float = MOST_SECONDS, *, min_open: bool = False) -> None:
        super().__init__(least, min_open=min_open)
        self._most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parses the text of an option."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return min(number, self._most)


class _Format(click.Choice[str]):
    """A format; of HTML, which is no text, it names the command."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "html" and "html" not in self.choices:
            from .group import names_a_target  # only on the way to this error

            words = ctx.meta.get(WORDS, ()) if ctx is not None else ()
            files = [word for word in words if names_a_target(word)] or ["TARGET"]
            command = shlex.join(["kinspect", "report", *files, "-o", "page.html"])
            raise KinspectError("--format html: a page is a report", f"write one: `{command}`")
        return super().convert(value, param, ctx)


def format_option(*formats: str) -> Any:
    """The option `form`: one of these formats, by default the first."""
    settings = {"type": _Format(formats), "default": formats[0], "show_default": True}
    return option("How to print the result.", "--format", **settings)


def _allow_roots(ctx: click.Context, parameter: click.Parameter, folders: tuple[str, ...]) -> None:
    if folders:
        every = [os.environ.get(named_files.VARIABLE, ""), *map(os.path.abspath, folders)]
        os.environ[named_files.VARIABLE] = os.pathsep.join(every)


SOURCE_ROOT = click.Option(
    [named_files.OPTION],
    multiple=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    callback=_allow_roots,
    expose_value=False,
    help="Read sources that the targets name here too.  [the checkouts of the targets and"
    " of the working folder, your caches; of scripts: installed packages]",
)
ROOTS: Any = Options([SOURCE_ROOT], lambda values: None)
"""As the default of a parameter that has no value: its callback is all that it does."""
OUTPUT = option("Write the result to this file instead of stdout.", "--output", "-o")
EMULATE = option("Execute a few workgroups of each launch on the CPU and report the counts.")
ARGUMENTS = option(
    "Of a file of code: what the launch passes: 'f32[4096], i32[9]=zeros, i32 7'.",
    "--args",
    metavar="LIST",
)
GPU = option(
    "The product that times are for, such as MI325X; its target, without --arch.", metavar="NAME"
)
CLOCK = option(
    "The clock that it runs at.  [what power leaves of the product's peak]",
    type=Amount(1, 1e5),
    metavar="MHZ",
)
HISTORY = option("Keep the figures; see `kinspect history plot`.")
LABEL = option("Keep it under this name.  [the commit, in a git checkout]", metavar="TEXT")
COLOR = option("Force colour on or off.", "--color/--no-color", default=None)
COMPILE = (
    click.Option(
        ["-j", "--jobs"],
        type=click.IntRange(1),
        metavar="N",
        help="Compile, or read, so many files at a time.  [CPUs]",
    ),
    click.Option(
        ["--python"],
        metavar="PATH",
        help="Interpreter whose Triton compiles.  [the one that runs kinspect]",
    ),
    click.Option(
        ["--time-limit"],
        type=Amount(1),
        default=COMPILE_SECONDS,
        show_default=True,
        help="Seconds that one compile may take; below the default, one run of a script, too.",
    ),
)
"""Fields of `Request`: how kernels are compiled."""


def workgroup_shape(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int, int] | None:
    """Parses `X[,Y[,Z]]`: `16,16` is (16, 16, 1)."""
    if value is None:
        return None
    sizes = _sizes(value)
    if math.prod(sizes) > MOST_WORK_ITEMS:
        raise click.BadParameter(
            f"{value!r} is {math.prod(sizes):,} work-items; a workgroup has {MOST_WORK_ITEMS:,}"
            " at most"
        )
    return sizes


def grid_shape(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int, int] | None:
    """Parses `X[,Y[,Z]]` workgroups: `304` is (304, 1, 1)."""
    return None if value is None else _sizes(value)


def _sizes(value: str) -> tuple[int, int, int]:
    """Parses up to three sizes; those that are left out are 1."""
    sizes = [natural(part.strip()) or 0 for part in value.split(",")]
    if len(sizes) > 3 or min(sizes) < 1:
        raise click.BadParameter(f"{value[:60]!r} is not X, X,Y or X,Y,Z, each from 1 on")
    if max(sizes) > MOST_IN_GRID:
        raise click.BadParameter(f"{value!r}: a launch has {MOST_IN_GRID:,} along each at most")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


LAUNCH = (
    click.Option(
        ["lds_bytes", "--lds"],
        type=click.IntRange(0),
        metavar="BYTES",
        help="LDS of a workgroup, if dynamic.",
    ),
    click.Option(
        ["waves_per_workgroup", "--waves"],
        type=click.IntRange(1, 32),
        metavar="N",
        help="Waves of a workgroup.",
    ),
    click.Option(
        ["--workgroup"],
        callback=workgroup_shape,
        metavar="X[,Y[,Z]]",
        help="Work-items of a workgroup in x, y and z, as HIP's block has them.",
    ),
    click.Option(
        ["--grid"],
        callback=grid_shape,
        metavar="X[,Y[,Z]]",
        help="Workgroups of the launch in x, y and z, as HIP's grid has them.",
    ),
)
"""Fields of `Overrides`: facts on a launch that the file does not state."""


@contextmanager
def result_stream(output: Path | None, *, log: bool = True) -> Iterator[TextIO]:
    """Yields stdout, or a file that appears only when it is complete.

    Control codes are spelled out, so that no text steers the terminal that shows it.

    A device or pipe (/dev/null, /dev/stderr) is written to, never replaced, and no file by an empty
    one. Where the file cannot be written, that is an error in the end (`storing`), and the result
    goes to stdout.

    Args:
        output: the file; None for stdout.
        log: whether a CI runner may read the result as its log.
    """
    if output is None:
        stream = plain(sys.stdout, log=log)
        yield stream
        stream.flush()  # it buffers lines
        return
    text = io.StringIO()
    clean = PlainStream(text, log=log)
    yield cast(TextIO, clean)
    clean.flush()
    if not text.tell() and output.is_file() and output.stat().st_size:
        print_message(f"{output} stays as it was: there is no result")
        return
    is_written = False
    with storing():
        write_result(output, text.getvalue())
        is_written = True
    if not is_written:
        # It is clean already, and commands (::error) are to stay what they are.
        sys.stdout.flush()
        underneath(sys.stdout).write(text.getvalue())


def _check_output(output: Path) -> None:
    """Refuses to replace what the command line names besides, or code by a report of it."""
    context = click.get_current_context(silent=True)
    if context is None or not output.is_file():
        return
    named = {name: value for name, value in context.params.items() if value != output}
    for value in named.values():
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str | Path) and _is_file(str(word).partition("::")[0], output):
                raise KinspectError(f"{output}: the command reads it", "name another --output")
    from ..capture.targets import SUFFIXES

    if SUFFIXES.get(output.suffix, "report") != "report" and context.info_name != "show":
        raise KinspectError(f"{output}: there is a target of that name", "name another --output")


def _is_file(name: str, output: Path) -> bool:
    with suppress(OSError, ValueError):
        return os.path.samefile(name, output)
    return False


def write_result(output: Path, text: str) -> None:
    """Writes a file whole, a device or pipe as far as somebody reads it.

    Raises:
        KinspectError: it cannot be written, or is another file of the command line.
    """
    _check_output(output)
    try:
        if output.exists() and not output.is_file():
            with suppress(BrokenPipeError), output.open("w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            with replacing_text(output) as stream:
                stream.write(text)
    except OSError as error:
        raise unwritable(output, error, "check --output") from None


def split_list(text: str | None) -> tuple[str, ...]:
    """Splits `a,b` into ("a", "b"); drops blanks and repeats."""
    if not text:
        return ()
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def check_save(path: Path) -> None:
    """Refuses a --save that is no archive's name, before anything is read."""
    if path.suffix != ".kinspect":
        raise KinspectError(f"--save {path}: not a .kinspect file", f"name it {path}.kinspect")


def history_recorder(command: str, history: bool, label: str | None) -> HistoryRecorder | None:
    """Returns the recorder of the run's figures; None if neither option asks for it.

    Where the history cannot be used, that is said, and there is none either.
    """
    if not history and label is None:
        return None
    from ..bench.history.recorder import HistoryRecorder

    try:
        return HistoryRecorder(command, label)
    except KinspectError as error:
        report_storage_error(error)
        return None


def write_form(
    form: str, document: Document, fields: object, output: Path | None, color: bool | None = None
) -> None:
    """Writes a result as text, Markdown or JSON.

    Args:
        output: the file; None for stdout.
        color: of text; None: where the output is a terminal that has colours.
    """
    with result_stream(output) as stream:
        if form == "json":
            dump_json(fields, stream)
        elif form == "md":
            from ..present import markdown

            markdown.show(document, stream)
        else:
            from ..present import text

            text.show(document, stream, color)
