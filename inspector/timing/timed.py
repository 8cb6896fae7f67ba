"""The time of a launch: workgroups are executed, one compute unit is simulated for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..emulator.grid import Launch
from ..emulator.launch import Emulator
from ..emulator.lockstep import EmulationLimitError
from ..emulator.machine import Trouble
from ..emulator.memory import Buffer
from ..emulator.start import waves_of
from ..machines.rates import rates_of
from ..model import Function, Machine
from ..model.machine import Rates
from .costs import LOAD, STORE, UNITS, Costs, CuTime, Shares, Sharing, costs_of
from .cu import ComputeUnit
from .device import MOST_WAVES, Device, Placement, place, shares_of
from .misses import (
    Caches,
    beyond_l3,
    missed_in_l2,
    queued_atomics,
    reads_of,
    returns,
    scratch_missed,
)
from .reduced import extrapolated
from .trace import UnevenLoop, trace
from .wave_traces import WaveTrace

BLOCKS: Final = 1_000_000
"""Basic blocks that may be executed for one time."""
SECONDS: Final = 60.0
MOST_EXECUTED: Final = 1_500_000
"""Instructions of the kernel times waves that are executed to see what workgroups share."""
MOST_ISSUES: Final = 100_000
"""Instructions that one simulation may issue."""
MOST_CUT: Final = 2.0
"""Times as many that the resident workgroups may take before their waves are cut."""
STRETCHES: Final = 8
"""Of a wave that is cut, from each of which a part is simulated."""


class Timing(Struct, frozen=True):
    """A launch made ready to be timed, with or without some of its costs.

    Args:
        workgroups: the waves of each workgroup that is simulated.
        footprint: bytes of the buffers that it reads.
        part: of the simulated waves that is simulated; their time is taken to grow evenly.
        outside: the first access outside of every buffer.
        uneven: a loop that some waves run far longer than most.
        decided_at: as of `Trace`.
        queued: by instruction, the atomics of the whole grid that go to the line which gets most.
        last: the last workgroup by itself, where it runs a loop that no simulated one runs.
        resident_with: (VGPRs that a wave has more, waves of a workgroup) -> workgroups that a
            compute unit holds at a time; with VGPRs more, each tile of a loop has LDS of its own;
            None where that is not known.
        periods: id of a loop -> iterations in which its lanes come to other lines, as of `Trace`.
    """

    machine: Machine
    rates: Rates
    device: Device
    costs: Costs
    placement: Placement
    sharing: Sharing
    function: Function
    workgroups: Sequence[Sequence[WaveTrace]]
    workgroups_in_grid: int
    footprint: int
    part: float = 1.0
    outside: Trouble | None = None
    uneven: UnevenLoop | None = None
    decided_at: frozenset[int] | None = frozenset()
    queued: Mapping[int, float] = {}
    last: Timing | None = None
    resident_with: Callable[[int, int], int] | None = None
    periods: Mapping[str, int] = {}

    @property
    def waves(self) -> list[WaveTrace]:
        """The waves of all workgroups that are simulated."""
        return [wave for waves in self.workgroups for wave in waves]

    def with_waves(self, change: Callable[[WaveTrace], WaveTrace]) -> Timing:
        """The launch with each wave changed."""
        return replace(self, workgroups=[[*map(change, waves)] for waves in self.workgroups])

    def with_grid(self, workgroups: int, busiest: int) -> Timing:
        """The launch with fewer workgroups, of which the busiest compute unit gets some."""
        placement = replace(
            self.placement,
            busiest=busiest,
            resident=min(self.placement.resident, busiest),
            active=min(self.placement.active, workgroups),
        )
        left = workgroups / self.workgroups_in_grid
        return replace(
            self,
            workgroups=self.workgroups[:busiest],
            workgroups_in_grid=workgroups,
            placement=placement,
            queued={site: count * left for site, count in self.queued.items()},
        )

    def in_l2(self) -> Timing:
        """The launch with all that it reads and stores in the L2."""
        none = dict.fromkeys(range(len(self.costs.sites)), 0.0)
        return replace(self, sharing=Sharing(none, none, none))

    @property
    def can_be_warm(self) -> bool:
        """Whether the Infinity Cache holds all that the launch reads."""
        return bool(self.sharing.beyond_l3) and self.footprint <= self.device.l3_bytes

    def warm(self) -> Timing:
        """The launch with its data in the Infinity Cache."""
        return replace(
            self,
            sharing=replace(self.sharing, beyond_l3=dict.fromkeys(self.sharing.beyond_l3, 0.0)),
        )


class LaunchTime(Struct, frozen=True):
    """How long a launch takes.

    Args:
        us: microseconds, launch included.
        cycles: of the busiest compute unit.
        mhz: the clock that was assumed.
        units: share of the time that each of `UNITS` is busy.
        cu: the simulation of the workgroups that were executed.
        cycles_of: by loop, what an iteration takes, as of `Extrapolated`.
        memory_bytes: that go to the device memory and come from it.
        queue_added: share of the time that atomics on one line take beyond all else.
    """

    us: float
    cycles: float
    mhz: float
    units: Mapping[str, float]
    cu: CuTime
    cycles_of: Mapping[str, float]
    memory_bytes: float
    queue_added: float = 0.0


def traced(
    emulator: Emulator,
    machine: Machine,
    device: Device,
    launch: Launch,
    buffers: list[Buffer],
    resident: int,
    seconds: float = SECONDS,
) -> Timing:
    """Executes what a launch's time rests on.

    `launch`: the whole grid, with its arguments. `buffers`: global memory; it is written to.

    Raises:
        KinspectError: it takes longer.
    """
    rates = rates_of(machine.arch)
    assert rates is not None, "whoever asks for a time has looked"
    waves = waves_of(launch.threads, emulator.target)
    most_waves = min(MOST_WAVES, MOST_EXECUTED // max(1, len(emulator.code.function.instructions)))
    grid = math.prod(launch.grid)
    placement = place(device, grid, resident, waves, most_waves)
    sample = replace(
        launch, workgroups=placement.executed, checks=False, blocks=BLOCKS, seconds=seconds
    )
    line = machine.cache_line_bytes or 64
    try:
        done = trace(emulator, sample, buffers, line, machine.arch, placement.simulated)
    except EmulationLimitError as error:
        raise KinspectError(
            f"{len(placement.executed):,} of its workgroups did not come to their end:"
            f" {error.message}",
            "loops that wait for other workgroups never end here, others may with other arguments",
        ) from None
    function = emulator.code.function
    costs = costs_of(function, machine, rates)
    whole = [done.workgroups[number] for number in placement.simulated]
    workgroups, part = _affordable(whole, resident)
    scratch, scratch_beyond = scratch_missed(emulator, machine, device, placement, launch)
    fresh, stored = done.shares.fresh | scratch, done.shares.stored | scratch
    reads = reads_of(costs, whole[: len(workgroups)], done.periods, buffers, line)
    fresh |= missed_in_l2(reads, fresh, grid / len(workgroups) / device.xcds, machine.l2_bytes)
    beyond = scratch_beyond | beyond_l3(reads, fresh, grid / len(workgroups))
    for site in stored:
        if function.instructions[site].cls == "atomic":  # which reads the line as well
            stored[site] *= 2
    # What several stores write of a line goes to memory once.
    sharing = Sharing(fresh, beyond, stored)
    together = placement.resident * placement.active
    caches = Caches(
        line,
        (rates.l1_bytes, machine.l2_bytes or 0, device.l3_bytes),
        (placement.resident, together / device.xcds, together),
    )
    returned = None
    if part == 1:
        returned = returns(costs, function, workgroups, done.periods, buffers, caches)
    if returned is not None:
        workgroups = returned.workgroups
        from_l2, from_l3 = returned.mixed(reads, fresh, beyond)
        sharing = Sharing(fresh | from_l2, beyond | from_l3, stored)
    timing = Timing(
        machine,
        rates,
        device,
        costs,
        placement,
        sharing,
        function,
        workgroups,
        grid,
        sum(buffer.size for buffer in buffers),
        part,
        done.outside,
        done.uneven,
        done.decided_at,
        queued_atomics(whole, done.hot_line, done.periods, function, grid),
        periods=done.periods,
    )
    return replace(timing, last=_last_workgroup(timing, emulator, sample, buffers, line))


def _last_workgroup(
    timing: Timing, emulator: Emulator, sample: Launch, buffers: list[Buffer], line: int
) -> Timing | None:
    """A grid's last workgroup by itself, if it runs loops that the simulated ones do not."""
    function, last = timing.function, math.prod(sample.grid) - 1
    headers = {function.blocks[loop.header].start for loop in function.loops}
    reached = {site for wave in timing.waves for site in wave.stream}
    if headers <= reached or last in (sample.workgroups or ()):
        return None
    try:
        done = trace(
            emulator, replace(sample, workgroups=(last,)), buffers, line, timing.machine.arch
        )
    except KinspectError:
        return None
    waves = done.workgroups[last]
    if not (headers - reached) & {site for wave in waves for site in wave.stream}:
        return None
    return replace(
        timing,
        workgroups=[waves],
        workgroups_in_grid=1,
        queued={site: n / timing.workgroups_in_grid for site, n in timing.queued.items()},
        placement=replace(timing.placement, busiest=1, resident=1, active=1),
        sharing=Sharing(done.shares.fresh, {}, done.shares.stored),
        periods=done.periods,
        part=1.0,
    )


