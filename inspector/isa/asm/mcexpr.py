"""Functions in the expressions of AMDGPU assembly: LLVM's `AMDGPUMCExpr`.

LLVM >= 20 prints calls where a figure of a kernel depends on functions that it has not compiled
yet: `totalnumvgprs(f.num_agpr, max(32, g.num_vgpr))`. The names in parentheses are LLVM's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from .target import AsmTarget


def _align_to(value: int, granule: int) -> int | None:
    """`value` rounded up to a multiple of `granule`."""
    return -(-value // granule) * granule if granule > 0 else None


def call(name: str, arguments: Sequence[int], target: AsmTarget) -> int | None:
    """The value of a call; None for an unknown function and for arguments that make no sense."""
    function = _CALLS.get(name)
    return None if function is None else function(arguments, target)


def _align(arguments: Sequence[int], target: AsmTarget) -> int | None:
    return _align_to(*arguments) if len(arguments) == 2 else None


def _or(arguments: Sequence[int], target: AsmTarget) -> int | None:
    result = 0
    for value in arguments:
        result |= value
    return result


def _total_vgprs(arguments: Sequence[int], target: AsmTarget) -> int | None:
    """Registers of both kinds in the file (AMDGPU::getTotalNumVGPRs)."""
    if len(arguments) != 2:
        return None
    agprs, vgprs = arguments
    if agprs == 0 or target.unified_registers is False:
        return max(agprs, vgprs)
    if target.unified_registers is None:
        return None
    return -(-vgprs // 4) * 4 + agprs  # AGPRs start at a multiple of 4 in a unified file


def _extra_sgprs(arguments: Sequence[int], target: AsmTarget) -> int | None:
    """SGPRs for VCC, flat scratch and XNACK (AMDGPU::IsaInfo::getNumExtraSGPRs)."""
    if len(arguments) != 3 or target.major is None:
        return None
    vcc, flat_scratch, xnack = arguments
    extra = 2 if vcc else 0
    if target.major >= 10:
        return extra
    if target.major < 8:
        return 4 if flat_scratch else extra
    if xnack:
        extra = 4
    return 6 if flat_scratch or target.architected_flat_scratch else extra


def _waves_by_vgprs(vgprs: int, granule: int, total: int, max_waves: int) -> int | None:
    """Waves per EU that the VGPRs allow (IsaInfo::getNumWavesPerEUWithNumVGPRs)."""
    if vgprs < granule:
        return max_waves
    rounded = _align_to(vgprs, granule)
    return None if not rounded else min(max(total // rounded, 1), max_waves)


# IsaInfo::getOccupancyWithNumSGPRs of LLVM <= 22: (largest SGPR count, waves per EU).
_SGPR_STEPS_VI = ((80, 10), (88, 9), (100, 8))
_SGPR_STEPS_SI = ((48, 10), (56, 9), (64, 8), (72, 7), (80, 6))
_GENERATION_VI, _GENERATION_GFX10 = 7, 9


def _waves_by_sgprs(sgprs: int, max_waves: int, generation: int) -> int:
    """Waves per EU that the SGPRs allow; from gfx10 on they limit nothing."""
    if generation >= _GENERATION_GFX10:
        return max_waves
    recent = generation >= _GENERATION_VI
    steps, fewest = (_SGPR_STEPS_VI, 7) if recent else (_SGPR_STEPS_SI, 5)
    return next((waves for limit, waves in steps if sgprs <= limit), fewest)


def _occupancy(arguments: Sequence[int], target: AsmTarget) -> int | None:
    """Waves per EU by the arguments that LLVM 20 to 22, or the LLVM in Triton 3.9, prints."""
    by_sgprs: int | None
    if len(arguments) == 7:  # LLVM 20 to 22
        max_waves, granule, total, generation, waves, sgprs, vgprs = arguments
        by_sgprs = _waves_by_sgprs(sgprs, max_waves, generation) if sgprs else None
    elif len(arguments) == 9:  # the LLVM in Triton 3.9: SGPR file size, granule and trap reserve
        max_waves, granule, total, waves, sgpr_total, sgpr_granule, reserve, sgprs, vgprs = (
            arguments
        )
        rounded = _align_to(sgprs, sgpr_granule)
        if rounded is None or rounded + reserve <= 0:
            return None
        by_sgprs = max(1, min(sgpr_total // (rounded + reserve), max_waves)) if sgprs else None
    else:
        return None
    if by_sgprs is not None:
        waves = min(waves, by_sgprs)
    if vgprs:
        by_vgprs = _waves_by_vgprs(vgprs, granule, total, max_waves)
        if by_vgprs is None:
            return None
        waves = min(waves, by_vgprs)
    return waves


_CALLS: Mapping[str, Callable[[Sequence[int], AsmTarget], int | None]] = MappingProxyType(
    {
        "max": lambda arguments, target: max(arguments),
        "min": lambda arguments, target: min(arguments),
        "or": _or,
        "alignto": _align,
        "totalnumvgprs": _total_vgprs,
        "extrasgprs": _extra_sgprs,
        "occupancy": _occupancy,
    }
)
