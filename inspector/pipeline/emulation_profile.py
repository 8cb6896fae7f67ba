"""What was counted while kernels were executed: one profile per kernel, over all its launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ..emulator.launch import Emulator, Outcome
from ..emulator.machine import Trouble
from ..emulator.program import Code, CodeBlock, Kind
from ..isa.operations import operations
from ..model import Function, Instruction
from ..profile.figures.executed import counted

CLASSES: Final[Mapping[str, str]] = {
    "valu": "valu", "acc_move": "valu", "cross_lane": "cross_lane", "salu": "salu",
    "mfma": "mfma", "wmma": "wmma",
    "lds_read": "lds", "lds_write": "lds", "lds_atomic": "lds",
    "global_load": "global", "global_store": "global", "atomic": "global",
    "lds_direct": "lds_direct", "scratch_load": "scratch", "scratch_store": "scratch",
    "smem_load": "smem", "wait": "wait", "barrier": "barrier", "branch": "branch",
}  # fmt: skip
"""Instruction class -> the name under which executions are counted; others count as `other`."""


class Finding(Struct, frozen=True):
    """Something that the code did and must not do, where it did it first.

    Args:
        kind: one of `emulator.machine.KINDS`.
        detail: what exactly.
        line: of the assembly.
        instruction: its text.
        file: of the source; None where the assembly has no locations.
        source_line: in that file.
    """

    kind: str
    detail: str
    line: int
    instruction: str
    file: str | None
    source_line: int | None


class LineCount(Struct, frozen=True):
    """Executions of one source line's instructions, in waves, by class."""

    file: str | None
    line: int | None
    instructions: int
    classes: Mapping[str, int]


class AccessProfile(Struct, frozen=True):
    """One instruction's accesses of memory, over all waves that executed it.

    Args:
        space: `global` or `lds`.
        op: `load`, `store` or `atomic`.
        line: of the assembly.
        instruction: its text.
        file: of the source; None where the assembly has no locations.
        source_line: in that file.
        bytes_per_lane: of each active lane.
        waves: accesses of a wave: its executions, two for each of an instruction that accesses two
            places (ds_read2_b32).
        active_lanes: mean share of the lanes that took part.
        bytes: that active lanes read or wrote.
        cache_lines: that were touched, summed over executions; None for LDS.
        least_cache_lines: that as many distinct bytes need at least; None for LDS.
        conflict_cycles: that LDS bank conflicts add, in all; None for global memory.
    """

    space: str
    op: str
    line: int
    instruction: str
    file: str | None
    source_line: int | None
    bytes_per_lane: int
    waves: int
    active_lanes: float
    bytes: int
    cache_lines: int | None
    least_cache_lines: int | None
    conflict_cycles: int | None


class BranchProfile(Struct, frozen=True):
    """A conditional branch.

    Args:
        line: of the assembly.
        instruction: its text.
        file: of the source; None where the assembly has no locations.
        source_line: in that file.
        waves: executions.
        taken: executions that took it.
        divided: executions by waves of which some lanes, and not all, were active (EXEC) or for
            taking it (VCC); None for a branch on the scalar condition code, which lanes share.
    """

    line: int
    instruction: str
    file: str | None
    source_line: int | None
    waves: int
    taken: int
    divided: int | None


class Spread(Struct, frozen=True):
    """Instructions that the waves of each executed workgroup executed: extremes and median."""

    least: int
    median: int
    most: int


class Traffic(Struct, frozen=True):
    """What a launch moved and computed, in the mean over launches.

    Args:
        unique_read: distinct bytes of global memory that vector instructions read.
        unique_written: distinct bytes that they wrote.
        matrix_flops: floating-point operations of matrix instructions.
        vector_flops: of vector instructions, all lanes taken as active.
    """

    unique_read: int
    unique_written: int
    matrix_flops: int
    vector_flops: int

    @property
    def intensity(self) -> float | None:
        """Operations per byte, if each distinct byte moved once; None where nothing moved."""
        moved = self.unique_read + self.unique_written
        return (self.matrix_flops + self.vector_flops) / moved if moved else None


