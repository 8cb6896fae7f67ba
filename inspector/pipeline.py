"""Composes the stages: targets -> variants -> artifacts -> reports, as a stream of events.

`analyze` yields events as they come, in no fixed order across kernels; `collect` makes one `Report`
of them, in the order of the targets. A kernel that fails is an event like any other: the rest of
the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kinspect.inspector import analysis, machines
from kinspect.inspector.analysis import Context
from kinspect.inspector.capture.targets import Target, resolve, triton_metadata
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import ErrorRecord, KernelReport, Report
from kinspect.inspector.runs.capturing import COMPILED
from kinspect.inspector.runs.events import Captured, Event, Failed, Reported
from kinspect.inspector.runs.jobs import (
    Request,
    matches,
    read_text,
    record,
    wanted_of,
)
from kinspect.inspector.version import VERSION

if TYPE_CHECKING:
    from concurrent.futures import Executor


def collect(request: Request, on_event: Callable[[Event], None] | None = None) -> Report:
    """Runs everything and gives one report, kernels in the order of the targets.

    Raises:
        KinspectError: the request itself is wrong (no such file, unknown target).
        KeyboardInterrupt: interrupted before there was anything to report.
    """
    kernels: list[tuple[tuple[int, int], KernelReport]] = []
    errors: list[tuple[tuple[int, int], ErrorRecord]] = []
    notes: dict[str, None] = {}
    try:
        for event in analyze(request):
            if on_event is not None:
                on_event(event)
            if isinstance(event, Reported):
                kernels.append((event.order, event.report))
            elif isinstance(event, Failed):
                errors.append((event.order, event.error))
            elif isinstance(event, Captured):
                notes.update(dict.fromkeys(event.notes))
    except KeyboardInterrupt:
        # What was done by then is still a report; its last error says what is missing.
        if not errors:
            raise
    return Report(
        target=" ".join(request.targets),
        tool={"name": "kinspect", "version": VERSION, "analysis": str(analysis.ANALYSIS_VERSION)},
        kernels=tuple(r for _, r in sorted(kernels, key=lambda item: item[0])),
        errors=tuple(e for _, e in sorted(errors, key=lambda item: item[0])),
        notes=tuple(notes),
    )


def analyze(request: Request, executor: Executor | None = None) -> Iterator[Event]:
    """Yields events as they come.

    Args:
        request: the run.
        executor: where compiles run; None starts `request.jobs` threads, each with a worker.
    """
    for arch in request.archs:
        machines.load(arch)  # an unknown target is an error before anything is compiled
    targets = [found for text in request.targets for found in resolve(text, request.archs)]
    scripts = []
    for index, target in enumerate(targets):
        if target.kind in COMPILED or _compilable(target):
            scripts.append((index, target))
        else:
            yield from _read_target(index, target, request)
    if scripts:
        # Only targets that are compiled need the workers' machinery.
        from kinspect.inspector.runs.streaming import compile_targets

        yield from compile_targets(scripts, request, executor)


def _compilable(target: Target) -> bool:
    """TTGIR for an AMD target is compiled on to code; other TTGIR is only read."""
    if target.kind != "ttgir":
        return False
    from kinspect.inspector.capture.ttir import compilable_ttgir

    return compilable_ttgir(read_text(target.path))


# --------------------------------------------------------------------------- read, not compiled


def _read_target(index: int, target: Target, request: Request) -> Iterator[Event]:
    try:
        if target.fault is not None:
            raise target.fault
        if target.kind in ("report", "archive"):
            yield from _saved(index, target, request)
            return
        for number, report in enumerate(_reports(target, request)):
            yield Reported((index, number), report)
    except KinspectError as error:
        yield Failed((index, 0), record(target, "read", error))
    except OSError as error:
        wrapped = KinspectError(f"cannot be read ({error.strerror})", "check permissions")
        yield Failed((index, 0), record(target, "read", wrapped))


def _saved(index: int, target: Target, request: Request) -> Iterator[Event]:
    """What a saved report holds of what was asked for, its failures included."""
    report = load_saved(target.path)
    kept = asked_for(report, wanted_of(target, request), request.archs)
    if not kept and not report.errors:
        raise KinspectError("it holds nothing of what was asked for", "see it without --kernel")
    for number, error in enumerate(report.errors):
        yield Failed((index, number), error)
    for number, kernel in enumerate(kept):
        yield Reported((index, number), kernel)


def asked_for(report: Report, wanted: Sequence[str], archs: Sequence[str]) -> list[KernelReport]:
    """The kernels of a saved report that match what was asked for."""
    return [
        k
        for k in report.kernels
        if matches(wanted, k.name, k.variant) and (not archs or k.arch in archs)
    ]


def load_saved(path: Path) -> Report:
    """A report from a `.json` or `.kinspect` file."""
    if path.suffix == ".json":
        from kinspect.inspector.render import json_v1

        return json_v1.read(path.read_bytes(), str(path))
    from kinspect.inspector import saved
    from kinspect.inspector.compiler.store import default_root

    return saved.load(path, default_root() / "saved")


def _reports(target: Target, request: Request) -> Sequence[KernelReport]:
    archs = target.archs or request.archs
    if len(archs) > 1:
        raise KinspectError(
            f"{target.path}: it has one target only", "pass a single --arch, or none"
        )
    ttgir, ttir = target.siblings.get("ttgir"), target.siblings.get("ttir")
    context = Context(
        path=str(target.path),
        arch=archs[0] if archs else None,
        wanted=wanted_of(target, request),
        metadata=triton_metadata(target.siblings.get("metadata")),
        ttgir=ttgir.read_text("utf-8", "replace") if ttgir else None,
        ttir=ttir.read_text("utf-8", "replace") if ttir else None,
        code_object=target.siblings.get("hsaco") if target.kind == "asm" else None,
        overrides=request.overrides,
    )
    if target.kind == "code_object":
        return analysis.analyze_code_object(target.path.read_bytes(), context)
    text = read_text(target.path)
    if target.kind == "ttgir":
        return analysis.analyze_ttgir(text, context)
    return analysis.analyze_text(text, context)
