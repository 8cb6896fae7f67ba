"""The options of every command that takes targets: how they are selected, compiled, captured."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..capture.options import (
    EMULATE_SECONDS,
    MOST_CONFIGS,
    MOST_SETS,
    TIME_LIMIT,
    CaptureOptions,
)
from ..capture.sweep_axes import Axis, point_of
from ..compile.hip.options import HipOptions
from .group import names_a_target
from .kept import usable_cache
from .options import (
    WORDS,
    Amount,
    compile_options,
    launch_options,
    source_root_option,
    split_list,
    with_options,
)

if TYPE_CHECKING:
    from ..formats.agent_calls import AgentCalls
    from ..pipeline.analysis_options import AnalysisOptions
    from ..pipeline.jobs import Request

F = TypeVar("F", bound=Callable[..., Any])
_POINT = "point"
"""Name of the value of --set, which not all commands on targets have."""
ARGV = "kinspect.argv"
"""Key of click's context for the script's own arguments."""
_CAPTURE_FIELDS = (
    *("calls", "signature", "defines", "max_configs", "most_sets", "first", "cwd", "stubs"),
    *("trust_trace", "strict", "explore", "emulate_budget"),
)
"""The fields of `CaptureOptions` that are options as they are."""
_TARGET_FIELDS = (
    *("targets", "kernel", "python", "jobs", "time_limit", "lds", "waves", "workgroup", "grid"),
    "cu_mode",
)
"""The fields of `TargetOptions` that are options as they are."""
_DECIDING = (
    *("calls", "first", "max_configs", "most_sets", "cwd", "stubs", "signature", "defines"),
    *("explore", "emulate_budget", "capture_limit", "memory_limit", "time_limit"),
    *(
        "trust_trace",
        "hip_compiler",
        "instances",
        "source_root",
        "python",
        "lds",
        "waves",
        "workgroup",
        "grid",
        "cu_mode",
        _POINT,
    ),
)
"""The options by which kernels are found and compiled, and by how much time and memory."""
_TRITONS = "tritons"
"""The option of `analyze` that other commands know as --python alone."""


class ScriptCommand(click.Command):
    """A command whose arguments after `--` are those of the user's script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits off the arguments behind the first `--` for the script."""
        ctx.meta[WORDS] = tuple(args)
        if "--" in args:
            separator = args.index("--")
            ctx.meta[ARGV] = tuple(args[separator + 1 :])
            args = args[:separator]
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._unknown(ctx, words, error) from None
        targets = ctx.params.get("targets", ())
        strays = [word for word in targets if not names_a_target(word)]
        if strays and _is_script(targets[0]) and ARGV not in ctx.meta:
            own = [word for word in words if word not in strays]
            raise _for_script(f"{strays[0]}: no such file", ctx, own, strays)
        return rest

    def _unknown(
        self, ctx: click.Context, words: Sequence[str], error: click.NoSuchOption
    ) -> Exception:
        """The error of an option that the command has not: misspelt, or that of a script."""
        options = {o: p for p in self.params if isinstance(p, click.Option)
                   for o in (*p.opts, *p.secondary_opts)}  # fmt: skip
        near = get_close_matches(error.option_name, options, n=1, cutoff=0.8)
        if near:
            return KinspectError(
                f"no option {error.option_name}",
                f"did you mean {near[0]}?",
                meant=(error.option_name, near[0]),
            )
        if ARGV in ctx.meta or not any(map(_is_script, words)):
            return error
        own: list[str] = []
        scripts: list[str] = []
        current = own
        values = 0
        for word in words:
            if values:
                values -= 1
            elif word.startswith("-") and word != "-":
                name = word.partition("=")[0] if word.startswith("--") else word[:2]
                option = options.get(name)
                current = scripts if option is None else own
                values = 0 if option is None or option.is_flag or word != name else 1
            current.append(word)
        return _for_script(f"no option {error.option_name}", ctx, own, scripts)


def _is_script(word: str) -> bool:
    return word.partition("::")[0].endswith(".py")


def _for_script(
    message: str, ctx: click.Context, own: Sequence[str], scripts: Sequence[str]
) -> KinspectError:
    command = f"{ctx.command_path} {shlex.join([*own, '--', *scripts])}"
    return KinspectError(message, f"what a script takes stands behind --: `{command}`")