class KernelProfile(Struct, frozen=True):
    """One kernel, over all launches of one specialisation.

    Args:
        name: of the kernel.
        arch: gfx name.
        launches: so many.
        workgroups: executed ones.
        grid_workgroups: those of the grids, which are more where a sample was executed.
        waves: executed ones.
        executed: instructions executed, counted once for each wave: `instructions` and by class.
        lines: the same by source line, the most first.
        findings: what went wrong, one of a kind at each instruction.
        accesses: of global memory and LDS, by instruction.
        trips: loop -> how often its body ran for each wave that entered it, in the mean.
        prepare_seconds: that reading the code and making it ready took on this machine.
        execute_seconds: that executing all launches took on this machine; it says nothing of a GPU.
        branches: conditional branches that were executed.
        per_workgroup: how far the workgroups differ.
        traffic: bytes and operations; None where accesses were not counted.
        flops_per_byte: `Traffic.intensity`.
        counters: hardware counters, as a profiler writes them, of all executed workgroups.
        given_up: of the launches so many hung or took too long; their workgroups are in no count
            but the grids'.
    """

    name: str
    arch: str
    launches: int
    workgroups: int
    grid_workgroups: int
    waves: int
    executed: Mapping[str, int]
    lines: tuple[LineCount, ...]
    findings: tuple[Finding, ...]
    accesses: tuple[AccessProfile, ...] = ()
    trips: Mapping[str, float] = {}
    prepare_seconds: float = 0.0
    execute_seconds: float = 0.0
    branches: tuple[BranchProfile, ...] = ()
    per_workgroup: Spread | None = None
    traffic: Traffic | None = None
    flops_per_byte: float | None = None
    counters: Mapping[str, int] = {}
    given_up: int = 0


class Tally:
    """What the launches of one kernel did so far."""

    def __init__(self, arch: str, emulator: Emulator, prepare_seconds: float = 0.0) -> None:
        self._arch = arch
        self._prepare_seconds = prepare_seconds
        self._execute_seconds = 0.0
        self._emulator = emulator
        self._code = emulator.code
        self._workgroups = 0
        self._grid_workgroups = 0
        self._waves = 0
        self._troubles: dict[tuple[str, int], Trouble] = {}
        self._read = self._written = 0
        self._per_workgroup: Counter[int] = Counter()
        self.launches = 0
        self._given_up = 0

    def add(self, outcome: Outcome, grid_workgroups: int, seconds: float) -> None:
        """One more launch, of a grid of so many workgroups, that took so long here."""
        self.launches += 1
        self._execute_seconds += seconds
        self._workgroups += outcome.workgroups
        self._grid_workgroups += grid_workgroups
        self._waves += outcome.waves
        if outcome.footprint is not None:
            self._read += outcome.footprint.read
            self._written += outcome.footprint.written
        values, counts = np.unique(outcome.executed, return_counts=True)
        self._per_workgroup.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self._keep(outcome.troubles)

    def give_up(self, troubles: Sequence[Trouble], grid_workgroups: int, seconds: float) -> None:
        """A launch that hung or took too long: what was noticed until then."""
        self.launches += 1
        self._given_up += 1
        self._execute_seconds += seconds
        self._grid_workgroups += grid_workgroups
        self._keep(troubles)

    def _keep(self, troubles: Sequence[Trouble]) -> None:
        for trouble in troubles:
            self._troubles.setdefault((trouble.kind, trouble.site), trouble)

    def profile(self) -> KernelProfile:
        """The figures, from the counts of the code's blocks."""
        function = self._code.function
        total: Counter[str] = Counter()
        by_line: dict[tuple[str | None, int | None], Counter[str]] = {}
        for block in self._code.blocks:
            if not block.runs:
                continue
            for instruction in function.instructions[block.first : block.stop]:
                name = CLASSES.get(instruction.cls, "other")
                loc = instruction.loc.outermost if instruction.loc is not None else None
                place = (loc.file, loc.line) if loc is not None else (None, None)
                total[name] += block.runs
                by_line.setdefault(place, Counter())[name] += block.runs
        lines = [
            LineCount(file, line, counts.total(), dict(counts.most_common()))
            for (file, line), counts in by_line.items()
        ]
        traffic = self._traffic()
        intensity = traffic.intensity if traffic is not None else None
        return KernelProfile(
            function.name,
            self._arch,
            self.launches,
            self._workgroups,
            self._grid_workgroups,
            self._waves,
            {"instructions": total.total(), **dict(total.most_common())},
            tuple(sorted(lines, key=lambda count: -count.instructions)),
            tuple(finding_of(trouble, function) for trouble in self._troubles.values()),
            self._accesses(),
            trip_counts(self._code),
            round(self._prepare_seconds, 4),
            round(self._execute_seconds, 4),
            tuple(self._branches()),
            _spread(self._per_workgroup),
            traffic,
            round(intensity, 3) if intensity is not None else None,
            self._counters(),
            self._given_up,
        )

    def _runs(self) -> Iterator[tuple[Instruction, int]]:
        """Every instruction with how many waves executed it."""
        for block in self._code.blocks:
            for instruction in self._code.function.instructions[block.first : block.stop]:
                yield instruction, block.runs

    def _branches(self) -> Iterator[BranchProfile]:
        for block in self._code.blocks:
            leave = block.leave
            if leave.kind is not Kind.BRANCH or not block.runs:
                continue
            instruction = self._code.function.instructions[leave.site]
            loc = instruction.loc
            yield BranchProfile(
                instruction.line,
                _text(instruction),
                loc.file if loc is not None else None,
                loc.line if loc is not None else None,
                block.runs,
                block.taken,
                block.divided if leave.mask is not None else None,
            )

    def _traffic(self) -> Traffic | None:
        if self._emulator.counts is None or not self.launches:
            return None
        flops = Counter[str]()
        for instruction, runs in self._runs():
            for part in operations(instruction, self._emulator.target.lanes) if runs else ():
                if not part.element.startswith("i"):
                    flops[part.pipe] += runs * part.count
        return Traffic(
            round(self._read / self.launches),
            round(self._written / self.launches),
            round(flops["matrix"] / self.launches),
            round(flops["vector"] / self.launches),
        )

    def _counters(self) -> dict[str, int]:
        counts = self._emulator.counts
        conflicts = None
        if counts is not None:
            conflicts = sum(count.conflicts for count in counts.accesses.values())
        lanes = self._emulator.target.lanes
        return counted(self._runs(), self._arch, lanes, self._waves, conflicts)

    def _accesses(self) -> tuple[AccessProfile, ...]:
        counts = self._emulator.counts
        if counts is None:
            return ()
        lanes = self._emulator.target.lanes
        profiles = []
        for (site, space), count in sorted(counts.accesses.items()):
            instruction = self._code.function.instructions[site]
            loc = instruction.loc
            in_global = space == "global"
            profiles.append(
                AccessProfile(
                    space,
                    _operation(instruction, space),
                    instruction.line,
                    _text(instruction),
                    loc.file if loc is not None else None,
                    loc.line if loc is not None else None,
                    count.size,
                    count.waves,
                    round(count.lanes / (count.waves * lanes), 4) if count.waves else 0.0,
                    count.bytes,
                    count.lines if in_global else None,
                    count.least_lines if in_global else None,
                    None if in_global else count.conflicts,
                )
            )
        return tuple(profiles)


