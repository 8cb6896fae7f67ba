"""Turns a recording into a profile: reads it, groups it, analyses its kernels, joins both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from .. import limits, machines
from ..capture.resolving import resolve
from ..errors import KinspectError, unforeseen
from ..model import Artifact, ErrorRecord, KernelReport, Report
from ..profile import join, kernel_profiles, reading
from ..profile.landing import add_measured_lines
from ..profile.running import manifest
from ..recording import Profile, RecordedCodeObject, Recording
from .analysis import Context, analyze_code_object
from .jobs import Request

Collect = Callable[[Request], Report]
"""`pipeline.collect`, which this module may not import."""

TRITON_CACHE = "triton"
"""The folder of a run that holds what the program's Triton compiled."""
_DATA = (".json", ".gz", ".db", ".csv")
_MOST_NAMED = 8
"""How many kernels an error names where --kernel matches none."""
_MOST_NAME = 60
"""Characters of such a name."""
LIKELY_EMPTY = (
    "the program launched nothing on the GPU; its kernels ran in a process that was killed before "
    "it could write; the profiler was told of kernels that it has not; or it lacks the right to "
    "count"
)


class Options(Struct, frozen=True):
    """The part of a recording that is profiled, and how its kernels are analysed.

    Args:
        kernel: a regular expression; only kernels whose name it matches anywhere.
        top: how many kernels, most time first; None for all.
        skip_warmup: first dispatches of each kernel and process that its figures leave out.
        targets: targets to analyse and join; empty for what the run itself kept.
        arch: the target to analyse for; None for that of the recorded device.
        request: how to analyse.
    """

    kernel: str | None = None
    top: int | None = None
    skip_warmup: int = 1
    targets: tuple[str, ...] = ()
    arch: str | None = None
    request: Request = field(default_factory=lambda: Request(()))


def profiled(
    path: Path,
    options: Options,
    collect: Collect,
    progress: Callable[[str], None] | None = None,
) -> Profile:
    """Reads a run's folder or a file and joins it with the results of static analysis.

    Raises:
        KinspectError: nothing can be read there, or a target of `options` is wrong.
    """
    return joined(read(path, progress), options, collect, progress)


def is_recording(path: Path) -> bool:
    """Tells whether a profiler wrote this file or folder, so that it is no target to analyse."""
    if path.name == manifest.NAME or (path / manifest.NAME).is_file():
        return True
    if path.suffix in _DATA:  # a report of ours may have such a name as well
        return path.is_file() and reading.knows(path)
    try:
        resolve(str(path))
    except KinspectError:
        return path.exists() and reading.knows(path)
    return False


def read(path: Path, progress: Callable[[str], None] | None = None) -> Recording:
    """Reads a run of kinspect by its manifest, anything else by its files."""
    if path.is_file() and path.name == manifest.NAME:
        path = path.parent
    if path.is_dir() and (path / manifest.NAME).is_file():
        from ..profile.running.run_reading import run_recording

        return run_recording(path, progress)
    return reading.read(path, progress)


def joined(
    recording: Recording,
    options: Options,
    collect: Collect,
    progress: Callable[[str], None] | None = None,
) -> Profile:
    """Groups a recording's dispatches and joins them to static reports.

    Raises:
        KinspectError: `options` name a target, arch or kernels that are not there.
    """
    if options.arch is not None:
        machines.load(options.arch)
    with limits.reading(recording.path, reading.size_of(Path(recording.path))):
        analysis = kernel_profiles.analyse(
            recording,
            skip_warmup=options.skip_warmup,
            only=options.kernel,
            top=options.top,
            arch=options.arch,
        )
    if options.kernel is not None and analysis.names and not analysis.kernels:
        raise _finds_none(options.kernel, analysis.names)
    notes = [*_emptiness(recording, analysis), *_added_up(recording), *_transfers(recording)]
    if analysis.left_out:
        noun = "kernel" if analysis.left_out == 1 else "kernels"
        notes.append(f"{analysis.left_out} {noun} left out by --kernel or --top")
    if progress is not None and (options.targets or _triton_cache(recording)):
        progress("analysing what was launched")
    analysed, failed, target = _static(recording, options, collect)
    errors = (*_nothing_read(recording, analysis), *failed)
    kernels, reports = join.join_kernels(analysis.kernels, analysed, recording.code_objects)
    kernels, reports = add_measured_lines(recording, kernels, reports)
    return Profile(
        recording=recording,
        kernels=kernels,
        reports=reports,
        static_target=target,
        total_ns=analysis.total_ns,
        notes=tuple(notes),
        errors=errors,
    )


def _finds_none(pattern: str, names: Sequence[str]) -> KinspectError:
    from ..explain.profile_view import short_name

    listed = [short_name(name, _MOST_NAME) for name in names[:_MOST_NAMED]]
    omitted = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return KinspectError(
        f"--kernel {pattern}: finds none of the recorded kernels",
        f"there is {', '.join(listed)}{omitted}",
    )


def _is_empty(recording: Recording, analysis: kernel_profiles.RecordedKernels) -> bool:
    return not analysis.names and not recording.samples and not recording.traces


