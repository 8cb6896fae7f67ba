"""The command group: imports commands lazily, defaults to `analyze`, prints errors."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from ..base.errors import KinspectError, in_lines, unforeseen
from ..base.streams import standard_streams
from ..base.version import VERSION
from ..base.writing import OUTER_REASONS, unwritable
from .signals import INTERRUPTED, interrupts

# Of click 8.2 and newer; older ones print the help themselves.
_NO_ARGUMENTS: tuple[type[click.ClickException], ...] = tuple(
    filter(None, (getattr(click.exceptions, "NoArgsIsHelpError", None),))
)
_RUN_PROGRAMS = frozenset({"record", "profile", "fault"})
_RUN_FILES = frozenset({"bench", "check", "emulate"})
"""They run files that `analyze` does not, such as Inductor's."""
_OWN_TERMINAL = frozenset({"tui", "mcp"})
"""They have the terminal, or standard streams, for themselves."""
_TUI = "kinspect.tui.command"  # this package may not import it, so it is given by name

COMMANDS: Mapping[str, tuple[str, str, str]] = {
    # name: (module, attribute, short help); the short help is here so that --help imports nothing
    "analyze": ("analyze", "analyze", "Report what the compiler made of kernels (the default)."),
    "arch": ("arch", "arch", "List the known targets, or show one with its sources."),
    "bench": ("bench", "bench", "Time a kernel on a GPU, checked first."),
    "blame": ("blame", "blame", "Which layer of two Tritons makes a figure worse."),
    "check": ("check", "check", "Check kernels against their references, on the CPU or a GPU."),
    "diff": (
        "diff",
        "diff_command",
        "What changed between two reports, targets, options or Tritons.",
    ),
    "emulate": ("emulate", "emulate", "Run a script on an emulated AMD GPU, on the CPU."),
    "env": ("env", "env", "Check the settings of this machine that matter to tuning."),
    "export": ("export", "export", "Write a kernel for a bug report, which Triton alone compiles."),
    "fault": ("fault", "fault", "Run a program under the ROCm debug agent: which line failed."),
    "history": ("history", "history", "What bench, analyze and lint kept: list, show, plot."),
    "kernels": ("kernels", "kernels", "List the bundled kernels, or show one."),
    "layout": ("layout", "layout", "Draw layouts: lanes and waves of tensors, banks of buffers."),
    "lint": ("lint", "lint", "Apply rules to kernels, with an exit status for CI."),
    "mcp": ("mcp", "mcp", "Serve coding agents: the Model Context Protocol over stdio."),
    "metrics": ("metrics", "metrics", "List the metrics with unit, origin and meaning."),
    "occupancy": (
        "occupancy",
        "occupancy",
        "Occupancy for given figures, with the table of steps.",
    ),
    "passes": ("passes", "passes", "What each compiler pass did to a kernel."),
    "profile": ("profile", "profile", "Run a program under rocprofv3, or read such a run."),
    "record": ("record", "record", "Record which kernels a program launches on a GPU."),
    "registers": (
        "registers",
        "registers",
        "Name the values in registers where most are live.",
    ),
    "report": ("report", "report_command", "A report, or a profiler's run, as one HTML page."),
    "rules": ("rules", "rules", "List and explain the rules; check your own packs."),
    "show": ("show", "show", "Print a kernel's code with marks, or what an id stands for."),
    "sweep": (
        "sweep",
        "sweep_command",
        "Compile a kernel in many configurations and compare the code.",
    ),
    "time": (
        "time",
        "time_command",
        "How long kernels take, and where the time goes: an estimate.",
    ),
    "try": (
        "try_",
        "try_command",
        "Compile the changes that findings suggest, and report their effect.",
    ),
    "tui": (_TUI, "tui", "Browse kernels in the terminal."),
}


