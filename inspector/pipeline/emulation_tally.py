"""Sums up the counts of a kernel's launches in the emulator, and makes its profile.

The progress of a launch that is executed, in words, with an estimate of the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..emulator.launch import Emulator, LaunchOutcome
from ..emulator.machine import Trouble
from ..emulator.program import CodeBlock, EndKind, PreparedCode
from ..explain.view import plural
from ..isa.operations import operations
from ..model import Function, Instruction
from ..profile.figures.executed_counters import counted
from .emulation_profile import (
    AccessProfile,
    BranchProfile,
    EmulationFinding,
    EmulationProfile,
    LineCount,
    Traffic,
    WorkgroupSpread,
)

CLASSES: Final[Mapping[str, str]] = {
    "valu": "valu", "acc_move": "valu", "cross_lane": "cross_lane", "salu": "salu",
    "mfma": "mfma", "wmma": "wmma",
    "lds_read": "lds", "lds_write": "lds", "lds_atomic": "lds",
    "global_load": "global", "global_store": "global", "atomic": "global",
    "lds_direct": "lds_direct", "scratch_load": "scratch", "scratch_store": "scratch",
    "smem_load": "smem", "wait": "wait", "barrier": "barrier", "branch": "branch",
}  # fmt: skip
"""Instruction class of `isa/` -> class in a profile; `other` for those not listed."""


class LaunchTally:
    """Counts over the executed launches of one kernel.

    Args:
        emulator: executes the kernel; it counts executions by block, over all launches.
    """

    def __init__(self, arch: str, emulator: Emulator, prepare_seconds: float = 0.0) -> None:
        self._arch = arch
        self._emulator = emulator
        self._code = emulator.code
        self._prepare_seconds = prepare_seconds
        self._execute_seconds = 0.0
        self.launches = 0
        self._given_up = 0
        self._workgroups = 0
        self._grid_workgroups = 0
        self._waves = 0
        self._bytes_read = self._bytes_written = 0
        self._troubles: dict[tuple[str, int], Trouble] = {}
        self._per_workgroup: Counter[int] = Counter()  # instructions executed -> workgroups

    def add(self, outcome: LaunchOutcome, grid_workgroups: int, seconds: float) -> None:
        """Counts a launch that was executed."""
        self.launches += 1
        self._execute_seconds += seconds
        self._workgroups += outcome.workgroups
        self._grid_workgroups += grid_workgroups
        self._waves += outcome.waves
        if outcome.footprint is not None:
            self._bytes_read += outcome.footprint.read
            self._bytes_written += outcome.footprint.written
        values, counts = np.unique(outcome.executed, return_counts=True)
        self._per_workgroup.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self._add_troubles(outcome.troubles)

    def give_up(self, troubles: Sequence[Trouble], grid_workgroups: int, seconds: float) -> None:
        """Counts a launch that hung or took too long, with the troubles noticed until then."""
        self.launches += 1
        self._given_up += 1
        self._execute_seconds += seconds
        self._grid_workgroups += grid_workgroups
        self._add_troubles(troubles)

    def _add_troubles(self, troubles: Sequence[Trouble]) -> None:
        for trouble in troubles:
            self._troubles.setdefault((trouble.kind, trouble.site), trouble)

    def profile(self) -> EmulationProfile:
        """Makes the profile of all launches so far."""
        function = self._code.function
        executed, lines = self._executions()
        traffic = self._traffic()
        intensity = traffic.intensity if traffic is not None else None
        return EmulationProfile(
            name=function.name,
            arch=self._arch,
            launches=self.launches,
            workgroups=self._workgroups,
            grid_workgroups=self._grid_workgroups,
            waves=self._waves,
            executed=executed,
            lines=lines,
            findings=tuple(finding_of(trouble, function) for trouble in self._troubles.values()),
            accesses=tuple(self._accesses()),
            trips=trip_counts(self._code),
            prepare_seconds=round(self._prepare_seconds, 4),
            execute_seconds=round(self._execute_seconds, 4),
            branches=tuple(self._branches()),
            per_workgroup=_spread(self._per_workgroup),
            traffic=traffic,
            flops_per_byte=round(intensity, 3) if intensity is not None else None,
            counters=self._counters(),
            given_up=self._given_up,
        )

    def _instruction_runs(self) -> Iterator[tuple[Instruction, int]]:
        """Yields every instruction with the number of waves that executed it."""
        for block in self._code.blocks:
            for instruction in self._code.function.instructions[block.first : block.stop]:
                yield instruction, block.runs

    def _executions(self) -> tuple[dict[str, int], tuple[LineCount, ...]]:
        """Returns the executed instructions by class, and by source line, the most first."""
        total: Counter[str] = Counter()
        by_line: dict[tuple[str | None, int | None], Counter[str]] = {}
        for instruction, runs in self._instruction_runs():
            if not runs:
                continue
            name = CLASSES.get(instruction.cls, "other")
            loc = instruction.loc.outermost if instruction.loc is not None else None
            position = (loc.file, loc.line) if loc is not None else (None, None)
            total[name] += runs
            by_line.setdefault(position, Counter())[name] += runs
        lines = [
            LineCount(file, line, counts.total(), dict(counts.most_common()))
            for (file, line), counts in by_line.items()
        ]
        executed = {"instructions": total.total(), **dict(total.most_common())}
        return executed, tuple(sorted(lines, key=lambda count: -count.instructions))

    def _branches(self) -> Iterator[BranchProfile]:
        """Yields the conditional branches that were executed."""
        for block in self._code.blocks:
            leave = block.leave
            if leave.kind is not EndKind.BRANCH or not block.runs:
                continue
            position = _position(self._code.function.instructions[leave.site])
            yield BranchProfile(
                **position,
                waves=block.runs,
                taken=block.taken,
                divided=block.divided if leave.mask is not None else None,
            )

    def _traffic(self) -> Traffic | None:
        """Returns the mean traffic of a launch; None if accesses were not counted."""
        if self._emulator.counts is None or not self.launches:
            return None
        flops = Counter[str]()
        for instruction, runs in self._instruction_runs():
            for part in operations(instruction, self._emulator.target.lanes) if runs else ():
                if not part.element.startswith("i"):
                    flops[part.pipe] += runs * part.count
        return Traffic(
            unique_read=round(self._bytes_read / self.launches),
            unique_written=round(self._bytes_written / self.launches),
            matrix_flops=round(flops["matrix"] / self.launches),
            vector_flops=round(flops["vector"] / self.launches),
        )

    def _counters(self) -> dict[str, int]:
        counts = self._emulator.counts
        conflicts = None
        if counts is not None:
            conflicts = sum(count.conflicts for count in counts.accesses.values())
        lanes = self._emulator.target.lanes
        return counted(self._instruction_runs(), self._arch, lanes, self._waves, conflicts)

    def _accesses(self) -> Iterator[AccessProfile]:
        """Yields the counted accesses, by instruction and address space."""
        counts = self._emulator.counts
        if counts is None:
            return
        lanes = self._emulator.target.lanes
        for (site, space), count in sorted(counts.accesses.items()):
            instruction = self._code.function.instructions[site]
            position = _position(instruction)
            in_global = space == "global"
            yield AccessProfile(
                space=space,
                op=_operation(instruction, space),
                **position,
                bytes_per_lane=count.size,
                waves=count.waves,
                active_lanes=round(count.lanes / (count.waves * lanes), 4) if count.waves else 0.0,
                bytes=count.bytes,
                cache_lines=count.lines if in_global else None,
                least_cache_lines=count.least_lines if in_global else None,
                conflict_cycles=None if in_global else count.conflicts,
            )


def _position(instruction: Instruction) -> dict[str, Any]:
    """The position of an instruction in the assembly and the source, as fields of the profile's."""
    loc = instruction.loc
    return {
        "line": instruction.line,
        "instruction": f"{instruction.mnemonic} {instruction.operands}".strip(),
        "file": loc.file if loc is not None else None,
        "source_line": loc.line if loc is not None else None,
    }


