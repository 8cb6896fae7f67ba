"""The whole launch: how evenly it fills the GPU, and the time that its matrix work takes at least.

A launch of equal workgroups ends with a round that is rarely full. The time is that of the busiest
of these, at the peak clock: a workgroup by itself, the CU that gets most workgroups, and all work
spread evenly over all CUs. Dots whose number of executions nobody knows count as none, so a
measured time below it is impossible: the measurement, or what it was attributed to, is wrong.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..machines import matrix_cycles
from ..model import Machine, Metric, MetricSpec, Origin, int_of
from .bounds import Residency, residency
from .loop_shape import place
from .subject import MATRIX_CLASSES, Place, Subject

ROUNDS, EFFICIENCY = "tail.rounds", "tail.efficiency"
LEAST, STATED = "launch.matrix_us", "time.us"
SHARE, IMPOSSIBLE = "time.bound_share", "time.impossible"

SPECS = (
    MetricSpec(
        ROUNDS,
        "count",
        "derived",
        "kernel",
        "How often the launch fills the GPU with workgroups, the last time perhaps in part",
    ),
    MetricSpec(
        EFFICIENCY,
        "%",
        "derived",
        "kernel",
        "Share of the places for workgroups that those rounds use: the rest of the last is idle",
    ),
    MetricSpec(
        LEAST,
        "us",
        "derived",
        "kernel",
        "Time that the launch's dots take the matrix units at least, at the GPU's peak clock",
    ),
    MetricSpec(STATED, "us", "measured", "kernel", "Time of a launch, as stated with --time-us"),
    MetricSpec(
        SHARE,
        "%",
        "measured",
        "kernel",
        "Share of the stated time that the matrix work takes at least: 100 is the best there is",
    ),
    MetricSpec(
        IMPOSSIBLE,
        "bool",
        "measured",
        "kernel",
        "Whether the stated time is shorter than the matrix work takes at least",
    ),
)

_NO_GRID: Final = "no launch was captured or stated"


class Gpu(Struct, frozen=True):
    """What workgroups are spread over.

    Args:
        units: that hold workgroups: CUs, or WGPs.
        eus: SIMDs of each.
        clock_mhz: the peak.
    """

    units: int
    eus: int
    clock_mhz: int


def gpu_of(machine: Machine, resident: Residency) -> Gpu | None:
    """The machine as the kernel's workgroups see it; None where its size is not published."""
    if machine.cus is None or machine.clock_mhz is None:
        return None
    return Gpu(machine.cus // resident.cus, resident.eus, machine.clock_mhz)


def least_us(cycles: Sequence[float], waves: int, gpu: Gpu) -> float:
    """The time in which the matrix units can do a launch's work at best.

    Args:
        cycles: for each workgroup what one of its waves takes its SIMD's matrix unit.
        waves: of a workgroup.
        gpu: what it runs on.

    Returns:
        Microseconds.
    """
    by_itself = max(cycles) * math.ceil(waves / gpu.eus)
    # Some unit gets as many workgroups as this; its SIMDs share their waves at best evenly.
    most = math.ceil(len(cycles) / gpu.units)
    fullest = min(cycles) * most * waves / gpu.eus
    even = sum(cycles) * waves / gpu.eus / gpu.units
    return max(by_itself, fullest, even) / gpu.clock_mhz


def compute(subject: Subject, metrics: Mapping[str, Metric]) -> Iterator[Metric]:
    """All figures of the launch.

    Args:
        subject: the kernel.
        metrics: those that it has, its occupancy among them.
    """
    machine, demand = subject.machine, subject.demand
    resident = residency(machine, demand, metrics) if machine and demand else None
    gpu = gpu_of(machine, resident) if machine and resident else None
    yield from _tail(subject, gpu, metrics)
    least, note = _matrix_us(subject, gpu)
    time = subject.facts.time_us
    yield Metric(LEAST, least, "us", "derived", note)
    if time is None:
        return
    yield Metric(STATED, time, "us", "measured", "--time-us")
    share = _percent(least / time) if least is not None else None
    yield Metric(SHARE, share, "%", "measured", note)
    impossible = least > time if least is not None else None
    yield Metric(IMPOSSIBLE, impossible, "bool", "measured", note)


def _tail(subject: Subject, gpu: Gpu | None, metrics: Mapping[str, Metric]) -> Iterator[Metric]:
    workgroups = math.prod(subject.facts.grid) if subject.facts.grid else None
    places = int_of(metrics, "occupancy.workgroups_per_cu")
    rounds = efficiency = None
    origin: Origin = "derived"
    note = _NO_GRID if not workgroups else "the places for workgroups are not known"
    if workgroups and places and gpu is not None:
        at_a_time = places * gpu.units
        rounds = -(-workgroups // at_a_time)
        efficiency = _percent(workgroups / (rounds * at_a_time))
        origin = metrics["occupancy.workgroups_per_cu"].origin
        note = ""
    yield Metric(ROUNDS, rounds, "count", origin, note)
    yield Metric(EFFICIENCY, efficiency, "%", origin, note)


def _percent(share: float) -> float:
    """A share in percent, to one decimal; below 1 % to two digits, for it is not 0."""
    percent = 100 * share
    return round(percent, 1) if percent >= 1 else float(f"{percent:.2g}")


def _matrix_us(subject: Subject, gpu: Gpu | None) -> tuple[float | None, str]:
    """The least time, or None and why it is unknown."""
    facts, demand = subject.facts, subject.demand
    waves = demand.waves_per_workgroup if demand is not None else None
    if not facts.grid:
        return None, _NO_GRID
    if subject.ttgir is None or subject.work is None or not subject.work.dots:
        return None, "no dot of a TTGIR is at hand"
    if gpu is None or waves is None:
        return None, "the size or the clock of the GPU is not known, or what is resident"
    if importlib.util.find_spec("numpy") is None:
        return None, "needs numpy"
    from ..ttgir.executions import dot_executions
    from ..ttgir.queries import mfma_per_dot

    costs = _instruction_cycles(subject)
    total = None
    for dot, times in dot_executions(subject.ttgir, facts.values or {}, facts.grid):
        instructions = mfma_per_dot(dot, subject.ttgir)
        cost = costs.get(place(dot.loc)) if dot.loc is not None else None
        if instructions is not None and cost is not None:
            cycles = times * (instructions * cost)
            total = cycles if total is None else total + cycles
    if total is None or not total.any():
        return None, "how often its dots are executed is not known"
    return round(least_us(total.tolist(), waves, gpu), 3), ""


def _instruction_cycles(subject: Subject) -> dict[Place, int]:
    """Position -> clocks of the matrix instruction there, of several the shortest."""
    machine = subject.machine
    costs: dict[Place, int] = {}
    for inst in subject.function.instructions:
        if inst.cls not in MATRIX_CLASSES or inst.loc is None or machine is None:
            continue
        cycles, position = matrix_cycles(machine, inst.op.name, inst.operands), place(inst.loc)
        if cycles is not None:
            costs[position] = min(cycles, costs.get(position, cycles))
    return costs
