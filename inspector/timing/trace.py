"""Executes some workgroups of a launch and keeps what each wave did: its way and its accesses.

Loops are followed to their end, but only their first iterations are kept: from then on no more is
carried out than tells how often they run.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..base.errors import KinspectError
from ..emulator.banks import data_cycles, phases_of
from ..emulator.grid import GridRunner, Launch
from ..emulator.launch import Emulator, without_collections
from ..emulator.lockstep import LaunchLimits, Scheduler
from ..emulator.machine import LaneAccess, MachineState, ObservingMachine, Trouble
from ..emulator.memory import Buffer, GlobalMemory
from ..emulator.program import CodeBlock, EndKind, PreparedCode
from ..emulator.registry import Step
from ..emulator.start import waves_of
from ..emulator.waves import Array, Waves
from ..model import Function
from .thinning import Thinned
from .trip_counts import CountedLoop, counted_loop
from .wave_traces import (
    AccessEvent,
    Noted,
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
_MOST_OF_HEADER: Final = 32
"""Instructions of 8 bytes in 256."""
_MOST_KEPT: Final = 1 << 25
"""Executed instructions and cache lines of all waves that are kept, 8 bytes each or twice that."""
_PAIR: Final = 2
"""Iterations that are left out together in any case (`reduced`)."""
_NO_BLOCK: Final = -1
_NO_LINE: Final = -1
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
    recorder = _Recorder(GlobalMemory(buffers), arch, line_bytes, each, skipped)
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
    header = preload_header(emulator.code.function)
    if header:
        traces = [wave.from_position(header) for wave in traces]
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


def preload_header(function: Function) -> int:
    """Instructions at the start that hardware leaves out which preloads kernel arguments.

    They load the arguments where it does not, and jump over the rest of 256 bytes (LLVM's
    AMDGPUUsage, "Preloaded Kernel Arguments").
    """
    start, first = function.resources.wave_start, function.blocks[0]
    jumps = function.instructions[first.stop - 1].op.name == "s_branch"
    preloads = start is not None and start.preload_dwords > 0
    return first.stop if preloads and jumps and first.stop <= _MOST_OF_HEADER else 0


class _Recorder(ObservingMachine):
    """Keeps accesses and blocks, in the order in which the emulator carries them out."""

    def __init__(
        self, memory: GlobalMemory, arch: str, line_bytes: int, waves_each: int, skipped: Array
    ) -> None:
        super().__init__(memory)
        self._arch = arch
        self._shift = line_bytes.bit_length() - 1
        self.is_kept = True
        self.waves_each = waves_each
        self.noted = Noted([], [], skipped)
        self.periods: dict[str, int] = {}
        self._kept = 0
        self._places: dict[int, tuple[int, int, int]] = {}  # of the first wave's first lane
        self._strides: dict[int, int] = {}

    def keep(self, count: int) -> None:
        """Counts instructions or lines that are kept."""
        self._kept += count
        if self._kept > _MOST_KEPT:
            raise KinspectError(
                "its first workgroups execute and touch more than the timing model keeps",
                "launch smaller workgroups",
            )

    def numbers(self, waves: Waves) -> Array:
        """Numbers of waves among all that are executed, [wave]."""
        return waves.workgroup * self.waves_each + waves.wave

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        if not self.is_kept:
            return
        site, waves, where, usable, size, _ = access
        self._follow(site, waves, where, usable)
        first = where >> self._shift
        last = (where + (size - 1)) >> self._shift
        if usable is not None:
            first, last = np.where(usable, first, _NO_LINE), np.where(usable, last, _NO_LINE)
        lines = np.sort(first if (first == last).all() else np.concatenate([first, last], 1), 1)
        distinct = lines >= 0
        distinct[:, 1:] &= lines[:, 1:] != lines[:, :-1]
        counts = distinct.sum(1)
        self.keep(int(counts.sum()))
        active = np.full(waves.count, where.shape[1]) if usable is None else usable.sum(1)
        self.noted.events.append(
            AccessEvent(
                site,
                len(self.noted.runs) - 1,
                self.numbers(waves),
                lines[distinct],
                counts,
                active * size,
            )
        )

    def _follow(self, site: int, waves: Waves, where: Array, usable: Array | None) -> None:
        """Notes how far an access moves from one iteration to the next."""
        lane = 0 if usable is None else int(usable[0].argmax())
        wave, address = int(self.numbers(waves)[0]), int(where[0, lane])
        former = self._places.get(site)
        self._places[site] = wave, lane, address
        if former is not None and former[:2] == (wave, lane):
            self._strides[site] = abs(address - former[2])

    def period_of(self, sites: Iterable[int]) -> int:
        """Iterations until each access of a loop has come to another line; 1: it always does."""
        line = 1 << self._shift
        strides = (self._strides.get(site, 0) for site in sites)
        return max((-(-line // stride) for stride in strides if stride), default=1)

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        if not self.is_kept:
            return
        site, waves, where, usable, size, _ = access
        phases = phases_of(self._arch, size, where.shape[1], writes=values is not None)
        cycles, least = data_cycles(phases, where, size, usable)
        none = np.zeros(waves.count, np.int64)
        weights = np.arange(1, 2 * where.shape[1], 2, dtype=np.int64) ** 5
        used = where if usable is None else np.where(usable, where, -1)
        self.noted.events.append(
            AccessEvent(
                site,
                len(self.noted.runs) - 1,
                self.numbers(waves),
                none[:0],
                none,
                none,
                cycles,
                least,
                used.astype(np.int64) @ weights,
            )
        )

    def unwaited(self, site: int, registers: int, waves: Waves) -> None:
        pass


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
        assert isinstance(machine, _Recorder)
        return _TracingScheduler(self.code, machine, limits, slots, self._thinned, self.loops)


class _TracingScheduler(Scheduler):
    """Notes the blocks that waves go through, and carries out only what tells of addresses."""

    def __init__(
        self,
        code: PreparedCode,
        machine: _Recorder,
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
                    counted = counted_loop(code, block, blocks)
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
