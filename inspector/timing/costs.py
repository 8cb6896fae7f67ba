"""What each instruction takes on a compute unit: its unit, cycles, registers and waits.

The waves and workgroups that a simulated compute unit holds. What a simulation of a compute unit
takes of the device, and what it finds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.execution_target import target_of
from ..isa.dataflow.operands import SCALAR_BIT, rows_of, scalar_bits
from ..isa.mnemonics import access_bits
from ..isa.operations import idle_slots
from ..isa.waitflow.counters import GenerationCounters, decode_wait, events_of
from ..machines import matrix_cycles
from ..model import Function, Instruction, Machine
from ..model.machine import Rates
from ..model.time import StallReason
from .wave_traces import WaveTrace

(SCALAR, VECTOR, MATRIX, LDS, LOAD, STORE, SCALAR_LOAD, BRANCH, WAIT, BARRIER, IDLE, END) = range(
    12
)
"""Kinds of instructions, by the unit that they issue to."""
_KINDS: Final = {
    "valu": VECTOR, "acc_move": VECTOR, "mfma": MATRIX, "wmma": MATRIX,
    "cross_lane": LDS, "lds_read": LDS, "lds_write": LDS, "lds_atomic": LDS,
    "global_load": LOAD, "scratch_load": LOAD, "lds_direct": LOAD, "image": LOAD, "atomic": LOAD,
    "global_store": STORE, "scratch_store": STORE, "lds_direct_store": STORE,
    "smem_load": SCALAR_LOAD, "message": SCALAR_LOAD, "branch": BRANCH, "wait": WAIT,
    "barrier": BARRIER, "nop": IDLE,
}  # fmt: skip
"""Class of an instruction -> kind; the others issue as scalar ones."""
_NOTES: Final = ("s_delay_alu", "s_clause")
"""Say what follows; they take the wave's slot and no unit."""
_QUARTER_RATE: Final = re.compile(
    r"v_mul_(lo|hi)_[ui]32|v_mad_(co_)?[ui]64_[ui]32|v_(lshl|lshr|ashr)rev_[bi]64"
)
"""Quarter-rate operations that are not transcendental (LLVM's SISchedule, WriteQuarterRate32)."""
_DOUBLE: Final = re.compile(r"v_\w*_f64(?:_|$)")
"""Vector arithmetic, comparisons and conversions of float64."""
_LONG: Final = re.compile(
    r"v_s?mfmac?_|global_|buffer_|flat_|scratch_|ds_|s_load|s_buffer|v_pk_|v_wmma"
)
"""Encodings of 8 bytes."""
_DWORD_BITS: Final = 32
_SCALAR_LOAD: Final = re.compile(r"s_load_dword(?:x(?P<count>\d+))?|s_load_b(?P<bits>\d+)")
_SCALAR_ADDRESS: Final = re.compile(
    r"[^,]+, s\[(?P<base>\d+):\d+\], (?P<offset>0x[\da-f]+|\d+|null)"
)
_SCALAR_LINE: Final = 64
"""Bytes of a line of the scalar cache (MT4G, scalarL1 lineSize); arguments begin at one."""
_UNKNOWN_MATRIX: Final = 32
"""Cycles of a matrix instruction of which no figure is known."""


class Cost(NamedTuple):
    """One instruction.

    Args:
        kind: the unit that it issues to.
        cycles: how long it keeps that unit.
        result: cycles until its result can be read.
        reads, writes: groups of registers that are always used together.
        waits: (counter, how many may stay outstanding).
        raises: (counter, whether its operations complete in order).
        line: of the instruction cache that holds it.
        is_scratch: whether it moves private memory.
        scalar_lines: numbers of the scalar cache's lines that a scalar load reads.
        addressed: cycles that the address unit takes for all lanes, active or not; 0: as many as
            its lines and bytes need.
    """

    kind: int
    cycles: float
    result: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    waits: tuple[tuple[int, int], ...]
    raises: tuple[tuple[int, bool], ...]
    line: int
    is_scratch: bool
    scalar_lines: tuple[int, ...] = ()
    addressed: float = 0.0


class Costs(Struct, frozen=True):
    """The instructions of a kernel.

    `scalar_from`: groups from here on hold scalar registers.
    """

    sites: tuple[Cost, ...]
    groups: int
    scalar_from: int
    counters: int


