"""Targets that are read and not compiled: assembly, code objects, TTGIR, saved reports."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ..base import limits
from ..base.documents import json_value
from ..base.errors import KinspectError, unforeseen
from ..base.named_files import file_bytes, file_text, named_text, own_cache
from ..base.status import doing
from ..capture.options import choosing
from ..capture.targets import Target, triton_metadata
from ..model import Artifact, ErrorRecord, KernelReport, Report
from . import analysis
from .analysis_options import Context
from .error_records import target_record
from .events import Failed
from .inputs import MOST_TEXT_BYTES, read_text
from .jobs import Request, patterns_of
from .naming import label_of, matches

if TYPE_CHECKING:
    from ..compile.hip.source import HipCode
    from ..report.json_read import SavedReport
    from .stored_reports import StoredReports


READ = frozenset({"asm", "code_object", "ttgir", "report", "archive", "hip"})
"""Kinds of targets that are read, HIP sources once they are assembly; Triton compiles the others.
They are named here, so that a run that only reads need not import `capturing`.
"""

_LARGE = 1 << 19
"""Bytes of assembly that are analysed in more than a second or two."""
_ANALYSED = frozenset({"amdgcn", "ttgir", "ttir", "metadata", "hsaco"})
"""The artifacts that an analysis looks at."""


class Transformed(Struct, frozen=True):
    """What `Work.transform` returned for a kernel's report; `order` is its position in the run."""

    order: tuple[int, int]
    value: Any


class Work(Struct, frozen=True):
    """The work on each target: the run, and what is made of its reports.

    Args:
        transform: called with each report; what it returns is the result.
        artifacts: the kinds that `transform` needs of an archive; None: all.
        stored: reports on assembly that are kept from run to run; None: each is analysed.
    """

    request: Request
    transform: Callable[[KernelReport], Any]
    artifacts: frozenset[str] | None = None
    stored: StoredReports | None = None


def read_target(index: int, target: Target, work: Work) -> Iterator[Transformed | Failed]:
    """Reads one target and transforms the reports of its kernels.

    Yields:
        The transformed report of each of its kernels, and what could not be read.
    """
    doing(f"reading {target.path.name}")
    stage = "read"
    try:
        code = None
        if target.kind == "hip" and target.fault is None:
            from .hip_sources import compiled_source

            stage = "compile"
            code = compiled_source(target, work.request)
            stage = "read"
        outcomes, executing = _outcomes(index, target, work, code), work.request.analysis.executing
        size = _size(target) if code is None else code.artifact.size
        yield from limits.within(str(target.path), size, outcomes, executing)
    except KinspectError as error:
        yield Failed((index, 0), target_record(target, stage, error))
    except OSError as error:
        wrapped = KinspectError(f"cannot be read ({error.strerror or error})", "check permissions")
        yield Failed((index, 0), target_record(target, "read", wrapped))
    except Exception as error:
        # A bug in what reads or judges one target must not take the others' reports with it.
        yield Failed((index, 0), target_record(target, "read", unforeseen(error)))


def _outcomes(
    index: int, target: Target, work: Work, code: HipCode | None
) -> Iterator[Transformed | Failed]:
    """As `read_target`, but raises the error of a target that cannot be read."""
    if target.fault is not None:
        raise target.fault
    if target.kind in ("report", "archive"):
        yield from _saved(index, target, work)
        return
    context = _context(target, work.request)
    reports: Sequence[KernelReport]
    if code is not None:
        reports = _of_hip(code, context, work)
    elif target.kind == "code_object":
        reports = analysis.analyze_code_object(file_bytes(target.path), context)
    elif target.kind == "ttgir":
        reports = analysis.analyze_ttgir(read_text(target.path), context)
    elif work.stored is not None or _size(target) < _LARGE:
        reports = _stored(work).analyzed(read_text(target.path), context)
    else:  # the first kernel is seen long before the last
        for number, report in enumerate(analysis.analyses_of_text(read_text(target.path), context)):
            yield Transformed((index, number), work.transform(report))
        return
    for number, report in enumerate(reports):
        if limits.is_spent(analysis.WORK_SHARE, number, len(reports)):
            return
        yield Transformed((index, number), work.transform(report))


def _of_hip(code: HipCode, context: Context, work: Work) -> Sequence[KernelReport]:
    """The reports on a HIP source's kernels."""
    from .hip_sources import analysed, options_of

    options = options_of(work.request)
    reports = _stored(work).kept(
        read_text(code.artifact.path),
        context,
        lambda given: analysed(code, given, options),
        is_timed=context.analysis.time is not None,
        stated=(file_text(Path(context.path)), code.names, code.notes, options.defining),
    )
    return [replace(report, artifacts={"amdgcn": code.artifact}) for report in reports]


def _stored(work: Work) -> StoredReports:
    from .stored_reports import StoredReports

    return work.stored or StoredReports(own_cache())


def _size(target: Target) -> int:
    """Returns the bytes of all files that are read for a target."""
    size = 0
    for path in (target.path, *target.siblings.values()):
        with contextlib.suppress(OSError, ValueError):  # reported when it is read
            size += path.stat().st_size
    return size


