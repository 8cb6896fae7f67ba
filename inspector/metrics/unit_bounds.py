"""Lower bounds of one wave's iteration of a loop, for each unit of the machine.

The waves that are on a CU at a time, and the cycles that each unit takes for all of them.

The loop-carried chain: the time of an iteration that needs results of the previous one.

Results are available after the machine's `result_cycles` at the earliest, those of the matrix unit
after its `mfma_cycles`. No document states the latency of loads: they count as if they took no
longer than an issue. So the figure is a lower bound, also where the chain passes code that not
every iteration executes, whose results break it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final, Literal

from msgspec import Struct

from ..base.errors import unforeseen
from ..isa.dataflow.effects import results_and_sources
from ..isa.dataflow.execution_target import ExecutionTarget, target_of
from ..isa.dataflow.operands import SUFFIXES, Decoded, Operand, decode, halves_of
from ..machines import matrix_cycles
from ..model import Demand, Function, Instruction, LaneUse, Loop, Machine, Metric, int_of
from .lane_metrics import NOT_LOOKED_AT
from .load_paths import code_of
from .mix import VALU_CLASSES, rates
from .subject import MATRIX_CLASSES, Subject

_NOT_ISSUED: Final = frozenset(
    ("wait", "alu_wait", "nop", "hint", "barrier", "barrier_signal", "control")
)
"""Classes that the instruction buffer handles: they occupy no unit."""
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


def wave_bounds(
    subject: Subject, machine: Machine, executed: Sequence[Instruction]
) -> dict[str, Bound]:
    """The bound of each unit for one wave, without the latency of chains."""
    return unit_bounds(machine, rates(subject), subject.uses, executed)


def unit_bounds(
    machine: Machine,
    vector_rates: tuple[int | None, int | None],
    uses: Mapping[int, LaneUse],
    executed: Sequence[Instruction],
) -> dict[str, Bound]:
    """The clocks that each unit takes for some instructions of one wave.

    `vector_rates`: clocks of a full-rate and of a transcendental vector operation; `uses`: what the
    accesses among them touch, by their index.
    """
    slot, slow = vector_rates
    vector = [inst for inst in executed if inst.cls in VALU_CLASSES]
    transcendental = sum("transcendental" in inst.op.traits for inst in vector)
    issue_cycles = machine.issue_cycles
    unknown = _not_published(machine)
    return {
        "matrix": _matrix(machine, executed),
        "vector": _times(len(vector), slot, unknown),
        "transcendental": _times(transcendental, slow, unknown),
        "scalar": _times(sum(inst.cls == "salu" for inst in executed), issue_cycles, unknown),
        "vmem": _times(sum(inst.cls in _VMEM for inst in executed), issue_cycles, unknown),
        "lds": _lds_data(uses, executed),
        "lds_port": _lds_port(uses, machine, executed),
        "l1": lines(uses, machine, executed),
        "issue": _times(
            sum(inst.cls not in _NOT_ISSUED for inst in executed), issue_cycles, unknown
        ),
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
    cycles_of = {
        inst.index: use.cycles
        for inst in accesses
        if (use := uses.get(inst.index)) is not None and use.cycles is not None
    }
    return _sum(cycles_of, accesses, uses)


def _lds_port(
    uses: Mapping[int, LaneUse], machine: Machine, executed: Sequence[Instruction]
) -> Bound:
    """The busier direction of a port: addresses and written data inwards, read data outwards."""
    accesses = [inst for inst in executed if inst.cls in ("lds_read", "lds_write")]
    if not accesses:
        return Bound(0)
    port = machine.lds_port_bytes_per_clk
    if not port:
        return Bound(None, note=_not_published(machine))
    inwards: dict[int, float] = {}
    outwards: dict[int, float] = {}
    for inst in accesses:
        use = uses.get(inst.index)
        if use is None or use.lanes is None or inst.op.bits is None:
            continue
        words = ceil(inst.op.bits / 32)
        reads = inst.cls == "lds_read"
        inwards[inst.index] = use.lanes * 4 * (1 if reads else 1 + words) / port["write"]
        outwards[inst.index] = use.lanes * 4 * words / port["read"] if reads else 0.0
    inward, outward = (_sum(cycles_of, accesses, uses) for cycles_of in (inwards, outwards))
    return max((inward, outward), key=lambda bound: bound.cycles or 0)


def lines(uses: Mapping[int, LaneUse], machine: Machine, executed: Sequence[Instruction]) -> Bound:
    """The bound of the vector cache's lookups."""
    accesses = [inst for inst in executed if inst.cls in _CACHED]
    if not accesses:
        return Bound(0)
    line, rate = machine.cache_line_bytes, machine.l1_bytes_per_clk
    if line is None or rate is None:
        return Bound(None, note=_not_published(machine))
    cycles_of = {
        inst.index: use.lines * line / rate
        for inst in accesses
        if (use := uses.get(inst.index)) is not None and use.lines is not None
    }
    return _sum(cycles_of, accesses, uses)


def _not_published(machine: Machine) -> str:
    return f"the rates of {machine.arch} are not published"


