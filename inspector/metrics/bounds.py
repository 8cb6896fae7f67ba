"""Lower bounds of a hot loop's iteration: what each unit of the machine takes at least, in clocks.

Each bound looks at one unit alone, as if all others were infinitely fast: an iteration takes at
least the largest of them. Two cases are told apart. `bound.wave` is one wave that has the CU for
itself; `bound.<unit>` is the time in which all waves that are resident at the kernel's occupancy do
one iteration each. They share the units, so there the matrix unit of a SIMD with N waves takes N
times one wave's. What a wave does by itself (to issue its instructions one after the other, to wait
for results of the iteration before) takes the same time however many there are.

Only instructions count that every iteration executes: blocks that dominate the loop's latches.
Nested loops and code under a condition are left out, and so are accesses whose lanes lie nobody
knows where; masked ones count as in a tile that is not at the edge. Rates come from the machine
file, with their sources. In doubt they are the best ones that any document states, so that no bound
claims too much: two vector instructions of different waves may issue at once from CDNA3 on, and
caches look up whole lines.

Lines may come from any cache, so neither L2 nor memory bounds an iteration. What they would take if
nothing were found nearer stands beside the bounds, as `uncached.*`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..errors import unforeseen
from ..isa.graph.cfg import dominators
from ..machines import matrix_cycles
from ..machines.products import all_products
from ..model import (
    Demand,
    Function,
    Instruction,
    LaneUse,
    Loop,
    LoopReport,
    Machine,
    Metric,
    MetricSpec,
    Origin,
    int_of,
)
from .lane_metrics import NOT_LOOKED_AT
from .mix import VALU_CLASSES, rates
from .subject import MATRIX_CLASSES, Subject, innermost_loops

if TYPE_CHECKING:
    from ..isa.graph.loops import DominatorTree
    from .chains import Code

UNIT, CYCLES, WAVES, WAVE = "bound.unit", "bound.cycles", "bound.waves", "bound.wave"
L2, MEMORY = "uncached.l2", "uncached.memory"

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
    MetricSpec(
        UNIT,
        "",
        "derived",
        "loop",
        "What bounds a hot loop: the unit that takes most cycles while all resident waves do one "
        "iteration each",
    ),
    MetricSpec(CYCLES, "cycles", "derived", "loop", "What that unit takes: no iteration is faster"),
    MetricSpec(
        WAVES, "waves/EU", "derived", "loop", "Waves on the fullest SIMD, for which the bounds are"
    ),
    MetricSpec(
        WAVE,
        "mapping",
        "derived",
        "loop",
        "Cycles of each unit for one iteration of one wave that has the CU for itself",
    ),
    *(
        MetricSpec(
            f"bound.{unit}",
            "cycles",
            "derived",
            "loop",
            f"Cycles at least for one iteration of all resident waves: {words}",
        )
        for unit, words in UNITS.items()
    ),
    MetricSpec(
        L2,
        "cycles",
        "estimated",
        "loop",
        "Cycles for the same lines if all came from L2, with every CU at work: no bound where they "
        "are found nearer",
    ),
    MetricSpec(
        MEMORY, "cycles", "estimated", "loop", "The same if they all came from the device's memory"
    ),
)

OF_LANES: Final = frozenset(
    (UNIT, CYCLES, WAVE, L2, MEMORY, "bound.lds", "bound.lds_port", "bound.l1", "bound.latency")
)
"""Figures that are looked for along with what lanes touch: operands are taken apart for both."""
_OWN: Final = frozenset(("issue", "latency"))
"""What a wave does by itself."""
_NOT_ISSUED: Final = frozenset(
    ("wait", "alu_wait", "nop", "hint", "barrier", "barrier_signal", "control")
)
"""Classes that the instruction buffer deals with: they need no unit's turn."""
_LDS: Final = frozenset(("lds_read", "lds_write", "lds_atomic", "lds_direct"))
_CACHED: Final = frozenset(("global_load", "global_store", "lds_direct"))
_VMEM: Final = frozenset(
    ("global_load", "global_store", "lds_direct", "lds_direct_store", "scratch_load",
     "scratch_store", "atomic")
)  # fmt: skip


class Bound(Struct, frozen=True):
    """Clocks that one unit takes for one wave's iteration; None where they are not known."""

    cycles: float | None
    origin: Literal["derived", "estimated"] = "derived"
    note: str = ""


