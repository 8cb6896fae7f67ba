"""Which lines make up the bound of a hot loop: the clocks of its slowest unit, line by line."""

from __future__ import annotations

from ..model import Function, KernelReport, Machine
from .bounds import UNIT
from .mix import vector_rates
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
