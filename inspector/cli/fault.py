"""`kinspect fault`: runs a program under the ROCm debug agent and shows where waves stopped."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.named_files import allow, allow_run, allow_target
from ..base.programs import find_program
from ..base.staging import scratch_folder
from ..host.fault import agent as debug_agent
from ..host.fault.values import AgentReport, FaultReport
from . import foreground
from .declared import argument, command, option
from .options import OUTPUT, ROOTS, format_option, result_stream
from .progress import print_message

_RUN, _IMPORT = "run", "import"
_REPORT_NAME = "report.%p.txt"
"""Name of the report: newer agents put the process's number in place of %p, older ones do not."""
_SHARED_REPORT = (
    "this agent writes one report for all processes: where several used the GPU, parts of it may be"
    " lost"
)


class _Fault(click.Group):
    """`fault [OPTIONS] -- COMMAND` is `fault run [OPTIONS] -- COMMAND`."""

    _runs = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (_RUN, _IMPORT, *ctx.help_option_names):
            args = [_RUN, *args]
        self._runs = bool(args) and args[0] == _RUN
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Gives errors of `run` the status `FAILED`: the program's own status may be 2."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not self._runs:
                raise
            raise KinspectError(
                error.format_message(), "see `kinspect fault run --help`", debug_agent.FAILED
            ) from None
        except KinspectError as error:
            if self._runs:
                error.exit_code = debug_agent.FAILED
            raise


@click.group(
    cls=_Fault, options_metavar="", subcommand_metavar="[OPTIONS] -- COMMAND | import PATH"
)
def fault() -> None:
    """Run COMMAND under the ROCm debug agent and show where its GPU code failed.

    `kinspect fault -- python train.py` names the kernel, the instruction and the Python line at
    which the waves stopped. Memory faults are reported late; for these it names the operations
    that may have caused them. `kinspect fault run --help` lists the options. `kinspect fault
    import PATH` reads a saved report without a GPU.
    """


@command(_RUN, group=fault, context_settings={"allow_interspersed_args": False})
def run_command(
    out: Path | None = option(
        "Folder for the report and code objects, a new one.  [kinspect-fault-<time>]",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    ),
    all_waves: bool = option("Also report waves without a fault."),
    precise: bool = option(
        "Precise memory mode: slow, and exact if the GPU and the agent support it."
    ),
    memory_caches: bool = option(
        "Leave PyTorch's and ROCm's caches of device memory on: faster, and hides overruns."
    ),
    agent_path: Path | None = option(
        "The agent's library.  [of the program's environment, ROCM_PATH, /opt/rocm]",
        "--agent",
        metavar="PATH",
    ),
    form: str = format_option("text", "json"),
    output: Path | None = option(
        "Write the result to this file.  [stderr]",
        "--output",
        "-o",
        type=click.Path(dir_okay=False, path_type=Path),
    ),
    command: tuple[str, ...] = argument(nargs=-1, required=True, type=click.UNPROCESSED),
) -> int:
    """Run COMMAND under the debug agent.

    Its output, signals and exit status pass through; the result goes to stderr. Ctrl-\\ asks for a
    report of all waves while it runs (a hang). Failures of kinspect itself exit 125.
    """
    folders = debug_agent.library_folders(os.environ, _prefixes(command[0]), Path("/"))
    library = debug_agent.find_agent(folders, agent_path)
    folder = _new_folder(out)
    with _writable_folder(folder) as work:
        objects, cache = work / "code_objects", work / "triton_cache"
        for new_folder in (objects, cache):
            new_folder.mkdir()
        options = debug_agent.options(
            work / _REPORT_NAME, objects, every_wave=all_waves, precise=precise
        )
        environment = debug_agent.environment(
            os.environ, library, options, cache, memory_caches=memory_caches
        )
        for setting in debug_agent.replaced_settings(os.environ):
            print_message(f"{setting} is replaced for this run")
        status = _run(command, environment, work / "stderr.txt")
    fault_report = _fault_report(folder, command, status, precise)
    with result_stream(folder / "fault.json") as stream:
        _write(fault_report, "json", stream)
    _show(fault_report, form, output)
    print_message(f"the program ended with status {status}; report and code objects -> {folder}")
    return status


