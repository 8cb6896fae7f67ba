"""Requests, and the jobs that compile and analyse one variant each.

A target has variants (`capturing.py`), a variant becomes a `Job`, and a job runs in any thread or
process (`compile_and_report`).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ..capture.options import CaptureOptions
from ..capture.targets import Target
from ..errors import KinspectError, unforeseen
from ..isa.asm.recognition import is_binary
from ..limits import COMPILE_SECONDS
from ..model import Artifact, ErrorRecord, KernelReport, Variant
from . import analysis
from .analysis import Context
from .launch_facts import Overrides
from .naming import label_with_arch

if TYPE_CHECKING:
    from ..compile.pool import Compiler, CompileSettings
    from ..lint.rule import Pack
    from .executing import Sample

DEFAULT_ARCH = "gfx942"
MOST_TEXT_BYTES = 64 << 20
"""Text beyond this is not read: the largest kernels known are under 10 MiB."""
_TYPED = "LDS or waves as typed, in place of what Triton states"
"""The note of a report whose figures rest on a launch that the user stated."""
MOST_NAMED = 8
"""How many names an error lists at most."""


class Request(Struct, frozen=True):
    """One run: what to look at, how to compile, and what the user states about launches.

    `kernel` selects kernels by name or case, with shell wildcards. `rules` is the pack that is
    applied to each report; None: the default one. `sample` is how much of each launch is
    emulated; None: nothing. `lanes`: whether the addresses of accesses' lanes are computed;
    `races`: whether LDS races are looked for.
    `values`: whether the values that registers hold are named.
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
    rules: Pack | None = None
    sample: Sample | None = None
    lanes: bool = True
    races: bool = True
    values: bool = True


class Job(Struct, frozen=True):
    """A variant to compile and analyse, and how."""

    order: tuple[int, int]
    path: str
    variant: Variant
    settings: CompileSettings
    overrides: Overrides
    rules: Pack | None = None
    sample: Sample | None = None
    lanes: bool = True
    races: bool = True
    values: bool = True


class CompileOutcome(Struct, frozen=True):
    """The result of one compile job: plain values, so that any Executor can pass it on."""

    reports: tuple[KernelReport, ...]
    error: ErrorRecord | None
    seconds: float
    from_store: bool


def settings_of(request: Request) -> CompileSettings:
    from ..compile.pool import CompileSettings

    return CompileSettings(
        python=request.python or sys.executable,
        passes=request.passes,
        time_limit=request.time_limit,
    )


def compile_and_report(job: Job, compiler: Compiler | None = None) -> CompileOutcome:
    """Compiles and analyses one variant, in any thread or process.

    Args:
        job: what to do.
        compiler: this process's workers; None: a cached one per process and settings.
    """
    from ..compile.pool import compile_variant

    started = time.perf_counter()
    if compiler is not None:
        result = compiler.compile(job.variant)
    else:
        result = compile_variant(job.variant, job.settings)
    seconds = time.perf_counter() - started
    if result.error is not None:
        error = replace(result.error, file=job.path, kernel=label_with_arch(job.variant))
        return CompileOutcome((), error, seconds, result.from_store)
    context = Context(
        path=job.path,
        arch=job.variant.arch,
        metadata=result.metadata,
        ttgir=_text(result.artifacts.get("ttgir")),
        variant=job.variant,
        artifacts=result.artifacts,
        code_object=_path(result.artifacts.get("hsaco")),
        overrides=job.overrides,
        rules=job.rules,
        sample=job.sample,
        lanes=job.lanes,
        races=job.races,
        values=job.values,
        notes=(*_assumed(job), *result.notes),
    )
    try:
        text = _text(result.artifacts.get("amdgcn"))
        if text is None:
            raise KinspectError(
                "the compile gave no assembly", "run again; the store may be damaged"
            )
        reports = tuple(analysis.analyze_text(text, context))
    except KinspectError as error:
        return CompileOutcome((), job_record(job, "analyze", error), seconds, result.from_store)
    except Exception as error:
        # A bug in the analysis of one kernel must not take the others' reports with it.
        bug = job_record(job, "analyze", unforeseen(error))
        return CompileOutcome((), bug, seconds, result.from_store)
    return CompileOutcome(reports, None, seconds, result.from_store)


def _assumed(job: Job) -> tuple[str, ...]:
    """Returns notes on what the figures rest on besides the compile itself."""
    notes = []
    if not job.variant.options:
        notes.append("no options stand beside the TTIR: compiled with Triton's defaults")
    typed = job.overrides
    launch = (typed.lds_bytes, typed.waves_per_workgroup, typed.workgroup)
    if any(figure is not None for figure in launch):
        notes.append(_TYPED)
    return tuple(notes)


def patterns_of(target: Target, request: Request) -> tuple[str, ...]:
    """Returns the patterns of `TARGET::NAME` and of --kernel: a kernel must match both."""
    return tuple(name for name in (target.kernel, request.kernel) if name is not None)


def _text(artifact: Artifact | None) -> str | None:
    return artifact.path.read_text("utf-8", "replace") if artifact is not None else None


def read_text(path: Path) -> str:
    """Reads an assembly or IR text.

    Raises:
        KinspectError: it is binary, or too large to be one kernel's code.
    """
    size = path.stat().st_size
    if size > MOST_TEXT_BYTES:
        raise KinspectError(
            f"{path}: {size / 2**20:.0f} MiB, and at most {MOST_TEXT_BYTES >> 20} MiB are read",
            "split it, or pass the code object of one kernel",
        )
    data = path.read_bytes()
    if is_binary(data):
        raise KinspectError(
            f"{path}: a binary file, not text", "name a code object .hsaco or .co, assembly .s"
        )
    return data.replace(b"\0", b" ").decode("utf-8", "replace")


def _path(artifact: Artifact | None) -> Path | None:
    return artifact.path if artifact is not None else None


def record(target: Target, stage: str, error: KinspectError) -> ErrorRecord:
    return _record(str(target.path), target.kernel, stage, error)


def job_record(job: Job, stage: str, error: KinspectError) -> ErrorRecord:
    return _record(job.path, label_with_arch(job.variant), stage, error)


def _record(file: str, kernel: str | None, stage: str, error: KinspectError) -> ErrorRecord:
    """Returns the record of an error; the file, which it names, is dropped from the message."""
    return ErrorRecord(
        file=file,
        kernel=kernel,
        stage=stage,
        message=error.message.removeprefix(f"{file}: "),
        hint=error.hint,
    )
