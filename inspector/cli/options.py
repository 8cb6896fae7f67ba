"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from kinspect.inspector.errors import KinspectError

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
            default=300.0,
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


UNENCODABLE = "backslashreplace"
"""What becomes of half a surrogate, as Python spells bytes of file names that are not UTF-8: text
that everyone can read, and in JSON the escape of the very same.
"""


def launch_options(function: F) -> F:
    """What the user states of a launch that the file does not: `lds`, `waves`."""
    waves = click.option(
        "--waves", type=click.IntRange(1, 32), metavar="N", help="Waves of a workgroup."
    )
    lds = click.option(
        "--lds", type=click.IntRange(0), metavar="BYTES", help="LDS of a workgroup, if dynamic."
    )
    return lds(waves(function))


@contextmanager
def result_stream(output: Path | None) -> Iterator[TextIO]:
    """stdout, or a file that appears only when it is complete.

    A device or pipe (/dev/null, /dev/stderr) is written to, never replaced.
    """
    if output is None:
        yield sys.stdout
        return
    if output.exists() and not output.is_file():
        with output.open("w", encoding="utf-8", errors=UNENCODABLE) as stream:
            yield stream
        return
    partial = output.with_name(f".{output.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", errors=UNENCODABLE) as stream:
            yield stream
        partial.replace(output)
    except OSError as error:
        raise KinspectError(
            f"{output}: cannot be written ({error.strerror})", "check --output"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def split_list(text: str | None) -> tuple[str, ...]:
    """`a,b` -> ("a", "b"), blanks and repeats dropped."""
    if not text:
        return ()
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
