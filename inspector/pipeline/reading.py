"""Targets that are read and not compiled: assembly, code objects, TTGIR, saved reports."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from .. import limits
from ..capture.targets import Target, triton_metadata
from ..errors import KinspectError, unforeseen
from ..model import Artifact, ErrorRecord, KernelReport, Report
from . import analysis
from .analysis import Context
from .events import Failed
from .jobs import Request, matches, read_text, record, wanted_of

if TYPE_CHECKING:
    from ..report.json_read import SavedReport

READ = frozenset({"asm", "code_object", "ttgir", "report", "archive"})
"""Kinds of targets that are read; the others are compiled. Naming them here spares a run that only
reads the import of all that captures.
"""

_ANALYSED = frozenset({"amdgcn", "ttgir", "ttir", "metadata", "hsaco"})
"""The artifacts that an analysis looks at."""


class Made(Struct, frozen=True):
    """The value that a caller made of a kernel's report; `order` is its position in the run."""

    order: tuple[int, int]
    value: Any


class Work(Struct, frozen=True):
    """What to do with each target.

    Args:
        request: the run.
        transform: what to make of each report.
        artifacts: the kinds that `transform` needs of an archive; None: all.
    """

    request: Request
    transform: Callable[[KernelReport], Any]
    artifacts: frozenset[str] | None = None


def read_target(index: int, target: Target, work: Work) -> Iterator[Made | Failed]:
    """Reports on one target.

    Args:
        index: its place in the run.
        target: a saved file.
        work: what to do with it.

    Yields:
        What was made of each of its kernels, and what could not be read.
    """
    try:
        yield from limits.within(str(target.path), _size(target), _outcomes(index, target, work))
    except KinspectError as error:
        yield Failed((index, 0), record(target, "read", error))
    except OSError as error:
        wrapped = KinspectError(f"cannot be read ({error.strerror or error})", "check permissions")
        yield Failed((index, 0), record(target, "read", wrapped))
    except Exception as error:
        # A bug in what reads or judges one target must not take the others' reports with it.
        yield Failed((index, 0), record(target, "read", unforeseen(error)))


def _outcomes(index: int, target: Target, work: Work) -> Iterator[Made | Failed]:
    if target.fault is not None:
        raise target.fault
    if target.kind in ("report", "archive"):
        yield from _saved(index, target, work)
        return
    context = _context(target, work.request)
    if target.kind == "code_object":
        reports = analysis.analyze_code_object(target.path.read_bytes(), context)
    elif target.kind == "ttgir":
        reports = analysis.analyze_ttgir(read_text(target.path), context)
    else:
        reports = analysis.analyze_text(read_text(target.path), context)
    for number, report in enumerate(reports):
        yield Made((index, number), work.transform(report))


def _size(target: Target) -> int:
    """Bytes of all files that are read for a target."""
    size = 0
    for path in (target.path, *target.siblings.values()):
        with contextlib.suppress(OSError, ValueError):  # said when it is read
            size += path.stat().st_size
    return size


def _saved(index: int, target: Target, work: Work) -> Iterator[Made | Failed]:
    """The kernels of a saved report that were requested, failures included."""
    report = _opened(target.path, work.artifacts)
    for number, error in enumerate(report.errors):
        yield Failed((index, number), error)
    patterns, archs = wanted_of(target, work.request), work.request.archs
    number = 0
    # Kernels that came with their artifacts are brought up to the present analysis.
    outdated = report.folder is not None and _is_older(report.tool)
    for kernel in report.kernels():
        if _is_asked_for(kernel, patterns, archs):
            present = _renewed(kernel) if outdated else kernel
            yield Made((index, number), work.transform(present))
            number += 1
    if not number and not report.errors:
        raise KinspectError("it holds nothing of what was asked for", "see it without --kernel")


def asked_for(report: Report, patterns: Sequence[str], archs: Sequence[str]) -> list[KernelReport]:
    """The kernels of a saved report that match what was asked for."""
    return [k for k in report.kernels if _is_asked_for(k, patterns, archs)]