class Residency(Struct, frozen=True):
    """The waves of the unit that holds workgroups.

    Args:
        waves: in all.
        eus: SIMDs among which they are spread.
        cus: 2 in WGP mode, else 1; each has an LDS and a vector cache of its own.
    """

    waves: int
    eus: int
    cus: int

    @property
    def on_simd(self) -> int:
        """Those of the fullest SIMD."""
        return ceil(self.waves / self.eus)

    @property
    def on_cu(self) -> int:
        return ceil(self.waves / self.cus)

    @property
    def on_pair(self) -> int:
        """Those of the two SIMDs that share a port of the LDS."""
        return ceil(2 * self.waves / self.eus)


def with_bounds(
    subject: Subject, loops: Sequence[LoopReport], metrics: Mapping[str, Metric]
) -> tuple[LoopReport, ...]:
    """The loops, the hot ones with their bounds.

    Args:
        subject: the kernel.
        loops: all of them.
        metrics: the kernel's, with its occupancy.
    """
    hot = {loop.id for loop in loops if loop.hot}
    if not hot or subject.machine is None:
        return tuple(loops)
    figures = {
        loop.id: {metric.name: metric for metric in each}
        for loop, each in _hot_loops(subject, subject.machine, hot, metrics)
    }
    return tuple(
        replace(loop, metrics={**loop.metrics, **figures[loop.id]}) if loop.id in figures else loop
        for loop in loops
    )


def _hot_loops(
    subject: Subject, machine: Machine, hot: set[str], metrics: Mapping[str, Metric]
) -> Iterator[tuple[Loop, Iterator[Metric]]]:
    function = subject.function
    tree = dominators(function)
    owner = innermost_loops(function)
    code = None
    if subject.facts.lanes_wanted and importlib.util.find_spec("numpy") is not None:
        from .chains import Code

        code = Code.of(function, machine)
    demand = subject.demand
    resident = None if demand is None else residency(machine, demand, metrics)
    for loop in function.loops:
        if loop.id not in hot:
            continue
        executed = _executed(function, loop, tree, owner)
        bounds = wave_bounds(subject, machine, executed)
        if code is None:
            bounds["latency"] = Bound(None, note="not looked for")
        else:
            bounds["latency"] = _latency(code, loop, executed)
        yield loop, _metrics(subject, machine, executed, bounds, resident, metrics)


def _executed(
    function: Function, loop: Loop, tree: DominatorTree, owner: Mapping[int, Loop]
) -> list[Instruction]:
    """The loop's own instructions that every iteration executes, in that order."""
    blocks = [
        block
        for block in loop.blocks
        if owner[block].id == loop.id
        and not loop.irreducible
        and all(tree.dominates(block, latch) for latch in loop.latches)
    ]
    blocks.sort(key=lambda block: tree.entered[block])
    return [
        inst
        for block in blocks
        for inst in function.instructions[
            function.blocks[block].start : function.blocks[block].stop
        ]
    ]


def residency(machine: Machine, demand: Demand, metrics: Mapping[str, Metric]) -> Residency | None:
    """What is resident at the kernel's occupancy; None where it is unknown or nothing fits."""
    workgroups = int_of(metrics, "occupancy.workgroups_per_cu")
    waves = demand.waves_per_workgroup
    if not workgroups or not waves:
        return None
    if demand.cu_mode:
        eus = machine.eus if machine.eus_cu_mode is None else machine.eus_cu_mode
        return Residency(workgroups * waves, eus, 1)
    return Residency(workgroups * waves, machine.eus, 2)


# --------------------------------------------------------------------------- one wave


def wave_bounds(
    subject: Subject, machine: Machine, executed: Sequence[Instruction]
) -> dict[str, Bound]:
    """Each unit's, for one wave; without the latency of chains.

    Args:
        subject: the kernel.
        machine: its target.
        executed: the instructions.
    """
    slot, slow = rates(subject)
    vector = [inst for inst in executed if inst.cls in VALU_CLASSES]
    transcendental = sum("transcendental" in inst.op.traits for inst in vector)
    turn = machine.issue_cycles
    unknown = _not_published(machine)
    return {
        "matrix": _matrix(machine, executed),
        "vector": _times(len(vector), slot, unknown),
        "transcendental": _times(transcendental, slow, unknown),
        "scalar": _times(sum(inst.cls == "salu" for inst in executed), turn, unknown),
        "vmem": _times(sum(inst.cls in _VMEM for inst in executed), turn, unknown),
        "lds": _lds_data(subject.uses, executed),
        "lds_port": _lds_port(subject, machine, executed),
        "l1": _lines(subject.uses, machine, executed),
        "issue": _times(sum(inst.cls not in _NOT_ISSUED for inst in executed), turn, unknown),
    }


