"""Requests, and the jobs that compile and analyse one variant each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ..base import named_files
from ..base.errors import KinspectError, unforeseen
from ..base.limits import COMPILE_SECONDS
from ..base.named_files import file_text
from ..base.status import doing
from ..capture.options import CaptureOptions
from ..capture.sweep_axes import Axis
from ..capture.targets import Target
from ..compile.hip.options import HipOptions
from ..machines.loader import targets_named
from ..machines.products import all_products, find_product
from ..model import Artifact, ErrorRecord, KernelReport, Variant
from . import analysis
from .analysis_options import AnalysisOptions, Context, Overrides, TimeOptions
from .error_records import error_record
from .naming import label_with_arch

if TYPE_CHECKING:
    from ..compile.pool import Compiler, CompileResult, CompileSettings

_TYPED = "LDS or waves as typed, where the code needs no more"
"""The note of a report whose figures rest on a launch that the user stated."""


class Request(Struct, frozen=True):
    """One run: what to look at, how to compile, and what the user states about launches.

    Attributes:
        targets: files, folders and `TARGET::NAME`, as the user named them.
        archs: the gfx targets to compile for; empty for each target's own or the default.
        kernel: selects kernels by name or case, with shell wildcards; None for all.
        python: the interpreter that captures and compiles; None for the one that runs this.
        jobs: how many processes compile or read at a time.
        passes: whether the IR is recorded after each pass.
        time_limit: seconds that one compile may take.
        overrides: figures of launches that the user states.
        analysis: how much of each kernel is analysed.
        point: values of kernels' parameters and of backend options in place of the target's own,
            one each, as a point of a sweep has them.
        reads_only: whether targets that Triton compiles or that are run are faults.
        hip: how HIP sources are compiled; their flags are the `argv` of `capture`.
    """

    targets: tuple[str, ...]
    archs: tuple[str, ...] = ()
    kernel: str | None = None
    python: str | None = None
    jobs: int = 1
    passes: bool = True
    time_limit: float = COMPILE_SECONDS
    overrides: Overrides = field(default_factory=Overrides)
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    analysis: AnalysisOptions = AnalysisOptions()
    point: tuple[Axis, ...] = ()
    reads_only: bool = False
    hip: HipOptions = HipOptions()


def request_for(
    targets: Iterable[str | os.PathLike[str]],
    *,
    archs: Iterable[str] = (),
    kernel: str | None = None,
    python: str | None = None,
    jobs: int | None = None,
    passes: bool = False,
    time_limit: float = COMPILE_SECONDS,
    overrides: Overrides | None = None,
    capture: CaptureOptions | None = None,
    analysis: AnalysisOptions | None = None,
    point: tuple[Axis, ...] = (),
    hip: HipOptions | None = None,
) -> Request:
    """A run as commands and programs ask for it, what they leave out filled in.

    Args:
        archs: gfx names, or products, by which they are timed as well.
        python: None for the interpreter that runs this.
        jobs: None for one process a processor.
        passes: off, unlike in a `Request`: few look at the IR after each pass.
        overrides: None for no stated figures.
        capture: how scripts are run; arguments of launches are kept if `analysis` executes some.
        analysis: None for all that can be known without executing a kernel.
        hip: None for the compiler that is installed.

    Raises:
        KinspectError: an unknown arch or product, two products of one arch, or a product to time
            for that is of none of them.
    """
    analysis = analysis or AnalysisOptions()
    arguments = analysis.needs_arguments
    request = Request(
        targets=tuple(os.fspath(target) for target in targets),
        kernel=kernel,
        python=python or sys.executable,
        jobs=jobs or os.cpu_count() or 1,
        passes=passes,
        time_limit=time_limit,
        overrides=overrides or Overrides(),
        capture=replace(capture or CaptureOptions(), arguments=arguments),
        analysis=analysis,
        point=point,
        hip=hip or HipOptions(),
    )
    return with_archs(request, archs)


def with_archs(request: Request, archs: Iterable[str]) -> Request:
    """A request for other targets, named as for `request_for`; for a stated product, its own.

    Raises:
        KinspectError: as `request_for`.
    """
    targets, products = targets_named(archs)
    time = request.analysis.time
    if time is None:
        return replace(request, archs=targets)
    if time.gpu is not None:
        targets = _of_product(time.gpu, targets)
    time = replace(time, products=products)
    return replace(request, archs=targets, analysis=replace(request.analysis, time=time))


def _of_product(gpu: str, targets: tuple[str, ...]) -> tuple[str, ...]:
    """The targets of a run that is timed for a product: its own where none is stated."""
    product = find_product(gpu)
    if product is None:
        known = ", ".join(dict.fromkeys(product.name for product in all_products()))
        raise KinspectError(f"--gpu {gpu}: no known product", f"there is {known}")
    if targets and product.arch not in targets:
        raise KinspectError(
            f"--gpu {gpu} is {product.arch}, and --arch says {', '.join(targets)}",
            "drop one of them",
        )
    return targets or (product.arch,)


def executing(analysis: AnalysisOptions | None = None) -> AnalysisOptions:
    """An analysis that executes a few workgroups of each launch on the emulator as well."""
    from .executing import Sample  # imported only where it is needed

    return replace(analysis or AnalysisOptions(), sample=Sample())


BESIDE: Final[dict[str, Any]] = {"explains": False, "seconds": 5.0}
"""How launches are timed where their time is one figure beside others."""


def beside(arguments: str | None) -> dict[str, Any]:
    """The same, or what times a stated launch of a file of code: with the minute of `time`.

    Args:
        arguments: what it passes, as `kinspect emulate` takes it; None where none is stated.
    """
    return BESIDE if arguments is None else {"arguments": arguments}


def timing(analysis: AnalysisOptions | None = None, **how: Any) -> AnalysisOptions:
    """An analysis that times each launch as well; see `TimeOptions` for how."""
    return replace(analysis or AnalysisOptions(), time=TimeOptions(**how))


class Job(Struct, frozen=True):
    """A variant to compile and analyse, and how.

    Attributes:
        order: (index of the target, index of the variant in it): where its reports belong.
        path: the target's file, as the user named it.
        overrides: figures of launches that the user states.
        analysis: how much of the kernel is analysed.
        allowed: where data may name files, in the process that made the job.
        hip: how the HIP source is compiled whose kernel the variant is; None for Triton's.
    """

    order: tuple[int, int]
    path: str
    variant: Variant
    settings: CompileSettings
    overrides: Overrides
    analysis: AnalysisOptions = AnalysisOptions()
    allowed: tuple[tuple[Path, ...], bool] = field(default_factory=named_files.state)
    hip: HipOptions | None = None

    @classmethod
    def of(
        cls,
        request: Request,
        path: str,
        variant: Variant,
        settings: CompileSettings,
        order: tuple[int, int],
    ) -> Job:
        """The job of a variant of a run."""
        return cls(order, path, variant, settings, request.overrides, request.analysis)

    def record(self, stage: str, error: KinspectError) -> ErrorRecord:
        """Returns the record of an error that concerns its variant."""
        return error_record(self.path, label_with_arch(self.variant), stage, error)


class CompileOutcome(Struct, frozen=True):
    """The result of one compile job: plain values, so that any Executor can pass it on."""

    reports: tuple[KernelReport, ...]
    error: ErrorRecord | None
    seconds: float
    from_store: bool


def settings_of(request: Request) -> CompileSettings:
    """Returns the settings of the compiler that a request is run with."""
    from ..compile.pool import CompileSettings

    return CompileSettings(
        python=request.python or sys.executable,
        passes=request.passes,
        time_limit=request.time_limit,
    )


def compile_and_report(job: Job, compiler: Compiler | None = None) -> CompileOutcome:
    """Compiles and analyses one variant, in any thread or process.

    Args:
        compiler: this process's workers; None: a cached one per process and settings.
    """
    from ..compile.pool import compile_variant

    named_files.restore(job.allowed)  # this may be another process than the one that captured it
    started = time.perf_counter()
    if compiler is not None:
        result = compiler.compile(job.variant)
    else:
        result = compile_variant(job.variant, job.settings)
    seconds = time.perf_counter() - started
    error = result.error
    reports: tuple[KernelReport, ...] = ()
    if error is not None:
        error = replace(error, file=job.path, kernel=label_with_arch(job.variant))
    else:
        context = _context(job, result)
        doing(f"analysing {job.variant.kernel}")
        try:
            reports = _analyzed(result, context)
        except KinspectError as failure:
            error = job.record("analyze", failure)
        except Exception as failure:
            # A bug in the analysis of one kernel must not take the others' reports with it.
            error = job.record("analyze", unforeseen(failure))
    return CompileOutcome(reports, error, seconds, result.from_store)


def _context(job: Job, result: CompileResult) -> Context:
    """Returns what is known of a compiled variant besides its assembly."""
    return Context(
        path=job.path,
        arch=job.variant.arch,
        metadata=result.metadata,
        ttgir=_text(result.artifacts.get("ttgir")),
        variant=job.variant,
        artifacts=result.artifacts,
        code_object=_path(result.artifacts.get("hsaco")),
        overrides=job.overrides,
        analysis=job.analysis,
        notes=(*_assumed(job), *result.notes),
    )


def _analyzed(result: CompileResult, context: Context) -> tuple[KernelReport, ...]:
    """Analyses the assembly of a compile."""
    text = _text(result.artifacts.get("amdgcn"))
    if text is None:
        raise KinspectError("the compile gave no assembly", "run again; the store may be damaged")
    return tuple(analysis.analyze_text(text, context))


def _assumed(job: Job) -> tuple[str, ...]:
    """Returns notes on what the figures rest on besides the compile itself."""
    notes = []
    if not job.variant.options:
        notes.append("no options stand beside the TTIR: compiled with Triton's defaults")
    typed = job.overrides
    launch = (typed.lds_bytes, typed.waves_per_workgroup, typed.workgroup, typed.grid)
    if any(figure is not None for figure in launch):
        notes.append(_TYPED)
    return tuple(notes)


def patterns_of(target: Target, request: Request) -> tuple[str, ...]:
    """Returns the patterns of `TARGET::NAME` and of --kernel: a kernel must match both."""
    return tuple(name for name in (target.kernel, request.kernel) if name is not None)


def _text(artifact: Artifact | None) -> str | None:
    """Returns the text of a file of the compile; None if the compile did not write it."""
    return file_text(artifact.path) if artifact is not None else None


def _path(artifact: Artifact | None) -> Path | None:
    return artifact.path if artifact is not None else None
