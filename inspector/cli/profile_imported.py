"""`kinspect profile import`, `compare` and `export`: recordings that are there already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from kinspect.inspector.cli.options import compile_options, output_option, result_stream
from kinspect.inspector.cli.profiles import read, report_options, write
from kinspect.inspector.cli.telling import tell


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--arch", metavar="A", help="The GPU that it ran on.  [as recorded]")
@report_options
@output_option
@compile_options
def import_(path: Path, output: Path | None, **options: Any) -> int:
    """Read what a profiler left at PATH, a file or a folder, and report on it.

    Known are runs of `kinspect profile`; rocprofv3's CSV, JSON, databases (rocpd), thread traces
    and PC samples; rocprof's and rocprofv2's CSV; workloads of rocprof-compute; PyTorch's traces.

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    found = read(path, options)
    with result_stream(output) as stream:
        write(found, stream, options)
    errors = (*found.recording.errors, *found.errors)
    tell(errors, ())
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
    from kinspect.inspector.diff import profiles
    from kinspect.inspector.render import profile_diff

    sides = read(left, options), read(right, options)
    found = profiles.compare(*sides)
    with result_stream(output) as stream:
        if options["form"] == "json":
            profile_diff.write_json(found, stream)
        else:
            profile_diff.write(found, stream, details=options["details"])
    errors = [e for side in sides for e in (*side.recording.errors, *side.errors)]
    tell(errors, ())
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

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    from kinspect.inspector.render import timeline

    found = read(path, {"joined": (), "skip_warmup": None})
    with result_stream(output) as stream:
        written = timeline.write(found, stream)
    sys.stderr.write(f"kinspect: {written:,} dispatches -> {output}\n")
    tell(found.recording.errors, ())
    return 2 if found.recording.errors else 0