def _affordable(
    workgroups: Sequence[Sequence[WaveTrace]], resident: int
) -> tuple[Sequence[Sequence[WaveTrace]], float]:
    """As many workgroups as can be simulated in time, all resident ones at least."""
    issues = 0
    for count, waves in enumerate(workgroups):
        if issues > MOST_ISSUES and count >= resident:
            workgroups = workgroups[:count]
            break
        issues += sum(len(wave.stream) for wave in waves)
    if issues <= MOST_CUT * MOST_ISSUES or any(
        kept < in_all
        for waves in workgroups
        for wave in waves
        for kept, in_all in wave.trips.values()
    ):
        return workgroups, 1.0
    part = MOST_ISSUES / issues
    return [[_samples(wave, part) for wave in waves] for waves in workgroups], part


def _samples(wave: WaveTrace, part: float) -> WaveTrace:
    """The first part of each of some stretches of a wave: its beginning alone is unlike the rest,
    spilling code stores there and loads later.
    """
    stream: list[int] = []
    accesses = {}
    for stretch in range(STRETCHES):
        begin = len(wave.stream) * stretch // STRETCHES
        end = begin + math.ceil(part * len(wave.stream) / STRETCHES)
        moved = len(stream) - begin
        stream += wave.stream[begin:end]
        for at in range(begin, end):
            if at in wave.accesses:
                accesses[at + moved] = wave.accesses[at]
    return WaveTrace(stream, accesses, {}, [])


