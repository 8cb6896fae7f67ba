"""Executes some workgroups of a launch and keeps what each wave did: its way and its accesses.

Loops are followed to their end, but only their first iterations are kept: from then on no more is
carried out than tells how often they run.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..emulator.grid import GridRunner, Launch
from ..emulator.launch import Emulator, without_collections
from ..emulator.lockstep import LaunchLimits, Scheduler
from ..emulator.machine import MachineState, Trouble
from ..emulator.memory import Buffer, GlobalMemory
from ..emulator.program import CodeBlock, EndKind, PreparedCode
from ..emulator.registry import Step
from ..emulator.start import waves_of
from ..emulator.waves import Array, Waves
from ..model import Function
from .thinning import CountedLoop, Thinned, counted_loop
from .wave_traces import (
    AccessEvent,
    Recorder,
    Run,
    Shares,
    TracedLoop,
    WaveTrace,
    fresh_shares,
    wave_traces,
)

INNERMOST_TRIPS: Final = 6
"""Iterations of an innermost loop that are kept each time that a wave enters it."""
OUTER_TRIPS: Final = 3
"""Iterations of other loops that are kept."""
MOST_PERIOD: Final = 64
"""Iterations after which lanes come to other lines, at most: a line has 32 or 64 elements."""
_MOST_OF_PERIODS: Final = 60_000
"""Instructions of the waves of a compute unit that are kept for the sake of periods."""
_PAIR: Final = 2
"""Iterations that are left out together in any case (`reduced`)."""
_NO_BLOCK: Final = -1
_NEARLY_ALL: Final = 0.9
_FEWEST_GROUPS: Final = 8
"""Workgroups that were executed, nearly all of which reach a line that all are taken to reach."""
_UNEVEN: Final = 4
"""Times as often as half of the waves that one runs a loop which is told as uneven."""
_FEW_RUNS: Final = 16


class UnevenLoop(Struct, frozen=True):
    """A loop that some waves run far longer than most.

    `most`: iterations of the wave that runs it longest. `median`: half of the waves run it at most
    so often.
    """

    line: int
    most: int
    median: int


class Trace(Struct, frozen=True):
    """What some workgroups did.

    Args:
        workgroups: number in the grid -> its waves.
        shares: of the lines that no wave of these workgroups had touched before; instructions are
            missing which touched none.
        periods: id of a loop -> iterations in which its lanes come to other lines, where they stay
            in a line for some.
        outside: the first access outside of every buffer.
        uneven: the loop that some waves run far longer than most; None where none is such.
        hot_line: number of the line that all workgroups reach by atomics, the most often; None
            where there is none.
        decided_at: addresses of global memory on whose contents addresses, masks or branches rest;
            None where scalar loads bring them, of which no address is kept.
    """

    workgroups: dict[int, list[WaveTrace]]
    shares: Shares
    periods: dict[str, int]
    outside: Trouble | None = None
    uneven: UnevenLoop | None = None
    hot_line: int | None = None
    decided_at: frozenset[int] | None = frozenset()


def trace(
    emulator: Emulator,
    launch: Launch,
    buffers: list[Buffer],
    line_bytes: int,
    arch: str,
    wanted: Sequence[int] | None = None,
) -> Trace:
    """Executes the workgroups that a launch names.

    `launch`: with the numbers of the workgroups. `buffers`: global memory; it is written to.
    `arch`: gfx name, for the banks of the LDS. `wanted`: numbers of the workgroups of which it is
    told what they did; None for all.

    Raises:
        EmulationLimitError: some waves did not come to their end.
        KinspectError: their accesses touch more than can be kept.
        NotCoveredError: an instruction that the emulator does not carry out was reached.
    """
    assert launch.workgroups is not None
    runner = emulator.runner(_TracingRunner, emulator.code)
    each = waves_of(launch.threads, emulator.target)
    waves = len(launch.workgroups) * each
    skipped = np.zeros((len(runner.loops), waves), np.int64)
    recorder = Recorder(GlobalMemory(buffers), arch, line_bytes, each, skipped)
    with without_collections():
        runner.run(
            launch,
            np.array(launch.workgroups, np.int64),
            recorder,
            LaunchLimits(launch.seconds, launch.blocks, time.thread_time),
            {},
        )
    told = launch.workgroups if wanted is None else tuple(wanted)
    slots = [launch.workgroups.index(number) for number in told]
    traces = wave_traces(
        runner.code,
        runner.loops,
        recorder.noted,
        [slot * each + wave for slot in slots for wave in range(each)],
        line_bytes,
    )
    return Trace(
        {number: traces[place * each : (place + 1) * each] for place, number in enumerate(told)},
        fresh_shares(recorder.noted.events, each, _storing(emulator.code.function)),
        recorder.periods,
        next((found for found in recorder.troubles.values() if found.kind == "outside"), None),
        uneven(runner.loops, skipped),
        hot_line(recorder.noted.events, emulator.code.function, each),
        _decided_at(recorder.noted.events, runner.deciding, line_bytes),
    )


def hot_line(events: Sequence[AccessEvent], function: Function, waves_each: int) -> int | None:
    """The line to which all workgroups direct atomics, of several that which gets most of them."""
    atomics = {inst.index for inst in function.instructions if inst.cls == "atomic"}
    requests: Counter[int] = Counter()
    groups: defaultdict[int, set[int]] = defaultdict(set)
    executed: set[int] = set()
    for event in events:
        workgroups = (event.waves // waves_each).tolist()
        executed.update(workgroups)
        if event.site in atomics and len(event.lines):
            lines = event.lines.tolist()
            requests.update(lines)
            for line, group in zip(
                lines, np.repeat(workgroups, event.counts).tolist(), strict=True
            ):
                groups[line].add(group)
    everyone = [line for line, who in groups.items() if len(who) >= _NEARLY_ALL * len(executed)]
    if len(executed) < _FEWEST_GROUPS:
        return None
    return max(everyone, key=lambda line: requests[line], default=None)


def _decided_at(
    events: Sequence[AccessEvent], deciding: frozenset[int], line_bytes: int
) -> frozenset[int] | None:
    touched = {event.site: event.lines for event in events if event.site in deciding}
    if len(touched) < len(deciding):
        return None
    return frozenset(int(lines[0]) * line_bytes for lines in touched.values() if len(lines))


def _storing(function: Function) -> frozenset[int]:
    stores = ("global_store", "atomic")
    return frozenset(inst.index for inst in function.instructions if inst.cls in stores)


def uneven(loops: Sequence[TracedLoop], skipped: Array) -> UnevenLoop | None:
    """The loop that a wave runs longest of those that it runs far longer than most.

    `skipped`: the iterations that were not kept, which are nearly all, int64 [loop, wave].
    """
    found = []
    for traced, runs in zip(loops, skipped, strict=True):
        most, median = int(runs.max(initial=0)), int(np.median(runs)) if runs.size else 0
        if most >= _UNEVEN * max(median, _FEW_RUNS):
            first, _ = traced.loop.lines[0]
            found.append(UnevenLoop(first, most, median))
    return max(found, key=lambda loop: loop.most, default=None)


class _TracingRunner(GridRunner):
    """Runs all workgroups together."""

    def __init__(self, code: PreparedCode, *others: Any) -> None:
        super().__init__(code, *others)
        self._thinned = Thinned(code)
        self.deciding = self._thinned.deciding
        block_of = {
            site: number
            for number, block in enumerate(code.blocks)
            for site in range(block.first, block.stop)
        }
        blocks = code.function.blocks
        self.loops = [
            TracedLoop(
                loop,
                frozenset(
                    block_of[site]
                    for number in loop.blocks
                    for site in range(blocks[number].start, blocks[number].stop)
                ),
                block_of[blocks[loop.header].start],
            )
            for loop in code.function.loops
        ]

    def per_slice(self, launch: Launch) -> int:
        return len(launch.workgroups or ())

    def scheduler(self, machine: MachineState, limits: LaunchLimits, slots: int) -> Scheduler:
        assert isinstance(machine, Recorder)
        return _TracingScheduler(self.code, machine, limits, slots, self._thinned, self.loops)


class _TracingScheduler(Scheduler):
    """Notes the blocks that waves go through, and carries out only what tells of addresses."""

    def __init__(
        self,
        code: PreparedCode,
        machine: Recorder,
        limits: LaunchLimits,
        slots: int,
        thinned: Thinned,
        loops: Sequence[TracedLoop],
    ) -> None:
        super().__init__(code, machine, limits, slots)
        self._recorder = machine
        self._thinned = thinned
        waves = slots * machine.waves_each
        self._previous = np.full(waves, _NO_BLOCK)
        self._trips = np.zeros((len(loops), waves), np.int64)
        parents = {loop.parent for loop, _, _ in loops}
        self._most = [
            OUTER_TRIPS if loop.id in parents else INNERMOST_TRIPS for loop, _, _ in loops
        ]
        self._is_settled = [loop.id in parents for loop, _, _ in loops]
        self._loops = loops
        self._waves_at_once = machine.waves_each
        self._counted: dict[int, tuple[int, CountedLoop]] = {}
        for which, (loop, blocks, _) in enumerate(loops):
            for number in blocks if loop.id not in parents else ():
                block = code.blocks[number]
                ends = {block.leave.target in blocks, block.leave.following in blocks}
                if block.leave.kind is EndKind.BRANCH and len(ends) > 1:
                    counted = counted_loop(code, block, blocks, thinned.for_branches)
                    if counted is not None:
                        self._counted[number] = which, counted
        self._headed: dict[int, list[int]] = {}
        self._inside: list[list[int]] = [[] for _ in code.blocks]
        self._members = np.zeros((len(loops), len(code.blocks) + 1), bool)
        for which, (_, blocks, header) in enumerate(loops):
            self._headed.setdefault(header, []).append(which)
            for number in blocks:
                self._inside[number].append(which)
                self._members[which, number] = True

    def steps_of(self, number: int, waves: Waves) -> Sequence[tuple[int, Step, int]]:
        numbers = self._recorder.numbers(waves)
        for which in self._headed.get(number, ()):
            comes_back = self._members[which, self._previous[numbers]]
            self._trips[which, numbers] = np.where(comes_back, self._trips[which, numbers] + 1, 1)
            if (
                not self._is_settled[which]
                and self._trips[which, numbers].min() > self._most[which]
            ):
                self._settle(which)
        self._previous[numbers] = number
        is_kept = all(
            int(self._trips[which, numbers].min()) <= self._most[which]
            for which in self._inside[number]
        )
        self._recorder.is_kept = is_kept
        if is_kept:
            block = self._code.blocks[number]
            self._recorder.keep((block.stop - block.first) * len(numbers))
            self._recorder.noted.runs.append(Run(number, numbers))
            return self._thinned.for_addresses[number].steps
        for which in self._headed.get(number, ()):
            self._recorder.noted.skipped[which, numbers] += 1
        return self._thinned.for_branches[number].steps

    def _settle(self, which: int) -> None:
        """Keeps so many iterations of an innermost loop that its lanes come to other lines."""
        self._is_settled[which] = True
        loop, blocks, _ = self._loops[which]
        spans = [(self._code.blocks[n].first, self._code.blocks[n].stop) for n in blocks]
        period = self._recorder.period_of(site for span in spans for site in range(*span))
        size = sum(stop - first for first, stop in spans)
        kept = 2 * period + 1
        affordable = kept * size * self._waves_at_once <= _MOST_OF_PERIODS
        if _PAIR < period <= MOST_PERIOD and affordable:
            self._most[which] = max(self._most[which], kept)
            self._recorder.periods[loop.id] = period

    def _branch(self, number: int, block: CodeBlock, waves: Waves) -> int | None:
        following = super()._branch(number, block, waves)
        which, counted = self._counted.get(number, (None, None))
        if which is None or counted is None or following is None or self._recorder.is_kept:
            return following
        leave, inside = block.leave, self._members[which]
        if not inside[following]:
            return following
        numbers = self._recorder.numbers(waves)
        left_over = counted.left_over(waves, numbers)
        if left_over is None:
            return following
        # The rest is as these iterations are: what it would still do is counted, not done.
        for loop in self._iterating(which, numbers):
            self._recorder.noted.skipped[loop, numbers] += left_over
        counted.skip(waves, left_over)
        return leave.following if inside[leave.target] else leave.target

    def _iterating(self, which: int, numbers: Array) -> list[int]:
        """The loop, and those around it up to the one that waves come back in.

        A loop with two ways back to its begin, one of them around its first block, is two to the
        eye; an iteration may go through both.
        """
        found = [which]
        while (self._trips[found[-1], numbers] == 1).all():
            parent = self._loops[found[-1]].loop.parent
            outer = next(
                (n for n, other in enumerate(self._loops) if other.loop.id == parent), None
            )
            if outer is None:
                return [which]
            found.append(outer)
        return found
