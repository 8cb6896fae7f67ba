"""What the values in a kernel's registers ask of the register file, against its occupancies."""

from __future__ import annotations

from ..machines import load, names
from ..model import KernelReport, Machine, RegisterPressure, int_of
from .capacity import registers_needed, registers_to_drop
from .occupancy import vgpr_levels


def register_pressure(kernel: KernelReport) -> RegisterPressure | None:
    """The pressure along a kernel's code; None where its live registers are not known.

    In a saved report the counts along the code are missing, and with them the needs; what is known
    of the peak is there.
    """
    peak = kernel.live_peak
    if peak is None:
        return None
    machine = load(kernel.arch) if kernel.arch in names() else None
    allocated = _allocated(kernel, machine)
    levels = vgpr_levels(kernel)
    level = next((at for at in levels if allocated is not None and allocated <= at[1]), None)
    higher = [at for at in levels if allocated is not None and at[1] < allocated]
    next_level = None
    if higher and level is not None:
        # Workgroups of few waves make steps between whole waves: of equal needs the best one.
        next_level = next(at for at in higher if at[1] == higher[-1][1])
    excess = None
    if next_level is not None and machine is not None:
        excess = registers_to_drop(machine, peak.vgprs, peak.agprs, next_level[1])
    return RegisterPressure(
        counts=peak.counts,
        needs=tuple(_needed(machine, vgprs, agprs) for _, vgprs, agprs in peak.counts),
        allocated=allocated,
        levels=levels,
        level=level,
        next_level=next_level,
        excess=excess,
    )


def _needed(machine: Machine | None, vgprs: int, agprs: int) -> int:
    return registers_needed(machine, vgprs, agprs) if machine is not None else vgprs + agprs


def _allocated(kernel: KernelReport, machine: Machine | None) -> int | None:
    """Registers of the file that the code takes, rounded to no granule; None where unknown."""
    demand = kernel.demand
    if machine is not None and demand is not None and demand.vgprs is not None and demand.agprs:
        return registers_needed(machine, demand.vgprs, demand.agprs)
    return int_of(kernel.metrics, "vgpr_count")