class ShowingGroup(click.Group):
    """Commands of which `show` takes a name: the name alone is a slip."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from difflib import get_close_matches  # not on the way of commands that exist

            near = get_close_matches(args[0], self.commands, n=1)
            # With words behind it the first is a command that is not there: `rules explain KI114`.
            meant = near[0] if near else f"show {shlex.quote(args[-1])}"
            hint = f"did you mean? `{ctx.command_path} {meant}`"
            raise KinspectError(f"{ctx.command_path} has no command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)


class LazyGroup(click.Group):
    """Imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        path = module if "." in module else f"{__package__}.{module}"
        command = getattr(import_module(path), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and names_a_target(args[0]):
            args = ["analyze", *args]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches  # not on the way of commands that exist

            near = get_close_matches(args[0], COMMANDS, n=1)
            raise KinspectError(
                f"no such file or command {args[0]!r}",
                f"did you mean {near[0]}?" if near else f"see `{ctx.command_path} --help`",
                meant=(args[0], near[0]) if near else None,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


def names_a_target(word: str) -> bool:
    """Tells whether a word is a path, or is meant as one: it has a suffix, a folder or `::`."""
    path = word.partition("::")[0]
    return os.path.exists(path) or "." in word or os.sep in word or "::" in word


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="kinspect", message="%(prog)s %(version)s")
def cli() -> None:
    """Show what the compiler made of a GPU kernel on AMD targets, and why it is slow.

    `kinspect kernel.py --arch gfx942` compiles a Triton kernel without a GPU and reports on it;
    `kinspect kernel.s` reads saved assembly. TARGET may be a .py file (file.py::kernel for one of
    its kernels), .s/.amdgcn, .hsaco/.co, .ttir, .ttgir, a folder, or a saved report.

    Exit status: 0 clean; 1 if lint found something at or above --fail-on, or a check failed; 2 for
    a usage, input or internal error, also if only some targets failed.
    """


def run(args: Sequence[str]) -> int:
    """Runs the group on `args` and returns the exit status, whichever way it ends."""
    # The terminal UI handles signals itself.
    with interrupts(watched=args[:1] != ["tui"]) as interrupted:
        try:
            with standard_streams(has_status=not _OWN_TERMINAL.intersection(args[:1])):
                status = _run(args)
        except KinspectError as error:
            # The last part of the output could not be written to stdout.
            with standard_streams():
                return _report_error(error)
    # Most commands write a partial result when they are interrupted; the status says so.
    if interrupted():
        return INTERRUPTED
    return 2 if _has_storage_error() else status


def _has_storage_error() -> bool:
    """Whether a result could not be stored; the module that reported it is loaded by then."""
    storage_errors = sys.modules.get(f"{__package__}.storage_errors")
    return storage_errors is not None and storage_errors.take_reported()


def _run(args: Sequence[str]) -> int:
    """Runs the group; every exception but an interrupted write to stdout becomes a status."""
    try:
        _refuse_files_as_options(args)
        _refuse_file_as_command(args)
        status: Any = cli.main(args=list(args), prog_name="kinspect", standalone_mode=False)
    except KinspectError as error:
        return _report_error(error, args)
    except _NO_ARGUMENTS as error:
        # A group without a command: prints its help.
        sys.stderr.write(f"{error.format_message()}\n")
        return 2
    except click.ClickException as error:
        _complain(error.format_message().rstrip("."), _usage(error))
        return 2
    except SystemExit as error:
        # click exits with 1 if the reader of stdout (head, less) has gone: that is no error.
        return 0 if error.code == 1 else int(error.code or 0)
    except click.Abort:
        return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    except OSError as error:
        if error.errno not in OUTER_REASONS or os.environ.get("KINSPECT_TRACEBACK"):
            return _bug(error)
        # A full disk or missing rights, where no command expects them: no bug either.
        _complain(str(unwritable(error.filename or "a file", error, "write elsewhere")))
        return 2
    except Exception as error:
        return _bug(error)
    return status if isinstance(status, int) else 0


def _refuse_files_as_options(args: Sequence[str]) -> None:
    """Refuses an option that is a file's name, too: a shell's * or a hook may have put it here."""
    for word in args:
        if word == "--" and not _is_here(word):
            return
        if word.startswith("-") and len(word) > 1 and _is_here(word):
            raise KinspectError(
                f"{word}: an option, and the name of a file here",
                f"for the file write ./{word}; for the option leave that folder",
            )


def _refuse_file_as_command(args: Sequence[str]) -> None:
    """Refuses a command that is the name of a file too, before files: a shell's * may name both."""
    name, *words = (args[1:] if args[:1] == ["--"] else args) or [""]
    if name not in COMMANDS or not _is_here(name):
        return
    runs = name in _RUN_PROGRAMS
    if os.path.isdir(name) and not os.path.islink(name) and not runs and name not in _RUN_FILES:
        return
    if "--" in words:
        words = words[: words.index("--")]
    if runs:
        way = f"write `{name} -- COMMAND`"
    else:
        words = [word for word in words if word.partition(os.sep)[0] not in ("", ".", "..")]
        way = "write ./ before its files"
    if any(map(_is_here, words)):
        raise KinspectError(
            f"{name}: a command, and the name of a file here",
            f"for the file write ./{name}; for the command {way}",
        )


def _is_here(word: str) -> bool:
    return "\0" not in word and os.path.lexists(word)


def _bug(error: Exception) -> int:
    """Reports an internal error in one line; KINSPECT_TRACEBACK shows the traceback."""
    if os.environ.get("KINSPECT_TRACEBACK"):
        raise error
    _complain(str(unforeseen(error)))
    return 2


def _report_error(error: KinspectError, args: Sequence[str] = ()) -> int:
    *faults, last = getattr(error, "faults", None) or (error.message,)  # of a pack, of settings
    for fault in faults:
        _complain(str(fault))
    meant = _as_meant(args, *error.meant) if error.meant is not None else None
    _complain(str(last), error.hint if meant is None else f"{error.hint} `{meant}`".strip())
    return error.exit_code


def _as_meant(args: Sequence[str], typed: str, *candidates: str) -> str | None:
    """The command line with another word, or part of one: `--arch=gfx950,mi30x`, `FILE::KERNEL`."""
    separated = [re.split(r"(=|,|::)", word) for word in args]
    others = {part for parts in separated for part in parts}
    meant = next((word for word in candidates if word not in others), None)
    if typed not in others or meant is None:
        return None
    words = ["".join(meant if part == typed else part for part in parts) for parts in separated]
    return f"kinspect {shlex.join(words)}"


def _usage(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    return f"see `{ctx.command_path} --help`" if ctx is not None else ""


def _interrupted() -> int:
    _complain("interrupted")
    return INTERRUPTED


def _complain(message: str, hint: str = "") -> None:
    sys.stderr.write(f"kinspect: error: {in_lines(message, hint)}\n")
