"""Captures the variants of a target, for `analyze`, `passes`, `sweep` and `--triton`.

The emulator's process: the command that starts it, and the targets that it supports.

Opens one point of a sweep: values of parameters and options in place of a target's own.

Parameters of kernels go through the front end, as in a sweep (`CaptureOptions.axes`); options that
only the backend reads are set on the captured variants.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .. import machines
from ..base import limits, named_files
from ..base.errors import KinspectError, unforeseen
from ..base.programs import python_child
from ..base.status import doing
from ..capture.options import CaptureOptions, CapturePlan, choosing, select_cases
from ..capture.records import CapturedVariant, CaptureEnd
from ..capture.script import GENERATED, capture_file, mode_of
from ..capture.sweep_axes import Axis, backend_axes, check_varied, refused_name, unresolved_names
from ..capture.targets import Kind, Target
from ..capture.triton_entries import stated_beside
from ..model import ErrorRecord, Machine, Variant
from .inputs import read_text
from .jobs import Request, patterns_of
from .naming import label_of, matches, target_record

if TYPE_CHECKING:
    from ..compile.pool import Compiler


COMPILED: frozenset[Kind] = frozenset({"script", "ttir", "inductor", "trace"})
"""Kinds of targets that are compiled; the others are only read."""
_MOST_NAMED = 8
"""How many names an error lists at most."""


def captured(
    target: Target, request: Request, compiler: Compiler
) -> Iterator[CapturedVariant | CaptureEnd]:
    """Yields the requested specialisations that a target would launch, as they come.

    Yields:
        A `CapturedVariant` for each specialisation, then one `CaptureEnd`. If the target cannot be
        captured at all, that holds the error.

    Raises:
        KinspectError: the request's point names a parameter that cannot be set.
    """
    point, file = request.point, str(target.path)
    if not point:
        yield from _captured(target, request, compiler)
        return
    for item in _captured(target, capture_at_point(request), compiler):
        if isinstance(item, CapturedVariant):
            yield CapturedVariant(at_point(item.variant, point, file))
        else:
            variants = tuple(at_point(variant, point, file) for variant in item.variants)
            yield replace(item, variants=variants)


def _captured(
    target: Target, request: Request, compiler: Compiler
) -> Iterator[CapturedVariant | CaptureEnd]:
    """Yields what `captured` does, with the values of the target itself."""
    archs = target.archs or request.archs or (machines.DEFAULT_ARCH,)
    patterns = patterns_of(target, request)
    try:
        if target.fault is not None:
            raise target.fault
        version = compiler.toolchain().triton_version
        if target.kind in ("ttir", "ttgir"):
            with _reading(target):
                variants = _of_ttir(target, archs, patterns)
            yield from map(CapturedVariant, variants)
            yield CaptureEnd(tuple(variants), (), ())
            return
        mode = {"inductor": "inductor", "trace": "trace"}.get(target.kind)
        if mode == "trace":
            # Parsed strictly here, to report faults; the guest reads what it can.
            from ..capture.trace import read_trace

            with _reading(target):
                read_trace(target.path)
        with compiler.worker() as worker, compiler.store.stage() as folder:
            plan = CapturePlan(
                path=target.path,
                mode=mode or mode_of(target.path, request.capture),
                archs=archs,
                devices={arch: device_facts(machines.load(arch)) for arch in archs},
                patterns=patterns,
                folder=folder,
                options=_capture_options(request),
                triton_version=version,
                generated=compiler.store.root / GENERATED,
                emulator=tuple(emulator_command()),
                not_emulated={arch: why for arch in archs if (why := why_not_emulated(arch))},
            )
            doing(f"{'running' if plan.mode == 'script' else 'reading'} {target.path.name}")
            for item in _chosen(capture_file(worker, plan), patterns, target):
                if mode is None and isinstance(item, CapturedVariant):
                    named_files.allow_run(*_sources_of(item.variant))
                refusal = None
                if isinstance(item, CaptureEnd) and item.errors:
                    refusal = compiler.store.refusal(folder)
                if refusal is not None:  # a script can fail on a full disk without saying so
                    raise compiler.store.unwritable(refusal)
                yield item
    except KinspectError as error:
        yield CaptureEnd((), (target_record(target, "capture", error),), ())
    except OSError as error:
        path = error.filename or target.path
        unreadable = KinspectError(
            f"{path}: {error.strerror or error}", "check permissions and space"
        )
        yield CaptureEnd((), (target_record(target, "capture", unreadable),), ())
    except Exception as error:
        # A bug in the capture of one target must not take the others with it.
        yield CaptureEnd((), (target_record(target, "capture", unforeseen(error)),), ())


_MLIR_SOURCE = re.compile(r'\bloc\("([^"\n]+\.py)":')


def _sources_of(variant: Variant) -> Iterator[str]:
    """The files that a kernel of a script, and what it calls, comes from."""
    if variant.source is not None:
        yield variant.source.file
    yield from {match[1] for match in _MLIR_SOURCE.finditer(variant.ttir)}


def _capture_options(request: Request) -> CaptureOptions:
    """The options of a capture; --time-limit below its default bounds each run, too."""
    if request.time_limit >= limits.COMPILE_SECONDS:
        return request.capture
    seconds = min(request.capture.time_limit, request.time_limit)
    return replace(request.capture, time_limit=seconds)


def _reading(target: Target) -> AbstractContextManager[None]:
    """Limits time and memory for reading a target in this process."""
    try:
        size = target.path.stat().st_size
    except OSError:
        size = 0  # reported when it is read
    return limits.reading(str(target.path), size)


def variants_of(
    target: Target, request: Request, compiler: Compiler
) -> tuple[list[Variant], list[ErrorRecord]]:
    """Returns all requested variants of a target, and the errors of its capture."""
    for item in captured(target, request, compiler):
        if isinstance(item, CaptureEnd):
            return list(item.variants), list(item.errors)
    return [], []


def check_names(variants: Sequence[Variant], request: Request, compiler: Compiler) -> None:
    """Refuses a point of which a name is neither an option nor a parameter of these kernels.

    Raises:
        KinspectError: there is one.
    """
    if request.point:
        names = PointNames(request.point, compiler.toolchain().options)
        for variant in variants:
            names.saw(variant)
        names.check(request.targets)


def _chosen(
    items: Iterator[CapturedVariant | CaptureEnd], patterns: Sequence[str], target: Target
) -> Iterator[CapturedVariant | CaptureEnd]:
    """Yields the items that match; if a pattern names a case, only once all labels are known."""
    by_label = select_cases(patterns)
    captures: list[Variant] = []
    for item in items:
        if isinstance(item, CapturedVariant):
            captures.append(item.variant)
            if not by_label:
                yield item
            continue
        if not by_label:
            yield item
            continue
        # By the label, or by the case that the file itself names: a sweep adds its values to that.
        pairs = [
            (raw, named)
            for raw, named in zip(captures, item.variants, strict=True)
            if matches(patterns, named.kernel, named) or matches(patterns, raw.kernel, raw)
        ]
        matching = tuple(named for _, named in pairs)
        errors = item.errors
        if not matching and item.variants:
            names = [label_of(v) for v in item.variants]
            listed = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
            message = f"no kernel matches {' and '.join(map(repr, patterns))}"
            command = choosing(str(target.path), patterns, names)
            no_match = KinspectError(message, f"there is {listed}: {command}")
            errors = (*errors, target_record(target, "capture", no_match))
        yield from (CapturedVariant(raw) for raw, _ in pairs)
        yield replace(item, variants=matching, errors=errors)


def device_facts(machine: Machine) -> dict[str, object]:
    """Returns the properties of the GPU that a script may query; see `guest/world/device.py`."""
    return {
        "arch": machine.arch,
        "wave_size": machine.wave_sizes[0],
        "name": f"AMD {machine.name.split(',')[0]}",
        "compute_units": machine.cus,
        "lds_bytes": machine.lds_max,
        "clock_khz": machine.clock_mhz * 1000 if machine.clock_mhz is not None else None,
    }


def _of_ttir(target: Target, archs: Sequence[str], patterns: Sequence[str]) -> list[Variant]:
    variants = [_ttir_variant(target, arch) for arch in archs]
    matching = [v for v in variants if matches(patterns, v.kernel, v)]
    if not matching:
        words = " and ".join(patterns)
        command = choosing(str(target.path), patterns, [variants[0].kernel])
        hint = f"it has {variants[0].kernel}: {command}"
        raise KinspectError(f"no kernel matches {words}", hint)
    return matching


def _ttir_variant(target: Target, arch: str) -> Variant:
    from ..capture.ttir import variant_of

    metadata = stated_beside(target.siblings)
    return variant_of(read_text(target.path), str(target.path), machines.load(arch), metadata)


FAMILIES = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")
"""Prefixes of the gfx names that the emulator supports."""


def emulator_command(profile: Path | None = None, processes: int | None = None) -> list[str]:
    """Returns the command of the process that executes launches, for a guest to start.

    Args:
        processes: how many processes may execute a launch; None for one per core.
    """
    command = python_child("kinspect.inspector.pipeline.emulating")
    if profile is not None:
        command += ["--profile", str(profile)]
    return command if processes is None else [*command, "--processes", str(processes)]


def why_not_emulated(arch: str) -> str:
    """Returns why launches for a target cannot be executed here; "" if they can."""
    if not arch.startswith(FAMILIES):
        return f"the emulator does not know {arch}"
    return ""


ALREADY_COMPILED = (
    "it is compiled already, so that --set cannot change it",
    "name the .py file or the .ttir it was made from",
)
"""Message and hint for a target that is only read."""


def capture_at_point(request: Request) -> Request:
    """The request with which kernels are captured at its point.

    Of an autotuned launch whose parameters the point sets that is the first configuration, with the
    point's values in place of its own, as a sweep without --autotune has it.
    """
    axes = {axis.name: axis.values for axis in request.point}
    return replace(request, capture=replace(request.capture, axes=axes))


def at_point(variant: Variant, point: Sequence[Axis], file: str) -> Variant:
    """A captured variant with the point's backend options.

    Raises:
        KinspectError: the point names a parameter that the capture could not set.
    """
    check_varied(point, variant, file)
    options = {axis.name: axis.values[0] for axis in backend_axes(point, variant)}
    return replace(variant, options={**variant.options, **options}) if options else variant


class PointNames:
    """Which names of a point are known, as more and more kernels are."""

    def __init__(self, point: Sequence[Axis], options: Collection[str]) -> None:
        self._point = point
        self._options = options
        self._parameters: dict[str, None] = {}

    def saw(self, variant: Variant) -> None:
        """Takes the names of a kernel's parameters."""
        self._parameters.update(dict.fromkeys(variant.signature))

    @property
    def all_known(self) -> bool:
        """Whether every name is an option or a parameter of a kernel that was seen."""
        return not self._unknown()

    def check(self, files: Iterable[str]) -> None:
        """Refuses an unknown name once all kernels are known.

        Raises:
            KinspectError: there is one, and kernels were seen; else their errors say why not.
        """
        unknown = self._unknown()
        if unknown and self._parameters:
            where = ", ".join(dict.fromkeys(files))
            raise refused_name(unknown[0], self._options, list(self._parameters), where)

    def _unknown(self) -> list[str]:
        return unresolved_names(self._point, self._options, self._parameters.keys())