def _is_asked_for(kernel: KernelReport, patterns: Sequence[str], archs: Sequence[str]) -> bool:
    return matches(patterns, kernel.name, kernel.variant) and (not archs or kernel.arch in archs)


def load_saved(path: Path) -> Report:
    """A report from a `.json` or `.kinspect` file."""
    return _opened(path, None).report()


def _opened(path: Path, artifacts: frozenset[str] | None) -> SavedReport:
    from ..report.json_read import SavedReport

    if path.suffix == ".json":
        return SavedReport.open(path.read_bytes(), str(path))
    from ..compile.store import default_root
    from ..report import saved

    report = saved.opened(path, default_root() / "saved", artifacts)
    if artifacts is not None and _is_older(report.tool):  # analyse them again
        report = saved.opened(path, default_root() / "saved", artifacts | _ANALYSED)
    return report


def _context(target: Target, request: Request) -> Context:
    """The context of a target: the files beside it, and what the user stated about it."""
    archs = target.archs or request.archs
    if len(archs) > 1:
        raise KinspectError(
            f"{target.path}: it has one target only", "pass a single --arch, or none"
        )
    ttgir, ttir = target.siblings.get("ttgir"), target.siblings.get("ttir")
    return Context(
        path=str(target.path),
        arch=archs[0] if archs else None,
        patterns=wanted_of(target, request),
        metadata=triton_metadata(target.siblings.get("metadata")),
        ttgir=ttgir.read_text("utf-8", "replace") if ttgir else None,
        ttir=ttir.read_text("utf-8", "replace") if ttir else None,
        code_object=target.siblings.get("hsaco") if target.kind == "asm" else None,
        overrides=request.overrides,
        rules=request.rules,
        sample=request.sample,
        lanes=request.lanes,
        races=request.races,
    )


def interrupted(target: Target, index: int, done: int, total: int) -> Failed:
    """The error of an interrupted run, on what it did not read."""
    message = f"interrupted: {done} of {total} files read"
    hint = "run it again, or on fewer files"
    return Failed(
        (index, 1 << 30),
        ErrorRecord(file=str(target.path), kernel=None, stage="read", message=message, hint=hint),
    )


# --------------------------------------------------------------------------- of an older analysis

# An archive holds what the compiler wrote beside what kinspect said of it then. Rules ask for
# figures that older reports do not have; from the artifacts they can be had without a compile.


def _is_older(tool: Mapping[str, str]) -> bool:
    """Whether a report was made by an analysis that knew less than this one."""
    stated = tool.get("analysis", "")
    return stated.isdigit() and int(stated) < analysis.ANALYSIS_VERSION


def _renewed(kernel: KernelReport) -> KernelReport:
    """The kernel's report as it would be made today, findings aside; itself where it cannot be.

    What was typed for the run that made it (LDS, waves) is not in the archive: such a report is
    kept as it is, and so is one that does not say whether any was (of analysis 20 and before), or
    of code that was disassembled.
    """
    text = _text(kernel.artifacts.get("amdgcn"))
    if text is None or kernel.demand is None or kernel.demand.typed:
        return kernel
    hsaco = kernel.artifacts.get("hsaco")
    context = Context(
        path=kernel.id.partition("::")[0],
        arch=kernel.arch,
        metadata=_metadata(_text(kernel.artifacts.get("metadata"))),
        ttgir=_text(kernel.artifacts.get("ttgir")),
        ttir=_text(kernel.artifacts.get("ttir")),
        variant=kernel.variant,
        artifacts=kernel.artifacts,
        code_object=hsaco.path if hsaco is not None and hsaco.path.exists() else None,
    )
    try:
        reports = analysis.analyze_text(text, context)
    except KinspectError:
        return kernel
    if len(reports) != 1:
        return kernel
    notes = tuple(note for note in kernel.notes if note not in reports[0].notes)
    return replace(reports[0], id=kernel.id, name=kernel.name, notes=notes + reports[0].notes)


def _text(artifact: Artifact | None) -> str | None:
    if artifact is None:
        return None
    try:
        return artifact.path.read_text("utf-8", "replace")
    except OSError:
        return None


def _metadata(text: str | None) -> Mapping[str, Any] | None:
    try:
        metadata = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) else None
