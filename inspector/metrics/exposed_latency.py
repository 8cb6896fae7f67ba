"""How long a wave of a hot loop stands still for loads, beside the work that others have meanwhile.

One wave's iteration is played through: an instruction takes an issue slot, a load comes back after
a fixed latency, and a wait holds the wave until the loads that it is for are there. What the wave
stands still is hidden if the other waves of its SIMD have as much to do: at least the time that the
busiest unit takes for an iteration of all of them (`bounds`), or in which the device's memory
delivers their lines. Where that is much less, memory and arithmetic idle together, and loads that
are issued earlier, or more of them at once, shorten the loop.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from math import ceil, prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..isa.graph.longest_way import Way
from ..isa.mnemonics import access_bits
from ..machines import matrix_cycles
from ..machines.products import memory_bytes_per_clk
from ..model import (
    Instruction,
    LoopReport,
    Machine,
    Metric,
    Scalar,
    value_of,
)
from .access_spans import WRITES, unwritten
from .bounds import LONGEST, MEMORY
from .demand import wave_size
from .entries import Unknown, of_loops
from .load_paths import code_of
from .residency import residency
from .subject import MATRIX_CLASSES, LineName, Subject, wait_counts

EXPOSED = "latency.exposed"

SPECS = of_loops(
    {
        EXPOSED: "What one wave stands still for loads from memory in an iteration of a hot loop, "
        "if each takes the `latency` assumed: `cycles`, `at` which line the load that most of it "
        "is for; `work`: cycles for which all `waves` of the SIMD together have work in an "
        "iteration each, or the device's memory has; `stored`: whether the loop writes to a "
        "tensor that it waits for loads of; in Triton's code the `stages` that would load them "
        "ahead, or the bits of a lane where all of them are too `narrow` for that",
    },
    "estimated",
)

LATENCY: Final = 500
"""Clocks assumed for a load from the device's memory.