def _sum(
    cycles_of: Mapping[int, float], accesses: Sequence[Instruction], uses: Mapping[int, LaneUse]
) -> Bound:
    """The sum of known cycles of some accesses, a lower bound if others are unknown."""
    left_out = [inst.index for inst in accesses if inst.index not in cycles_of]
    note = ""
    if left_out:
        reasons = (uses[index].unknown for index in left_out if index in uses)
        reason = next(filter(None, reasons), NOT_LOOKED_AT)
        note = f"{len(left_out)} of {len(accesses)} accesses are left out: {reason}"
        if not cycles_of:
            return Bound(None, note=note)
    estimated = any(uses[index].origin == "estimated" for index in cycles_of)
    return Bound(sum(cycles_of.values()), "estimated" if estimated else "derived", note)


def latency(code: Code, loop: Loop, executed: Sequence[Instruction]) -> Bound:
    """The bound of the chain that one iteration passes to the next."""
    function = code.function
    executed_indices = [inst.index for inst in executed]
    executed_set = set(executed_indices)
    inside = (inst.index for inst in code_of(function, *loop.blocks))
    others = [index for index in inside if index not in executed_set]
    if len(executed_indices) + len(others) > MOST_INSTRUCTIONS:
        return Bound(None, note=f"not looked for in more than {MOST_INSTRUCTIONS:,} instructions")
    try:
        cycles = carried_cycles(code, executed_indices, others)
    except Exception as error:
        # Operands that the emulator cannot decode must not cost the report.
        return Bound(None, note=unforeseen(error).message)
    note = "" if cycles is not None else f"the latencies of {code.machine.arch} are not published"
    return Bound(cycles, note=note)


def rounded(cycles: float | None) -> float | int | None:
    """Cycles as they are reported: whole numbers as such."""
    if cycles is None:
        return None
    return int(cycles) if cycles == int(cycles) else round(cycles, 2)


BY_WAVE: Final = frozenset(("issue", "latency"))
"""Bounds that do not depend on other waves."""


class Residency(Struct, frozen=True):
    """The waves of the unit that holds workgroups.

    Args:
        waves: the number of waves.
        eus: SIMDs that they are spread over.
        cus: 2 in WGP mode, else 1; each has an LDS and a vector cache of its own.
    """

    waves: int
    eus: int
    cus: int

    @property
    def on_simd(self) -> int:
        """Waves on the fullest SIMD."""
        return ceil(self.waves / self.eus)

    @property
    def on_cu(self) -> int:
        """Waves on the fuller CU."""
        return ceil(self.waves / self.cus)

    @property
    def on_pair(self) -> int:
        """Waves on two SIMDs that share a port of the LDS."""
        return ceil(2 * self.waves / self.eus)


def residency(machine: Machine, demand: Demand, metrics: Mapping[str, Metric]) -> Residency | None:
    """The waves resident at the kernel's occupancy; None where it is unknown or nothing fits."""
    workgroups = int_of(metrics, "occupancy.workgroups_per_cu")
    waves = demand.waves_per_workgroup
    if not workgroups or not waves:
        return None
    if demand.cu_mode:
        eus = machine.eus if machine.eus_cu_mode is None else machine.eus_cu_mode
        return Residency(workgroups * waves, eus, 1)
    return Residency(workgroups * waves, machine.eus, 2)


def shared_cycles(unit: str, cycles: float, resident: Residency, machine: Machine) -> float | None:
    """The clocks of a unit for all resident waves."""
    if unit in BY_WAVE:
        return cycles
    if unit == "vector":
        # Several waves may issue at once, a single wave one instruction at a time.
        waves_per_issue = machine.valu_per_issue
        if waves_per_issue is None:
            return None
        return max(cycles, cycles * resident.on_simd / waves_per_issue)
    if unit == "lds_port":
        return cycles * resident.on_pair
    if unit in ("lds", "l1"):
        return cycles * resident.on_cu
    return cycles * resident.on_simd


_NEVER: Final = -1 << 40  # no path leads here
_SCALARS: Final = 1024  # rows of the vector file come before
_ROWS: Final = _SCALARS + 160
_ITERATIONS: Final = 8  # the slowest chain dominates by then, as a rule
MOST_INSTRUCTIONS: Final = 5_000
"""Instructions of a loop, which take some 50 ms; larger ones are not analysed."""

_Rows = tuple[int, int]
"""(first row, row after the last) of a register operand."""


class _Node(Struct, frozen=True):
    """An instruction: cycles until its result can be used, and the rows that it reads
    and writes.
    """

    cycles: int
    reads: tuple[_Rows, ...]
    writes: tuple[_Rows, ...]


class Code(Struct, frozen=True):
    """A function whose operands are decoded on demand."""

    function: Function
    machine: Machine
    target: ExecutionTarget

    @classmethod
    def of(cls, function: Function, machine: Machine) -> Code:
        """Prepares a function for a machine."""
        return cls(function, machine, target_of(function, machine.arch))

    def registers(self, index: int) -> tuple[tuple[_Rows, ...], tuple[_Rows, ...]]:
        """The rows that an instruction reads, and those that it writes."""
        instruction = self.function.instructions[index]
        offset = self.target.accum_offset
        key = (instruction.mnemonic, instruction.operands, instruction.cls, offset)
        known = _KNOWN.get(key)
        if known is None:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            known = _KNOWN[key] = _registers_of(instruction, offset)
        return known


