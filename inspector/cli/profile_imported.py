"""`kinspect profile import`, `compare` and `export`: reads, compares and converts recordings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..errors import KinspectError
from .options import check_save, compile_options, output_option, result_stream
from .profiles import read, report_options, save_reports, write
from .progress import print_problems


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--arch", metavar="A", help="The GPU that it ran on.  [as recorded]")
@report_options
@output_option
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.kinspect",
    help="Write the analysed kernels, measured figures beside them, as one file, itself a target.",
)
@compile_options
def import_(path: Path, output: Path | None, save: Path | None, **options: Any) -> int:
    """Read what a profiler left at PATH, a file or a folder, and report on it.

    Known are runs of `kinspect profile`; rocprofv3's CSV, JSON, databases (rocpd), thread traces
    and PC samples; rocprof's and rocprofv2's CSV; workloads of rocprof-compute; PyTorch's traces.

    With --save, `analyze`, `lint`, `diff`, `tui` and `report` show on any machine what was analysed
    and what was measured of it: as metrics, and on the lines that samples and traces fell on.

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
        save_reports(result, save)
    return 2 if errors else 0


@click.command()
@click.argument("left", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("right", type=click.Path(path_type=Path), metavar="RUN")
@report_options
@output_option
@compile_options
def compare(left: Path, right: Path, output: Path | None, **options: Any) -> int:
    """Compare two runs: which kernels got slower or faster, and which figures changed with them.

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    from ..compare import profiles
    from ..formats import profile_diff

    sides = read(left, options), read(right, options)
    comparison = profiles.compare(*sides)
    with result_stream(output) as stream:
        if options["form"] == "json":
            profile_diff.write_json(comparison, stream)
        else:
            profile_diff.write(comparison, stream, details=options["details"])
    errors = [e for side in sides for e in (*side.recording.errors, *side.errors)]
    print_problems(errors, ())
    return 2 if errors else 0


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
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
