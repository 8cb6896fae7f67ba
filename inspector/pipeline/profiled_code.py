"""Static analysis of what a recording's program launched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError, unforeseen
from ..base.named_files import MOST_BYTES, opened_named
from ..capture.confining import confined
from ..model import Artifact, ErrorRecord, KernelReport, Report
from ..model.recording import Recording
from .analysis import analyze_code_object
from .context import Context
from .jobs import Request

Collect = Callable[[Request], Report]
"""`collecting.collect`, which this module may not import."""

_TRITON_CACHE = "triton"
"""The folder of a run that holds what the program's Triton compiled."""


class LaunchedCode(Struct, frozen=True):
    """Static analysis of the launched kernels.

    Attributes:
        reports: one for each kernel, by id; the last one where several files hold it.
        target: the targets that were analysed, joined by blanks; None for code objects only.
    """

    reports: tuple[KernelReport, ...]
    errors: tuple[ErrorRecord, ...]
    target: str | None


def analyse_launched(
    recording: Recording,
    request: Request,
    collect: Collect,
    targets: tuple[str, ...] = (),
    arch: str | None = None,
) -> LaunchedCode:
    """Analyses the launched kernels.

    Args:
        targets: where the kernels are; empty for what the run itself holds.
        arch: the target to analyse for; None for that of the recorded device.

    Raises:
        KinspectError: one of `targets` is wrong.
    """
    arch = arch or device_arch(recording)
    analysed = targets or triton_cache(recording)
    reports: list[KernelReport] = []
    errors: list[ErrorRecord] = []
    if analysed:
        archs = (arch,) if arch is not None else ()
        try:
            if targets:
                report = collect(replace(request, targets=targets, archs=archs))
            else:  # a stranger's folder: what was compiled is read, nothing is run
                with confined(Path(recording.path)):
                    report = collect(replace(request, targets=analysed, archs=(), reads_only=True))
        except KinspectError as error:
            if targets:
                raise
            # The run's own cache may be unusable; the measured figures are still useful.
            errors.append(_error(analysed[0], error))
        else:
            reports += report.kernels
            errors += report.errors
    if not targets:
        for code_object in recording.code_objects:
            if code_object.path is None:
                continue
            try:
                reports += _reports_of(Path(code_object.path))
            except KinspectError as error:
                errors.append(_error(code_object.path, error))
    by_id = {report.id: report for report in reports}
    return LaunchedCode(tuple(by_id.values()), tuple(errors), " ".join(analysed) or None)


def device_arch(recording: Recording) -> str | None:
    """The target of the devices that ran kernels; None where there are several."""
    used = {shape.agent for shape in recording.shapes}
    gpus = [agent for agent in recording.agents if agent.kind == "gpu"]
    archs = {agent.arch for agent in gpus if agent.key in used} or {a.arch for a in gpus}
    archs.discard(None)
    return archs.pop() if len(archs) == 1 else None


def triton_cache(recording: Recording) -> tuple[str, ...]:
    """The folder of the run's own Triton cache, if it holds anything; no link to another."""
    folder = Path(recording.path) / _TRITON_CACHE
    return (
        (str(folder),)
        if folder.is_dir() and not folder.is_symlink() and any(folder.iterdir())
        else ()
    )


def _reports_of(path: Path) -> Sequence[KernelReport]:
    """Reports on the kernels of a code object that the profiler saved."""
    try:
        with opened_named(path, MOST_BYTES) as stream:
            data = stream.read()
        digest = hashlib.sha256(data).hexdigest()
        artifacts = {"hsaco": Artifact("hsaco", digest, len(data), path)}
        return analyze_code_object(data, Context(str(path), artifacts=artifacts))
    except KinspectError:
        raise
    except OSError as error:
        raise KinspectError(str(error), "run the profiler again") from error
    except Exception as error:
        # A bug in the analysis of one code object must not take the measured figures with it.
        raise unforeseen(error) from error


def _error(path: str, error: KinspectError) -> ErrorRecord:
    return ErrorRecord(
        file=path, kernel=None, stage="analyse", message=error.message, hint=error.hint
    )