No document of AMD states one. LLVM's schedules assume 320 for a vector memory access that hits a
cache (SISchedule.td, `HWVMEM` of GFX10 to GFX12); published microbenchmarks of memory are above
500 on every target.
"""
_LAUNCH: Final = 1
"""Workgroups for each CU from which on a launch is taken for one that matters, and no test."""
_ISSUE: Final = 4  # clocks of an instruction of one wave
_BEFORE, PLAYED = 4, 8
"""Iterations that are played first, until loads of earlier ones are under way as in all later, and
those that figures are the mean of: where loads are n iterations ahead, one in n waits for long."""
_LOADS: Final = frozenset(("global_load", "lds_direct"))
_STORES: Final = frozenset(("global_store", "scratch_store"))
_COUNTERS: Final = frozenset(("vmcnt", "loadcnt"))
_MOST_INSTRUCTIONS: Final = 10_000


class _Waves(Struct, frozen=True):
    """The waves that run at a time.

    Args:
        on_simd: those on the fullest SIMD.
        on_gpu: all of them; None where the size of the GPU is not known.
        share: of those that fit.
    """

    on_simd: int
    on_gpu: int | None
    share: float


class Played(Struct, frozen=True):
    """Iterations of a loop by one wave, in clocks.

    Args:
        stalls: the load, by its instruction's index -> clocks of `PLAYED` iterations that the wave
            stood still until it was there.
        waits: the same by the youngest load of each wait, which the wait was placed for.
        cycles: of one iteration.
        bytes: distinct ones that the wave's lanes load in an iteration; of loads whose addresses
            are not known those of all lanes.
    """

    stalls: Counter[int]
    waits: Counter[int]
    cycles: float
    bytes: float

    def waited_for(self, loads: Set[int]) -> float:
        """Clocks of an iteration in waits that were placed for some loads."""
        return sum(self.waits[load] for load in loads) / PLAYED


def played_loops(subject: Subject, ways: Mapping[str, Way]) -> dict[str, Played | None]:
    """Loop id -> iterations of each hot loop; None of one too long to be played.

    Of branches that the whole wave takes, such as the cases of a switch, none counts: an iteration
    executes one of them. What is jumped over where no lane is active counts as executed.

    `ways`: the longest way through an iteration of each hot loop.
    """
    machine, function = subject.machine, subject.function
    if machine is None:
        return {}
    lanes = wave_size(subject).value
    played: dict[str, Played | None] = {}
    for loop, way in ways.items():
        if way.instructions > _MOST_INSTRUCTIONS:
            played[loop] = None
            continue
        code = code_of(function, *way.needed)
        loaded = _loaded(subject, code, lanes if isinstance(lanes, int) else 0)
        played[loop] = replace(_played(code, machine), bytes=loaded)
    return played


def _loaded(subject: Subject, code: Sequence[Instruction], lanes: int) -> float:
    """Bytes that a wave loads from memory in an iteration; one value for all lanes counts once."""
    loaded = 0.0
    for inst in code:
        if inst.cls in _LOADS:
            use = subject.uses.get(inst.index)
            of_all_lanes = lanes * (access_bits(inst.op, inst.operands) or 0) / 8
            loaded += of_all_lanes if use is None or use.bytes is None else use.bytes
    return loaded


def exposed(
    subject: Subject,
    loops: Sequence[LoopReport],
    metrics: Mapping[str, Metric],
    played: Mapping[str, Played | None],
) -> dict[str, dict[str, Scalar] | Unknown]:
    """Hot loop -> the value of the metric of `SPECS`, by all loops, with their bounds."""
    return {
        loop.id: _exposed(subject, loop, played.get(loop.id), metrics) for loop in loops if loop.hot
    }


def _exposed(
    subject: Subject, loop: LoopReport, played: Played | None, metrics: Mapping[str, Metric]
) -> dict[str, Scalar] | Unknown:
    """The value of one loop."""
    waves = _waves(subject, metrics)
    if subject.machine is None or waves is None:
        return Unknown("the waves that are resident are not known")
    if played is None:
        return Unknown(f"not looked for in more than {_MOST_INSTRUCTIONS:,} instructions")
    stalls = played.stalls
    longest = max(stalls, key=lambda load: stalls[load], default=None)
    waited_for = [subject.function.instructions[longest]] if longest is not None else []
    return {
        "cycles": round(sum(stalls.values()) / PLAYED),
        "latency": LATENCY,
        "waves": waves.on_simd,
        "work": _work(subject, loop, waves, played.bytes),
        "at": LineName.of(waited_for),
        "stored": _stored(subject, loop, stalls),
        **_pipelining(subject, stalls),
    }


_PIPELINED_BITS: Final = 32
"""Narrower loads of a lane Triton's pipeliner leaves in their iteration, whatever `num_stages` says
(`isPipeliningBeneficial` in Triton 3.9; tried with 16 bits and 3 stages: the code is the same)."""
_STAGES: Final = 3


def _pipelining(subject: Subject, loads: Iterable[int]) -> dict[str, Scalar]:
    """Whether Triton can load ahead what the loop waits for."""
    instructions = subject.function.instructions
    widths = [access_bits(instructions[load].op, instructions[load].operands) for load in loads]
    widest = max((bits for bits in widths if bits is not None), default=None)
    if subject.ttgir is None or widest is None:
        return {"stages": None, "narrow": None}
    is_narrow = widest < _PIPELINED_BITS
    return {"stages": None if is_narrow else _STAGES, "narrow": widest if is_narrow else None}


def _stored(subject: Subject, loop: LoopReport, loads: Iterable[int]) -> bool | None:
    """Whether the loop writes to a tensor that it waits for loads of; None where a write is not
    followed.
    """
    instructions = subject.function.instructions
    (blocks,) = (one.blocks for one in subject.function.loops if one.id == loop.id)
    code = code_of(subject.function, *sorted(blocks))
    writes = [inst for inst in code if inst.cls in WRITES]
    waited_for = [instructions[load] for load in loads]
    others = unwritten(subject, waited_for, writes) if writes else waited_for
    return None if others is None else len(others) < len(waited_for)


class _Pending(Struct, frozen=True):
    """An operation that is under way: index of its instruction, and when its result is there."""

    index: int
    ready: int


class PlayedStep(Struct, frozen=True):
    """An instruction as it was played.

    Args:
        arrival: the clock at which the wave comes to it.
        stalled: clocks that the wave then stands still.
        cycles: clocks from there until it issues the next one.
    """

    index: int
    arrival: int
    stalled: int
    cycles: int


def timeline(code: Sequence[Instruction], machine: Machine) -> list[PlayedStep]:
    """The instructions of those iterations whose mean `latency.exposed` is, in order.

    `code`: a loop's own instructions.
    """
    steps: list[PlayedStep] = []
    _played(code, machine, steps)
    return steps[_BEFORE * len(code) :]


def _played(
    code: Sequence[Instruction], machine: Machine, played: list[PlayedStep] | None = None
) -> Played:
    """Plays one wave's iterations."""
    counted = _LOADS | {"scratch_load", "atomic"}
    if not {"vscnt", "storecnt"} & machine.counters.keys():
        counted |= _STORES
    steps = [(inst, _allowed(inst, machine), _cycles(inst, machine)) for inst in code]
    pending: deque[_Pending] = deque()
    stalls: Counter[int] = Counter()
    waits: Counter[int] = Counter()
    time = start = 0
    for iteration in range(_BEFORE + PLAYED):
        if iteration == _BEFORE:
            stalls.clear()
            waits.clear()
            start = time
        for inst, allowed, cycles in steps:
            if inst.cls in counted:
                ready = time + (LATENCY if inst.cls in _LOADS else 0)
                pending.append(_Pending(inst.index, ready))
            arrival = time
            while allowed is not None and len(pending) > allowed:
                done = pending.popleft()
                if done.ready > time:
                    stalls[done.index] += done.ready - time
                    time = done.ready
                if len(pending) == allowed and time > arrival:
                    waits[done.index] += time - arrival
            if played is not None:
                played.append(PlayedStep(inst.index, arrival, time - arrival, cycles))
            time += cycles
    return Played(stalls, waits, (time - start) / PLAYED, 0.0)


