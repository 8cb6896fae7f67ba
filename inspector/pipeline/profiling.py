"""Turns a recording into a profile: groups it, analyses its kernels, joins both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ..base import limits
from ..model.recording import KernelProfile, Profile, Recording
from ..profile import join, kernel_profiles, reading
from ..profile.landing import add_measured_lines
from . import profiling_notes
from .jobs import Request
from .profiled_code import Collect, analyse_launched
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
        raise profiling_notes.no_such_kernel(options.kernel, recorded.names)
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
        notes=tuple(profiling_notes.notes_on(recording, recorded)),
        errors=(*profiling_notes.no_dispatches(recording, recorded), *code.errors),
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