def timed(timing: Timing) -> LaunchTime:
    """The time of a launch."""
    rates, device, placement = timing.rates, timing.device, timing.placement
    shares = shares_of(
        timing.machine, rates, device, placement.active, tuple(timing.machine.counters.values())
    )
    cu, cycles_of = extrapolated(
        timing.workgroups,
        timing.function.loops,
        lambda workgroups: _simulated(timing, shares, workgroups),
        timing.periods,
    )
    cycles = _all_rounds(cu, placement, len(timing.workgroups))
    simds = [shares.simds, shares.simds, *[1] * (len(UNITS) - 2)]
    busy = [taken / count for taken, count in zip(cu.busy, simds, strict=True)]
    # No unit does the whole grid's work faster than this, whatever the first rounds look like.
    cycles = max(cycles, max(busy) / len(timing.workgroups) * placement.busiest)
    sites = timing.costs.sites  # of what is left out the kind is another
    requests = sum(n for site, n in timing.queued.items() if sites[site].kind in (LOAD, STORE))
    rest = cycles
    cycles = max(cycles, requests * (rates.line_request or 0.0))
    of_all = placement.busiest / len(timing.workgroups) / cycles if cycles else 0.0
    units = {name: taken * of_all for name, taken in zip(UNITS, busy, strict=True)}
    mhz = device.mhz
    if not device.holds_clock:
        mhz *= _clock_share(rates, units["matrix"])
    of_busiest = units["memory"] * cycles * shares.memory
    memory_bytes = of_busiest * timing.workgroups_in_grid / max(1, placement.busiest)
    us = cycles / mhz + rates.launch_us
    added = 1 - rest / cycles if cycles else 0.0
    return LaunchTime(us, cycles, mhz, units, cu, cycles_of, memory_bytes, added)


def _clock_share(rates: Rates, matrix: float) -> float:
    """The part of the peak clock that the power limit leaves, by how busy the matrix units are.

    Power grows with the cube of the clock, and evenly with the work of the matrix units. Two points
    fix it: all of them busy, and none.
    """
    with_all = rates.matrix_share**-3
    power = rates.power_besides + (with_all - rates.power_besides) * min(1.0, matrix)
    return float(min(1.0, power ** (-1 / 3)))


def _simulated(timing: Timing, shares: Shares, workgroups: Sequence[Sequence[WaveTrace]]) -> CuTime:
    unit = ComputeUnit(timing.costs, timing.rates, shares, timing.sharing)
    return unit.run(workgroups, timing.placement.resident).times(1 / timing.part)


def _all_rounds(cu: CuTime, placement: Placement, simulated: int) -> float:
    """Cycles until a compute unit has done all its workgroups, from those that were simulated."""
    if placement.busiest <= simulated:
        return cu.cycles
    ends = sorted(cu.ends)
    resident = placement.resident
    first = min(resident, simulated)
    head, tail = first, simulated // resident * resident
    if simulated >= 3 * resident:
        head, tail = simulated // 2, simulated
    if tail > head and ends[tail - 1] > ends[head - 1]:
        slope = (ends[tail - 1] - ends[head - 1]) / (tail - head)
    else:  # what began behind a first round ends together, few or many of them
        slope = ends[first - 1] / first
    return cu.cycles + slope * (placement.busiest - simulated)
