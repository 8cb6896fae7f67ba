"""The options of every command that takes targets: how they are selected, compiled, captured."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import asdict, replace

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
from ..pipeline.analysis_options import Overrides
from .declared import Options, option, taken
from .group import names_a_target
from .options import COMPILE, LAUNCH, SOURCE_ROOT, WORDS, Amount, split_list
from .storage_errors import usable_cache

if TYPE_CHECKING:
    from ..formats.agent_calls import AgentCalls
    from ..pipeline.analysis_options import AnalysisOptions
    from ..pipeline.jobs import Request

_POINT = "point"
"""Name of the value of --set, which not all commands on targets have."""
ARGV = "kinspect.argv"
"""Key of click's context for the script's own arguments."""
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
    overrides: Overrides
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
        """Returns the run that they describe; `emulate` sets the sample of its analysis."""
        from ..pipeline.jobs import executing, request_for

        return request_for(
            **asdict(self),
            passes=passes,
            analysis=executing(analysis) if emulate else analysis,
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
    for param in context.command.params:
        if not isinstance(param, click.Option) or param.name not in values:
            continue
        value = values[param.name]
        spelling = max(param.opts, key=len)
        if param.is_flag:
            off = param.secondary_opts and not value
            typed[param.name] = [max(param.secondary_opts, key=len) if off else spelling]
        else:
            every = value if param.multiple else [value]
            typed[param.name] = [word for text in every for word in (spelling, str(text))]
    return typed


def triton_option(text: str, *, required: bool = False) -> Any:
    """The option `tritons`: the Tritons that compile, by interpreter or label."""
    return option(text, "--triton", required=required, metavar="PATH|LABEL")


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
    if values["waves_per_workgroup"] is not None and values["workgroup"] is not None:
        raise KinspectError("--waves and --workgroup exclude each other", "give one of them")
    capturing = taken(CAPTURE, values)
    capture = CaptureOptions(
        argv=click.get_current_context().meta.get(ARGV, ()),
        time_limit=capturing.pop("capture_limit"),
        **capturing,
    )
    point = values.pop(_POINT, ())
    if point and is_default("max_configs"):  # as a sweep without --autotune
        capture = replace(capture, max_configs=1)
    archs = (name for text in values.pop("archs") for name in split_list(text))
    return TargetOptions(
        targets=values.pop("targets"),
        archs=tuple(dict.fromkeys(archs)),
        kernel=values.pop("kernel"),
        overrides=Overrides(**taken((*LAUNCH, _MODE), values)),
        capture=capture,
        hip=HipOptions(**taken(HIP, values)),
        point=point,
        **taken(COMPILE, values),
    )


def is_default(name: str) -> bool:
    """Whether the user left an option out."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.DEFAULT, None)


