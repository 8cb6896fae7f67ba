"""Compares what was recorded of a kernel with what an analysed one was compiled to, by figure.

Profilers record registers and LDS in granules that differ between versions: a figure agrees if any
known way of rounding leads from the compiled one to the recorded one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ..machines import load, names
from ..machines.target_names import base_arch
from ..model import KernelReport, Machine, int_of
from ..model.recording import KernelProfile
from .figures import quirks

_ROUND_VGPRS = (4, 8)
"""Granules in which profilers record VGPRs."""
_ROUND_LDS = (512, 1024)
"""Granules in bytes in which profilers record LDS."""


class FigureCheck(Struct, frozen=True):
    """The comparison of one figure. `agrees` is None where it is unknown."""

    figure: str
    agrees: bool | None
    text: str = ""


def compare(kernel: KernelProfile, report: KernelReport) -> list[FigureCheck]:
    """Compares a measured kernel with an analysed one, figure by figure."""
    arch = kernel.agent.arch if kernel.agent else None
    target = base_arch(report.arch) if report.arch else None
    machine = load(target) if target in names() else None
    return [
        _target(arch, target),
        _vgprs(kernel, report, machine),
        _agprs(kernel, report, machine),
        _lds(kernel, report, machine),
        _scratch(kernel, report),
        _workgroup(kernel, report),
        _equal("wave size", kernel.shape.wave_size, int_of(report.metrics, "wave_size")),
    ]


def _equal(label: str, recorded: int | None, compiled: int | None) -> FigureCheck:
    if recorded is None or compiled is None:
        return FigureCheck(label, None)
    return _among(label, recorded, compiled, {compiled})


def _among(label: str, recorded: int, compiled: int, possible: set[int]) -> FigureCheck:
    if recorded in possible:
        return FigureCheck(label, True, f"{label} {recorded}")
    text = f"{label}: recorded {recorded}, compiled {compiled}"
    if rounded := sorted(possible - {compiled}):
        text += f", which profilers may write as {' or '.join(map(str, rounded))}"
    return FigureCheck(label, False, text)


def _target(recorded: str | None, compiled: str | None) -> FigureCheck:
    if recorded is None or compiled is None:
        return FigureCheck("target", None)
    if base_arch(recorded) == compiled:
        return FigureCheck("target", True, f"target {compiled}")
    return FigureCheck(
        "target", False, f"target: recorded {base_arch(recorded)}, compiled {compiled}"
    )


def _rounded_up(value: int, granule: int) -> int:
    return -(-max(value, 1) // granule) * granule


def _arch_of(kernel: KernelProfile, report: KernelReport) -> str | None:
    return kernel.agent.arch if kernel.agent and kernel.agent.arch else report.arch


def _vgprs(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> FigureCheck:
    """Compares VGPRs, which are recorded in granules and, in unified files, without AGPRs."""
    registers = quirks.registers(kernel.shape, _arch_of(kernel, report))
    arch_vgprs, all_vgprs = (
        int_of(report.metrics, "arch_vgpr_count"),
        int_of(report.metrics, "vgpr_count"),
    )
    compiled = arch_vgprs if arch_vgprs is not None else all_vgprs
    if not registers.vgpr or compiled is None:
        return FigureCheck("vgpr", None)
    if registers.is_offset and arch_vgprs is None:
        return FigureCheck("vgpr", None)
    granules = set(_ROUND_VGPRS)
    if machine is not None and not registers.is_offset:
        wave = int_of(report.metrics, "wave_size") or machine.wave_sizes[0]
        granules |= {
            encoding_granule
            for encoding_granule in (machine.vgpr_encoding_granule.get(wave),)
            if encoding_granule
        }
    possible = {_rounded_up(compiled, granule) for granule in granules}
    if not registers.is_offset:
        possible.add(compiled)
    if machine is not None and machine.agpr == "separate" and all_vgprs is not None:
        possible |= {
            _rounded_up(all_vgprs, granule) for granule in granules
        }  # of both files, the larger one
    if not registers.exact and all_vgprs is not None:
        possible |= {_rounded_up(all_vgprs, 8), _rounded_up(all_vgprs, 8) // 2}
    return _among("vgpr", registers.vgpr, compiled, possible)


def _agprs(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> FigureCheck:
    """Compares AGPRs, which are recorded as the allocation above the VGPRs, padding included."""
    registers = quirks.registers(kernel.shape, _arch_of(kernel, report))
    arch_vgprs, compiled = (
        int_of(report.metrics, "arch_vgpr_count"),
        int_of(report.metrics, "agpr_count"),
    )
    if registers.accum is None or compiled is None or arch_vgprs is None:
        return FigureCheck("agpr", None)
    if machine is None or not registers.is_offset:  # elsewhere it repeats the VGPRs, or is 0
        return FigureCheck("agpr", None)
    possible = {_rounded_up(compiled, granule) if compiled else 0 for granule in _ROUND_VGPRS}
    offset = _rounded_up(arch_vgprs, 4)
    possible |= {
        _rounded_up(offset + compiled, 8) - offset,
        _rounded_up(offset + compiled, 8) - _rounded_up(arch_vgprs, 8),
    }
    return _among("agpr", registers.accum, compiled, possible)


def _lds(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> FigureCheck:
    """Compares LDS, which is recorded exactly or in granules."""
    recorded, compiled = kernel.shape.lds_bytes, int_of(report.metrics, "lds_bytes")
    if recorded is None or compiled is None:
        return FigureCheck("LDS", None)
    if recorded == 0 and compiled:
        # Only static LDS is recorded, and all of Triton's LDS is dynamic.
        text = f"LDS: recorded 0, compiled {compiled}: rocprofv3's CSV leaves dynamic LDS out"
        return FigureCheck("LDS", None, text)
    granules = set(_ROUND_LDS)
    if machine is not None:
        granules |= set(machine.lds_granule.values())
    rounded = {_rounded_up(compiled, granule) for granule in granules} if compiled else set()
    return _among("LDS", recorded, compiled, {compiled, *rounded})


def _scratch(kernel: KernelProfile, report: KernelReport) -> FigureCheck:
    recorded, compiled = kernel.shape.scratch_bytes, int_of(report.metrics, "scratch_bytes")
    if recorded is None or compiled is None:
        return FigureCheck("scratch", None)
    # A runtime may ask for more than the kernel states, in steps of 16 bytes or of a wave's 1 KiB.
    rounded = {_rounded_up(compiled, granule) for granule in (4, 16)} if compiled else set()
    return _among("scratch", recorded, compiled, {compiled, *rounded})


def _workgroup(kernel: KernelProfile, report: KernelReport) -> FigureCheck:
    recorded = _workgroup_size(kernel)
    metric = report.metrics.get("workgroup_size")
    compiled = int_of(report.metrics, "workgroup_size")
    if recorded is None or compiled is None or metric is None:
        return FigureCheck("workgroup", None)
    if metric.origin == "estimated":
        if recorded <= compiled:
            return FigureCheck("workgroup", None)
        text = f"workgroup: recorded {recorded}, at most {compiled} allowed"
        return FigureCheck("workgroup", False, text)
    return _equal("workgroup", recorded, compiled)


def _workgroup_size(kernel: KernelProfile) -> int | None:
    shape = kernel.shape
    return shape.workgroup_size if shape.workgroup is None else math.prod(shape.workgroup)


def with_same_grid(
    kernel: KernelProfile, candidates: list[tuple[KernelReport, list[FigureCheck]]]
) -> list[tuple[KernelReport, list[FigureCheck]]]:
    """Returns the candidates whose captured launch had the recorded grid; all if none had.

    A different grid does not exclude a kernel: it may have been launched with several grids.
    """
    if kernel.grids != 1:
        return candidates
    agreeing = []
    for report, checks in candidates:
        check = _grid(kernel, report)
        if check.agrees:
            agreeing.append((report, [*checks, check]))
    return agreeing or candidates


def _grid(kernel: KernelProfile, report: KernelReport) -> FigureCheck:
    """Compares grids, in work-items."""
    group = _workgroup_size(kernel)
    grid = report.variant.grid if report.variant else None
    if not grid or group is None:
        return FigureCheck("grid", None)
    x, y, z = (*grid, 1, 1)[:3]
    compiled = (x * group, y, z)
    if kernel.shape.grid is not None:
        agrees = kernel.shape.grid == compiled
    elif kernel.shape.grid_size is not None:
        agrees = kernel.shape.grid_size == compiled[0] * y * z
    else:
        return FigureCheck("grid", None)
    return FigureCheck("grid", agrees, f"grid {x}×{y}×{z} workgroups")


def agreement(checks: Sequence[FigureCheck]) -> str:
    """Lists the figures that agree, in words."""
    agreed = [check.text for check in checks if check.agrees]
    if not agreed:
        return "the name alone: nothing else was recorded to compare"
    return f"name and {', '.join(agreed)} agree"
