"""Turns a recording into a profile: groups it, analyses its kernels, joins both.

Notes on the figures of a profile, and the reasons of an empty one. Static analysis of what a
recording's program launched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ..base import limits
from ..base.errors import KinspectError, unforeseen
from ..base.long_names import shortened
from ..base.named_files import MOST_BYTES, opened_named
from ..capture.targets import confined
from ..explain.quantities import and_more, duration
from ..model import Artifact, ErrorRecord, KernelReport, Report
from ..model.recording import KernelProfile, Profile, Recording
from ..profile import join, kernel_profiles, reading
from ..profile.kernel_profiles import RecordedKernels
from ..profile.landing import add_measured_lines
from ..profile.running import manifest
from .analysis import analyze_code_object
from .analysis_options import Context
from .jobs import Request
from .recording_input import read


class Options(Struct, frozen=True):
    """The part of a recording that is profiled, and how its kernels are analysed.

    Args:
        kernel: a regular expression; only kernels whose name it matches anywhere.
        top: how many kernels, most time first; None for all.
        skip_warmup: first dispatches of each kernel and process that its figures leave out.
        targets: targets to analyse and join; empty for what the run itself kept.
        arch: the target to analyse for; None for that of the recorded device.
    """

    kernel: str | None = None
    top: int | None = None
    skip_warmup: int = 1
    targets: tuple[str, ...] = ()
    arch: str | None = None
    request: Request = field(default_factory=lambda: Request(()))


def profile_of(path: Path, options: Options, collect: Collect) -> Profile:
    """Reads a run's folder or a file and joins it with the results of static analysis.

    Raises:
        KinspectError: nothing can be read there, or `options` name a target, arch or kernels that
            are not there.
    """
    return _profile(read(path), options, collect)


def _profile(recording: Recording, options: Options, collect: Collect) -> Profile:
    """Groups a recording's dispatches and joins them to static reports."""
    with limits.reading(recording.path, reading.size_of(Path(recording.path))):
        recorded = kernel_profiles.analyse(
            recording,
            skip_warmup=options.skip_warmup,
            only=options.kernel,
            top=options.top,
            arch=options.arch,
        )
    if options.kernel is not None and recorded.names and not recorded.kernels:
        raise no_such_kernel(options.kernel, recorded.names)
    request = _as_recorded(options.request, recording, recorded.kernels)
    code = analyse_launched(recording, request, collect, targets=options.targets, arch=options.arch)
    kernels, reports = join.join_kernels(recorded.kernels, code.reports, recording.code_objects)
    kernels, reports = add_measured_lines(recording, kernels, reports)
    return Profile(
        recording=recording,
        kernels=kernels,
        reports=reports,
        static_target=code.target,
        total_ns=recorded.total_ns,
        notes=tuple(notes_on(recording, recorded)),
        errors=(*no_dispatches(recording, recorded), *code.errors),
    )


def _as_recorded(
    request: Request, recording: Recording, kernels: Sequence[KernelProfile]
) -> Request:
    """A request whose predicted times are of the recorded device and, for code, launch."""
    time = request.analysis.time
    if time is None:
        return request
    products = {agent.product for agent in recording.agents if agent.kind == "gpu"}
    if time.gpu is None and not time.products and len(products) == 1:
        time = replace(time, gpu=products.pop())
    overrides = request.overrides
    shape = kernels[0].shape if len(kernels) == 1 else None
    if time.arguments is not None and shape is not None and shape.grid and shape.workgroup:
        sizes = zip(shape.grid, shape.workgroup, strict=True)
        x, y, z = (-(-items // size) if size else 0 for items, size in sizes)
        overrides = replace(
            overrides,
            grid=overrides.grid or ((x, y, z) if x and y and z else None),
            workgroup=overrides.workgroup or shape.workgroup,
            lds_bytes=shape.lds_bytes if overrides.lds_bytes is None else overrides.lds_bytes,
        )
    return replace(request, overrides=overrides, analysis=replace(request.analysis, time=time))


_MOST_NAMED = 8
"""How many kernels an error names where --kernel matches none; how many kinds of copies a note."""
_MOST_PARTS = 4
"""How many parts a note names."""
_MOST_NAME = 60
"""Characters of a kernel's name."""
_LIKELY_EMPTY = (
    "the program launched nothing on the GPU; its kernels ran in a process that was killed before "
    "it could write; the profiler was told of kernels that it has not; or it lacks the right to "
    "count"
)
"""The usual reasons for a recording without dispatches."""


def notes_on(recording: Recording, kernels: RecordedKernels) -> Iterator[str]:
    """Yields what limits the figures of a profile."""
    # Damaged files are reported as errors, and are reason enough.
    if _is_empty(recording, kernels) and recording.parts and not recording.errors:
        yield f"0 dispatches were recorded: {_LIKELY_EMPTY}"
    yield from _mixed_recordings(recording)
    if recording.transfers:
        transfers = [
            f"{transfer.name} {transfer.count:,}× {duration(transfer.total_ns)}"
            for transfer in recording.transfers
        ]
        yield f"copies and fills, in no kernel's time: {and_more(transfers, _MOST_NAMED, 'kinds')}"
    if kernels.left_out:
        noun = "kernel" if kernels.left_out == 1 else "kernels"
        yield f"{kernels.left_out} {noun} left out by --kernel or --top"


def no_dispatches(recording: Recording, kernels: RecordedKernels) -> tuple[ErrorRecord, ...]:
    """An error where all files are of kinds without dispatches: API calls, copies, agents."""
    if not _is_empty(recording, kernels) or recording.parts or recording.errors:
        return ()
    hint = "name the folder of the run, or its kernel trace or counter files"
    message = "no dispatches in it, and no samples: files of this kind hold none"
    return (
        ErrorRecord(file=recording.path, kernel=None, stage="read", message=message, hint=hint),
    )


def no_such_kernel(pattern: str, names: Sequence[str]) -> KinspectError:
    """Returns the error of a --kernel that matches none of the recorded names."""
    listed = and_more([shortened(name, _MOST_NAME) for name in names], _MOST_NAMED)
    return KinspectError(
        f"--kernel {pattern}: matches none of the recorded kernels", f"there is {listed}"
    )


def _is_empty(recording: Recording, kernels: RecordedKernels) -> bool:
    return not kernels.names and not recording.samples and not recording.traces


def _mixed_recordings(recording: Recording) -> Iterator[str]:
    """Yields a note where figures add up several recordings that are not one run of kinspect."""
    if (Path(recording.path) / manifest.NAME).is_file():
        return
    table = recording.dispatches
    used = set(table.part)
    profilers = {recording.parts[part].profiler for part in used}
    if len(profilers) > 1:
        yield (
            f"recordings of {len(profilers)} profilers lie here and are added up: import the "
            "folder of one run alone"
        )
        return
    timed = used
    if len(timed) > 1:
        timed = used - {table.part[row] for row in recording.values.dispatch}
    if len(timed) > 1:
        names = [recording.parts[part].name for part in sorted(timed)]
        yield (
            f"times of {len(names)} recordings are added up: {and_more(names, _MOST_PARTS)}; "
            "import one alone to tell"
        )


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