class TargetOptions(Struct, frozen=True):
    """The options on targets as the command line has them; see `Request`."""

    targets: tuple[str, ...]
    archs: tuple[str, ...]
    kernel: str | None
    python: str | None
    jobs: int | None
    time_limit: float
    lds: int | None
    waves: int | None
    workgroup: tuple[int, int, int] | None
    grid: tuple[int, int, int] | None
    cu_mode: bool | None
    capture: CaptureOptions
    hip: HipOptions = HipOptions()
    point: tuple[Axis, ...] = ()

    def with_triton(self, tritons: Sequence[str]) -> TargetOptions:
        """Returns the options with the interpreter of a single --triton; of several, unchanged.

        Raises:
            KinspectError: an unknown label, or --python is given as well.
        """
        if tritons and self.python is not None:
            if len(tritons) > 1:
                raise KinspectError("--python and two --triton exclude each other", "drop --python")
            raise KinspectError(
                "--python and --triton name the same thing",
                "name the interpreters with --triton alone",
            )
        if len(tritons) != 1:
            return self
        from ..compile.tritons import resolve

        return replace(self, python=resolve(tritons[0]).python)

    def request(
        self,
        *,
        passes: bool = False,
        emulate: bool = False,
        analysis: AnalysisOptions | None = None,
    ) -> Request:
        """Returns the run that they describe.

        Args:
            analysis: how much of each kernel is analysed; `emulate` sets its sample.
        """
        from ..pipeline.context import Overrides
        from ..pipeline.jobs import executing, request_for

        return request_for(
            self.targets,
            archs=self.archs,
            kernel=self.kernel,
            python=self.python,
            jobs=self.jobs,
            passes=passes,
            time_limit=self.time_limit,
            overrides=Overrides(
                self.lds,
                self.waves,
                workgroup=self.workgroup,
                grid=self.grid,
                cu_mode=self.cu_mode,
            ),
            capture=self.capture,
            analysis=executing(analysis) if emulate else analysis,
            point=self.point,
            hip=self.hip,
        )


def printed_words() -> tuple[str, ...]:
    """The words of the command line that runs now, after the command, as ids are recorded with."""
    words: tuple[str, ...] = click.get_current_context().meta.get(WORDS, ())
    return words


def next_steps(context: click.Context | None = None) -> AgentCalls:
    """What names commands that find the same kernels as a command line does.

    Args:
        context: of the command line; None for the one that runs now.
    """
    from ..formats.agent_calls import ShellCalls, ShellLaunch

    context = context or click.get_current_context()
    typed = _typed(context)
    if len(tritons := typed.get(_TRITONS, [])[1::2]) == 1:
        from ..compile.tritons import resolve

        typed["python"] = ["--python", resolve(tritons[0]).python]
    return ShellCalls(
        ShellLaunch(
            options=tuple(word for name in _DECIDING for word in typed.get(name, ())),
            argv=context.meta.get(ARGV, ()),
            has_signature="signature" in typed,
            passed=tuple(typed.get("arguments", ())),
        )
    )


def _typed(context: click.Context) -> dict[str, list[str]]:
    """Name of an option -> its words on the command line, each with its longest spelling."""
    words = [*context.meta.get(WORDS, ())]
    if "--" in words:
        del words[words.index("--") :]
    typed: dict[str, list[str]] = {}
    with context:
        values = context.command.make_parser(context).parse_args(words)[0]
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.name not in values:
            continue
        value = values[option.name]
        spelling = max(option.opts, key=len)
        if option.is_flag:
            off = option.secondary_opts and not value
            typed[option.name] = [max(option.secondary_opts, key=len) if off else spelling]
        else:
            every = value if option.multiple else [value]
            typed[option.name] = [word for text in every for word in (spelling, str(text))]
    return typed


def point_option(function: F) -> F:
    """Adds --set to a command with `target_options`, below which it stands, or alone as `point`."""
    return click.option(
        "--set",
        _POINT,
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda ctx, parameter, texts: point_of(texts),
        help="Compile with this value of a kernel's parameter or of an option of the backend, as a"
        " point of `kinspect sweep` has it.  May be repeated.",
    )(function)


def triton_option(text: str, *, required: bool = False) -> Callable[[F], F]:
    """Adds `tritons`: the Tritons that compile, by interpreter or label."""
    return click.option(
        "--triton",
        _TRITONS,
        multiple=True,
        required=required,
        metavar="PATH|LABEL",
        help=text,
    )


def hip_options(function: F) -> F:
    """Adds `hip_compiler` and `instances`: how HIP sources are compiled."""
    return with_options(
        function,
        click.option(
            "--instantiate",
            "instances",
            multiple=True,
            metavar="KERNEL<ARGS>",
            help="Compile this template kernel of a HIP source too: 'gemm<128, 64>'.  May be"
            " repeated.",
        ),
        click.option(
            "--hip-compiler",
            metavar="PATH",
            help="Compiler of HIP sources; its flags stand behind --.  [amdclang++, hipcc or clang"
            " from 17 on; KINSPECT_HIP_COMPILER]",
        ),
    )


def target_options(function: F) -> F:
    """Adds the options to a command, which takes them, and its targets, as one `target`."""
    names_tritons = _TRITONS in inspect.signature(function).parameters

    @functools.wraps(function)
    def command(*args: Any, **values: Any) -> Any:
        tritons = () if names_tritons else values.pop(_TRITONS)
        if len(tritons) > 1:
            raise KinspectError("two --triton: this command takes one", "name one of them")
        target = _target(values).with_triton(tritons)
        with usable_cache():
            return function(*args, target=target, **values)

    for option in reversed(CAPTURE):
        command = option(command)
    command = hip_options(command)
    if not names_tritons:
        command = triton_option("Triton that compiles: an interpreter, or a label such as 3.6.")(
            command
        )
    command = _MODE(launch_options(compile_options(command)))
    for option in (_KERNEL, _ARCH):
        command = option(command)
    return command  # type: ignore[return-value]


