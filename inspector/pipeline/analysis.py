"""Analyses texts and code objects: parses them, computes metrics and applies the default rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .. import machines
from ..base import limits, named_files
from ..base.errors import KinspectError
from ..base.version import VERSION
from ..capture.options import choosing, matches
from ..model import (
    Function,
    KernelReport,
    Machine,
    Program,
    Resources,
    SourceLoc,
    TtgirModule,
)
from .analysis_options import AnalysisOptions, Context
from .naming import kernel_id, names_of_function

if TYPE_CHECKING:
    from ..isa.asm.units import Includes
    from ..lint.catalogue import Catalogue
    from ..lint.rule import Pack
    from .timing import LaunchPrice

ANALYSIS_VERSION = 55
"""Raised whenever a figure of an unchanged input would change."""
MOST_INSTRUCTIONS = 100_000
"""Of one file's kernels, up to which lanes' addresses and races are worked out, at 75 µs each."""

ANALYSIS_SHARE, JUDGED_SHARE, WORK_SHARE = 0.5, 0.7, 0.9
"""Of a file's time, after which no further kernel is analysed, judged, or given to the command."""


def tool_versions() -> dict[str, str]:
    """Returns name and versions of the software that makes a report."""
    return {"name": "kinspect", "version": VERSION, "analysis": str(ANALYSIS_VERSION)}


def analyze_text(
    text: str, context: Context, includes: Includes | None = None
) -> list[KernelReport]:
    """Analyses every kernel of an assembly text or disassembly.

    Args:
        includes: what it may include; None: what lies beside the context's file.
    """
    return analyze_program(_parsed(text, context, includes), context, text)


def _parsed(text: str, context: Context, includes: Includes | None = None) -> Program:
    # What is analysed is imported here: a report that was kept needs none of it.
    from ..isa.asm.units import includes_beside
    from ..isa.assembly import parse_text

    return parse_text(text, context.path, includes or includes_beside(Path(context.path)))


def analyses_of_text(text: str, context: Context) -> Iterator[KernelReport]:
    """As `analyze_text`, but each report comes as soon as its kernel is analysed and judged."""
    program, options = _parsed(text, context), context.analysis
    if not options.judges_all:
        yield from analyze_program(program, context, text)
        return
    pack = default_pack() if options.rules is None else options.rules
    source_text = source_reader()
    for report, price in _priced_reports(program, context, text, WORK_SHARE):
        yield _judged(report, pack, source_text, price)


def analyze_code_object(data: bytes, context: Context) -> list[KernelReport]:
    """Analyses every kernel of a code object."""
    # Only code objects need the ELF reader; importing it costs more than analysing a small text.
    from ..isa.objects.load import load_or_resources

    return analyze_program(load_or_resources(data, context.path), context)


def analyze_ttgir(text: str, context: Context) -> list[KernelReport]:
    """Analyses a TTGIR file alone: launch and LDS are known, registers and code are not.

    Raises:
        KinspectError: it cannot be parsed, or holds no kernel.
    """
    from ..ttgir.parser import parse_ttgir

    module = parse_ttgir(text, context.path)
    if not module.functions:
        raise KinspectError(
            f"{context.path}: no function in it", "pass a TTGIR file made by Triton"
        )
    threads, warps = module.attributes.get("threads-per-warp"), module.attributes.get("num-warps")
    target = str(module.attributes.get("target", ""))
    backend, _, arch = target.partition(":")
    notes: tuple[str, ...] = ("TTGIR alone: registers and code are known only after a compile",)
    if backend and backend != "hip":
        notes = (f"compiled for {target}, not for an AMD target", *notes)
    resources = Resources(wave_size=threads if isinstance(threads, int) else None)
    functions = tuple(
        Function(
            name=name,
            is_kernel=True,
            line_first=1,
            line_last=1,
            instructions=(),
            blocks=(),
            loops=(),
            resources=resources,
        )
        for name in module.functions
    )
    program = Program(
        name=context.path,
        arch=arch if backend == "hip" else None,
        features=(),
        form="ttgir",
        functions=functions,
    )
    launch = {"num_warps": warps, "shared": module.attributes.get("shared")}
    metadata = {
        **{k: v for k, v in launch.items() if isinstance(v, int)},
        **(context.metadata or {}),
    }
    return analyze_program(program, replace(context, metadata=metadata, ttgir=text, notes=notes))