def costs_of(function: Function, machine: Machine, rates: Rates) -> Costs:
    """The costs of a kernel's instructions on a machine."""
    registers = registers_of(function, target_of(function, machine.arch))
    effects = registers.effects
    reads, writes, groups, scalar_from = _register_groups(effects)
    generation = GenerationCounters.of(machine.counters)
    numbers = {name: number for number, name in enumerate(machine.counters)}
    wave = function.resources.wave_size or machine.wave_sizes[0]
    full = machine.valu_cycles.get(wave) or 4
    slow = rates.transcendental or machine.transcendental_cycles.get(wave) or 4 * full
    issue = float(machine.issue_cycles or 1)
    sites: list[Cost] = []
    scalar_lines = _scalar_lines(function.instructions, effects)
    address = 0
    for index, inst in enumerate(function.instructions):
        kind = _kind_of(inst)
        cycles = result = issue
        waits: list[tuple[int, int]] = []
        if kind == VECTOR:
            cycles = full
            latency = machine.result_cycles.get("valu", full)
            if "transcendental" in inst.op.traits:
                cycles = slow
                latency = machine.result_cycles.get("transcendental", latency)
            elif _QUARTER_RATE.match(inst.op.name):
                cycles = rates.quarter_rate
            if rates.double is not None and _DOUBLE.match(inst.op.name):
                cycles = max(cycles, rates.double)
                latency = machine.result_cycles.get("double", latency)
            result = max(cycles, latency)
        elif kind == MATRIX:
            cycles = matrix_cycles(machine, inst.op.name, inst.operands) or _UNKNOWN_MATRIX
            result = cycles + rates.matrix_result
        elif kind == SCALAR:
            result = max(issue, machine.result_cycles.get("salu", issue))
        elif kind == IDLE:
            cycles = issue if inst.op.name in _NOTES else issue * idle_slots(inst)
        elif kind == WAIT:
            limits = decode_wait(
                inst.op.name, inst.operands, machine.waitcnt_fields, machine.counters
            )
            waits = [(numbers[name], count) for name, count in limits.items() if name in numbers]
        raises = tuple(
            (numbers[event.counter], bool(event.order))
            for event in events_of(inst, generation)
            if event.counter in numbers
        )
        sites.append(
            Cost(
                kind, cycles, result, reads[index], writes[index], tuple(waits), raises,
                (inst.address if inst.address is not None else address) // rates.icache_line_bytes,
                inst.cls.startswith("scratch"),
                scalar_lines.get(index, ()),
                _addressed(inst, kind, wave, rates),
            )
        )  # fmt: skip
        address += _bytes_of(inst)
    return Costs(tuple(sites), groups, scalar_from, len(numbers))


def _addressed(inst: Instruction, kind: int, lanes: int, rates: Rates) -> float:
    """Cycles in which the address unit goes through the lanes of an access wider than a dword."""
    if kind not in (LOAD, STORE) or rates.l1_wide_lanes_per_clk is None:
        return 0.0
    if (access_bits(inst.op, inst.operands) or _DWORD_BITS) <= _DWORD_BITS:
        return 0.0
    return lanes / rates.l1_wide_lanes_per_clk


def _scalar_lines(
    instructions: Sequence[Instruction], effects: Sequence[RegisterEffect]
) -> dict[int, tuple[int, ...]]:
    """By scalar load, the lines that it reads.

    Loads from an address that the kernel was started with, as that of its arguments, share lines;
    what others read is a line of their own.
    """
    numbers: dict[tuple[int, int] | int, int] = {}
    written = 0
    lines = {}
    for index, (inst, effect) in enumerate(zip(instructions, effects, strict=True)):
        if _kind_of(inst) == SCALAR_LOAD:
            width = _SCALAR_LOAD.fullmatch(inst.op.name)
            place = _SCALAR_ADDRESS.match(inst.operands)
            keys: list[tuple[int, int] | int] = [index]
            if width and place and not written & scalar_bits(int(place["base"]), 2):
                begin = 0 if place["offset"] == "null" else int(place["offset"], 0)
                size = int(width["bits"] or 32 * int(width["count"] or 1)) // 8
                reached = range(begin // _SCALAR_LINE, (begin + size - 1) // _SCALAR_LINE + 1)
                keys = [(int(place["base"]), line) for line in reached]
            lines[index] = tuple(numbers.setdefault(key, len(numbers)) for key in keys)
        written |= effect.writes
    return lines


def _kind_of(inst: Instruction) -> int:
    if inst.op.name.startswith("s_endpgm"):
        return END
    if inst.op.name in _NOTES:
        return IDLE
    kind = _KINDS.get(inst.cls, SCALAR)
    if (
        inst.cls == "atomic"
        and "returns" not in inst.op.traits
        and not inst.op.name.endswith("_rtn")
    ):
        return LOAD if re.search(r"\b(glc|sc0)\b", inst.operands) else STORE
    return kind


def _bytes_of(inst: Instruction) -> int:
    """Bytes of an instruction's encoding, where the file does not state its address."""
    name = inst.mnemonic
    if _LONG.match(name) or name.endswith(("_e64", "_dpp", "_sdwa")) or "0x" in inst.operands:
        return 8
    return 4


def _register_groups(
    effects: Sequence[RegisterEffect],
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], int, int]:
    """Numbers the registers by who uses them: those of the same instructions are one group."""
    uses: defaultdict[int, list[int]] = defaultdict(list)
    for index, effect in enumerate(effects):
        for row in rows_of(effect.reads):
            uses[row].append(2 * index)
        for row in rows_of(effect.writes):
            uses[row].append(2 * index + 1)
    numbers: dict[tuple[bool, tuple[int, ...]], int] = {}
    group_of: dict[int, int] = {}
    for row in sorted(uses):
        key = row >= SCALAR_BIT, tuple(uses[row])
        group_of[row] = numbers.setdefault(key, len(numbers))
    scalar_from = sum(not is_scalar for is_scalar, _ in numbers)

    def groups_of(registers: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys([group_of[row] for row in rows_of(registers)]))

    reads = [groups_of(effect.reads) for effect in effects]
    writes = [groups_of(effect.writes) for effect in effects]
    return reads, writes, len(numbers), scalar_from


