"""Metrics of the launch as a whole: its balance, and the least time of its matrix work.

A launch of equal workgroups ends with a round that is rarely full. The least time is that of the
busiest of these, at the peak clock: one workgroup, the CU with most workgroups, and all work spread
evenly over all CUs. Dots with an unknown number of executions count as none, so a measured time
below it is impossible: the measurement, or its attribution, is wrong.

How often the loops of a Triton kernel go round, by the launch or by constant bounds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from msgspec import Struct

from ..machines import matrix_cycles
from ..model import Machine, Metric, Origin, TtgirModule, TtgirOp, int_of
from .entries import of_kernels
from .loop_shape import position_of
from .residency import Residency, residency
from .subject import MATRIX_CLASSES, Place, Subject

ROUNDS, EFFICIENCY = "tail.rounds", "tail.efficiency"
ITERATIONS, LOOP_BYTES, BY_PROGRAM = "launch.iterations", "launch.loop_bytes", "launch.by_program"
EXCHANGED = "launch.exchanged"
LEAST, STATED = "launch.matrix_us", "time.measured_us"
SHARE, IMPOSSIBLE = "time.bound_share", "time.impossible"

SPECS = (
    *of_kernels(
        {
            ROUNDS: "count | How often the launch fills the GPU with workgroups, the last time "
            "perhaps in part",
            EFFICIENCY: "% | Share of the places for workgroups that those rounds use: the rest "
            "of the last is idle",
            ITERATIONS: "iterations | Iterations of the kernel's longest loop in the workgroup "
            "that makes most (of very many workgroups, the first ones); those of a nested loop "
            "are all of them",
            LOOP_BYTES: "bytes | Bytes that its loops load, in the workgroup that loads most; "
            "unknown if one of them is",
            BY_PROGRAM: "bool | Whether each workgroup starts the longest loop at its own number "
            "and goes on by the number of workgroups, so that more of them share the iterations "
            "out",
            EXCHANGED: "bool | Whether the longest loop loads from a tensor that it stores to, "
            "with a barrier between, as lanes do that need each other's results of the iteration "
            "before",
            LEAST: "us | Time that the launch's dots take the matrix units at least, at the GPU's "
            "peak clock",
        }
    ),
    *of_kernels(
        {
            STATED: "us | Time of a launch, as stated with --time-us",
            SHARE: "% | Share of the stated time that the matrix work takes at least: 100 is the "
            "best there is",
            IMPOSSIBLE: "bool | Whether the stated time is shorter than the matrix work takes at "
            "least",
        },
        "measured",
    ),
)

_BARRIERS: Final = frozenset(("ttg.barrier", "gpu.barrier"))
"""Of the source alone: those for LDS come in later."""
NO_GRID: Final = "no launch was captured or stated"


class Gpu(Struct, frozen=True):
    """The units that workgroups are spread over.

    Args:
        units: number of units that hold workgroups: CUs, or WGPs.
        eus: SIMDs of each.
    """

    units: int
    eus: int
    clock_mhz: int


def gpu_of(machine: Machine, resident: Residency) -> Gpu | None:
    """The GPU as the kernel's workgroups see it; None where its size is not published."""
    if machine.cus is None or machine.clock_mhz is None:
        return None
    return Gpu(machine.cus // resident.cus, resident.eus, machine.clock_mhz)


def least_us(cycles: Sequence[float], waves: int, gpu: Gpu) -> float:
    """The least time of the matrix units for a launch's work.

    `cycles`: for each workgroup, the clocks of one of its waves on its SIMD's matrix unit; `waves`:
    waves of a workgroup.

    Returns:
        Microseconds.
    """
    one_workgroup = max(cycles) * math.ceil(waves / gpu.eus)
    # Some unit gets this many workgroups; its SIMDs share their waves evenly at best.
    workgroups_of_unit = math.ceil(len(cycles) / gpu.units)
    fullest = min(cycles) * workgroups_of_unit * waves / gpu.eus
    even = sum(cycles) * waves / gpu.eus / gpu.units
    return max(one_workgroup, fullest, even) / gpu.clock_mhz


def compute(subject: Subject, metrics: Mapping[str, Metric]) -> Iterator[Metric]:
    """The metrics of `SPECS`."""
    machine, demand = subject.machine, subject.demand
    resident = residency(machine, demand, metrics) if machine and demand else None
    gpu = gpu_of(machine, resident) if machine and resident else None
    yield from _tail(subject, gpu, metrics)
    yield from _loops(subject)
    least_time, note = _matrix_us(subject, gpu)
    time = subject.facts.time_us
    yield Metric(LEAST, least_time, "us", "derived", note)
    if time is None:
        return
    yield Metric(STATED, time, "us", "measured", "--time-us")
    share = _percent(least_time / time) if least_time is not None else None
    yield Metric(SHARE, share, "%", "measured", note)
    impossible = least_time > time if least_time is not None else None
    yield Metric(IMPOSSIBLE, impossible, "bool", "measured", note)


def _tail(subject: Subject, gpu: Gpu | None, metrics: Mapping[str, Metric]) -> Iterator[Metric]:
    """The metrics of the last round."""
    workgroups = math.prod(subject.facts.grid) if subject.facts.grid else None
    places = int_of(metrics, "occupancy.workgroups_per_cu")
    rounds = efficiency = None
    origin: Origin = "derived"
    note = NO_GRID if not workgroups else "the places for workgroups are not known"
    if workgroups and places and gpu is not None:
        workgroups_per_round = places * gpu.units
        rounds = -(-workgroups // workgroups_per_round)
        efficiency = _percent(workgroups / (rounds * workgroups_per_round))
        origin = metrics["occupancy.workgroups_per_cu"].origin
        note = ""
    yield Metric(ROUNDS, rounds, "count", origin, note)
    yield Metric(EFFICIENCY, efficiency, "%", origin, note)


def _percent(share: float) -> float:
    """A share in percent, to one decimal; below 1 % to two digits, for it is not 0."""
    percent = 100 * share
    return round(percent, 1) if percent >= 1 else float(f"{percent:.2g}")


def _loops(subject: Subject) -> Iterator[Metric]:
    """The metrics of the launch's loops."""
    grid = subject.facts.grid
    note = ""
    if not grid:
        note = NO_GRID
    elif subject.ttgir is None:
        note = "no TTGIR is at hand"
    elif math.prod(grid) > MOST_WORKGROUPS:
        note = f"not looked for in launches of more than {MOST_WORKGROUPS:,} workgroups"
    most = loaded = by_program = exchanged = None
    if not note and grid and subject.ttgir is not None:
        from ..ttgir.executions import loop_runs

        runs = list(loop_runs(subject.ttgir, subject.facts.values or {}, grid))
        longest = max(runs, key=lambda run: int(run.iterations.max()), default=None)
        loops = sum(op.name in ("scf.for", "scf.while") for op in subject.ttgir.ops)
        if longest is None or (longest.iterations.max() < 2 and len(runs) < loops):
            note = "no loop has bounds that are known"
        else:
            most, by_program = int(longest.iterations.max()), longest.by_program
            exchanged = _exchanges(subject.ttgir, longest.op)
            bytes_of = _loaded_bytes(subject.ttgir)
            total = longest.iterations * 0
            for run in runs:
                total = total + run.iterations * bytes_of[run.op.index]
            # What loops of unknown bounds load is unknown.
            if {index for index, count in bytes_of.items() if count} <= {r.op.index for r in runs}:
                loaded = int(total.max())
    elif grid and subject.ttgir is not None and math.prod(grid) > MOST_WORKGROUPS:
        most = _most_of_first(subject)
    yield Metric(ITERATIONS, most, "iterations", "derived", "" if most is not None else note)
    unread = note or (
        "" if loaded is not None else "loops that load have bounds that are not known"
    )
    yield Metric(LOOP_BYTES, loaded, "bytes", "derived", unread)
    yield Metric(BY_PROGRAM, by_program, "bool", "derived", note)
    yield Metric(EXCHANGED, exchanged, "bool", "derived", note)


def _most_of_first(subject: Subject) -> int | None:
    """Iterations of the longest loop in the first workgroups of a launch with very many."""
    assert subject.ttgir is not None
    runs = most_iterations(subject).values()
    loops = sum(op.name in ("scf.for", "scf.while") for op in subject.ttgir.ops)
    most = max(runs, default=0)
    return most if runs and (most >= 2 or len(runs) == loops) else None


def _exchanges(module: TtgirModule, loop: TtgirOp) -> bool:
    """Whether lanes pass each other results through memory from one iteration to the next."""
    from ..ttgir.flow import flow_of
    from ..ttgir.plain_accesses import ANY, loops_around, tensors_of
    from ..ttgir.queries import LOADS, STORES

    flow = flow_of(module)
    inside = [op for op in module.ops if loop.index in loops_around(flow, op)]
    if not any(op.name in _BARRIERS for op in inside):
        return False
    loaded = {tensor for op in inside if op.name in LOADS for tensor in tensors_of(flow, op)}
    stored = {tensor for op in inside if op.name in STORES for tensor in tensors_of(flow, op)}
    return bool(loaded & stored - {ANY})


def _loaded_bytes(module: TtgirModule) -> Counter[int]:
    """Index of a loop -> bytes of the tiles that one iteration loads, nested loops excluded."""
    # Only Triton kernels need them.
    from ..ttgir import queries
    from ..ttgir.conversions import tile_bytes

    loaded: Counter[int] = Counter()
    for op in queries.loads(module):
        loop = queries.loop_above(op, module)
        if loop is not None and op.result_types:
            loaded[loop] += tile_bytes(op.result_types[0]) or 0
    return loaded


def _matrix_us(subject: Subject, gpu: Gpu | None) -> tuple[float | None, str]:
    """The least time, or None and why it is unknown."""
    facts, demand = subject.facts, subject.demand
    waves = demand.waves_per_workgroup
    if not facts.grid:
        return None, NO_GRID
    if subject.ttgir is None or subject.work is None or not subject.work.dots:
        return None, "no dot of a TTGIR is at hand"
    if gpu is None or waves is None:
        return None, "the size or the clock of the GPU is not known, or what is resident"
    from ..ttgir.executions import dot_executions
    from ..ttgir.redundant_work import mfma_per_dot

    costs = _instruction_cycles(subject)
    total = None
    for dot, times in dot_executions(subject.ttgir, facts.values or {}, facts.grid):
        instructions = mfma_per_dot(dot)
        cost = costs.get(position_of(dot.loc)) if dot.loc is not None else None
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
        cycles, position = (
            matrix_cycles(machine, inst.op.name, inst.operands),
            position_of(inst.loc),
        )
        if cycles is not None:
            costs[position] = min(cycles, costs.get(position, cycles))
    return costs


MOST_WORKGROUPS: Final = 1 << 16
"""Of a launch, up to which the iterations of each are looked for."""


_FIRST_WORKGROUPS: Final = 32
"""Of a large launch the first ones along each axis: the last ones may have less to do."""


def most_iterations(subject: Subject) -> Mapping[int, int]:
    """Loop of the TTGIR, by its operation's index -> iterations of the workgroup with most of them.

    Loops whose iterations are not known are left out.
    """
    module, grid = subject.ttgir, subject.facts.grid
    if module is None:
        return {}
    # Only Triton kernels need it.
    from ..ttgir import queries

    if grid and prod(grid):
        from ..ttgir.executions import loop_runs

        if prod(grid) > MOST_WORKGROUPS:
            grid = tuple([min(extent, _FIRST_WORKGROUPS) for extent in grid])
        launch = loop_runs(module, subject.facts.values or {}, grid)
        return {run.op.index: int(run.iterations.max()) for run in launch}
    constants = queries.integer_constants(module)
    trips = {op.index: queries.constant_trips(op, constants) for op in module.ops}
    return {index: count for index, count in trips.items() if count is not None}