def analyze_program(program: Program, context: Context, text: str = "") -> list[KernelReport]:
    """Analyses every kernel of a program.

    Args:
        text: the assembly that it was parsed from, for the constants beside the code.

    Raises:
        KinspectError: it is for another target than asked for, or has no such kernel.
    """
    reports = list(_priced_reports(program, context, text, ANALYSIS_SHARE))
    prices = {report.id: price for report, price in reports if price is not None}
    return with_findings((report for report, _ in reports), context.analysis, prices=prices)


def with_findings(
    reports: Iterable[KernelReport],
    options: AnalysisOptions,
    source_text: Callable[[SourceLoc], str | None] | None = None,
    prices: Mapping[str, LaunchPrice] | None = None,
) -> list[KernelReport]:
    """The reports with what the rules of the options say of them.

    Args:
        source_text: gives a line of the source; None: each file is read when it is needed.
        prices: by id of a report, what work takes of its launch's time.
    """
    if not prices and not options.judges_all:  # only reports with a time are judged: none has one
        return list(reports)
    pack = default_pack() if options.rules is None else options.rules
    source_text = source_text or source_reader()
    reports, judged = list(reports), list[KernelReport]()
    for report in reports:
        if limits.is_spent(JUDGED_SHARE, len(judged), len(reports)):
            break
        judged.append(_judged(report, pack, source_text, (prices or {}).get(report.id)))
    return judged


def _judged(
    report: KernelReport,
    pack: Pack,
    source_text: Callable[[SourceLoc], str | None],
    price: LaunchPrice | None,
) -> KernelReport:
    """A report with its findings; where there are none, with what some costs take of its launch."""
    from ..lint.engine import judge

    judgement = judge(pack, report, source_text, price)
    if not judgement.findings and report.time is not None and price is not None:
        time = replace(report.time, savings=report.time.savings or price.savings())
        report = replace(report, time=time)
    return replace(report, findings=judgement.findings, leads=judgement.leads)


def _priced_reports(
    program: Program, context: Context, text: str, share: float
) -> Iterator[tuple[KernelReport, LaunchPrice | None]]:
    """Yields each kernel's report without findings, and what work takes of its launch's time."""
    from ..metrics.kernel import kernel_report
    from ..metrics.subject import KernelCode
    from .launch_facts import launch_facts

    arch = _arch(program, context)
    machine, notes = _machine(arch)
    functions = _chosen_functions(program, context)
    binary = _stated_by_code_object(context)
    options, variant = context.analysis, context.variant
    module, ttir = _ttgir(context), _ttir(context)
    instructions = 0
    for number, function in enumerate(functions):
        if limits.is_spent(share, number, len(functions)):
            return
        facts = launch_facts(function, machine, module, context)
        instructions += len(function.instructions)
        is_small = instructions <= MOST_INSTRUCTIONS
        facts = replace(
            facts,
            analyse_lanes=facts.analyse_lanes and is_small and options.lanes_of(variant),
            analyse_races=facts.analyse_races and is_small and options.races,
            name_values=facts.name_values and options.values,
        )
        report = kernel_report(
            KernelCode(
                function=function,
                machine=machine,
                facts=facts,
                ttgir=module,
                ttir=ttir,
                ttir_text=_ttir_text(context),
            ),
            kernel_id=kernel_id(context.path, function.name, arch, variant),
            name=variant.kernel if variant is not None else function.name,
            arch=arch,
            source=variant.source if variant is not None else _source(function),
            variant=variant,
            artifacts=context.artifacts,
            notes=context.notes + program.notes + notes + _disagreements(function, binary),
            asked=options.asked,
        )
        is_timed = options.time is not None and (variant is not None or options.times_code)
        if options.sample is None and not is_timed:
            yield report, None
        else:
            yield _executed(report, function, program, text, machine, context, is_timed=is_timed)


def _executed(
    report: KernelReport,
    function: Function,
    program: Program,
    text: str,
    machine: Machine | None,
    context: Context,
    *,
    is_timed: bool,
) -> tuple[KernelReport, LaunchPrice | None]:
    """The report with what the emulator and the model of time say of the captured launch."""
    # Importing the emulator takes a tenth of a second.
    from .captured_launch import KernelText

    options = context.analysis
    code = KernelText(function, program.functions, text, context.path)
    if options.sample is not None:
        from .executing import executed

        report = executed(code, report, machine, context.metadata or {}, options.sample)
    if not is_timed or options.time is None:
        return report, None
    from .timing import with_time

    return with_time(code, report, machine, context, options.time)