def _times(count: int, cycles: int | None, unknown: str) -> Bound:
    if not count:
        return Bound(0)
    return Bound(None, note=unknown) if cycles is None else Bound(count * cycles)


def _matrix(machine: Machine, executed: Sequence[Instruction]) -> Bound:
    total = 0
    unknown = ""
    for inst in executed:
        if inst.cls in MATRIX_CLASSES:
            cycles = matrix_cycles(machine, inst.op.name, inst.operands)
            if cycles is None:
                unknown = f"no cycle figure for {inst.op.name} on {machine.arch}"
            total += cycles or 0
    return Bound(total or None, note=unknown) if unknown else Bound(total)


def _lds_data(uses: Mapping[int, LaneUse], executed: Sequence[Instruction]) -> Bound:
    accesses = [inst for inst in executed if inst.cls in _LDS]
    known = {
        inst.index: use.cycles
        for inst in accesses
        if (use := uses.get(inst.index)) is not None and use.cycles is not None
    }
    return _sum(known, accesses, uses)


def _lds_port(subject: Subject, machine: Machine, executed: Sequence[Instruction]) -> Bound:
    """What goes through one of the ports: addresses and written data inwards, read data outwards.

    Each active lane sends 4 bytes of address.
    """
    accesses = [inst for inst in executed if inst.cls in ("lds_read", "lds_write")]
    if not accesses:
        return Bound(0)
    port = machine.lds_port_bytes_per_clk
    if not port:
        return Bound(None, note=_not_published(machine))
    inwards: dict[int, float] = {}
    outwards: dict[int, float] = {}
    for inst in accesses:
        use = subject.uses.get(inst.index)
        if use is None or use.lanes is None or inst.op.bits is None:
            continue
        words = ceil(inst.op.bits / 32)
        reads = inst.cls == "lds_read"
        inwards[inst.index] = use.lanes * 4 * (1 if reads else 1 + words) / port["write"]
        outwards[inst.index] = use.lanes * 4 * words / port["read"] if reads else 0.0
    into, out = (_sum(known, accesses, subject.uses) for known in (inwards, outwards))
    return max((into, out), key=lambda bound: bound.cycles or 0)


def _lines(uses: Mapping[int, LaneUse], machine: Machine, executed: Sequence[Instruction]) -> Bound:
    accesses = [inst for inst in executed if inst.cls in _CACHED]
    if not accesses:
        return Bound(0)
    line, rate = machine.cache_line_bytes, machine.l1_bytes_per_clk
    if line is None or rate is None:
        return Bound(None, note=_not_published(machine))
    known = {
        inst.index: use.lines * line / rate
        for inst in accesses
        if (use := uses.get(inst.index)) is not None and use.lines is not None
    }
    return _sum(known, accesses, uses)


def _not_published(machine: Machine) -> str:
    return f"the rates of {machine.arch} are not published"


def _sum(
    known: Mapping[int, float], accesses: Sequence[Instruction], uses: Mapping[int, LaneUse]
) -> Bound:
    """The sum of what is known of some accesses: still a lower bound if some are not.

    Args:
        known: cycles by index of the instruction.
        accesses: all of them.
        uses: what their lanes touch, or why that is not known.
    """
    left_out = [inst.index for inst in accesses if inst.index not in known]
    note = ""
    if left_out:
        reasons = (uses[index].unknown for index in left_out if index in uses)
        reason = next(filter(None, reasons), NOT_LOOKED_AT)
        note = f"{len(left_out)} of {len(accesses)} accesses are left out: {reason}"
        if not known:
            return Bound(None, note=note)
    estimated = any(uses[index].origin == "estimated" for index in known)
    return Bound(sum(known.values()), "estimated" if estimated else "derived", note)


