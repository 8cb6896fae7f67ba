"""HIP sources: compiled to assembly by the compiler that is installed, then read like any other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ..base import named_files
from ..base.errors import KinspectError
from ..base.named_files import allow_target, file_text
from ..capture.options import matches
from ..capture.targets import Target, root
from ..compile.hip.launches import MARK, StatedLaunch, is_launched, stated_launches
from ..compile.hip.names import readable
from ..compile.hip.options import HipOptions
from ..compile.hip.source import HipCode
from ..compile.hip.templates import parts_of, unspaced
from ..compile.hip.varying import Knobs, compiled
from ..isa.asm.units import no_includes
from ..isa.assembly import parse_text
from ..machines.loader import DEFAULT_ARCH
from ..machines.loader import load as load_machine
from ..model import KernelReport, Program, Variant
from . import analysis
from .analysis_options import Context, TimeOptions
from .inputs import read_text
from .jobs import CompileOutcome, Job, Request, patterns_of
from .naming import names_of_function

if TYPE_CHECKING:
    from .emulated_code import CodeLaunch


_STATE: Final = (
    "its launch is not known: --grid, --workgroup and --args, or a comment in the source: // "
    + MARK
    + ' {} grid=64 workgroup=256 args="f32[4096], i32 4096"'
)


def options_of(request: Request) -> HipOptions:
    """How a run compiles HIP sources: with its own flags, and the values of its point."""
    return replace(
        request.hip,
        flags=request.capture.argv,
        values={axis.name: axis.values[0] for axis in request.point},
        seconds=request.time_limit,
        root=root(),
    )


def compiled_source(target: Target, request: Request) -> HipCode:
    """The assembly of a source for its target.

    Raises:
        KinspectError: it cannot be compiled.
    """
    arch, options = target.archs[0], options_of(request)
    return compiled(target.path, arch, options, lambda: _load_analysis(request))


def _load_analysis(request: Request) -> None:
    """Imports and reads what comes after a compile."""
    from ..emulator import launch  # noqa: F401

    options = request.analysis
    if options.time is not None:
        from . import timing  # noqa: F401
    if options.rules is None and options.judges_all:
        analysis.default_pack()


def kernels_of(target: Target, request: Request, values: Mapping[str, Any]) -> list[Variant]:
    """The kernels of a source that are asked for, with values for macros and template parameters.

    Raises:
        KinspectError: it cannot be compiled, has none of them, or has no use for a value.
    """
    options = replace(options_of(request), values=values)
    code = compiled(target.path, target.archs[0], options)
    patterns = patterns_of(target, request)
    names = [
        name
        for symbol, name in code.names.items()
        if matches(patterns, names_of_function(name, symbol))
    ]
    if not names:
        raise KinspectError(
            f"{target.path}: no kernel named {' and '.join(patterns)}",
            f"it has {', '.join(sorted(code.names.values())[:8])}",
        )
    waves = load_machine(target.archs[0]).wave_sizes
    return [
        Variant(
            kernel=name, arch=target.archs[0], options={}, wave_size=waves[0], ttir="", stage="hip"
        )
        for name in names
    ]


def knobs_of(target: Target, values: Mapping[str, Any]) -> Knobs:
    """What of a source has the names of some values."""
    return Knobs.of(values, file_text(target.path), target.path)


def analysed(code: HipCode, context: Context, options: HipOptions) -> list[KernelReport]:
    """The reports of a source's kernels, called as their author calls them.

    Launches that the source states are those of its kernels, unless the command line states one.

    Raises:
        KinspectError: none of them is asked for, or a stated launch cannot be read.
    """
    text = read_text(code.artifact.path)
    program = _with_empty(readable(parse_text(text, context.path, no_includes), code.names))
    notes = (*context.notes, *code.notes)
    found = replace(context, artifacts={"amdgcn": code.artifact}, notes=notes)
    time, stated = context.analysis.time, context.overrides
    launches = None
    if stated.grid is None and (time is None or time.arguments is None):
        launches = stated_launches(file_text(context.path), options.defining, context.path)
    if launches is None or not launches.kernels:
        return _unlaunched(analysis.analyze_program(program, found, text), time)
    missed = [
        f"{MARK} {stated_kernel}: no kernel here has this name"
        for stated_kernel in launches.kernels
        if not any(is_launched(stated_kernel, kernel.name) for kernel in program.kernels)
    ]
    found = replace(found, notes=(*found.notes, *missed))
    kernels = [
        f for f in program.kernels if matches(context.patterns, names_of_function(f.name, f.symbol))
    ]
    reports: list[KernelReport] = []
    for kernel in kernels:
        launch = launches.of(kernel.name)
        others = tuple(f for f in program.functions if f is kernel or not f.is_kernel)
        own = replace(found, patterns=()) if launch is None else _launched(found, launch)
        made = analysis.analyze_program(replace(program, functions=others), own, text)
        reports += _unlaunched(made, time) if launch is None else made
    return reports or analysis.analyze_program(program, found, text)  # says which there are


def _unlaunched(reports: list[KernelReport], time: TimeOptions | None) -> list[KernelReport]:
    """Reports without a time that was asked for, with what to state for one."""
    return [
        report
        if time is None or report.time is not None or report.no_time
        else replace(report, no_time=_STATE.format(report.name.partition("<")[0]))
        for report in reports
    ]


def _with_empty(program: Program) -> Program:
    """The program, with a note on each kernel that ends with its first instruction."""
    note = f"empty on {program.arch}: is its code behind #if of another target?"
    functions = tuple(
        replace(code, notes=(*code.notes, note))
        if code.is_kernel and code.instructions and code.instructions[0].mnemonic == "s_endpgm"
        else code
        for code in program.functions
    )
    return replace(program, functions=functions)


def _launched(context: Context, launch: StatedLaunch) -> Context:
    time = context.analysis.time
    analysis = context.analysis
    if time is not None:
        analysis = replace(analysis, time=replace(time, arguments=launch.arguments))
    return replace(
        context,
        patterns=(),
        analysis=analysis,
        overrides=replace(
            context.overrides,
            grid=launch.grid,
            workgroup=context.overrides.workgroup or launch.workgroup,
            lds_bytes=context.overrides.lds_bytes or launch.lds_bytes,
        ),
    )


def launch_of_source(launch: CodeLaunch, options: HipOptions, *, is_stated: bool) -> CodeLaunch:
    """The launch of a source's kernel as that of its assembly.

    Args:
        is_stated: whether its grid is; else it is the one that the source states of the kernel.

    Raises:
        KinspectError: the source cannot be compiled, or a launch that it states cannot be read.
    """
    allow_target(launch.path)
    arch = launch.arch or DEFAULT_ARCH
    code = compiled(launch.path, arch, replace(options, root=root()))
    own = launch.path
    found = replace(launch, path=code.artifact.path, source=own, arch=arch, names=code.names)
    if is_stated or launch.arguments:
        return found
    launches = stated_launches(file_text(launch.path), options.defining, str(launch.path))
    kernels = [
        name
        for symbol, name in code.names.items()
        if launch.kernel is None or matches((launch.kernel,), names_of_function(name, symbol))
    ]
    for stated_kernel in launches.kernels:
        for name in kernels:
            stated = launches.of(name) if is_launched(stated_kernel, name) else None
            if stated is not None:
                return replace(
                    found,
                    kernel=name,
                    grid=stated.grid,
                    block=launch.block or stated.workgroup,
                    arguments=stated.arguments,
                    lds_bytes=launch.lds_bytes or stated.lds_bytes or 0,
                )
    return found


def compile_point(job: Job) -> CompileOutcome:
    """Compiles and analyses the kernel of one point of a sweep, in any thread or process."""
    named_files.restore(job.allowed)
    assert job.hip is not None, "a job of a HIP source"
    started = time.perf_counter()
    reports: list[KernelReport] = []
    error, from_store = None, False
    try:
        code = compiled(Path(job.path), job.variant.arch, job.hip)
        from_store = code.from_store
        wanted = _same_kernel(job, code.names.values())
        context = Context(
            path=job.path, arch=job.variant.arch, patterns=(wanted,), overrides=job.overrides,
            analysis=job.analysis,
        )  # fmt: skip
        reports = analysed(code, context, job.hip)
    except KinspectError as failure:
        error = job.record("compile", failure)
    return CompileOutcome(tuple(reports), error, time.perf_counter() - started, from_store)


def _same_kernel(job: Job, names: Iterable[str]) -> str:
    """The kernel of a job, whose template arguments may be those of other values."""
    assert job.hip is not None, "a job of a HIP source"
    name, names = job.variant.kernel, list(names)
    if job.hip.values:
        name = Knobs.of(job.hip.values, file_text(job.path), Path(job.path)).instance(name)
    same = [other for other in names if unspaced(other) == unspaced(name)]
    same = same or [other for other in names if parts_of(other)[0] == parts_of(name)[0]]
    return same[0] if len(same) == 1 else name