def _allowed(inst: Instruction, machine: Machine) -> int | None:
    """Loads that a wait lets be outstanding; None of what does not wait for them."""
    if inst.cls != "wait":
        return None
    counts = wait_counts(inst, machine)
    return min((n for name, n in counts.items() if name in _COUNTERS), default=None)


def _cycles(inst: Instruction, machine: Machine) -> int:
    """Clocks until a wave issues its next instruction: matrix instructions hold it longer."""
    if inst.cls == "wait":
        return 0
    if inst.cls not in MATRIX_CLASSES:
        return _ISSUE
    return max(_ISSUE, matrix_cycles(machine, inst.op.name, inst.operands) or 0)


def _waves(subject: Subject, metrics: Mapping[str, Metric]) -> _Waves | None:
    """The waves that fit, or that the launch has; of one that is too small for the GPU the
    former.
    """
    machine, demand = subject.machine, subject.demand
    resident = residency(machine, demand, metrics) if machine and demand else None
    if machine is None or resident is None or not demand.waves_per_workgroup:
        return None
    if machine.cus is None:
        return _Waves(resident.on_simd, None, 1.0)
    units = machine.cus // resident.cus
    on_unit, on_gpu = resident.waves, resident.waves * units
    workgroups = prod(subject.facts.grid) if subject.facts.grid else 0
    launched = workgroups * demand.waves_per_workgroup
    if _LAUNCH * units <= workgroups and launched < on_gpu:
        on_unit, on_gpu = ceil(workgroups / units) * demand.waves_per_workgroup, launched
    share = on_gpu / (resident.waves * units)
    return _Waves(ceil(on_unit / resident.eus), on_gpu, share)


def _work(subject: Subject, loop: LoopReport, waves: _Waves, loaded: float) -> float | None:
    """Clocks for which the waves of a SIMD, or the device's memory, have work in an iteration."""
    longest = value_of(loop.metrics, LONGEST)
    figures = [
        figure * waves.share
        for figure in (
            longest["cycles"] if isinstance(longest, Mapping) else None,
            value_of(loop.metrics, MEMORY),
        )
        if isinstance(figure, int | float)
    ]
    rate = memory_bytes_per_clk(subject.machine) if subject.machine is not None else None
    if rate and waves.on_gpu and loaded:
        figures.append(loaded * waves.on_gpu / rate)
    return round(max(figures), 1) if figures else None