REASONS: Final[tuple[StallReason, ...]] = (
    "issue", "dependency", "vector", "matrix", "lds", "memory", "barrier", "scalar", "icache",
)  # fmt: skip
"""What an instruction may wait for."""
UNITS: Final = ("vector", "matrix", "lds", "l1", "l2", "l3", "memory")
"""Units of which it is known how long they are busy; the first two are one for each SIMD."""


class Shares(Struct, frozen=True):
    """What the device gives one compute unit, in bytes a cycle; latencies are in `Rates`.

    Args:
        halves: LDS and address units with a cache each, which as many SIMDs share; 2 in WGP mode.
        issue: cycles between two instructions of a wave.
        l2, l3, memory: bytes a cycle; None for an L3 that there is not.
        lds_port: bytes a cycle between a pair of SIMDs and the LDS; None: it never limits.
        icache_lines: of the instruction cache.
        l1_lines_per_clk: lines that the L1 looks up in a cycle.
        l2_cycles: in which memory takes what the compute unit's share of the L2 holds.
    """

    simds: int
    halves: int
    issue: float
    l2: float
    l3: float | None
    memory: float
    lds_port: float | None
    line: int
    icache_lines: int
    counter_limits: tuple[int, ...]
    l1_lines_per_clk: float
    l2_cycles: float


class Sharing(Struct, frozen=True):
    """Where the lines of accesses come from.

    Args:
        fresh: by instruction, the share of lines that miss the L2 as well, of those that miss the
            L1 and were not there before for the same workgroup.
        beyond_l3: by instruction, the share of its misses in L2 that miss the L3.
        stored: by instruction, the share of stored bytes that go on to memory; 1 where unnamed.
    """

    fresh: Mapping[int, float]
    beyond_l3: Mapping[int, float]
    stored: Mapping[int, float]


class CuTime(Struct, frozen=True):
    """What the simulation of some workgroups found.

    Args:
        ends: cycle at which each workgroup ended, in their order.
        stalls: by instruction, the cycles that waves waited, by `REASONS`.
        blamed: by instruction, the cycles that waves waited for it: a wait's are those of the
            access that it waits for, all others their own.
        issues: by instruction, how often it was issued.
        busy: cycles of each of `UNITS`, summed over the SIMDs.
    """

    ends: list[float]
    stalls: dict[int, list[float]]
    blamed: dict[int, list[float]]
    issues: dict[int, int]
    busy: list[float]

    def times(self, factor: float) -> CuTime:
        """The time of as many times as much of the same."""
        if factor == 1:
            return self
        return CuTime(
            [end * factor for end in self.ends],
            {site: [cycles * factor for cycles in row] for site, row in self.stalls.items()},
            {site: [cycles * factor for cycles in row] for site, row in self.blamed.items()},
            {site: round(count * factor) for site, count in self.issues.items()},
            [cycles * factor for cycles in self.busy],
        )

    @property
    def cycles(self) -> float:
        """When the last workgroup ended."""
        return max(self.ends, default=0.0)


_ISSUE: Final = REASONS.index("issue")
_DEPENDENCY: Final = REASONS.index("dependency")


class Wave:
    """A resident wave; `base` is the time at which it could have issued at the earliest."""

    __slots__ = (
        "accesses",
        "age",
        "base",
        "blame",
        "group",
        "last_vector",
        "lasts",
        "line",
        "position",
        "queues",
        "ready",
        "reason",
        "simd",
        "stream",
    )  # fmt: skip

    def __init__(self, trace: WaveTrace, group: int, age: int, groups: int, counters: int) -> None:
        self.stream = trace.stream
        self.accesses = trace.accesses
        self.group = group
        self.age = age
        self.position = 0
        self.base = 0.0
        self.reason = _ISSUE
        self.blame = -1
        self.simd = 0
        self.line = -1
        self.last_vector = -1e9
        self.ready: list[tuple[float, int]] = [(0.0, _DEPENDENCY)] * groups
        self.queues: list[list[tuple[float, int, int]]] = [[] for _ in range(counters)]
        self.lasts = [0.0] * counters


class Group:
    """A workgroup: its waves, who is at the barrier, when it ended."""

    __slots__ = ("arrived", "end", "left", "opens", "waves")

    def __init__(self, waves: list[Wave]) -> None:
        self.waves = waves
        self.left = len(waves)
        self.arrived: list[tuple[Wave, float, int]] = []
        self.opens = 0.0
        self.end = 0.0
