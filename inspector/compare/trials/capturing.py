"""Variants of a kernel with other constexprs: its file is captured again with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...base.errors import KinspectError
from ...capture.records import CapturedVariant, CaptureEnd
from ...capture.script import mode_of
from ...capture.targets import Target
from ...model import Change, ErrorRecord, KernelReport, Variant
from ...pipeline.capturing import captured
from ...pipeline.jobs import Request
from ...pipeline.naming import label_of
from .argument_changes import (
    ANNOTATION,
    SPECIALISING,
    specialised,
    with_constant,
    without_annotation,
)
from .source_changes import with_source_changes
from .space import is_split, of_program_ids

if TYPE_CHECKING:
    from ...compile.pool import Compiler

_LEAST_SECONDS = 1.0
"""That a script is given, whatever is left of the trials' time."""


def point_of(kernel: KernelReport, changes: Sequence[Change], request: Request) -> dict[str, Any]:
    """The constexprs of a launch with changes; {} where they change none.

    Those of its autotuner's configuration and of the request's point are among them.
    """
    variant = kernel.variant
    assert variant is not None
    own = {
        name: variant.constexprs[name]
        for name in (*(variant.tuning or {}), *(axis.name for axis in request.point))
        if name in variant.constexprs
    }
    changed = {change.name: change.value for change in changes if change.kind == "constexpr"}
    return {**own, **changed} if changed else {}


def changed_variant(variant: Variant, changes: Sequence[Change], base: Variant) -> Variant:
    """A variant with the options, environment and source of changes."""
    options = {change.name: change.value for change in changes if change.kind == "option"}
    environment = {c.name: str(c.value) for c in changes if c.kind == "environment"}
    for change in changes:
        if change.kind == "source" and change.name in SPECIALISING:
            variant = specialised(variant, change.name)
        elif change.kind == "source" and change.name == ANNOTATION:
            variant = without_annotation(variant, change.arguments)
        elif change.kind == "argument" and isinstance(change.value, int):
            ttir = with_constant(variant.ttir, change.name, change.value)
            variant = replace(variant, ttir=ttir)
    return replace(
        variant,
        ttir=with_source_changes(variant.ttir, changes),
        options={**base.options, **options},
        environment={**base.environment, **environment},
    )


def other_work(variant: Variant, base: Variant) -> str:
    """Why a launch with other constexprs does not do the kernel's own work; "" where it may.

    A program that takes a larger tile by its number does more; there have to be fewer of them.
    """
    if base.grid is None or variant.grid != base.grid:
        return ""
    changed = [n for n, v in variant.constexprs.items() if base.constexprs.get(n) != v]
    is_alike = of_program_ids(variant.ttir) == of_program_ids(base.ttir)
    if is_alike and not any(map(is_split, changed)):
        return ""
    return f"the grid does not follow {', '.join(changed)}"


def capture_pattern(base: Variant, target: Target, request: Request) -> str:
    """What selects a kernel when its file is captured again: its case where the file states any.

    A script's specialisations have labels only once all of them are known.
    """
    try:
        mode = mode_of(target.path, request.capture)
    except KinspectError:
        return base.kernel
    states_cases = mode == "cases" and request.capture.signature is None
    return label_of(base) if states_cases else base.kernel


def capture_points(
    *,
    pattern: str,
    arch: str,
    target: Target,
    points: Sequence[Mapping[str, Any]],
    like: Mapping[str, int],
    request: Request,
    compiler: Compiler,
    seconds: float,
) -> tuple[list[Variant], tuple[ErrorRecord, ...]]:
    """Captures the specialisations of a kernel with other constexprs.

    `like`: the whole numbers that its own launch passes.

    Returns:
        The variants, and the errors of the capture.
    """
    capture = replace(
        request.capture,
        points=tuple(points),
        like=like,
        axes={},
        all_configs=False,
        explore=0,
        time_limit=max(_LEAST_SECONDS, min(seconds, request.capture.time_limit)),
    )
    narrowed = replace(request, kernel=pattern, archs=(arch,), capture=capture, point=())
    variants: list[Variant] = []
    errors: tuple[ErrorRecord, ...] = ()
    for item in captured(replace(target, kernel=None, archs=()), narrowed, compiler):
        if isinstance(item, CapturedVariant):
            variants.append(item.variant)
        elif isinstance(item, CaptureEnd):
            errors = item.errors
    return variants, errors


def most_like(
    base: Variant, point: Mapping[str, Any], variants: Sequence[Variant]
) -> Variant | None:
    """The variant of a point whose other constexprs differ least from a kernel's own; or None."""
    fitting = [
        variant
        for variant in variants
        if variant.kernel == base.kernel
        and variant.arch == base.arch
        and variant.signature == base.signature
        and variant.attrs == base.attrs
        and all(variant.constexprs.get(name) == value for name, value in point.items())
    ]

    def distance(variant: Variant) -> int:
        names = {*variant.constexprs, *base.constexprs} - set(point)
        return sum(variant.constexprs.get(n) != base.constexprs.get(n) for n in names)

    best = min(fitting, key=distance, default=None)
    return replace(best, case=base.case) if best is not None else None