_ARCH = click.Option(
    ["--arch", "archs"],
    multiple=True,
    metavar="A[,B...]",
    help="Targets to compile for: gfx942, mi300x, rx7900xtx.  [gfx942]",
)
_KERNEL = click.Option(
    ["--kernel"],
    help="Only this kernel, case or KERNEL[CASE], as reports print them; may hold * and ?. Also as"
    " TARGET::KERNEL.",
)
_MODE = click.Option(
    ["--cu-mode/--wgp-mode"], default=None, help="RDNA: how workgroups are placed."
)
HIP = (
    click.Option(
        ["compiler", "--hip-compiler"],
        metavar="PATH",
        help="Compiler of HIP sources; its flags stand behind --.  [amdclang++, hipcc or clang"
        " from 17 on; KINSPECT_HIP_COMPILER]",
    ),
    click.Option(
        ["instances", "--instantiate"],
        multiple=True,
        metavar="KERNEL<ARGS>",
        help="Compile this template kernel of a HIP source too: 'gemm<128, 64>'.  May be repeated.",
    ),
)
"""Fields of `HipOptions`."""
_TRITON = triton_option("Triton that compiles: an interpreter, or a label such as 3.6.").named(
    _TRITONS, "tuple[str, ...]"
)
_SET = click.Option(
    [_POINT, "--set"],
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda ctx, parameter, texts: point_of(texts),
    help="Compile with this value of a kernel's parameter or of an option of the backend, as a"
    " point of `kinspect sweep` has it.  May be repeated.",
)
SET: Any = Options([_SET], lambda values: None)
"""Where the help names it behind other options than those of `targets`, which takes its value."""
CAPTURE = (
    click.Option(
        ["--call", "calls"],
        multiple=True,
        metavar="EXPR",
        help="Call this in the file instead of running it; T(2, 1024, 64, dtype='bf16') makes a "
        "tensor.  Also as a comment in the file: # kinspect: call EXPR",
    ),
    click.Option(
        ["--first"], type=click.IntRange(1), metavar="N", help="Stop the script after N launches."
    ),
    click.Option(
        ["--max-configs"],
        default=str(MOST_CONFIGS),
        show_default=True,
        metavar="N|all",
        callback=number_or_all,
        help="Autotune configs of one launch to look at, spread over their values.",
    ),
    click.Option(
        ["--tests", "most_sets"],
        default=str(MOST_SETS),
        show_default=True,
        metavar="N|all",
        callback=number_or_all,
        help="Parameter sets to run of each test, and x values of each triton.testing benchmark.",
    ),
    click.Option(
        ["--cwd"],
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Run the script here.  [a scratch folder, removed afterwards]",
    ),
    click.Option(
        ["--stub", "stubs"],
        multiple=True,
        metavar="MODULE",
        help="Import an inert stand-in for this module.",
    ),
    click.Option(
        ["--signature"],
        metavar="TYPES",
        help="Load the file, call nothing: compile TARGET::KERNEL for these argument types, e.g. "
        "'*fp16:16, *fp16:16, i32'.",
    ),
    click.Option(
        ["-D", "--define", "defines"],
        multiple=True,
        metavar="NAME=VALUE",
        help="A constexpr or option for --signature.",
    ),
    click.Option(
        ["--capture-limit"],
        type=Amount(1),
        default=TIME_LIMIT,
        show_default=True,
        metavar="S",
        help="Seconds that the script may run.",
    ),
    click.Option(
        ["--memory-limit"],
        type=Amount(0.5, 1 << 20),
        metavar="GIB",
        callback=lambda ctx, parameter, gib: None if gib is None else int(gib * 2**30),
        help="Memory that the script may map.  [that of the machine]",
    ),
    click.Option(
        ["--strict"],
        is_flag=True,
        help="Exit with status 2 if a kernel depends on what is not known without a GPU.",
    ),
    click.Option(
        ["--explore"],
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Run the script up to N times more, with the other answer where it decides by what is"
        " not known without a GPU.",
    ),
    click.Option(
        ["--emulate-budget"],
        type=Amount(0),
        default=EMULATE_SECONDS,
        show_default=True,
        metavar="S",
        help="Seconds to execute kernels for values that the script reads back; 0: never.",
    ),
    SOURCE_ROOT,
    click.Option(
        ["--trust-trace"],
        is_flag=True,
        help="Import what a .kitrace or a file of Inductor's names, where a kernel's source alone "
        "does not suffice. That runs code of whoever wrote the file.",
    ),
)
"""Fields of `CaptureOptions`, but for the limits, whose names and units are others."""
_DECIDING = tuple(
    o.name
    for o in (*CAPTURE, *HIP, *COMPILE, *LAUNCH, _MODE, _SET)
    if o.name not in ("jobs", "strict")
)
"""The options by which kernels are found and compiled, and by how much time and memory."""


def targets(metavar: str, *, nargs: int = 1, point: bool = False, triton: bool = True) -> Any:
    """The targets of a command and the options on them, as the default of its `target`.

    Args:
        nargs: -1 for any number of targets.
        point: whether there is --set.
        triton: whether there is --triton; else the command declares its own.
    """
    callback = None if nargs < 0 else lambda ctx, parameter, name: (name,)
    required = not metavar.startswith("[")
    names = click.Argument(
        ["targets"], metavar=metavar, nargs=nargs, required=required, callback=callback
    )
    tritons = (_TRITON,) if triton else ()
    before = (_ARCH, _KERNEL, _MODE, *LAUNCH, *COMPILE)
    every = (names, *before, *tritons, *HIP, *CAPTURE, *((_SET,) if point else ()))

    def take(values: dict[str, Any]) -> TargetOptions:
        given = values.pop(_TRITONS) if triton else ()
        if len(given) > 1:
            raise KinspectError("two --triton: this command takes one", "name one of them")
        target = _target(values).with_triton(given)
        click.get_current_context().with_resource(usable_cache())
        return target

    return Options(every, take)