@command(_IMPORT, group=fault)
def import_command(
    path: Path = argument(),
    folders: tuple[Path, ...] = option(
        "Where the saved code objects are; Triton's cache works too.  [the report's folder]",
        "--code-objects",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
    ),
    precise: bool = option("The report was made in precise memory mode."),
    _roots: None = ROOTS,
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> None:
    """Read a report of the debug agent, or the runtime's fault message, without a GPU.

    PATH is what the agent wrote, a log that holds it, or a folder of `kinspect fault -- COMMAND`.
    """
    from ..host.fault.explanation import explain
    from ..host.fault.parse import read_reports, report_files

    allow_target(path)
    allow(*folders)
    files = report_files(path)
    beside = (path,) if path.is_dir() else _beside(path)
    fault_report = explain(
        read_reports(files), [str(f) for f in files], (*folders, *beside), precise=precise
    )
    with result_stream(output) as stream:
        _write(fault_report, form, stream)


def _beside(path: Path) -> tuple[Path, ...]:
    """Returns the folders of code objects next to a report that `kinspect fault` has made."""
    return tuple(
        folder
        for name in ("code_objects", "triton_cache")
        if (folder := path.parent / name).is_dir()
    )


def _fault_report(
    folder: Path, command: tuple[str, ...], status: int, precise: bool
) -> FaultReport:
    """Explains the faults of a folder's reports; if there are none, how the program ended."""
    from ..host.fault.explanation import explain
    from ..host.fault.parse import read_reports, report_files

    files = report_files(folder)
    try:
        report = read_reports(files)
    except KinspectError:
        return FaultReport(tuple(map(str, files)), (), (), command=command, status=status)
    allow_run(*_loaded_files(report))
    explained = explain(report, [str(f) for f in files], (folder,), precise=precise)
    notes = explained.notes
    if (folder / _REPORT_NAME).exists():
        notes = (*notes, _SHARED_REPORT)
    return replace(explained, command=command, status=status, notes=notes)


def _loaded_files(report: AgentReport) -> Iterator[str]:
    """Yields the files whose code the program had loaded: it ran just now, so that they count."""
    from ..host.fault.code_objects import parse_uri

    for excerpt in report.excerpts.values():
        uri = parse_uri(excerpt.loaded.uri) if excerpt.loaded is not None else None
        if uri is not None and uri.protocol == "file":
            yield uri.path


def _prefixes(program: str) -> list[Path]:
    """Returns the Python environments that the program may run in: its own first, then ours."""
    executable = find_program(program)
    prefixes = [Path(executable).parent.parent] if executable else []
    if os.environ.get("VIRTUAL_ENV"):
        prefixes.append(Path(os.environ["VIRTUAL_ENV"]))
    return [*prefixes, Path(sys.prefix)]


def _new_folder(out: Path | None) -> Path:
    """Makes the folder of the run, and returns its absolute path."""
    folder = out or Path(time.strftime("kinspect-fault-%Y%m%d-%H%M%S"))
    try:
        folder.mkdir(parents=True, exist_ok=out is not None)
        if any(folder.iterdir()):
            raise KinspectError(
                f"{folder}: is not empty", "name a new folder with --out", debug_agent.FAILED
            )
    except OSError as error:
        raise KinspectError(
            f"{folder}: cannot be made ({error.strerror})", "choose --out", debug_agent.FAILED
        ) from None
    return folder.resolve()


@contextmanager
def _writable_folder(folder: Path) -> Iterator[Path]:
    """Yields the folder that the run writes to: `folder`, or one that is moved there at the end."""
    if debug_agent.needs_no_quoting(folder):
        yield folder
        return
    # Not TMPDIR, which may need quoting as well.
    with scratch_folder("/tmp") as work:
        try:
            yield work
        finally:
            shutil.copytree(work, folder, dirs_exist_ok=True)


def _run(command: Sequence[str], environment: Mapping[str, str], stderr_copy: Path) -> int:
    """Runs the user's command; returns its exit status."""
    with foreground.started(
        command, environment, tool="kinspect fault", failure=debug_agent.FAILED, read_stderr=True
    ) as process:
        return foreground.wait(process, stderr_copy)


def _show(fault_report: FaultReport, form: str, output: Path | None) -> None:
    """Writes the result to stderr or a file; stdout belongs to the program."""
    if output is None:
        _write(fault_report, form, sys.stderr)
    else:
        with result_stream(output) as stream:
            _write(fault_report, form, stream)


def _write(fault_report: FaultReport, form: str, stream: TextIO) -> None:
    from ..formats import fault as render

    if form == "json":
        render.write_json(fault_report, stream)
    else:
        render.write(fault_report, stream)
