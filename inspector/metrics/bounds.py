"""Lower bounds of a hot loop's iteration: the clocks that each unit of the machine takes at least.

Each bound considers one unit alone, as if all others were infinitely fast: an iteration takes at
least the largest of them. There are two cases. `bound.wave` is for one wave that has the CU for
itself; `bound.<unit>` is the time in which all waves resident at the kernel's occupancy do one
iteration each. They share the units, so there the matrix unit of a SIMD with N waves takes N times
one wave's. The time a wave takes by itself (issuing its instructions one after the other, waiting
for results of the previous iteration) does not depend on the number of waves.

Only instructions that every iteration executes count: blocks that dominate the loop's latches.
Nested loops and conditional code are left out, and so are accesses with unknown addresses; masked
ones count as in a tile that is not at the edge. `bound.longest` has the same figures of the longest
way through an iteration, code under conditions included (`longest_way`): no lower bound of every
iteration, but what rules that weigh units against each other go by.

Rates come from the machine file, with their sources. In doubt they are the best ones that any
document states, so that no bound is too high: two vector instructions of different waves may issue
at once from CDNA3 on, and caches look up full lines.

Lines may come from any cache, so neither L2 nor memory bounds an iteration. `uncached.*` are the
times that they would take without any nearer hit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ..isa.graph.cfg import innermost_loops
from ..isa.graph.longest_way import Way, kernel_way
from ..machines.products import memory_bytes_per_clk
from ..model import (
    Instruction,
    Machine,
    Metric,
    Origin,
    Scalar,
)
from . import lds_trees
from .chains import Code, latency
from .entries import of_both, of_loops, unknown
from .load_paths import code_of
from .residency import BY_WAVE, Residency, residency, shared_cycles
from .subject import Subject
from .unit_bounds import Bound, rounded, touched_bytes, wave_bounds

UNIT, CYCLES, WAVES, WAVE = "bound.unit", "bound.cycles", "bound.waves", "bound.wave"
COVERED = "bound.covered"
LONGEST = "bound.longest"
MIN_COVERED = 0.5
"""No unit is named where less than this share of a loop's instructions is always executed."""
L2, MEMORY = "uncached.l2", "uncached.memory"
_NO_RESIDENCY = "the waves that are resident are not known"

UNITS: Mapping[str, str] = {
    "matrix": "the matrix unit (MFMA, WMMA)",
    "vector": "issuing vector instructions, at full rate",
    "transcendental": "transcendental operations",
    "scalar": "issuing scalar instructions",
    "vmem": "issuing accesses of global memory",
    "lds": "the LDS's banks, conflicts included",
    "lds_port": "the ports between SIMDs and LDS",
    "l1": "looking lines up in the vector cache",
    "issue": "one wave's issuing its instructions one after the other",
    "latency": "the chain of results that one iteration needs of the one before",
}
"""The units in order; the first of equals is the bound."""

SPECS = (
    *of_loops(
        {
            UNIT: "| What bounds a hot loop: the unit that takes most cycles while all resident "
            "waves do one iteration each",
            COVERED: "% | Share of the loop's own instructions that every iteration executes, for "
            "which the bounds are",
            CYCLES: "cycles | What that unit takes: no iteration is faster",
            WAVES: "waves/SIMD | Waves on the fullest SIMD, for which the bounds are",
            WAVE: "Cycles of each unit for one iteration of one wave that has the CU for itself",
        }
        | {
            f"bound.{unit}": "cycles | Cycles at least for one iteration of all resident waves: "
            + words
            for unit, words in UNITS.items()
        }
    ),
    *of_both(
        {
            LONGEST: "The bounds of the longest way through an iteration of a hot loop, or "
            "through a kernel without loops. Lanes pass every check, both sides of an if whose "
            "lanes differ count, and of the two ways of a scalar branch the one with more "
            "instructions. `cycles` of each unit for all resident waves, the slowest `unit` and "
            "its `cycles`; `covered`: % of the loop's own instructions on that way; `optional`: % "
            "of the way's that a scalar branch leaves out on others. `latency` is that of every "
            "iteration",
        },
        "estimated",
        keys={LONGEST: frozenset({"unit", "cycles"})},
    ),
    *of_loops(
        {
            L2: "cycles | Cycles for the same lines if all came from L2, with every CU at work: "
            "no bound where they are found nearer",
            MEMORY: "cycles | The same if they all came from the device's memory",
        },
        "estimated",
    ),
)


def loop_metrics(
    subject: Subject,
    metrics: Mapping[str, Metric],
    executed_blocks: Mapping[str, Sequence[int]],
    ways: Mapping[str, Way],
) -> dict[str, dict[str, Metric]]:
    """Hot loop -> its bounds.

    `executed_blocks`: those that every iteration of the hot loops executes; `ways`: the longest way
    through an iteration of each of them.
    """
    machine, function = subject.machine, subject.function
    if not executed_blocks or machine is None:
        return {}
    owner = innermost_loops(function)
    code = Code.of(function, machine) if subject.facts.analyse_lanes else None
    resident = residency(machine, subject.demand, metrics)
    result = {}
    for loop in function.loops:
        if loop.id not in executed_blocks:
            continue
        executed = code_of(function, *executed_blocks[loop.id])
        chained = Bound(None, note="not looked for")
        if code is not None:
            chained = latency(code, loop, executed)
        bounds = wave_bounds(subject, machine, executed, chained)
        blocks = [function.blocks[block] for block in loop.blocks if owner[block].id == loop.id]
        loop_instructions = sum(block.stop - block.start for block in blocks)
        covered = len(executed) / loop_instructions if loop_instructions else 0.0
        of_every_iteration = _metrics(
            subject,
            machine,
            executed,
            covered=covered,
            bounds=bounds,
            resident=resident,
            metrics=metrics,
        )
        way = ways[loop.id]
        on_way, of_longest = executed, bounds
        if set(way.blocks) != set(executed_blocks[loop.id]):
            on_way = code_of(function, *way.blocks)
            of_longest = wave_bounds(subject, machine, on_way, chained)
        longest = _longest(machine, way, loop_instructions, of_longest, resident)
        operands: Iterable[Metric] = ()
        if resident is not None:
            operands = lds_trees.compute(function, on_way)
        own = chain(of_every_iteration, (longest,), operands)
        result[loop.id] = {metric.name: metric for metric in own}
    return result


