"""Captures the variants of a target, for `analyze`, `passes`, `sweep` and `--triton`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .. import machines
from ..base import limits, named_files
from ..base.errors import KinspectError, unforeseen
from ..base.status import doing
from ..capture.options import CaptureOptions, CapturePlan, choosing, select_cases
from ..capture.records import CapturedVariant, CaptureEnd
from ..capture.script import GENERATED, capture_file, mode_of
from ..capture.targets import Kind, Target
from ..capture.triton_entries import stated_beside
from ..model import ErrorRecord, Variant
from .emulator_command import device_facts, emulator_command, why_not_emulated
from .error_records import target_record
from .inputs import read_text
from .jobs import Request, patterns_of
from .naming import label_of, matches
from .sweep_point import at_point, capture_at_point

if TYPE_CHECKING:
    from ..compile.pool import Compiler


COMPILED: frozenset[Kind] = frozenset({"script", "ttir", "inductor", "trace"})
"""Kinds of targets that are compiled; the others are only read."""
_MOST_NAMED = 8
"""How many names an error lists at most."""
_MLIR_SOURCE = re.compile(r'\bloc\("([^"\n]+\.py)":')


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
    """Yields what `captured` does, with the values of the target itself; errors end it."""
    try:
        if target.fault is not None:
            raise target.fault
        archs = target.archs or request.archs or (machines.DEFAULT_ARCH,)
        version = compiler.toolchain().triton_version
        if target.kind in ("ttir", "ttgir"):
            with _reading(target):
                variants = _of_ttir(target, archs, patterns_of(target, request))
            yield from map(CapturedVariant, variants)
            yield CaptureEnd(tuple(variants), (), ())
            return
        if target.kind == "trace":
            # Parsed strictly here, to report faults; the guest reads what it can.
            from ..capture.trace import read_trace

            with _reading(target):
                read_trace(target.path)
        yield from _from_guest(target, request, compiler, archs, version)
    except KinspectError as error:
        yield _failed(target, error)
    except OSError as error:
        message = f"{error.filename or target.path}: {error.strerror or error}"
        yield _failed(target, KinspectError(message, "check permissions and space"))
    except Exception as error:
        # A bug in the capture of one target must not take the others with it.
        yield _failed(target, unforeseen(error))


def _failed(target: Target, error: KinspectError) -> CaptureEnd:
    return CaptureEnd((), (target_record(target, "capture", error),), ())


def _from_guest(
    target: Target, request: Request, compiler: Compiler, archs: tuple[str, ...], version: str
) -> Iterator[CapturedVariant | CaptureEnd]:
    """Yields what the user's interpreter sends of a script, a trace or Inductor's output."""
    mode = {"inductor": "inductor", "trace": "trace"}.get(target.kind)
    patterns = patterns_of(target, request)
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
            if isinstance(item, CaptureEnd) and item.errors:
                refusal = compiler.store.refusal(folder)
                if refusal is not None:  # a script can fail on a full disk without saying so
                    raise compiler.store.unwritable(refusal)
            yield item


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
