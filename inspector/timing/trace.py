"""Executes some workgroups of a launch and keeps what each wave did: its way and its accesses.

Loops are followed to their end, but only their first iterations are kept: from then on no more is
carried out than tells how often they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ..emulator.banks import DWORD, data_cycles, phases_of
from ..emulator.grid import GridRunner, Launch
from ..emulator.launch import Emulator, without_collections
from ..emulator.lockstep import EmulationLimitError, LaunchLimits, Scheduler
from ..emulator.machine import MachineState
from ..emulator.memory import Buffer, GlobalMemory
from ..emulator.program import CodeBlock, EndKind, PreparedCode
from ..emulator.registry import BuildContext, Step
from ..emulator.start import waves_of
from ..emulator.waves import Array, Waves
from ..isa.mnemonics import access_bits
from ..model import Loop
from .thinning import Thinned
from .trip_counts import CountedLoop, counted_loop

INNERMOST_TRIPS: Final = 6
"""Iterations of an innermost loop that are kept each time that a wave enters it."""
OUTER_TRIPS: Final = 3
"""Iterations of other loops that are kept."""
_NO_BLOCK: Final = -1
_NO_LINE: Final = -1
_SCRATCH: Final = 1 << 60
"""Where private memory stands among the addresses of lines; each wave has its own."""
_SCRATCH_STEP: Final = 1 << 24


class Access(Struct, frozen=True):
    """An instruction's access by one wave.

    Args:
        lines: numbers of the cache lines of global memory that it touches.
        bytes: of all active lanes.
        cycles: of the LDS.
        least: cycles of the LDS without bank conflicts.
    """

    lines: tuple[int, ...] = ()
    bytes: int = 0
    cycles: int = 0
    least: int = 0


class WaveTrace(Struct, frozen=True):
    """What one wave did.

    Args:
        stream: indices of the executed instructions.
        accesses: by position in the stream, for accesses of memory.
        trips: loop id -> (iterations that are in the stream, iterations in all).
        spans: of each iteration in the stream: (loop id, position where it begins, and ends).
    """

    stream: list[int]
    accesses: dict[int, Access]
    trips: dict[str, tuple[int, int]]
    spans: list[tuple[str, int, int]]


class Trace(Struct, frozen=True):
    """What some workgroups did.

    Args:
        workgroups: number in the grid -> its waves.
        fresh: by instruction, the share of its lines that no wave of these workgroups had touched
            before; None where it was not executed.
        is_complete: whether all waves came to their end.
    """

    workgroups: dict[int, list[WaveTrace]]
    fresh: dict[int, float]
    is_complete: bool


def trace(
    emulator: Emulator, launch: Launch, buffers: list[Buffer], line_bytes: int, arch: str
) -> Trace:
    """Executes the workgroups that a launch names.

    Args:
        emulator: of the kernel.
        launch: with the numbers of the workgroups.
        buffers: global memory; it is written to.
        line_bytes: of a cache line.
        arch: gfx name, for the banks of the LDS.

    Raises:
        NotCoveredError: an instruction that the emulator does not carry out was reached.
    """
    assert launch.workgroups is not None
    runner = emulator.runner(_TracingRunner, emulator.code)
    recorder = _Recorder(
        GlobalMemory(buffers), arch, line_bytes, waves_of(launch.threads, emulator.target)
    )
    is_complete = True
    with without_collections():
        try:
            runner.run(
                launch,
                np.array(launch.workgroups, np.int64),
                recorder,
                LaunchLimits(launch.seconds, launch.blocks),
                {},
            )
        except EmulationLimitError:
            is_complete = False
    return recorder.traces(runner.code, launch.workgroups, runner.loops, is_complete)


class _Event(NamedTuple):
    """An access that waves carry out together.

    Args:
        site: index of the instruction.
        run: number of the block's execution; an instruction may access memory twice in one.
        waves: numbers of the waves.
        lines: those of global memory that they touch, one wave behind the other.
        counts: how many of them each wave touches.
        moved: bytes of each wave.
        cycles, least: of the LDS; None for an access of global memory.
    """

    site: int
    run: int
    waves: Array
    lines: Array
    counts: Array
    moved: Array
    cycles: Array | None = None
    least: Array | None = None

    def by_wave(self) -> Iterator[tuple[int, Access]]:
        """Yields the number of each wave, and its access."""
        if self.cycles is not None and self.least is not None:
            numbers = self.waves.tolist(), self.cycles.tolist(), self.least.tolist()
            for wave, cycles, least in zip(*numbers, strict=True):
                yield wave, Access(cycles=cycles, least=least)
            return
        flat, begin = self.lines.tolist(), 0
        ends = np.cumsum(self.counts).tolist()
        for wave, end, moved in zip(self.waves.tolist(), ends, self.moved.tolist(), strict=True):
            yield wave, Access(tuple(flat[begin:end]), moved)
            begin = end


class _Recorder(MachineState):
    """Keeps accesses and blocks, in the order in which the emulator carries them out."""

    def __init__(self, memory: GlobalMemory, arch: str, line_bytes: int, waves_each: int) -> None:
        super().__init__(memory)
        self._arch = arch
        self._shift = line_bytes.bit_length() - 1
        self.is_kept = True
        self.events: list[_Event] = []
        self.waves_each = waves_each
        self.ways: list[tuple[int, Array]] = []
        self.skipped: list[tuple[int, Array, Array | int]] = []

    def numbers(self, waves: Waves) -> Array:
        """Numbers of waves among all that are executed, [wave]."""
        return waves.workgroup * self.waves_each + waves.wave

    def before_global(
        self, context: BuildContext, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None = None, *, atomic: bool = False,
    ) -> None:  # fmt: skip
        if not self.is_kept:
            return
        first = where >> self._shift
        last = (where + (size - 1)) >> self._shift
        if usable is not None:
            first, last = np.where(usable, first, _NO_LINE), np.where(usable, last, _NO_LINE)
        lines = np.sort(first if (first == last).all() else np.concatenate([first, last], 1), 1)
        distinct = lines >= 0
        distinct[:, 1:] &= lines[:, 1:] != lines[:, :-1]
        active = np.full(waves.count, where.shape[1]) if usable is None else usable.sum(1)
        self.events.append(
            _Event(
                context.index,
                len(self.ways),
                self.numbers(waves),
                lines[distinct],
                distinct.sum(1),
                active * size,
            )
        )

    def before_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None,
    ) -> None:  # fmt: skip
        if not self.is_kept:
            return
        phases = phases_of(self._arch, size, where.shape[1], writes=values is not None)
        cycles, least = data_cycles(phases, where, size, usable)
        none = np.zeros(waves.count, np.int64)
        self.events.append(
            _Event(site, len(self.ways), self.numbers(waves), none[:0], none, none, cycles, least)
        )

    def unwaited(self, site: int, registers: int, waves: Waves) -> None:
        pass

    def traces(
        self,
        code: PreparedCode,
        workgroups: Sequence[int],
        loops: Sequence[tuple[Loop, frozenset[int], int]],
        is_complete: bool,
    ) -> Trace:
        """Sorts what was kept by wave."""
        count = len(workgroups) * self.waves_each
        ways: list[list[int]] = [[] for _ in range(count)]
        for number, waves in self.ways:
            for wave in waves.tolist():
                ways[wave].append(number)
        skipped = [np.zeros(count, np.int64) for _ in loops]
        for which, waves, iterations in self.skipped:
            skipped[which][waves] += iterations
        queues: list[list[tuple[int, int, Access]]] = [[] for _ in range(count)]
        for event in self.events:
            for wave, access in event.by_wave():
                queues[wave].append((event.site, event.run, access))
        waves_of_all = [
            _wave_trace(
                wave,
                1 << self._shift,
                code,
                ways[wave],
                queues[wave],
                loops,
                [int(s[wave]) for s in skipped],
            )
            for wave in range(count)
        ]
        each = self.waves_each
        return Trace(
            {
                number: waves_of_all[slot * each : (slot + 1) * each]
                for slot, number in enumerate(workgroups)
            },
            self._fresh(),
            is_complete,
        )

    def _fresh(self) -> dict[int, float]:
        """By instruction, the share of lines that nobody had touched before."""
        events = [event for event in self.events if len(event.lines)]
        if not events:
            return {}
        sites = np.concatenate([np.full(len(event.lines), event.site) for event in events])
        lines = np.concatenate([event.lines for event in events])
        _, first = np.unique(lines, return_index=True)
        total = np.bincount(sites)
        fresh = np.bincount(sites[first], minlength=len(total))
        return {
            int(site): float(fresh[site] / total[site]) for site in np.flatnonzero(total).tolist()
        }


def _scratch_accesses(
    code: PreparedCode, stream: Sequence[int], wave: int, line_bytes: int
) -> dict[int, Access]:
    """Accesses of private memory: a dword of all lanes lies side by side, none is shared."""
    sizes = {
        inst.index: max(1, (access_bits(inst.op, inst.operands) or 32) // 32)
        for inst in code.function.instructions
        if inst.cls in ("scratch_load", "scratch_store")
    }
    if not sizes:
        return {}
    dword = DWORD * code.target.lanes
    base = (_SCRATCH + wave * _SCRATCH_STEP) // line_bytes
    accesses = {}
    for position, site in enumerate(stream):
        dwords = sizes.get(site)
        if dwords is None:
            continue
        first = base + code.decoded[site].number("offset") // DWORD * dword // line_bytes
        count = max(1, dwords * dword // line_bytes)
        accesses[position] = Access(tuple(range(first, first + count)), dwords * dword)
    return accesses


def _wave_trace(
    wave: int,
    line_bytes: int,
    code: PreparedCode,
    way: Sequence[int],
    queue: Sequence[tuple[int, int, Access]],
    loops: Sequence[tuple[Loop, frozenset[int], int]],
    skipped: Sequence[int],
) -> WaveTrace:
    stream: list[int] = []
    starts: list[int] = []
    for number in way:
        starts.append(len(stream))
        block = code.blocks[number]
        stream += range(block.first, block.stop)
    starts.append(len(stream))
    accesses = _scratch_accesses(code, stream, wave, line_bytes)
    position, last = 0, (-1, -1)
    for site, run, access in queue:
        position += (site, run) != last and last[0] == site
        last = site, run
        while position < len(stream) and stream[position] != site:
            position += 1
        known = accesses.get(position)
        if known is not None:  # an instruction with two addresses
            access = Access(
                known.lines + access.lines, known.bytes + access.bytes,
                known.cycles + access.cycles, known.least + access.least,
            )  # fmt: skip
        accesses[position] = access
    trips, spans = {}, []
    for (loop, blocks, header), more in zip(loops, skipped, strict=True):
        heads = [index for index, number in enumerate(way) if number == header]
        for index in heads:
            end = index + 1
            while end < len(way) and way[end] in blocks and way[end] != header:
                end += 1
            spans.append((loop.id, starts[index], starts[end]))
        if heads:
            trips[loop.id] = len(heads), len(heads) + more
    return WaveTrace(stream, accesses, trips, spans)


class _TracingRunner(GridRunner):
    """Runs all workgroups together."""

    def __init__(self, code: PreparedCode, *others: Any) -> None:
        super().__init__(code, *others)
        self._thinned = Thinned(code)
        block_of = {
            site: number
            for number, block in enumerate(code.blocks)
            for site in range(block.first, block.stop)
        }
        blocks = code.function.blocks
        self.loops = [
            (
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
        loops: Sequence[tuple[Loop, frozenset[int], int]],
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
        self._previous[numbers] = number
        is_kept = all(
            int(self._trips[which, numbers].min()) <= self._most[which]
            for which in self._inside[number]
        )
        self._recorder.is_kept = is_kept
        if is_kept:
            self._recorder.ways.append((number, numbers))
            return self._thinned.for_addresses[number].steps
        for which in self._headed.get(number, ()):
            self._recorder.skipped.append((which, numbers, 1))
        return self._thinned.for_branches[number].steps

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
        self._recorder.skipped.append((which, numbers, left_over))
        return leave.following if inside[leave.target] else leave.target
