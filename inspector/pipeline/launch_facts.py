"""Gathers the facts on a kernel's launch that its code does not state: LDS, workgroup, options."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..metrics.subject import Facts
from ..model import Function, LaunchOrigin, LdsOrigin, Machine, TtgirModule, Variant

if TYPE_CHECKING:
    from .analysis_options import Context


def launch_facts(
    function: Function, machine: Machine | None, module: TtgirModule | None, context: Context
) -> Facts:
    """Returns what is known of a kernel and its launch besides its code."""
    overrides, metadata, variant = context.overrides, context.metadata or {}, context.variant
    lds_bytes, lds_from, lds_note = _lds(module, context)
    wave_size = function.resources.wave_size or (machine.wave_sizes[0] if machine else None)
    workgroup_size, workgroup_shape, waves_from = _workgroup(wave_size, context)
    is_triton = bool(context.metadata) or variant is not None
    return Facts(
        lds_bytes=lds_bytes,
        lds_from=lds_from,
        lds_note=lds_note,
        workgroup_size=workgroup_size,
        workgroup_shape=workgroup_shape,
        waves_from=waves_from,
        llvm=overrides.llvm or ("triton" if is_triton else "22"),
        cu_mode=overrides.cu_mode,
        grid=overrides.grid or (variant.grid if variant is not None else None),
        options={**(variant.options if variant is not None else {}), **metadata},
        constexprs=variant.constexprs if variant is not None else {},
        unspecialised=variant.unspecialised if variant is not None else None,
        values=variant.values if variant is not None else None,
        generator=variant.generator if variant is not None else None,
        signature=variant.signature if variant is not None else {},
        attributes=variant.attrs if variant is not None else {},
        time_us=overrides.time_us,
        dynamic_sizes=variant is not None and _has_dynamic_sizes(variant),
    )


def _lds(module: TtgirModule | None, context: Context) -> tuple[int | None, LdsOrigin | None, str]:
    """Returns the bytes of LDS besides what the code states, who states them, and a note on it."""
    metadata, typed = context.metadata or {}, context.overrides.lds_bytes
    in_module = module.attributes.get("shared") if module is not None else None
    known: tuple[int | None, LdsOrigin | None, str] = None, None, ""
    if isinstance(metadata.get("shared"), int):
        known = metadata["shared"], "triton", "Triton's metadata"
    elif isinstance(in_module, int):
        known = in_module, "triton", "Triton's ttg.shared"
    if typed is None or (known[0] is not None and typed < known[0]):
        return known  # a launch cannot take away what the code needs
    return typed, "typed", "--lds"


def _workgroup(
    wave_size: int | None, context: Context
) -> tuple[int | None, tuple[int, int, int] | None, LaunchOrigin | None]:
    """Returns the work-items of a workgroup, its shape (x, y, z), and who states them."""
    overrides, metadata = context.overrides, context.metadata or {}
    if overrides.workgroup is not None:
        return math.prod(overrides.workgroup), overrides.workgroup, "typed"
    if wave_size is None:
        return None, None, None
    if overrides.waves_per_workgroup is not None:
        return overrides.waves_per_workgroup * wave_size, None, "typed"
    if isinstance(metadata.get("num_warps"), int):
        size = metadata["num_warps"] * wave_size
        return size, (size, 1, 1), "triton"
    return None, None, None


def _has_dynamic_sizes(variant: Variant) -> bool:
    """Tells whether Inductor wrote a kernel for sizes without a known divisor: see `Facts`."""
    return variant.generator == "inductor" and any(
        kind in ("i32", "i64") and "tt.divisibility" not in variant.attrs.get(name, {})
        for name, kind in variant.signature.items()
    )
