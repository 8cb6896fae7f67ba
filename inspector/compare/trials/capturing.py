"""Variants of a kernel with other constexprs: its file is captured again with them.

Options and environment need no capture: the same TTIR is compiled with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...capture.records import CapturedVariant, CaptureEnd
from ...capture.script import mode_of
from ...capture.targets import Target
from ...errors import KinspectError
from ...model import Change, ErrorRecord, KernelReport, Variant
from ...pipeline.capturing import captured
from ...pipeline.jobs import Request
from ...pipeline.naming import label_of

if TYPE_CHECKING:
    from ...compile.pool import Compiler

MIN_SECONDS = 1.0


def point_of(kernel: KernelReport, changes: Sequence[Change]) -> dict[str, Any]:
    """The constexprs of a launch with changes: those of its autotuner's configuration as well."""
    variant = kernel.variant
    assert variant is not None
    own = {
        name: variant.constexprs[name]
        for name in variant.tuning or {}
        if name in variant.constexprs
    }
    changed = {change.name: change.value for change in changes if change.kind == "constexpr"}
    return {**own, **changed} if changed else {}


def changed_variant(variant: Variant, changes: Sequence[Change], base: Variant) -> Variant:
    """A variant with the options and environment of changes.

    Args:
        variant: the kernel with the constexprs of the changes.
        changes: what is changed.
        base: the unchanged kernel, whose other options stay.
    """
    options = {change.name: change.value for change in changes if change.kind == "option"}
    environment = {c.name: str(c.value) for c in changes if c.kind == "environment"}
    return replace(
        variant,
        options={**base.options, **options},
        environment={**base.environment, **environment},
        passed=None,
    )


def capture_points(
    kernel: KernelReport,
    target: Target,
    points: Sequence[Mapping[str, Any]],
    request: Request,
    compiler: Compiler,
    seconds: float,
) -> tuple[list[Variant | None], tuple[ErrorRecord, ...]]:
    """Captures a kernel with other constexprs.

    Args:
        kernel: the kernel.
        target: its file.
        points: constexprs of each variant.
        request: the run.
        compiler: lends the process that runs the user's code.
        seconds: that a run of the file may take.

    Returns:
        For each point the variant that is otherwise most like the kernel's; None where there is
        none. And the errors of the capture.
    """
    base = kernel.variant
    assert base is not None
    capture = replace(
        request.capture,
        points=tuple(points),
        axes={},
        all_configs=False,
        arguments=False,
        explore=0,
        time_limit=max(MIN_SECONDS, min(seconds, request.capture.time_limit)),
    )
    try:
        states_cases = mode_of(target.path, capture) == "cases" and capture.signature is None
    except KinspectError:
        states_cases = False
    pattern = label_of(base) if states_cases else base.kernel
    narrowed = replace(request, kernel=pattern, archs=(base.arch,), capture=capture)
    variants: list[Variant] = []
    errors: tuple[ErrorRecord, ...] = ()
    for item in captured(replace(target, kernel=None, archs=()), narrowed, compiler):
        if isinstance(item, CapturedVariant):
            variants.append(item.variant)
        elif isinstance(item, CaptureEnd):
            errors = item.errors
    return [_most_like(base, point, variants) for point in points], errors


def _most_like(
    base: Variant, point: Mapping[str, Any], variants: Sequence[Variant]
) -> Variant | None:
    """The variant of a point whose other constexprs differ least from the kernel's own."""
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