_Registers = tuple[tuple[_Rows, ...], tuple[_Rows, ...]]
_KNOWN: Final[dict[tuple[str, str, str, int], _Registers]] = {}
"""Instructions that several loops, kernels and analyses have in common."""
_MOST_KNOWN: Final = 1 << 14


def _registers_of(instruction: Instruction, accum_offset: int) -> _Registers:
    parts = decode(instruction.mnemonic, instruction.operands, SUFFIXES, accum_offset)
    halves: tuple[Decoded, ...] = (parts,)
    if " :: " in parts.text:  # both operations issue at once
        halves = halves_of(parts, accum_offset)
    reads: list[_Rows] = []
    writes: list[_Rows] = []
    for half in halves:
        results, sources = results_and_sources(instruction, half)
        reads += [rows for operand in sources if (rows := _rows(operand)) is not None]
        writes += [rows for operand in results if (rows := _rows(operand)) is not None]
    return tuple(reads), tuple(writes)


def carried_cycles(code: Code, executed: Sequence[int], others: Sequence[int]) -> float | None:
    """Clocks of the longest chain of dependencies from one iteration into the next.

    `executed`: indices of the loop's instructions that every iteration executes, in that order;
    `others`: indices of its other instructions, nested loops included.

    Returns:
        Clocks per iteration; 0 where no iteration needs another one's results. None where the
        target's latencies are not known.
    """
    if not code.machine.result_cycles:
        return None
    uncertain_rows = 0  # rows written by code that is not always executed, as bits
    for index in others:
        for first_row, stop in code.registers(index)[1]:
            uncertain_rows |= _bits(first_row, stop)
    nodes = []
    for index in executed:
        reads, writes = code.registers(index)
        if uncertain_rows:
            reads, writes = (
                tuple(rows for rows in operand_rows if not uncertain_rows & _bits(*rows))
                for operand_rows in (reads, writes)
            )
        if writes:
            cycles = _cycles(code.function.instructions[index], code.machine)
            nodes.append(_Node(cycles, reads, writes))
    ready = [0] * _ROWS
    steps = []
    for _ in range(_ITERATIONS):
        origin = list(range(_ROWS))
        _iterate(nodes, ready, origin)
        steps.append((list(ready), origin))
    result_rows = {first_row for node in nodes for first_row, _ in node.writes}
    return max((_cycle_clocks(steps, row) for row in result_rows), default=0.0)


def _cycle_clocks(steps: Sequence[tuple[list[int], list[int]]], row: int) -> float:
    """Clocks per iteration of the cycle in the chain that ends in the last iteration's value."""
    visits: dict[int, tuple[int, int]] = {}
    for iteration in range(len(steps) - 1, -1, -1):
        ready, origin = steps[iteration]
        if ready[row] < 0:
            return 0.0
        if row in visits:
            later_iteration, later_ready = visits[row]
            return (later_ready - ready[row]) / (later_iteration - iteration)
        visits[row] = iteration, ready[row]
        row = origin[row]
    return 0.0


def _iterate(nodes: Sequence[_Node], ready: list[int], origin: list[int]) -> None:
    """Advances by one iteration: updates when registers are ready, and their chains' origins."""
    for node in nodes:
        latest, source = _NEVER, -1
        for first, stop in node.reads:
            row = first
            if stop - first > 1:
                times = ready[first:stop]
                row += times.index(max(times))
            if ready[row] > latest:
                latest, source = ready[row], origin[row]
        finished = latest + node.cycles if latest >= 0 else _NEVER
        for first, stop in node.writes:
            if stop - first == 1:
                ready[first], origin[first] = finished, source
            else:
                ready[first:stop] = [finished] * (stop - first)
                origin[first:stop] = [source] * (stop - first)


def _bits(first: int, stop: int) -> int:
    return (1 << stop) - (1 << first)


def _rows(operand: Operand) -> _Rows | None:
    if operand.is_null or operand.kind not in ("vgpr", "sgpr"):
        return None
    first = operand.first + (_SCALARS if operand.kind == "sgpr" else 0)
    stop = first + operand.count
    return (first, stop) if stop <= _ROWS else None


def _cycles(instruction: Instruction, machine: Machine) -> int:
    """Clocks until the result can be used, at least."""
    latencies = machine.result_cycles
    if instruction.cls in MATRIX_CLASSES:
        cycles = matrix_cycles(machine, instruction.op.name, instruction.operands)
        return latencies["valu"] if cycles is None else cycles
    if instruction.cls in ("valu", "acc_move"):
        slow = "transcendental" in instruction.op.traits
        return latencies["transcendental" if slow else "valu"]
    if instruction.cls == "salu":
        return latencies["salu"]
    return machine.issue_cycles or 0