def kernel_metrics(subject: Subject, metrics: Mapping[str, Metric]) -> Iterator[Metric]:
    """The bounds of a kernel without loops, all of whose code is executed once at most."""
    function, machine, demand = subject.function, subject.machine, subject.demand
    way = kernel_way(function)
    if way is None or machine is None:
        note = (
            "the target is unknown" if machine is None else "loops run an unknown number of times"
        )
        yield Metric(LONGEST, None, "mapping", "estimated", note)
        return
    on_way = code_of(function, *way.blocks)
    bounds = wave_bounds(subject, machine, on_way, Bound(None))
    resident = residency(machine, demand, metrics)
    yield _longest(machine, way, len(function.instructions), bounds, resident)


def _metrics(
    subject: Subject,
    machine: Machine,
    executed: Sequence[Instruction],
    *,
    covered: float,
    bounds: Mapping[str, Bound],
    resident: Residency | None,
    metrics: Mapping[str, Metric],
) -> Iterator[Metric]:
    """The figures of one loop; `covered` is the share of its instructions that is executed."""
    if not executed:
        reason = "no instruction of the loop is certain to be executed in every iteration"
        yield from unknown(SPECS, reason)
        return
    yield Metric(COVERED, round(100 * covered, 1), "%", "derived")
    single_wave = {unit: rounded(bounds[unit].cycles) for unit in UNITS}
    yield Metric(WAVE, single_wave, "mapping", "derived")
    if resident is None:
        without = [s for s in SPECS if s.name not in (WAVE, COVERED)]
        yield from unknown(without, _NO_RESIDENCY)
        return
    occupancy = metrics["occupancy.workgroups_per_cu"].origin
    shared: dict[str, tuple[float, Origin]] = {}
    for unit in UNITS:
        bound = bounds[unit]
        cycles = shared_cycles(unit, bound.cycles, resident, machine)
        origin: Origin = "derived"
        if "estimated" in (bound.origin, "derived" if unit in BY_WAVE else occupancy):
            origin = "estimated"
        if cycles is not None:
            shared[unit] = cycles, origin
        yield Metric(f"bound.{unit}", rounded(cycles), "cycles", origin, bound.note)
    unit, (cycles_of_unit, origin) = max(shared.items(), key=lambda item: item[1][0])
    missing = ", ".join(name for name in UNITS if name not in shared)
    note = f"of the bounds that are known; unknown: {missing}" if missing else ""
    if covered < MIN_COVERED:
        reason = (
            "most of the loop's instructions are under conditions, for which nothing is counted"
        )
        yield Metric(UNIT, None, "", origin, reason)
    else:
        yield Metric(UNIT, unit if cycles_of_unit else None, "", origin, note)
    yield Metric(CYCLES, rounded(cycles_of_unit), "cycles", origin, note)
    yield Metric(WAVES, resident.on_simd, "waves/SIMD", occupancy)
    yield from _uncached(subject, machine, executed, resident)


def _longest(
    machine: Machine,
    way: Way,
    instructions: int,
    bounds: Mapping[str, Bound],
    resident: Residency | None,
) -> Metric:
    """The figures of the longest way."""
    if resident is None or not way.instructions:
        reason = _NO_RESIDENCY if way.instructions else "no code"
        return Metric(LONGEST, None, "mapping", "estimated", reason)
    of_all = {
        unit: shared_cycles(unit, bound.cycles, resident, machine) for unit, bound in bounds.items()
    }
    known = {unit: cycles for unit in UNITS if (cycles := of_all[unit]) is not None}
    slowest = max(known, key=lambda unit: known[unit])
    value: dict[str, Scalar] = {
        "unit": slowest if known[slowest] else None,
        "cycles": rounded(known[slowest]),
        "covered": round(100 * way.instructions / instructions, 1),
        "optional": round(100 * way.optional / way.instructions, 1),
        **{unit: rounded(of_all[unit]) for unit in UNITS},
    }
    note = next((bound.note for bound in bounds.values() if bound.note), "")
    return Metric(LONGEST, value, "mapping", "estimated", note)


def _uncached(
    subject: Subject, machine: Machine, executed: Sequence[Instruction], resident: Residency
) -> Iterator[Metric]:
    """The figures of `uncached.*`."""
    touching = touched_bytes(subject.uses, machine, executed)
    touched = None if touching.cycles is None else touching.cycles * resident.waves
    for name, per_clock in (
        (L2, machine.l2_bytes_per_clk),
        (MEMORY, memory_bytes_per_clk(machine)),
    ):
        cycles, note = None, touching.note
        if touched is not None and per_clock is not None and machine.cus is not None:
            cycles = touched * machine.cus / resident.cus / per_clock
        elif touched is not None:
            note = f"the rate of {machine.arch} is not known"
        yield Metric(name, rounded(cycles), "cycles", "estimated", note)
