"""`kinspect profile`: runs a program under a profiler, and reads recordings of profilers."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..base.errors import KinspectError
from .declared import argument, command
from .declared import options as together
from .options import COMPILE, Amount
from .progress import print_message, print_problems
from .recordings import (
    REPORT,
    checked_expression,
    compare,
    export,
    import_,
    read,
    write,
)

if TYPE_CHECKING:
    from ..profile.running.manifest import Manifest
    from ..profile.running.profile_run import ProfileRequest

OWN_FAILURE = 125
_RUN = "run"
_TOOLS = ("rocprofv3", "rocprofv2", "rocprof", "rocprof-compute")
_METHODS = ("stochastic", "host_trap")


class _Profile(click.Group):
    """`profile [OPTIONS] -- COMMAND` is `profile run [OPTIONS] -- COMMAND`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        run = self.commands[_RUN]
        records = [record for p in run.get_params(ctx) if (record := p.get_help_record(ctx))]
        with formatter.section("Options of a run"):
            formatter.write_dl(records)
        self.format_commands(ctx, formatter)


@click.group(
    cls=_Profile, options_metavar="", subcommand_metavar="[OPTIONS] -- COMMAND... | import PATH | …"
)
def profile() -> None:
    """Run COMMAND under rocprofv3, and show the measured figures next to the compiled code.

    `kinspect profile --counters occupancy,lds -- python train.py` runs the program several times:
    once for a kernel trace (times without counters), and once for each set of counters that the
    hardware can count together. --att and --pc-sampling add a run each. The rocprofv3 of the
    program's environment is used, else that of PATH, ROCM_PATH or /opt/rocm.

    Sets of counters: occupancy, memory, lds, mfma, waits, roofline; names of counters may be
    added. With --kernel, other kernels are neither counted nor traced. --att traces the
    launch of each kernel after those that --skip-warmup names.

    Output, input, signals and exit status of the program pass through; the report follows its
    output. Each run reads a file on standard input; a pipe goes to the first run alone. All results
    go to a new folder, with a manifest (kinspect-run.json) that `kinspect profile import` reads.
    TRITON_CACHE_DIR is set to a folder of the run, so that kinspect analyses exactly the kernels
    that were launched: the first run compiles them, the others reuse them (--keep-cache: not set).

    Exit status: that of the program; 128 + the signal that ended it. 125 if the profiler or
    kinspect failed, a run took longer than --timeout, a counter is missing, or nothing was
    recorded. 127 or 126 if COMMAND is not found or cannot be executed; 2 for wrong options,
    before anything is run.
    """


@command(_RUN, group=profile, context_settings={"allow_interspersed_args": False})
def run(
    options: dict[str, Any] = together(
        click.Option(
            ["--counters"], metavar="SET|NAME,...", help="Counters to read: sets and names."
        ),
        click.Option(
            ["--att"], is_flag=True, help="Record a thread trace (ATT): cycles of each instruction."
        ),
        click.Option(["--pc-sampling"], is_flag=True, help="Sample program counters."),
        *REPORT,
        click.Option(
            ["--tool"],
            type=click.Choice(_TOOLS),
            help="Profiler.  [rocprofv3, else what came before it]",
        ),
        click.Option(
            ["--rocprof"],
            type=click.Path(path_type=Path),
            metavar="PATH",
            help="The profiler to run.",
        ),
        click.Option(
            ["--arch"], metavar="A", help="The GPU, such as gfx942.  [that of this machine]"
        ),
        click.Option(
            ["--out"],
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Folder of the run, a new one.  [kinspect-runs/<date-time>-<program>]",
        ),
        click.Option(
            ["--timeout"],
            type=Amount(0, min_open=True),
            metavar="SECONDS",
            help="Time limit of each run of the program; what it wrote until then is kept.",
        ),
        click.Option(["--keep-cache"], is_flag=True, help="Leave TRITON_CACHE_DIR as it is."),
        click.Option(["--dry-run"], is_flag=True, help="Print the command lines and run nothing."),
        click.Option(
            ["--att-target-cu"], type=click.IntRange(0), metavar="N", help="CU (WGP) to trace.  [1]"
        ),
        click.Option(
            ["--att-shader-engine-mask"], metavar="MASK", help="Shader engines to trace.  [0x1]"
        ),
        click.Option(["--att-simd-select"], metavar="MASK", help="SIMDs to trace.  [0xF]"),
        click.Option(
            ["--att-buffer-size"], metavar="BYTES", help="Buffer of a trace.  [the profiler's]"
        ),
        click.Option(
            ["--att-library-path"],
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder of librocprof-trace-decoder.so.",
        ),
        click.Option(
            ["--pc-method"],
            type=click.Choice(_METHODS),
            help="How to sample.  [the best of the GPU]",
        ),
        click.Option(
            ["--pc-interval"],
            type=click.IntRange(1),
            metavar="N",
            help="Cycles (stochastic: a power of two ≥ 256) or microseconds (host_trap)"
            " between samples.",
        ),
        *COMPILE,
    ),
    command: tuple[str, ...] = argument(nargs=-1, required=True, type=click.UNPROCESSED),
) -> int:
    """Run COMMAND under a profiler; see `kinspect profile --help`."""
    from ..profile.running import manifest, profile_run

    request = _request(command, options)
    try:
        profile_run.check_command(command)
    except KinspectError as error:
        near = difflib.get_close_matches(command[0], profile.commands, n=1)
        if not near:
            raise
        suggestion = f"did you mean `kinspect profile {near[0]}`?"
        raise KinspectError(error.message, suggestion, error.exit_code) from None
    prepared = profile_run.prepare(request, dry=options["dry_run"])
    if options["dry_run"]:
        folder = options["out"] or Path("kinspect-runs") / "DATE-TIME-PROGRAM"
        plan = profile_run.lay_out(prepared, folder.absolute())
        for note in plan.notes:
            print_message(f"note: {note}")
        for item in plan.passes:
            sys.stdout.write(f"{item.show()}\n")
        return 0
    # Created only now: a command that cannot be run leaves no folder behind.
    folder = manifest.new_folder(options["out"], command).absolute()  # the program may change cwd
    plan = profile_run.lay_out(prepared, folder)
    print_message(f"{plan.profiler.describe()}, {_runs(len(plan.passes))} -> {folder}")
    for note in plan.notes:
        print_message(f"note: {note}")
    record = profile_run.execute(plan, print_message, _plain(options))
    return _reported(folder, record, options)


