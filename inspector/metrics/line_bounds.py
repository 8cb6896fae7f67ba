"""Which lines make up the bound of a hot loop: the clocks of its slowest unit, line by line.

What the values in a kernel's registers ask of the register file, against its occupancies.
"""

from __future__ import annotations

from ..machines import load, names
from ..model import Function, KernelReport, Machine, RegisterPressure, int_of
from .bounds import UNIT
from .capacity import registers_needed, registers_to_drop
from .mix import vector_rates
from .occupancy import vgpr_levels
from .subject import always_executed
from .unit_bounds import unit_bounds


def line_cycles(kernel: KernelReport, function: Function, machine: Machine) -> dict[int, float]:
    """Line of the assembly, from 1 -> clocks that one wave takes of the unit that bounds its loop.

    Their sum over a loop is the unit's figure in `bound.wave`, but for the LDS's ports, of which
    only the busier direction counts there. Lines that do not occupy the unit are left out, and so
    are loops without a bound and those bound by the latency of a chain, which is no line's own.

    `kernel`: with the bounds of its hot loops.
    """
    units = {
        loop.id: str(metric.value)
        for loop in kernel.loops
        if (metric := loop.metrics.get(UNIT)) is not None and metric.value is not None
    }
    rates = vector_rates(machine, function.resources.wave_size)
    uses = {op.line: op.use for op in kernel.memory_ops if op.use is not None}
    cycles: dict[int, float] = {}
    for loop_id, blocks in always_executed(function, units.keys()).items():
        unit = units[loop_id]
        if unit == "latency":
            continue
        for block in blocks:
            for index in range(function.blocks[block].start, function.blocks[block].stop):
                inst = function.instructions[index]
                use = {index: uses[inst.line]} if inst.line in uses else {}
                own = unit_bounds(machine, rates, use, (inst,))[unit].cycles
                if own:
                    cycles[inst.line] = cycles.get(inst.line, 0) + own
    return cycles


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
