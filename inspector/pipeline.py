"""Composes the stages: targets -> variants -> artifacts -> reports, as a stream of events.

`analyze` yields events as they come, in no fixed order across kernels; `collect` makes one `Report`
of them, in the order of the targets. A kernel that fails is an event like any other: the rest of the
run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from kinspect.inspector import analysis, machines
from kinspect.inspector.analysis import Context, Overrides
from kinspect.inspector.capture.targets import Target, resolve, triton_metadata
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import (
    Artifact,
    ErrorRecord,
    KernelReport,
    Report,
    Variant,
)
from kinspect.inspector.version import VERSION

DEFAULT_ARCH = "gfx942"
MOST_TEXT_BYTES = 64 << 20
"""Assembly beyond this is not read: the largest kernels known are under 10 MiB."""


@dataclass(frozen=True, slots=True)
class Request:
    """One run: what to look at, how to compile, and what the user states about launches.

    `kernel` names kernels to keep, by name or by case, with shell wildcards.
    """

    targets: tuple[str, ...]
    archs: tuple[str, ...] = ()
    kernel: str | None = None
    python: str | None = None
    jobs: int = 1
    passes: bool = True
    timeout: float = 300.0
    overrides: Overrides = Overrides()


@dataclass(frozen=True, slots=True)
class Captured:
    """A target's specialisations are known; their compiles are under way."""

    target: str
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A variant has been compiled (or found in the store)."""

    variant: Variant
    seconds: float
    from_store: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """A kernel's report; `order` is its place in the run."""

    order: tuple[int, int]
    report: KernelReport


@dataclass(frozen=True, slots=True)
class Failed:
    """Something could not be reported; everything else still is."""

    order: tuple[int, int]
    error: ErrorRecord


