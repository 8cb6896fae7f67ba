"""Shared by `kinspect profile` and its subcommands: options, reading a recording, printing it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from msgspec.structs import replace

from ..capture.options import CaptureOptions
from ..errors import KinspectError
from ..limits import COMPILE_SECONDS
from ..version import VERSION
from .options import emulate_option, format_option

if TYPE_CHECKING:
    from ..model import KernelReport
    from ..recording import Profile

F = TypeVar("F", bound=Callable[..., Any])


def report_options(function: F) -> F:
    """Adds `kernel`, `skip_warmup`, `top`, `joined`, `form`, `emulate` and `details`."""
    for option in (
        click.option("--details", is_flag=True, help="Every kernel in full."),
        emulate_option,
        format_option("text", "json"),
        click.option(
            "--with",
            "joined",
            metavar="TARGET",
            multiple=True,
            help="What to analyse and lay beside it.  [what the run itself compiled]",
        ),
        click.option(
            "--top", type=click.IntRange(1), metavar="N", help="Only the N kernels of most time."
        ),
        click.option(
            "--skip-warmup",
            type=click.IntRange(0),
            is_flag=False,
            flag_value=1,
            metavar="[N]",
            help="First launches of each kernel that do not count.  [1]",
        ),
        click.option(
            "--kernel",
            metavar="RE",
            help="Only kernels whose name this regular expression finds.",
        ),
    ):
        function = option(function)
    return function


def checked_expression(text: str | None) -> str | None:
    """Checks the value of --kernel and returns it.

    Raises:
        KinspectError: it is no regular expression.
    """
    try:
        re.compile(text or "")
    except re.error as error:
        raise KinspectError(
            f"--kernel {text}: no regular expression ({error})", "put \\ before ( [ + * ?"
        ) from None
    return text


def read(path: Path, options: Mapping[str, Any]) -> Profile:
    """Reads a run folder or file and joins it with analysed kernels.

    Args:
        path: of the recording.
        options: the command's, by name: those of `report_options` and `compile_options`.

    Raises:
        KinspectError: nothing can be read there, a target is wrong, or --kernel is no expression.
    """
    from ..pipeline import collecting as pipeline
    from ..pipeline import profiling
    from ..pipeline.jobs import Request

    request = Request(
        targets=tuple(options["joined"]),
        python=options.get("python") or sys.executable,
        jobs=options.get("jobs") or os.cpu_count() or 1,
        passes=False,
        time_limit=options.get("time_limit") or COMPILE_SECONDS,
    )
    if options.get("emulate"):
        from ..pipeline.executing import Sample

        capture = CaptureOptions(arguments=True)
        request = replace(request, capture=capture, sample=Sample())
    skip = options["skip_warmup"]
    settings = profiling.Options(
        kernel=checked_expression(options.get("kernel")),
        top=options.get("top"),
        **({} if skip is None else {"skip_warmup": skip}),
        targets=tuple(options["joined"]),
        arch=options.get("arch"),
        request=request,
    )
    return profiling.profiled(path, settings, pipeline.collect)


def write(profile: Profile, stream: TextIO, options: Mapping[str, Any]) -> None:
    """Writes a profile in the format that the options name."""
    from ..formats import profile_json, profile_text

    if options["form"] == "json":
        profile_json.write(profile, stream)
    else:
        profile_text.write(profile, stream, details=options["details"])


def save_reports(profile: Profile, path: Path) -> None:
    """Writes the analysed kernels of a profile, with what was measured of them, as one file.

    A measured kernel without an analysed counterpart is kept, without code.

    Raises:
        KinspectError: nothing was measured, or the file cannot be written.
    """
    from ..model import Report
    from ..report import saved

    kernels = (*profile.reports, *_unanalysed(profile))
    if not kernels:
        raise KinspectError(
            "--save: nothing was measured, so there is nothing to keep",
            "import a recording with dispatches, samples or traces",
        )
    run = profile.recording
    tool = {"name": "kinspect", "version": VERSION}
    profiler = " ".join(filter(None, (run.tool.get("name"), run.tool.get("version"))))
    measured = sum(kernel.match.is_decided for kernel in profile.kernels)
    notes = (
        f"measured by {profiler or 'a profiler'} in {run.path}: {measured} of "
        f"{len(profile.kernels)} recorded kernels are analysed ones",
        *run.notes,
        *profile.notes,
    )
    errors = (*run.errors, *profile.errors)
    saved.save(
        Report(target=run.path, tool=tool, kernels=kernels, errors=errors, notes=notes), path
    )


def _unanalysed(profile: Profile) -> tuple[KernelReport, ...]:
    """Returns reports with the measured figures alone, of the kernels that were not analysed."""
    from ..model import KernelReport

    return tuple(
        KernelReport(
            id=f"{profile.recording.path}::{kernel.id}",
            name=kernel.name,
            arch=kernel.agent.arch if kernel.agent is not None else None,
            source=None,
            variant=None,
            artifacts={},
            metrics=kernel.metrics,
            loops=(),
            main_loop=None,
            memory_ops=(),
            waits=(),
            findings=(),
            notes=("measured, not analysed: nothing of its code is known", *kernel.notes),
        )
        for kernel in profile.kernels
        if not kernel.match.is_decided
    )