def _saved(index: int, target: Target, work: Work) -> Iterator[Transformed | Failed]:
    """Yields the requested kernels of a saved report, and its errors."""
    report = _open(target.path, work.artifacts)
    for number, error in enumerate(report.errors):
        yield Failed((index, number), error)
    patterns, archs = patterns_of(target, work.request), work.request.archs
    number = 0
    # Kernels that were saved with their artifacts are analysed again by this version.
    outdated = report.folder is not None and _is_older(report.tool)
    for kernel in report.kernels():
        if _is_requested(kernel, patterns, archs):
            current = _reanalysed(kernel) if outdated else kernel
            yield Transformed((index, number), work.transform(current))
            number += 1
    if not number and not report.errors:
        names = [label_of(k.variant) if k.variant is not None else k.name for k in report.kernels()]
        hint = "see it without --kernel and --arch"
        if patterns and names:
            hint = f"it has {', '.join(names[:8])}: {choosing(str(target.path), patterns, names)}"
        raise KinspectError("it holds nothing of what was asked for", hint)


def requested_kernels(
    report: Report, patterns: Sequence[str], archs: Sequence[str]
) -> list[KernelReport]:
    """Returns the kernels of a report that match the patterns and archs; none given: all."""
    return [k for k in report.kernels if _is_requested(k, patterns, archs)]


def _is_requested(kernel: KernelReport, patterns: Sequence[str], archs: Sequence[str]) -> bool:
    return matches(patterns, kernel.name, kernel.variant) and (not archs or kernel.arch in archs)


def load_saved(path: Path) -> Report:
    """Reads a report from a `.json` or `.kinspect` file."""
    return _open(path, None).report()


def _open(path: Path, artifacts: frozenset[str] | None) -> SavedReport:
    """Opens a saved report; `artifacts` are the kinds to unpack of an archive, None: all."""
    from ..metrics.catalogue import fits
    from ..report.json_read import SavedReport

    if path.suffix == ".json":
        return SavedReport.open(file_bytes(path), str(path), fits=fits)
    from ..report import saved

    report = saved.opened(path, own_cache() / "saved", artifacts, fits)
    if artifacts is not None and _is_older(report.tool):  # analyse them again
        report = saved.opened(path, own_cache() / "saved", artifacts | _ANALYSED, fits)
    return report


def _context(target: Target, request: Request) -> Context:
    """Returns the context of a target: the files beside it, and what the user stated about it."""
    archs = target.archs or request.archs
    if len(archs) > 1:
        raise KinspectError(
            f"{target.path}: it has one target only", "pass a single --arch, or none"
        )
    ttgir, ttir = target.siblings.get("ttgir"), target.siblings.get("ttir")
    return Context(
        path=str(target.path),
        arch=archs[0] if archs else None,
        patterns=patterns_of(target, request),
        metadata=triton_metadata(target.siblings.get("metadata")),
        ttgir=named_text(ttgir, MOST_TEXT_BYTES) if ttgir else None,
        ttir=named_text(ttir, MOST_TEXT_BYTES) if ttir else None,
        code_object=target.siblings.get("hsaco") if target.kind == "asm" else None,
        overrides=request.overrides,
        analysis=request.analysis,
    )


def interrupted(target: Target, index: int, *, read: int, total: int) -> Failed:
    """Returns the error of an interrupted run: how many of its files were read."""
    message = f"interrupted: {read} of {total} files read"
    hint = "run it again, or on fewer files"
    return Failed(
        (index, 1 << 30),
        ErrorRecord(file=str(target.path), kernel=None, stage="read", message=message, hint=hint),
    )


# --------------------------------------------------------------------------- older reports

# An archive holds the compiler's output beside the report of that time. Rules may need
# figures that an older report lacks; the artifacts give them without a compile.


def _is_older(tool: Mapping[str, str]) -> bool:
    """Tells whether a report was made by an older version of the analysis."""
    stated = limits.natural(tool.get("analysis", ""))
    return stated is not None and stated < analysis.ANALYSIS_VERSION


def _reanalysed(kernel: KernelReport) -> KernelReport:
    """Analyses a kernel again from its artifacts; returns it unchanged where that is impossible.

    The new report has no findings. A report stays unchanged if its launch (LDS, waves) was stated
    on the command line, which the archive does not hold, if it does not say whether it was
    (analysis 20 and before), or if its code was disassembled.
    """
    from ..isa.asm.units import no_includes

    text = artifact_text(kernel.artifacts.get("amdgcn"))
    if text is None or kernel.demand is None or kernel.demand.typed:
        return kernel
    hsaco = kernel.artifacts.get("hsaco")
    context = Context(
        path=kernel.file,
        arch=kernel.arch,
        metadata=artifact_metadata(kernel.artifacts.get("metadata")),
        ttgir=artifact_text(kernel.artifacts.get("ttgir")),
        ttir=artifact_text(kernel.artifacts.get("ttir")),
        variant=kernel.variant,
        artifacts=kernel.artifacts,
        code_object=hsaco.path if hsaco is not None and hsaco.path.exists() else None,
    )
    try:
        reports = analysis.analyze_text(text, context, no_includes)  # its path is data
    except KinspectError:
        return kernel
    if len(reports) != 1:
        return kernel
    notes = tuple(note for note in kernel.notes if note not in reports[0].notes)
    return replace(reports[0], id=kernel.id, name=kernel.name, notes=notes + reports[0].notes)


def artifact_text(artifact: Artifact | None) -> str | None:
    """The text of an artifact; None where there is none, or it cannot be read."""
    if artifact is None:
        return None
    try:
        return file_text(artifact.path)
    except OSError:
        return None


def artifact_metadata(artifact: Artifact | None) -> Mapping[str, Any] | None:
    """What Triton wrote about a compile; None where that is not at hand."""
    text = artifact_text(artifact)
    try:
        metadata = json_value(text, "metadata") if text is not None else None
    except KinspectError:
        return None
    return metadata if isinstance(metadata, dict) else None