def _emptiness(recording: Recording, analysis: kernel_profiles.RecordedKernels) -> list[str]:
    """A note on why nothing was recorded; not needed where damaged files are reported."""
    if not _is_empty(recording, analysis) or not recording.parts or recording.errors:
        return []
    return [f"0 dispatches were recorded: {LIKELY_EMPTY}"]


def _nothing_read(
    recording: Recording, analysis: kernel_profiles.RecordedKernels
) -> tuple[ErrorRecord, ...]:
    """An error where all files are of kinds without dispatches: API calls, copies, agents."""
    if not _is_empty(recording, analysis) or recording.parts or recording.errors:
        return ()
    hint = "name the folder of the run, or its kernel trace or counter files"
    message = "no dispatches in it, and no samples: files of this kind hold none"
    return (
        ErrorRecord(file=recording.path, kernel=None, stage="read", message=message, hint=hint),
    )


def _added_up(recording: Recording) -> list[str]:
    """A note where figures add up several recordings that are not one run of kinspect."""
    if (Path(recording.path) / manifest.NAME).is_file():
        return []
    table = recording.dispatches
    used = sorted(set(table.part))
    profilers = {recording.parts[part].format.split()[0]: None for part in used}
    if len(profilers) > 1:
        return [
            f"recordings of {len(profilers)} profilers lie here and are added up: import the "
            "folder of one run alone"
        ]
    timed = set(used)
    if len(timed) > 1:
        timed -= {table.part[row] for row in recording.values.dispatch}
    if len(timed) < 2:
        return []
    names = [recording.parts[part].name for part in sorted(timed)]
    listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [f"times of {len(names)} recordings are added up: {listed}; import one alone to tell"]


def _transfers(recording: Recording) -> list[str]:
    """A note on copies and fills, whose time is in no kernel's."""
    if not recording.transfers:
        return []
    from ..explain.profile_view import duration

    listed = [
        f"{transfer.name} {transfer.count:,}× {duration(transfer.total_ns)}"
        for transfer in recording.transfers[:_MOST_NAMED]
    ]
    omitted = len(recording.transfers) - len(listed)
    omitted_note = f" and {omitted} more kinds" if omitted else ""
    return [f"copies and fills, in no kernel's time: {', '.join(listed)}{omitted_note}"]


def _static(
    recording: Recording, options: Options, collect: Collect
) -> tuple[tuple[KernelReport, ...], tuple[ErrorRecord, ...], str | None]:
    """Reports on the launched kernels: of named targets, else of the run's own files."""
    arch = options.arch or device_arch(recording)
    targets = options.targets or _triton_cache(recording)
    reports: list[KernelReport] = []
    errors: list[ErrorRecord] = []
    if targets:
        request = replace(
            options.request, targets=tuple(targets), archs=(arch,) if arch is not None else ()
        )
        try:
            report = collect(request)
        except KinspectError as error:
            if options.targets:
                raise
            # The run's own cache may be unusable; the measured figures are still useful.
            errors.append(
                ErrorRecord(
                    file=targets[0],
                    kernel=None,
                    stage="analyse",
                    message=error.message,
                    hint=error.hint,
                )
            )
        else:
            reports += report.kernels
            errors += report.errors
    if not options.targets:
        for code_object in recording.code_objects:
            reports += _of_code_object(code_object, errors)
    by_id = {report.id: report for report in reports}
    return tuple(by_id.values()), tuple(errors), " ".join(targets) or None


def device_arch(recording: Recording) -> str | None:
    """The target of the devices that ran kernels; None where there are several."""
    used = {shape.agent for shape in recording.shapes}
    gpus = [agent for agent in recording.agents if agent.kind == "gpu"]
    archs = {agent.arch for agent in gpus if agent.key in used} or {a.arch for a in gpus}
    archs.discard(None)
    return archs.pop() if len(archs) == 1 else None


def _triton_cache(recording: Recording) -> tuple[str, ...]:
    """The folder of the run's own Triton cache, if it holds anything."""
    folder = Path(recording.path) / TRITON_CACHE
    return (str(folder),) if folder.is_dir() and any(folder.iterdir()) else ()


def _of_code_object(
    code_object: RecordedCodeObject, errors: list[ErrorRecord]
) -> Sequence[KernelReport]:
    """Reports on the kernels of a code object that the profiler saved."""
    if code_object.path is None:
        return ()
    path = Path(code_object.path)
    try:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        artifacts = {"hsaco": Artifact("hsaco", digest, len(data), path)}
        return analyze_code_object(data, Context(str(path), artifacts=artifacts))
    except (KinspectError, OSError) as error:
        message = error.message if isinstance(error, KinspectError) else str(error)
        hint = error.hint if isinstance(error, KinspectError) else "run the profiler again"
        errors.append(
            ErrorRecord(file=str(path), kernel=None, stage="analyse", message=message, hint=hint)
        )
        return ()
    except Exception as error:
        bug = unforeseen(error)
        errors.append(
            ErrorRecord(
                file=str(path), kernel=None, stage="analyse", message=bug.message, hint=bug.hint
            )
        )
        return ()