def _latency(code: Code, loop: Loop, executed: Sequence[Instruction]) -> Bound:
    from .chains import MOST_INSTRUCTIONS, carried_cycles

    function = code.function
    always = [inst.index for inst in executed]
    here = set(always)
    others = [
        index
        for block in loop.blocks
        for index in range(function.blocks[block].start, function.blocks[block].stop)
        if index not in here
    ]
    if len(always) + len(others) > MOST_INSTRUCTIONS:
        return Bound(None, note=f"not looked for in more than {MOST_INSTRUCTIONS:,} instructions")
    try:
        cycles = carried_cycles(code, always, others)
    except Exception as error:
        # Operands that the emulator does not understand must not take the report with them.
        return Bound(None, note=unforeseen(error).message)
    note = "" if cycles is not None else f"the latencies of {code.machine.arch} are not published"
    return Bound(cycles, note=note)


# --------------------------------------------------------------------------- all resident waves


def _metrics(
    subject: Subject,
    machine: Machine,
    executed: Sequence[Instruction],
    bounds: Mapping[str, Bound],
    resident: Residency | None,
    metrics: Mapping[str, Metric],
) -> Iterator[Metric]:
    if not executed:
        why = "no instruction of the loop is certain to be executed in every iteration"
        for spec in SPECS:
            yield Metric(spec.name, None, spec.unit, spec.origin, why)
        return
    alone = {unit: _rounded(bounds[unit].cycles) for unit in UNITS}
    yield Metric(WAVE, alone, "mapping", "derived")
    if resident is None:
        why = "the waves that are resident are not known"
        for spec in SPECS:
            if spec.name != WAVE:
                yield Metric(spec.name, None, spec.unit, spec.origin, why)
        return
    occupancy = metrics["occupancy.workgroups_per_cu"].origin
    shared: dict[str, tuple[float, Origin]] = {}
    for unit in UNITS:
        bound = bounds[unit]
        cycles = None if bound.cycles is None else _shared(unit, bound.cycles, resident, machine)
        origin: Origin = "derived"
        if "estimated" in (bound.origin, "derived" if unit in _OWN else occupancy):
            origin = "estimated"
        if cycles is not None:
            shared[unit] = cycles, origin
        yield Metric(f"bound.{unit}", _rounded(cycles), "cycles", origin, bound.note)
    unit, (most, origin) = max(shared.items(), key=lambda item: item[1][0])
    unknown = ", ".join(each for each in UNITS if each not in shared)
    note = f"of the bounds that are known; unknown: {unknown}" if unknown else ""
    yield Metric(UNIT, unit if most else None, "", origin, note)
    yield Metric(CYCLES, _rounded(most), "cycles", origin, note)
    yield Metric(WAVES, resident.on_simd, "waves/EU", occupancy)
    yield from _uncached(subject, machine, executed, resident)


def _shared(unit: str, cycles: float, resident: Residency, machine: Machine) -> float | None:
    """What a unit takes for all resident waves."""
    if unit in _OWN:
        return cycles
    if unit == "vector":
        # Waves may issue together, a wave by itself issues one at a time.
        together = machine.valu_per_issue
        if together is None:
            return None
        return max(cycles, cycles * resident.on_simd / together)
    if unit == "lds_port":
        return cycles * resident.on_pair
    if unit in ("lds", "l1"):
        return cycles * resident.on_cu
    return cycles * resident.on_simd


def _uncached(
    subject: Subject, machine: Machine, executed: Sequence[Instruction], resident: Residency
) -> Iterator[Metric]:
    lines = _lines(subject.uses, replace(machine, l1_bytes_per_clk=1), executed)
    touched = None if lines.cycles is None else lines.cycles * resident.waves
    for name, per_clock in (
        (L2, machine.l2_bytes_per_clk),
        (MEMORY, memory_bytes_per_clk(machine)),
    ):
        cycles, note = None, lines.note
        if touched is not None and per_clock is not None and machine.cus is not None:
            cycles = touched * machine.cus / resident.cus / per_clock
        elif touched is not None:
            note = f"the rate of {machine.arch} is not known"
        yield Metric(name, _rounded(cycles), "cycles", "estimated", note)


def memory_bytes_per_clk(machine: Machine) -> float | None:
    """Bytes that the device's memory brings in a clock; of several products the fastest's."""
    rates_of_products = [
        product.memory_bytes_per_s / (product.clock_mhz * 1e6)
        for product in all_products()
        if product.arch == machine.arch and product.cus == machine.cus
    ]
    return max(rates_of_products, default=None)


def _rounded(cycles: float | None) -> float | int | None:
    if cycles is None:
        return None
    return int(cycles) if cycles == int(cycles) else round(cycles, 2)