def _spread(counts: Mapping[int, int]) -> WorkgroupSpread | None:
    """Returns the spread of values, given how often each occurs; None if there are none."""
    total = sum(counts.values())
    if not total:
        return None
    values = sorted(counts)
    cumulated = 0
    for median in values:
        cumulated += counts[median]
        if 2 * cumulated >= total:
            break
    return WorkgroupSpread(least=values[0], median=median, most=values[-1])


def _operation(instruction: Instruction, space: str) -> str:
    """`atomic`, `store` or `load`; a load into LDS (lds_direct) is a store there."""
    if "atomic" in instruction.cls:
        return "atomic"
    stores = {"global_store", "lds_write"} | ({"lds_direct"} if space == "lds" else set())
    return "store" if instruction.cls in stores else "load"


def trip_counts(code: PreparedCode) -> dict[str, float]:
    """Returns loop -> mean iterations per entry of a wave.

    A loop is entered as often as its header runs other than from one of its latches.
    """
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


def _jumps(block: CodeBlock, code: PreparedCode, start: int) -> int:
    """Returns how many waves went from a block to the one that begins at index `start`."""
    leave = block.leave
    if leave.target >= 0 and code.blocks[leave.target].first == start:
        return block.taken if leave.kind is EndKind.BRANCH else block.runs
    if block.stop == start and leave.kind is not EndKind.JUMP:
        return block.runs - block.taken
    return 0


def finding_of(trouble: Trouble, function: Function) -> EmulationFinding:
    """Returns a trouble with its position in assembly and source."""
    position = _position(function.instructions[trouble.site])
    return EmulationFinding(
        kind=trouble.kind,
        detail=trouble.detail,
        **position,
    )


LONG_SECONDS = 60.0
"""A launch that takes longer is worth a warning."""
_SETTLED_SECONDS = 2.0
"""From here on the first workgroups say how long the others take."""


class LaunchProgress:
    """Watches a launch (`emulator.lockstep.Watch`)."""

    def __init__(
        self, kernel: str, workgroups: int, say: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        self._kernel = kernel
        self._workgroups = workgroups
        self._say = say
        self._warn = warn
        self._has_warned = False
        self._started = time.monotonic()

    def __call__(self, ended: int, of: int) -> None:
        seconds = time.monotonic() - self._started
        in_all = seconds * of / ended if ended else None
        size = plural(self._workgroups, "workgroup")
        if in_all is None:
            self._say(f"emulating {self._kernel}: {size}")
        else:
            left = in_words(in_all - seconds)
            self._say(f"emulating {self._kernel}: {100 * ended // of} % of {size}, {left} left")
        expected = in_all if in_all is not None and seconds >= _SETTLED_SECONDS else seconds
        if not self._has_warned and expected >= LONG_SECONDS:
            self._has_warned = True
            known = f"about {in_words(expected)}" if expected > seconds else "more than a minute"
            self._warn(f"emulating {self._kernel}, {size}, takes {known}")


def in_words(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
