"""`kinspect profile import`, `compare` and `export`, and what they share with `profile run`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..base.errors import KinspectError
from ..base.limits import COMPILE_SECONDS
from ..base.version import VERSION
from .declared import argument, command, option, options
from .options import (
    CLOCK,
    COMPILE,
    EMULATE,
    GPU,
    LAUNCH,
    OUTPUT,
    SOURCE_ROOT,
    check_save,
    format_option,
    result_stream,
    write_form,
)
from .progress import print_problems
from .storage_errors import storing

if TYPE_CHECKING:
    from ..model import KernelReport
    from ..model.recording import Profile

REPORT = (
    click.Option(
        ["--kernel"],
        metavar="RE",
        help="Only kernels whose name matches this regular expression.",
    ),
    click.Option(
        ["--skip-warmup"],
        type=click.IntRange(0),
        is_flag=False,
        flag_value=1,
        metavar="[N]",
        help="First launches of each kernel that do not count.  [1]",
    ),
    click.Option(
        ["--top"],
        type=click.IntRange(1),
        metavar="N",
        help="Only the N kernels of most time.",
    ),
    click.Option(
        ["joined", "--with"],
        metavar="TARGET",
        multiple=True,
        help="Also analyse this and show it.  [what the run itself compiled]",
    ),
    format_option("text", "json").named("form", "str"),
    EMULATE.named("emulate", "bool"),
    click.Option(["--details"], is_flag=True, help="Every kernel in full."),
)
"""What of a recording is reported."""


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


def read(path: Path, chosen: Mapping[str, Any]) -> Profile:
    """Reads a run folder or file and joins it with analysed kernels.

    Raises:
        KinspectError: nothing can be read there, a target is wrong, or --kernel is no expression.
    """
    from ..pipeline import collecting as pipeline
    from ..pipeline import profiling
    from ..pipeline.analysis_options import Overrides
    from ..pipeline.jobs import BESIDE, executing, request_for, timing

    arch = chosen.get("arch")
    request = request_for(
        chosen["joined"],
        archs=(arch,) if arch is not None else (),
        python=chosen.get("python"),
        jobs=chosen.get("jobs"),
        time_limit=chosen.get("time_limit") or COMPILE_SECONDS,
        overrides=Overrides(**{o.name: chosen.get(o.name) for o in LAUNCH if o.name}),
        analysis=timing(
            executing() if chosen.get("emulate") else None,
            # A launch that is stated for it may take the minute that `kinspect time` has.
            **({"explains": True} if chosen.get("arguments") else BESIDE),
            gpu=chosen.get("gpu"),
            clock_mhz=chosen.get("clock"),
            arguments=chosen.get("arguments"),
        ),
    )
    skip = chosen["skip_warmup"]
    settings = profiling.Options(
        kernel=checked_expression(chosen.get("kernel")),
        top=chosen.get("top"),
        **({} if skip is None else {"skip_warmup": skip}),
        targets=tuple(chosen["joined"]),
        arch=request.archs[0] if request.archs else None,
        request=request,
    )
    return profiling.profile_of(path, settings, pipeline.collect)


def write(profile: Profile, stream: TextIO, chosen: Mapping[str, Any]) -> None:
    """Writes a profile in the format that the options name."""
    from ..formats import profile_json
    from ..present import profile as present
    from ..present import text

    if chosen["form"] == "json":
        profile_json.write(profile, stream)
    else:
        text.show(present.document(profile, details=chosen["details"]), stream)


def _save_reports(profile: Profile, path: Path) -> None:
    """Writes the analysed kernels of a profile, with what was measured of them, as one file."""
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


_ARGUMENTS = click.Option(
    ["arguments", "--args"],
    metavar="LIST",
    help="For code named by --with: the arguments of the launch, as for `kinspect time`.",
)


@command("import")
def import_(
    path: Path = argument(),
    recorded: dict[str, Any] = options(
        click.Option(["--arch"], metavar="A", help="The GPU that it ran on.  [as recorded]"),
        *REPORT,
    ),
    output: Path | None = OUTPUT,
    save: Path | None = option(
        "Write the analysed kernels with their measured figures as one file, itself a target.",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE.kinspect",
    ),
    launched: dict[str, Any] = options(
        *LAUNCH,
        _ARGUMENTS,
        GPU.named("gpu", "str | None"),
        CLOCK.named("clock", "float | None"),
        SOURCE_ROOT,
        *COMPILE,
    ),
) -> int:
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
    result = read(path, {**recorded, **launched})
    with result_stream(output) as stream:
        write(result, stream, recorded)
    errors = (*result.recording.errors, *result.errors)
    print_problems(errors, ())
    if save is not None:
        with storing():
            _save_reports(result, save)
    return 2 if errors else 0


@command()
def compare(
    left: Path = argument("RUN"),
    right: Path = argument("RUN"),
    shown: dict[str, Any] = options(*REPORT),
    output: Path | None = OUTPUT,
    compiled: dict[str, Any] = options(SOURCE_ROOT, *COMPILE),
) -> int:
    """Compare two runs: which kernels got slower or faster, and which figures changed with them.

    Exit status: 0; 2 where nothing, or not all of it, could be read.
    """
    from ..compare import profiles
    from ..present import profile_diff

    both = {**shown, **compiled}
    sides = read(left, both), read(right, both)
    comparison = profiles.compare(*sides)
    document = profile_diff.document(comparison, details=shown["details"])
    write_form(shown["form"], document, profile_diff.fields(comparison), output)
    errors = [e for side in sides for e in (*side.recording.errors, *side.errors)]
    print_problems(errors, ())
    return 2 if errors else 0


@command()
def export(
    path: Path = argument(),
    output: Path = option(
        "Where to write the timeline.", "--output", "-o", required=True, metavar="FILE.json"
    ),
) -> int:
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