def _request(command: tuple[str, ...], options: dict[str, Any]) -> ProfileRequest:
    """Returns the run that the options describe, once they are consistent."""
    from ..profile.running.commands import Att
    from ..profile.running.profile_run import ProfileRequest

    _check_dependent_options(options)
    return ProfileRequest(
        command=command,
        counters=options["counters"],
        att=options["att"],
        att_options=Att(
            library=options["att_library_path"],
            target_cu=options["att_target_cu"],
            shader_engine_mask=options["att_shader_engine_mask"],
            simd_select=options["att_simd_select"],
            buffer_size=options["att_buffer_size"],
        ),
        sampling=options["pc_sampling"],
        sampling_method=options["pc_method"],
        sampling_interval=options["pc_interval"],
        kernel=checked_expression(options["kernel"]),
        skip_warmup=options["skip_warmup"],
        tool=options["tool"],
        rocprof=options["rocprof"],
        arch=options["arch"],
        timeout=options["timeout"],
        keep_cache=options["keep_cache"],
    )


def _check_dependent_options(options: dict[str, Any]) -> None:
    """Refuses options without the one that they refine, such as --att-*, and invalid numbers."""
    for prefix, required in (("att_", "att"), ("pc_", "pc_sampling")):
        for name in sorted(options):
            is_given = options[name] is not None and name != required
            if name.startswith(prefix) and is_given and not options[required]:
                words = [word.replace("_", "-") for word in (name, required)]
                raise KinspectError(f"--{words[0]} needs --{words[1]}", f"add --{words[1]}")
    for name in ("att_shader_engine_mask", "att_simd_select", "att_buffer_size"):
        if options[name] is None:
            continue
        try:
            # As rocprofv3 reads it: decimal, or hexadecimal after 0x.
            int(options[name], 16 if "0x" in options[name] else 10)
        except ValueError:
            word = name.replace("_", "-")
            raise KinspectError(
                f"--{word} {options[name]}: no number", "give it as 1 or 0x1"
            ) from None


def _reported(folder: Path, record: Manifest, options: dict[str, Any]) -> int:
    """Prints the report after the program's own output; returns the run's exit status."""
    status = record.exit_code or 0
    try:
        result = read(folder, options)
        write(result, sys.stdout, options)
        sys.stdout.flush()
    except KinspectError as error:
        # The run itself is complete: a failure of the program has precedence over ours.
        print_message(
            f"error: {error.message}; {error.hint}" if error.hint else f"error: {error.message}"
        )
        return status or OWN_FAILURE
    except BrokenPipeError:
        # The report's reader has gone: no error. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status
    except Exception as error:
        if os.environ.get("KINSPECT_TRACEBACK"):
            raise
        print_message(
            f"error: no report: {type(error).__name__}: {error}; please report it with {folder}"
        )
        return status or OWN_FAILURE
    print_problems(result.errors, ())
    error_count = sum(len(item.errors) for item in record.passes)  # while it ran
    unread = result.recording.errors[error_count:]
    print_problems(unread, ())
    return status or (OWN_FAILURE if unread else 0)


def _plain(options: dict[str, Any]) -> dict[str, object]:
    """Returns the options that were set, as JSON values for the manifest."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in sorted(options.items())
        if value not in (None, False, ())
    }


def _runs(count: int) -> str:
    return "1 pass" if count == 1 else f"{count} passes"


for _command in (import_, compare, export):
    profile.add_command(_command)