def source_reader() -> Callable[[SourceLoc], str | None]:
    """Returns a function that reads a line of a source file, each file once; None if missing."""
    read = named_files.line_reader()
    return lambda loc: read(loc.file, loc.line)


# --------------------------------------------------------------------------- rules


@functools.cache
def catalogue() -> Catalogue:
    """Returns the names that rules may use."""
    from ..isa.mnemonics import CLASSES
    from ..isa.waitflow.counters import COUNTERS
    from ..lint.catalogue import Catalogue
    from ..metrics.catalogue import specs

    return Catalogue.of(specs(), [*CLASSES, *COUNTERS])


@functools.cache
def recommended_pack() -> Pack:
    """Returns the default pack with its preview rules; read once."""
    from ..lint.packs import DEFAULT_PACK, load_named

    return load_named(DEFAULT_PACK, catalogue())


@functools.cache
def default_pack() -> Pack:
    """Returns the pack that `analyze` applies: the default one without its preview rules."""
    from ..lint.packs import DEFAULT_PACK, load_named

    return load_named(DEFAULT_PACK, catalogue(), previews=False)


# --------------------------------------------------------------------------- facts besides the code


def _arch(program: Program, context: Context) -> str | None:
    if program.arch and context.arch and program.arch != context.arch:
        raise KinspectError(
            f"{context.path}: it is for {program.arch}, not {context.arch}",
            "drop --arch and --gpu: an assembly or code object has only its own target",
        )
    return program.arch or context.arch


def _machine(arch: str | None) -> tuple[Machine | None, tuple[str, ...]]:
    if arch is None:
        return None, ("the file names no target; pass --arch for limits and occupancy",)
    if arch not in machines.names():
        return None, (f"no machine file for {arch}: limits and occupancy are unknown",)
    return machines.load(arch), ()


def _chosen_functions(program: Program, context: Context) -> tuple[Function, ...]:
    functions = program.kernels or tuple(f for f in program.functions if f.instructions)
    if not functions:
        raise KinspectError(f"{context.path}: no kernel in it", "pass a file with AMDGCN code")
    chosen = tuple(
        f for f in functions if matches(context.patterns, names_of_function(f.name, f.symbol))
    )
    if not chosen:
        names = sorted(f.name for f in functions)
        message = f"{context.path}: no kernel named {' and '.join(context.patterns)}"
        hint = f"it has {', '.join(names[:8])}"
        if Path(context.path).is_file():
            hint += f": {choosing(context.path, context.patterns, names)}"
        raise KinspectError(message, hint)
    return chosen


def _ttgir(context: Context) -> TtgirModule | None:
    if context.ttgir is None:
        return None
    from ..ttgir.parser import parse_ttgir

    try:
        return parse_ttgir(context.ttgir, context.path)
    except KinspectError:
        return None  # figures that need it stay unknown


def _ttir(context: Context) -> TtgirModule | None:
    """Returns the kernel's TTIR, of which only the dots are parsed; None if there is none."""
    text = _ttir_text(context)
    if text is None:
        return None
    from ..ttgir.lowered import read_dots

    try:
        return read_dots(text, context.path)
    except KinspectError:
        return None


def _ttir_text(context: Context) -> str | None:
    if context.ttir is None and context.variant is not None and context.variant.stage == "ttir":
        return context.variant.ttir
    return context.ttir


def _source(function: Function) -> SourceLoc | None:
    """Returns the source position of the kernel: that of its first instruction that has one."""
    loc = next((i.loc for i in function.instructions if i.loc is not None), None)
    return SourceLoc(loc.outermost.file, loc.outermost.line) if loc is not None else None


def _stated_by_code_object(context: Context) -> Mapping[str, Resources]:
    """Returns kernel -> resources as the compile's code object states them; {} if unreadable."""
    if context.code_object is None:
        return {}
    from ..isa.objects.codeobject import read_code_object

    try:
        with named_files.opened_named(context.code_object, named_files.MOST_BYTES) as stream:
            data = stream.read()
        return read_code_object(data, str(context.code_object)).kernels
    except (KinspectError, OSError):
        return {}


def _disagreements(function: Function, binary: Mapping[str, Resources]) -> tuple[str, ...]:
    stated = binary.get(function.symbol or function.name)
    if stated is None:
        return ()
    from ..isa.objects.crosscheck import compare

    return tuple(
        f"assembly and code object differ: {d}" for d in compare(function.resources, stated)
    )
