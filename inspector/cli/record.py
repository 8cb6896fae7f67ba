"""`kinspect record`: records the kernels that a program launches, on a machine with a GPU."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ..base.errors import KinspectError
from ..base.lifetimes import signals_for
from ..base.staging import scratch_folder
from ..base.writing import unwritable
from ..capture.journals import merge
from ..capture.trace import SUFFIX, LaunchTrace, write_trace
from ..explain.view import plural
from . import foreground
from .declared import argument, command, option
from .progress import print_message

SOURCES = Path(__file__).parent.parent / "guest" / "record"
RECORDER = "startup.py"
STARTUP = "sitecustomize.py"
FOLDER_VARIABLE, SOURCES_VARIABLE = "KINSPECT_RECORD_FOLDER", "KINSPECT_RECORD_SOURCES"
"""As `guest/record/startup.py` has them, which cannot be imported."""


@command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def record(
    output: Path = option(
        "The trace to write.",
        "--output",
        "-o",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path(f"trace{SUFFIX}"),
        show_default=True,
    ),
    command: tuple[str, ...] = argument(nargs=-1, required=True, type=click.UNPROCESSED),
) -> int:
    """Run COMMAND and write every Triton kernel that it launches to a trace.

    COMMAND runs unchanged, with its own interpreter: `kinspect record -- python train.py --lr 3`,
    `kinspect record -- torchrun --nproc-per-node 8 train.py`. All its Python processes are
    recorded, on AMD and NVIDIA machines. `kinspect analyze trace.kitrace --arch gfx942` then
    compiles what was launched. The exit status is that of COMMAND.
    """
    _check_place(output)
    with scratch_folder() as folder:
        startup, journals = folder / "startup", folder / "journals"
        startup.mkdir()
        journals.mkdir()
        shutil.copyfile(SOURCES / RECORDER, startup / STARTUP)
        status = _run(command, _environment(os.environ, startup, journals))
        trace = merge(journals, command, status)
    if status:
        print_message(f"the command ended with status {status}: {' '.join(command)}")
    if not trace.processes:
        if status:
            print_message("nothing was recorded")
            return status
        raise KinspectError(
            "nothing was recorded: no Python process of the command launched a Triton kernel",
            "check that it runs on a GPU, without python -I, -E or -S, TRITON_INTERPRET=1, or a"
            " PYTHONPATH of its own making",
        )
    _write(trace, output)
    _summarize(trace, output)
    return status


def _write(trace: LaunchTrace, output: Path) -> None:
    """Writes the trace, elsewhere where it cannot be: hours of a run must not be lost."""
    try:
        write_trace(trace, output)
    except KinspectError as error:
        with tempfile.NamedTemporaryFile(suffix=SUFFIX, delete=False) as stream:
            elsewhere = Path(stream.name)
        write_trace(trace, elsewhere)
        raise KinspectError(error.message, f"the trace is in {elsewhere}") from None


def _check_place(output: Path) -> None:
    """Raises now what would be raised after the run, where a trace cannot be written."""
    try:
        with tempfile.TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise unwritable(output, error, "name another file with -o") from None


def _environment(environment: Mapping[str, str], startup: Path, journals: Path) -> dict[str, str]:
    """Returns the environment in which every Python process of the command loads the recorder."""
    ours = str(startup)
    theirs = environment.get("PYTHONPATH")
    return {
        **environment,
        "PYTHONPATH": f"{ours}{os.pathsep}{theirs}" if theirs else ours,
        FOLDER_VARIABLE: str(journals),
        SOURCES_VARIABLE: str(SOURCES),
    }


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the command to its end; returns its exit status, 128 + N if signal N ended it."""
    with (
        foreground.started(command, environment, tool="kinspect record", failure=2) as process,
        signals_for(process),
    ):
        return foreground.shell_status(process.wait())


def _summarize(trace: LaunchTrace, output: Path) -> None:
    """Writes the counts, problems and notes of a trace to stderr."""
    specializations = trace.specializations
    kernels = len({(s.kernel.module, s.kernel.qualname) for s in specializations})
    killed = sum(not p.complete for p in trace.processes)
    at_least = "at least " if any(s.at_least for s in specializations) else ""
    print_message(
        f"{plural(len(specializations), 'specialisation')} of {plural(kernels, 'kernel')},"
        f" {at_least}{plural(trace.launches, 'launch')},"
        f" {plural(len(trace.processes), 'process')} -> {output}"
    )
    if killed:
        print_message(
            f"{plural(killed, 'process')} ended without warning: of the last launches, up to an"
            " eighth is not counted"
        )
    for problem in trace.problems:
        print_message(f"process {problem.pid}: could not be recorded: {problem.message}")
    for note in trace.notes:
        print_message(note)
