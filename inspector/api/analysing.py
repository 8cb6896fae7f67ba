"""`kinspect.analyze`, `compile` and `load`: reports on kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.named_files import allow_run, allow_target
from ..lint.rule import NO_RULES
from ..machines.loader import DEFAULT_ARCH
from ..model import ErrorRecord, Report, Variant
from ..pipeline import analysis
from ..pipeline.analysis_options import AnalysisOptions, Context, Overrides
from ..pipeline.collecting import collect
from ..pipeline.jobs import (
    BESIDE,
    Job,
    compile_and_report,
    executing,
    request_for,
    settings_of,
    timing,
)
from ..pipeline.reading import load_saved
from .jit_kernels import Grid, Launch, is_jit_kernel, parameter_names, variants_of
from .results import Analysis, Origin
from .targets import Target, archs_of, existing, is_text, request_of

_TEXT = "<assembly>"
_BYTES = "<code object>"
_OWN_OPTIONS = frozenset(("passes", "time_us", "jobs"))
"""Options of this function where the target is a kernel without parameters of these names."""


def analyze(
    target: Target,
    *args: Any,
    arch: str | Sequence[str] | None = None,
    kernel: str | None = None,
    grid: Grid = None,
    emulate: bool = False,
    **options: Any,
) -> Analysis:
    """Reports what the compiler makes of kernels.

    >>> kernel = kinspect.analyze("docs/examples/column_sums.py", arch="gfx942").kernel
    >>> kernel["vgpr_spill_count"], kernel["occupancy.waves_per_eu"]
    (0, 8)
    >>> kernel.findings[0].rule, kernel.findings[0].saves_percent
    ('KI036', 94.2)
    >>> kernel.main_loop.metrics["count.global_load"].value
    8

    Args:
        target: a `@triton.jit` kernel (autotuned ones too); a path as the command line takes it;
            assembly text; the bytes of a code object.
        args: of a kernel, the arguments of a launch: tensors of PyTorch, `T(...)`, numbers.
        arch: targets by gfx name or product ("mi300x"); None for what the file says, or gfx942.
        kernel: of a file, the kernels by name, with shell wildcards.
        grid: of a kernel, the workgroups of the launch.
        emulate: whether a few workgroups of each launch are executed on the emulator: of a kernel
            with `grid`, of a script or a trace; of other targets a note says why they are not.
        options: of a kernel, its arguments by name and options of the backend (`num_warps=4`); of
            a file, `argv`, `call`, `signature`, `python`. Of both, `passes` (record the IR after
            each pass), `time_us` (a measured time of one launch) and `jobs`.

    Raises:
        KinspectError: nothing could be reported; with some kernels reported, the rest is in
            `Analysis.errors`.
    """
    return analysis_of(
        target,
        args,
        arch=arch,
        kernel=kernel,
        grid=grid,
        options=options,
        analysis_options=timing(executing() if emulate else None, **BESIDE),
    )


def compile(
    target: Target,
    *args: Any,
    arch: str | Sequence[str] | None = None,
    kernel: str | None = None,
    **options: Any,
) -> Analysis:
    """Compiles kernels; `AnalyzedKernel.code` has the text of each stage.

    As `analyze`, without rules and without following what lanes touch.

    >>> kernel = kinspect.compile("docs/examples/column_sums.py", arch="gfx942").kernel
    >>> "buffer_load_ushort" in kernel.code(), "tt.load" in kernel.code("ttir")
    (True, True)
    """
    bare = AnalysisOptions(rules=NO_RULES, lanes=False, races=False, values=False)
    return analysis_of(
        target,
        args,
        arch=arch,
        kernel=kernel,
        grid=None,
        options=options,
        analysis_options=bare,
    )


def load(path: str | os.PathLike[str]) -> Analysis:
    """Reads a report that was saved as `.json` or `.kinspect`.

    >>> kinspect.analyze("docs/examples/column_sums.py", arch="gfx942").save("before.kinspect")
    >>> kinspect.load("before.kinspect").kernel["vgpr_spill_count"]
    0

    Raises:
        KinspectError: it is none.
    """
    file = Path(path)
    if not file.is_file():
        raise KinspectError(f"{file}: no such file", "name a saved report")
    allow_target(file)
    return Analysis(load_saved(file))


def analysis_of(
    target: Target,
    args: Sequence[Any] = (),
    *,
    arch: str | Sequence[str] | None,
    kernel: str | None,
    grid: Grid,
    options: Mapping[str, Any],
    analysis_options: AnalysisOptions,
) -> Analysis:
    """The result of a run; see `analyze`.

    Raises:
        KinspectError: nothing could be reported.
    """
    if isinstance(target, Analysis):
        return target
    if is_jit_kernel(target):
        return _of_jit(target, args, archs_of(arch), grid, dict(options), analysis_options)
    if args:
        raise KinspectError(
            f"{target!r:.60} is not a @triton.jit kernel: only one takes arguments",
            "decorate it with @triton.jit, or drop the arguments",
        )
    if is_text(target) or isinstance(target, (bytes, bytearray)):
        return Analysis(_of_code(target, archs_of(arch), kernel, analysis_options))
    path = existing(target)
    request = request_of(path, arch=arch, kernel=kernel, options=options, analysis=analysis_options)
    return Analysis(_with_kernels(collect(request, partial=False)), Origin(request))


def _of_code(
    code: str | bytes | bytearray,
    archs: Sequence[str],
    kernel: str | None,
    options: AnalysisOptions,
) -> Report:
    """The report on an assembly text or code object that no file holds."""
    if len(archs) > 1:
        raise KinspectError("code has one target only", "pass a single arch, or none")
    run = request_for((), archs=archs, analysis=options)
    context = Context(
        path=_TEXT if isinstance(code, str) else _BYTES,
        arch=run.archs[0] if archs else None,
        patterns=(kernel,) if kernel is not None else (),
        analysis=run.analysis,
    )
    if isinstance(code, str):
        kernels = analysis.analyze_text(code, context)
    else:
        kernels = analysis.analyze_code_object(bytes(code), context)
    return _with_kernels(Report(context.path, analysis.tool_versions(), tuple(kernels), ()))


def _of_jit(
    kernel: Any,
    args: Sequence[Any],
    archs: Sequence[str],
    grid: Grid,
    named: dict[str, Any],
    options: AnalysisOptions,
) -> Analysis:
    """The result for a kernel that the calling program holds."""
    names = (named.keys() & _OWN_OPTIONS) - parameter_names(kernel)
    own = {name: named.pop(name) for name in names}
    run = request_for(
        (),
        archs=archs or (DEFAULT_ARCH,),
        jobs=own.get("jobs"),
        passes=bool(own.get("passes")),
        overrides=Overrides(time_us=own.get("time_us")),
        analysis=options,
    )
    variants = variants_of(kernel, args, named, run.archs, grid, arguments=options.needs_arguments)
    allow_run(*map(_file, variants))
    run = replace(run, targets=(variants[0].kernel,))
    settings = settings_of(run)
    jobs = [
        Job((0, number), _file(variant), variant, settings, run.overrides, run.analysis)
        for number, variant in enumerate(variants)
    ]
    with ThreadPoolExecutor(run.jobs) as threads:
        outcomes = list(threads.map(compile_and_report, jobs))
    report = Report(
        target=variants[0].kernel,
        tool=analysis.tool_versions(),
        kernels=tuple(report for outcome in outcomes for report in outcome.reports),
        errors=tuple(outcome.error for outcome in outcomes if outcome.error is not None),
    )
    return Analysis(_with_kernels(report), Origin(run, Launch(kernel, tuple(args), named, grid)))


def _file(variant: Variant) -> str:
    return variant.source.file if variant.source is not None else variant.kernel


def _with_kernels(report: Report) -> Report:
    """The report itself."""
    refuse_nothing(report.target, report.kernels, report.errors)
    return report


def refuse_nothing(target: str, kernels: Sequence[object], errors: Sequence[ErrorRecord]) -> None:
    """Refuses a run without kernels.

    Raises:
        KinspectError: there is none; the first of the errors says why.
    """
    if not kernels and errors:
        first = errors[0]
        place = first.kernel if first.kernel is not None else first.file
        raise KinspectError(f"{place}: {first.stage}: {first.message}", first.hint)
    if not kernels:
        raise KinspectError(
            f"{target}: there is no kernel in it", "see `kinspect analyze` for what it takes"
        )