def target_of(context: click.Context) -> TargetOptions:
    """The options on targets of a command line that was parsed and is not run.

    A --triton is left to the caller.

    Raises:
        KinspectError: two options exclude each other.
    """
    with context:
        return _target(dict(context.params))


def _target(values: dict[str, Any]) -> TargetOptions:
    """Takes the options on targets out of the values that click gives a command."""
    if values["calls"] and (values["signature"] is not None or values["defines"]):
        raise KinspectError("--call and --signature exclude each other", "give one of them")
    if values["waves"] is not None and values["workgroup"] is not None:
        raise KinspectError("--waves and --workgroup exclude each other", "give one of them")
    memory_limit = values.pop("memory_limit")
    capture = CaptureOptions(
        argv=click.get_current_context().meta.get(ARGV, ()),
        time_limit=values.pop("capture_limit"),
        memory_limit=int(memory_limit * 2**30) if memory_limit is not None else None,
        **{name: values.pop(name) for name in _CAPTURE_FIELDS},
    )
    point = values.pop(_POINT, ())
    if point and is_default("max_configs"):  # as a sweep without --autotune
        capture = replace(capture, max_configs=1)
    archs = (name for text in values.pop("archs") for name in split_list(text))
    return TargetOptions(
        archs=tuple(dict.fromkeys(archs)),
        capture=capture,
        hip=HipOptions(compiler=values.pop("hip_compiler"), instances=values.pop("instances")),
        point=point,
        **{name: values.pop(name) for name in _TARGET_FIELDS},
    )


def is_default(name: str) -> bool:
    """Whether the user left an option out."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.DEFAULT, None)


def number_or_all(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """Parses a number from 1 on, or `all`, which is None."""
    if value == "all":
        return None
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise click.BadParameter(f"{value!r} is neither a number from 1 on nor 'all'")
    return number


_ARCH = click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="A[,B...]",
    help="Targets to compile for: gfx942, mi300x, rx7900xtx.  [gfx942]",
)
_KERNEL = click.option(
    "--kernel",
    help="Only this kernel, case or KERNEL[CASE], as reports print them; may hold * and ?. Also as"
    " TARGET::KERNEL.",
)
_MODE = click.option("--cu-mode/--wgp-mode", default=None, help="RDNA: how workgroups are placed.")
CAPTURE = (
    click.option(
        "--call",
        "calls",
        multiple=True,
        metavar="EXPR",
        help="Call this in the file instead of running it; T(2, 1024, 64, dtype='bf16') makes a "
        "tensor.  Also as a comment in the file: # kinspect: call EXPR",
    ),
    click.option(
        "--first", type=click.IntRange(1), metavar="N", help="Stop the script after N launches."
    ),
    click.option(
        "--max-configs",
        default=str(MOST_CONFIGS),
        show_default=True,
        metavar="N|all",
        callback=number_or_all,
        help="Autotune configs of one launch to look at, spread over their values.",
    ),
    click.option(
        "--tests",
        "most_sets",
        default=str(MOST_SETS),
        show_default=True,
        metavar="N|all",
        callback=number_or_all,
        help="Parameter sets to run of each test, and x values of each triton.testing benchmark.",
    ),
    click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Run the script here.  [a scratch folder, removed afterwards]",
    ),
    click.option(
        "--stub",
        "stubs",
        multiple=True,
        metavar="MODULE",
        help="Import an inert stand-in for this module.",
    ),
    click.option(
        "--signature",
        metavar="TYPES",
        help="Load the file, call nothing: compile TARGET::KERNEL for these argument types, e.g. "
        "'*fp16:16, *fp16:16, i32'.",
    ),
    click.option(
        "-D",
        "--define",
        "defines",
        multiple=True,
        metavar="NAME=VALUE",
        help="A constexpr or option for --signature.",
    ),
    click.option(
        "--capture-limit",
        type=Amount(1),
        default=TIME_LIMIT,
        show_default=True,
        metavar="S",
        help="Seconds that the script may run.",
    ),
    click.option(
        "--memory-limit",
        type=Amount(0.5, 1 << 20),
        metavar="GIB",
        help="Memory that the script may map.  [that of the machine]",
    ),
    click.option(
        "--strict",
        is_flag=True,
        help="Exit with status 2 if a kernel depends on what is not known without a GPU.",
    ),
    click.option(
        "--explore",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Run the script up to N times more, with the other answer where it decides by what is"
        " not known without a GPU.",
    ),
    click.option(
        "--emulate-budget",
        type=Amount(0),
        default=EMULATE_SECONDS,
        show_default=True,
        metavar="S",
        help="Seconds to execute kernels for values that the script reads back; 0: never.",
    ),
    source_root_option,
    click.option(
        "--trust-trace",
        is_flag=True,
        help="Import what a .kitrace or a file of Inductor's names, where a kernel's source alone "
        "does not suffice. That runs code of whoever wrote the file.",
    ),
)