def _text(instruction: Instruction) -> str:
    return f"{instruction.mnemonic} {instruction.operands}".strip()


def _spread(counts: Mapping[int, int]) -> Spread | None:
    """Extremes and lower median of values, each with how often it occurs."""
    total = sum(counts.values())
    if not total:
        return None
    values = sorted(counts)
    passed = 0
    for median in values:
        passed += counts[median]
        if 2 * passed >= total:
            break
    return Spread(values[0], median, values[-1])


def _operation(instruction: Instruction, space: str) -> str:
    if "atomic" in instruction.cls:
        return "atomic"
    stores = {"global_store", "lds_write"} | ({"lds_direct"} if space == "lds" else set())
    return "store" if instruction.cls in stores else "load"


def trip_counts(code: Code) -> dict[str, float]:
    """How often each loop's header ran for every time that the loop was entered, in the mean."""
    function = code.function
    starts = {block.first: block for block in code.blocks}
    trips = {}
    for loop in function.loops:
        header = function.blocks[loop.header].start
        runs = starts[header].runs
        latches = {function.blocks[latch].stop for latch in loop.latches}
        back = sum(_jumps(block, code, header) for block in code.blocks if block.stop in latches)
        if runs > back:
            trips[loop.id] = round(runs / (runs - back), 3)
    return trips


def _jumps(block: CodeBlock, code: Code, start: int) -> int:
    """How many waves went from a block to the one that starts there."""
    leave = block.leave
    if leave.target >= 0 and code.blocks[leave.target].first == start:
        return block.taken if leave.kind is Kind.BRANCH else block.runs
    if block.stop == start and leave.kind is not Kind.JUMP:
        return block.runs - block.taken
    return 0


def finding_of(trouble: Trouble, function: Function) -> Finding:
    """A trouble with its place in assembly and source."""
    instruction = function.instructions[trouble.site]
    loc = instruction.loc
    return Finding(
        trouble.kind,
        trouble.detail,
        instruction.line,
        _text(instruction),
        loc.file if loc is not None else None,
        loc.line if loc is not None else None,
    )