Event = Captured | Compiled | Reported | Failed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one compile job gives back: plain values, so that any Executor can carry it."""

    reports: tuple[KernelReport, ...]
    error: ErrorRecord | None
    seconds: float
    from_store: bool


def collect(request: Request, on_event: Callable[[Event], None] | None = None) -> Report:
    """Runs everything and gives one report, kernels in the order of the targets.

    Raises:
        KinspectError: the request itself is wrong (no such file, unknown target).
    """
    kernels: list[tuple[tuple[int, int], KernelReport]] = []
    errors: list[tuple[tuple[int, int], ErrorRecord]] = []
    for event in analyze(request):
        if on_event is not None:
            on_event(event)
        if isinstance(event, Reported):
            kernels.append((event.order, event.report))
        elif isinstance(event, Failed):
            errors.append((event.order, event.error))
    return Report(
        target=" ".join(request.targets),
        tool={"name": "kinspect", "version": VERSION, "analysis": str(analysis.ANALYSIS_VERSION)},
        kernels=tuple(r for _, r in sorted(kernels, key=lambda item: item[0])),
        errors=tuple(e for _, e in sorted(errors, key=lambda item: item[0])),
    )


def analyze(request: Request, executor: Executor | None = None) -> Iterator[Event]:
    """Yields events as they come.

    Args:
        request: the run.
        executor: where compiles run; None starts `request.jobs` threads, each with a worker.
    """
    for arch in request.archs:
        machines.load(arch)  # an unknown target is an error before anything is compiled
    targets = [found for text in request.targets for found in resolve(text)]
    scripts = []
    for index, target in enumerate(targets):
        if target.kind in ("script", "ttir"):
            scripts.append((index, target))
        else:
            yield from _read_target(index, target, request)
    if scripts:
        yield from _compile_targets(scripts, request, executor)


# --------------------------------------------------------------------------- read, not compiled


def _read_target(index: int, target: Target, request: Request) -> Iterator[Event]:
    try:
        reports = _reports(target, request)
        for number, report in enumerate(reports):
            yield Reported((index, number), report)
    except KinspectError as error:
        yield Failed((index, 0), _record(target, "read", error))
    except OSError as error:
        wrapped = KinspectError(f"cannot be read ({error.strerror})", "check permissions")
        yield Failed((index, 0), _record(target, "read", wrapped))


def _reports(target: Target, request: Request) -> Sequence[KernelReport]:
    if target.kind == "report":
        from kinspect.inspector.render import json_v1

        return _kept(json_v1.read(target.path.read_bytes(), str(target.path)), target, request)
    if target.kind == "archive":
        from kinspect.inspector import saved
        from kinspect.inspector.compiler.store import cache_root

        return _kept(saved.load(target.path, cache_root() / "saved"), target, request)
    if len(request.archs) > 1:
        raise KinspectError(f"{target.path}: it has one target only", "pass a single --arch, or none")
    ttgir = target.siblings.get("ttgir")
    context = Context(
        path=str(target.path),
        arch=request.archs[0] if request.archs else None,
        kernel=target.kernel or request.kernel,
        metadata=triton_metadata(target.siblings.get("metadata")),
        ttgir=ttgir.read_text("utf-8", "replace") if ttgir else None,
        overrides=request.overrides,
    )
    if target.kind == "code_object":
        return analysis.analyze_code_object(target.path.read_bytes(), context)
    text = read_text(target.path)
    if target.kind == "ttgir":
        return analysis.analyze_ttgir(text, context)
    return analysis.analyze_text(text, context)


def _kept(report: Report, target: Target, request: Request) -> list[KernelReport]:
    wanted = target.kernel or request.kernel
    return [k for k in report.kernels if wanted is None or matches(wanted, k.name, k.variant)]


def read_text(path: Path) -> str:
    """An assembly or IR text.

    Raises:
        KinspectError: it is binary, or too large to be one kernel's code.
    """
    size = path.stat().st_size
    if size > MOST_TEXT_BYTES:
        raise KinspectError(
            f"{path}: {size / 2**20:.0f} MiB is more than the {MOST_TEXT_BYTES >> 20} MiB that are read",
            "split it, or pass the code object of one kernel",
        )
    data = path.read_bytes()
    if b"\0" in data[:65536]:
        raise KinspectError(
            f"{path}: a binary file, not text", "name a code object .hsaco or .co, assembly .s"
        )
    return data.decode("utf-8", "replace")


# --------------------------------------------------------------------------- compiled


@dataclass(frozen=True, slots=True)
class Job:
    """A variant to compile and report on, with everything that takes."""

    order: tuple[int, int]
    path: str
    variant: Variant
    python: str | None
    passes: bool
    timeout: float
    overrides: Overrides


def _compile_targets(
    targets: Sequence[tuple[int, Target]], request: Request, executor: Executor | None
) -> Iterator[Event]:
    own = ThreadPoolExecutor(request.jobs, "kinspect") if executor is None else None
    pool = executor or own
    assert pool is not None
    futures: dict[Future[Outcome], Job] = {}
    try:
        for index, target in targets:
            variants, errors = _variants(target, request)
            for number, error in enumerate(errors):
                yield Failed((index, number), error)
            if not variants:
                continue
            yield Captured(str(target.path), tuple(variants))
            for number, variant in enumerate(variants):
                job = Job(
                    (index, number),
                    str(target.path),
                    variant,
                    request.python,
                    request.passes,
                    request.timeout,
                    request.overrides,
                )
                futures[pool.submit(compile_and_report, job)] = job
        for future in as_completed(futures):
            yield from _events(futures[future], future)
    finally:
        for future in futures:
            future.cancel()
        if own is not None:
            from kinspect.inspector.compiler import pool as workers

            workers.close_all()
            own.shutdown(wait=True, cancel_futures=True)


def _events(job: Job, future: Future[Outcome]) -> Iterator[Event]:
    try:
        outcome = future.result()
    except KinspectError as error:
        yield Failed(job.order, _job_record(job, "compile", error))
        return
    yield Compiled(job.variant, outcome.seconds, outcome.from_store)
    for report in outcome.reports:
        yield Reported(job.order, report)
    if outcome.error is not None:
        yield Failed(job.order, outcome.error)


def compile_and_report(job: Job) -> Outcome:
    """Compiles one variant and reports on it; runs in any thread or process."""
    from kinspect.inspector.compiler.pool import Settings, compile_variant

    started = time.perf_counter()
    result = compile_variant(
        job.variant, Settings(python=job.python, passes=job.passes, timeout=job.timeout)
    )
    seconds = time.perf_counter() - started
    if result.error is not None:
        error = replace(result.error, file=job.path, kernel=_label(job.variant))
        return Outcome((), error, seconds, result.from_store)
    context = Context(
        path=job.path,
        arch=job.variant.arch,
        metadata=result.metadata,
        ttgir=_text(result.artifacts.get("ttgir")),
        variant=job.variant,
        artifacts=result.artifacts,
        overrides=job.overrides,
        notes=tuple(result.notes),
    )
    try:
        text = _text(result.artifacts.get("amdgcn"))
        if text is None:
            raise KinspectError("the compile gave no assembly", "run again; the store may be damaged")
        reports = tuple(analysis.analyze_text(text, context))
    except KinspectError as error:
        return Outcome((), _job_record(job, "analyze", error), seconds, result.from_store)
    return Outcome(reports, None, seconds, result.from_store)


def _variants(target: Target, request: Request) -> tuple[list[Variant], list[ErrorRecord]]:
    """The specialisations a target would launch, those that were asked for."""
    archs = request.archs or (DEFAULT_ARCH,)
    try:
        if target.kind == "ttir":
            variants: list[Variant] = [_ttir_variant(target, arch) for arch in archs]
            errors: list[ErrorRecord] = []
        else:
            from kinspect.inspector.capture.script import capture_script
            from kinspect.inspector.compiler.pool import worker_for

            variants, errors = capture_script(
                worker_for(request.python), target.path, archs, request.timeout
            )
    except KinspectError as error:
        return [], [_record(target, "capture", error)]
    wanted = target.kernel or request.kernel
    if wanted is None:
        return variants, errors
    kept = [v for v in variants if matches(wanted, v.kernel, v)]
    if not kept and not errors:
        names = ", ".join(dict.fromkeys(_label(v) for v in variants))
        missing = KinspectError(f"no kernel or case matches {wanted}", f"it has {names}")
        return [], [_record(target, "capture", missing)]
    return kept, errors


def matches(wanted: str, name: str, variant: Variant | None) -> bool:
    """Whether a kernel's name, qualified name or case is what was asked for (wildcards allowed)."""
    names = [name]
    if variant is not None:
        names += [n for n in (variant.qualname, variant.case) if n]
        if variant.case:
            names.append(f"{name}[{variant.case}]")
    return any(fnmatchcase(n, wanted) for n in names)


def _ttir_variant(target: Target, arch: str) -> Variant:
    from kinspect.inspector.capture.ttir import variant_of

    metadata = triton_metadata(target.siblings.get("metadata"))
    return variant_of(read_text(target.path), str(target.path), machines.load(arch), metadata)


def _text(artifact: Artifact | None) -> str | None:
    return artifact.path.read_text("utf-8", "replace") if artifact is not None else None


def _label(variant: Variant) -> str:
    return f"{variant.kernel}[{variant.case}]" if variant.case else variant.kernel


def _record(target: Target, stage: str, error: KinspectError) -> ErrorRecord:
    return _trimmed(str(target.path), target.kernel, stage, error)


def _job_record(job: Job, stage: str, error: KinspectError) -> ErrorRecord:
    return _trimmed(job.path, f"{_label(job.variant)} on {job.variant.arch}", stage, error)


def _trimmed(file: str, kernel: str | None, stage: str, error: KinspectError) -> ErrorRecord:
    """The record of an error; messages name their file already, the record says it once."""
    return ErrorRecord(file, kernel, stage, error.message.removeprefix(f"{file}: "), error.hint)

