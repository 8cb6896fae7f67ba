"""`kinspect profile import`, `compare` and `export`, and what they share with `profile run`.

Shared are the options of a report, reading a recording, and writing the report.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ..base.errors import KinspectError
from ..base.limits import COMPILE_SECONDS
from ..base.version import VERSION
from .kept import keeping
from .options import (
    check_save,
    compile_options,
    device_options,
    emulate_option,
    format_option,
    launch_options,
    output_option,
    result_stream,
    source_root_option,
    with_options,
    write_form,
)
from .progress import print_problems

if TYPE_CHECKING:
    from ..model import KernelReport
    from ..model.recording import Profile

F = TypeVar("F", bound=Callable[..., Any])


def report_options(function: F) -> F:
    """Adds `kernel`, `skip_warmup`, `top`, `joined`, `form`, `emulate` and `details`."""
    return with_options(
        function,
        click.option("--details", is_flag=True, help="Every kernel in full."),
        emulate_option,
        format_option("text", "json"),
        click.option(
            "--with",
            "joined",
            metavar="TARGET",
            multiple=True,
            help="Also analyse this and show it.  [what the run itself compiled]",
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
            help="Only kernels whose name matches this regular expression.",
        ),
    )


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

    Raises:
        KinspectError: nothing can be read there, a target is wrong, or --kernel is no expression.
    """
    from ..pipeline import collecting as pipeline
    from ..pipeline import profiling
    from ..pipeline.context import Overrides
    from ..pipeline.jobs import BESIDE, executing, request_for, timing

    arch = options.get("arch")
    request = request_for(
        options["joined"],
        archs=(arch,) if arch is not None else (),
        python=options.get("python"),
        jobs=options.get("jobs"),
        time_limit=options.get("time_limit") or COMPILE_SECONDS,
        overrides=Overrides(
            options.get("lds"),
            options.get("waves"),
            workgroup=options.get("workgroup"),
            grid=options.get("grid"),
        ),
        analysis=timing(
            executing() if options.get("emulate") else None,
            # A launch that is stated for it may take the minute that `kinspect time` has.
            **({"explains": True} if options.get("arguments") else BESIDE),
            gpu=options.get("gpu"),
            clock_mhz=options.get("clock"),
            arguments=options.get("arguments"),
        ),
    )
    skip = options["skip_warmup"]
    settings = profiling.Options(
        kernel=checked_expression(options.get("kernel")),
        top=options.get("top"),
        **({} if skip is None else {"skip_warmup": skip}),
        targets=tuple(options["joined"]),
        arch=request.archs[0] if request.archs else None,
        request=request,
    )
    return profiling.profile_of(path, settings, pipeline.collect)


def write(profile: Profile, stream: TextIO, options: Mapping[str, Any]) -> None:
    """Writes a profile in the format that the options name."""
    from ..formats import profile_json
    from ..present import profile as present
    from ..present import text

    if options["form"] == "json":
        profile_json.write(profile, stream)
    else:
        text.show(present.document(profile, details=options["details"]), stream)


def _save_reports(profile: Profile, path: Path) -> None:
    """Writes the analysed kernels of a profile, with what was measured of them, as one file.

    A measured kernel without an analysed counterpart is kept, without code.
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


def _launch_of_code(function: F) -> F:
    """Adds what the timing model has to know of a launch: `arguments`, `gpu`, `clock` and more."""
    return with_options(
        function,
        device_options,
        click.option(
            "--args",
            "arguments",
            metavar="LIST",
            help="For code named by --with: the arguments of the launch, as for `kinspect time`.",
        ),
        launch_options,
    )


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--arch", metavar="A", help="The GPU that it ran on.  [as recorded]")
@report_options
@output_option
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.kinspect",
    help="Write the analysed kernels with their measured figures as one file, itself a target.",
)
@_launch_of_code
@source_root_option
@compile_options
def import_(path: Path, output: Path | None, save: Path | None, **options: Any) -> int:
    """Read what a profiler left at PATH, a file or a folder, and report on it.

    It reads runs of `kinspect profile`; rocprofv3's CSV, JSON, databases (rocpd), thread traces
    and PC samples; rocprof's and rocprofv2's CSV; workloads of rocprof-compute; Proton's
    trees; PyTorch's traces.

    For the kernels that --with names, the report also has what the timing model predicts:
    microseconds, cycles, and each instruction's part of the stalls, with the lines where the two
    differ. For code (.s, .hsaco) state the launch: --args, and --grid, --workgroup if the recording
    has none.

    --save writes the analysed kernels with their measured figures. `analyze`, `lint`, `diff`, `tui`
    and `report` show this file on any machine: as metrics, and on the lines of samples and traces.

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    if save is not None:
        check_save(save)
    result = read(path, options)
    with result_stream(output) as stream:
        write(result, stream, options)
    errors = (*result.recording.errors, *result.errors)
    print_problems(errors, ())
    if save is not None:
        with keeping():
            _save_reports(result, save)
    return 2 if errors else 0


@click.command()
@click.argument("left", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("right", type=click.Path(path_type=Path), metavar="RUN")
@report_options
@output_option
@source_root_option
@compile_options
def compare(left: Path, right: Path, output: Path | None, **options: Any) -> int:
    """Compare two runs: which kernels got slower or faster, and which figures changed with them.

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    from ..compare import profiles
    from ..present import profile_diff

    sides = read(left, options), read(right, options)
    comparison = profiles.compare(*sides)
    document = profile_diff.document(comparison, details=options["details"])
    write_form(options["form"], document, profile_diff.fields(comparison), output)
    errors = [e for side in sides for e in (*side.recording.errors, *side.errors)]
    print_problems(errors, ())
    return 2 if errors else 0


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Where to write the timeline.",
)
def export(path: Path, output: Path) -> int:
    """Write the dispatches of a run as a timeline for Perfetto (ui.perfetto.dev).

    Passes, and recordings that do not overlap in time, begin at 0 each.

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    from ..formats import timeline

    result = read(path, {"joined": (), "skip_warmup": None})
    if not any(timeline.is_drawn(result.recording)):
        print_problems(result.recording.errors, ())
        raise KinspectError(
            f"{path}: no dispatch in it with begin and end, so there is no timeline",
            "record a kernel trace (`rocprofv3 --kernel-trace`, or `kinspect profile -- …`)",
        )
    with result_stream(output) as stream:
        dispatch_count = timeline.write(result, stream)
    sys.stderr.write(f"kinspect: {dispatch_count:,} dispatches -> {output}\n")
    print_problems(result.recording.errors, ())
    return 2 if result.recording.errors else 0
