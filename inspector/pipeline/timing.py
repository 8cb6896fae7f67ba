"""The time of a kernel's launch, for its report: as captured, or as the user states it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.status import doing
from ..emulator.grid import Launch
from ..emulator.hostcall import HostCalls
from ..emulator.launch import Emulator, without_collections
from ..emulator.memory import Buffer
from ..explain.view import place
from ..machines.products import all_products, find_product
from ..machines.rates import rates_of
from ..metrics import given_metrics
from ..metrics.occupancy import occupancy
from ..model import KernelReport, Machine, Metric, int_of
from ..model.time import KernelTime, LoopTime, Removal, Saving
from ..timing.attribution import (
    Attribution,
    attributed,
    instructions_of,
    limiter_of,
    lines_of,
    loop_times,
    stalls_of,
)
from ..timing.device import Device, device_of
from ..timing.savings import lightened, saved_percent, savings
from ..timing.static_flow import known_accesses, unlaunched
from ..timing.timed import LaunchTime, Timing, timed, traced
from .analysis_options import EVERY_LOOP, RESIDENT, Context, TimeOptions
from .captured_launch import KernelText, captured_launch, reason_of
from .emulated_code import CodeLaunch, code_launch, typed_arguments

LOW: Final = 0.72
HIGH: Final = 1.4
"""Of the predicted time: of 386 measured ones three quarters lie between (benchmarks/TIMING.md)."""
MOST_PRICED: Final = 500_000
"""Instructions that the simulations for the findings of a kernel may issue."""
FEWEST_PRICES: Final = 4
"""Findings of a kernel whose savings are worked out, however long that takes."""
_BY_FLOW: Final = "nothing was executed: the longest way, trips as stated, all data from memory"


class _Found(NamedTuple):
    """The time of a launch, what its loops take, and why there is no time where that is None."""

    time: KernelTime | None
    loops: tuple[LoopTime, ...]
    no_time: str = ""
    price: LaunchPrice | None = None
    notes: tuple[str, ...] = ()


def with_time(
    code: KernelText,
    report: KernelReport,
    machine: Machine | None,
    context: Context,
    options: TimeOptions,
) -> tuple[KernelReport, LaunchPrice | None]:
    """Times a kernel's launch, captured or stated, or says why there is no time.

    Args:
        report: the kernel's report; its variant holds the captured launch.
        machine: the target; None where it is unknown.
        context: what is known besides; the launch of a file of code.

    Returns:
        The report, and what work takes of the launch's time; None where that is not known.
    """
    variant = report.variant
    if variant is None and options.arguments is not None and machine is not None:
        return _timed_report(
            report, lambda: _stated_launch(code, report, machine, context, options)
        )
    if variant is None or variant.passed is None or variant.grid is None or machine is None:
        if machine is None or not options.explains:
            return _without(report, _unknown(report, machine)), None
        stated = context.overrides.grid
        return _timed_report(report, lambda: _unlaunched(code, report, machine, stated, options))
    grid, passed = variant.grid, variant.passed

    def time() -> _Found:
        emulator = _emulator(code, machine, grid, options)
        captured = captured_launch(code.function, emulator, grid, passed, context.metadata or {})
        return _launch_time(
            emulator, machine, captured.launch, captured.buffers, report, options,
            sorted(set(captured.made_up)),
        )  # fmt: skip

    return _timed_report(report, time)


def _unknown(report: KernelReport, machine: Machine | None) -> str:
    """What is not known of a launch."""
    if machine is None:
        return f"limits and rates of {report.arch or 'its target'} are not known; see --arch"
    told = "nothing says how it is launched"
    if report.variant is None:
        return f"{told}; add --grid, --workgroup and --args, or --grid and --trips"
    return f"{told}; name a script that launches it"


def _emulator(
    code: KernelText, machine: Machine, grid: Sequence[int], options: TimeOptions
) -> Emulator:
    """The kernel made ready, once it is clear that a launch of it can be timed."""
    _device(machine, options)
    if 0 in grid:
        raise KinspectError("its grid is empty")
    if not code.function.instructions:
        raise KinspectError("no instruction of it was read")
    return code.emulator(machine)


def _stated_launch(
    code: KernelText,
    report: KernelReport,
    machine: Machine,
    context: Context,
    options: TimeOptions,
) -> _Found:
    """The time of a file's kernel, launched as the user says; see `with_time`."""
    stated, function, arguments = context.overrides, code.function, options.arguments or ""
    if stated.grid is None:
        raise KinspectError("the grid is not stated", "add --grid")
    emulator = _emulator(code, machine, stated.grid, options)
    buffers, scalars, _ = typed_arguments(arguments, made_up=False)
    block = stated.workgroup
    if block is None and stated.waves_per_workgroup is not None:
        block = (stated.waves_per_workgroup * emulator.target.lanes, 1, 1)
    added = max(0, (stated.lds_bytes or 0) - (function.resources.lds_bytes or 0))
    request = CodeLaunch(
        Path(code.name), function.name, machine.arch, stated.grid, block, arguments, added, sample=1
    )
    launch = code_launch(request, function, machine, scalars)
    return _launch_time(emulator, machine, launch, [*buffers, HostCalls().buffer], report, options)


def _timed_report(
    report: KernelReport, time: Callable[[], _Found]
) -> tuple[KernelReport, LaunchPrice | None]:
    """A report with the time that a function gives, or with the reason why there is none."""
    try:
        # The reports of the whole run are in memory: each garbage collection would scan them.
        with without_collections():
            found = time()
    except Exception as error:
        return _without(report, reason_of(error)), None
    return _with_metrics(report, found), found.price


def _with_metrics(report: KernelReport, found: _Found) -> KernelReport:
    """A report with its time, which rules and comparisons read as metrics."""
    of_loops = {loop.loop: _loop_metrics(loop) for loop in found.loops}
    loops = tuple(
        replace(loop, metrics={**loop.metrics, **of_loops[loop.id]})
        if loop.id in of_loops
        else loop
        for loop in report.loops
    )
    time, metrics = found.time, report.metrics
    if time is not None:
        note = f"on {time.gpu} at {time.mhz:g} MHz"
        metrics = {
            **metrics,
            given_metrics.US: Metric(given_metrics.US, time.us, "us", "estimated", note),
        }
    return replace(
        report,
        time=time,
        no_time=found.no_time,
        loop_times=found.loops,
        metrics=metrics,
        loops=loops,
        notes=(*report.notes, *found.notes),
    )


def _loop_metrics(loop: LoopTime) -> dict[str, Metric]:
    waits = {stall.reason: stall.share for stall in loop.stalls}.get("memory", 0.0)
    shares = {given_metrics.MEMORY: round(100 * waits, 1)}
    if loop.share is not None:
        shares[given_metrics.SHARE] = round(100 * loop.share, 2)
    return {name: Metric(name, share, "%", "estimated") for name, share in shares.items()}


def _without(report: KernelReport, reason: str) -> KernelReport:
    return replace(report, no_time=reason.removeprefix(f"{report.name}: "))


def _launch_time(
    emulator: Emulator,
    machine: Machine,
    launch: Launch,
    buffers: list[Buffer],
    report: KernelReport,
    options: TimeOptions,
    made_up: Sequence[str] = (),
) -> _Found:
    """The time of a launch of which a few workgroups are executed."""
    doing(f"timing {report.name}")
    device = _in_mode(_device(machine, options), machine, report)
    timing = traced(emulator, machine, device, launch, buffers, _resident(report), options.seconds)
    timing = replace(timing, resident_with=functools.partial(_resident_with, report, machine))
    now = timed(timing)
    found = attributed(timing, now)
    price = LaunchPrice(timing, now)
    assumed = (f"made-up {', '.join(made_up)} values",) if made_up else ()
    time = _kernel_time(timing, found, now, options, assumed)
    guessed = _guessed(timing, buffers, made_up)
    time = replace(time, goes_by_made_up=guessed, outside=_outside(timing))
    if options.warm and timing.can_be_warm and found.waits_for_memory >= _LEAST_WARM:
        warm = price.warm_part()
        if warm <= 1 - _LEAST_WARM:
            time = replace(time, warm_us=round(warm * now.us, 3))
    notes = (*_on_outside(time, timing), *_on_uneven(timing), *_on_last(timing, now))
    of_cures = price if options.prices else None
    return _Found(time, loop_times(timing, found, now), "", of_cures, notes)


def _guessed(timing: Timing, buffers: Sequence[Buffer], made_up: Sequence[str]) -> tuple[str, ...]:
    """Types of made-up integers on which addresses, masks or branches rest."""
    at, line = timing.decided_at, timing.machine.cache_line_bytes or 64
    deciding = {
        buffer.name  # its type
        for buffer in buffers
        if at is None or any(buffer.address - line < place < buffer.end for place in at)
    }
    return tuple(dtype for dtype in made_up if "float" not in dtype and dtype in deciding)


def _outside(timing: Timing) -> str:
    """As of `KernelTime.outside`."""
    if timing.outside is None:
        return ""
    instruction = timing.function.instructions[timing.outside.site]
    where = place(instruction.loc) if instruction.loc else f"code line {instruction.line}"
    return f"{where} accesses memory outside of all arguments"


def _on_outside(time: KernelTime, timing: Timing) -> tuple[str, ...]:
    """The note on a launch that accesses what it does not pass."""
    if timing.outside is None:
        return ()
    return (
        f"{time.outside} ({timing.outside.detail}): check grid and sizes, the time is that of no"
        " real launch",
    )


def _on_last(timing: Timing, now: LaunchTime) -> tuple[str, ...]:
    """The note on a grid's last workgroup, which does what no simulated one does."""
    if timing.last is None:
        return ()
    us = timed(timing.last).us - timing.rates.launch_us
    if us < _MATTERS * now.us:
        return ()
    return (
        f"the last workgroup takes {max(1.0, us):,.0f} µs by itself, in loops that others do not"
        " run: that is not in the time",
    )


def _on_uneven(timing: Timing) -> tuple[str, ...]:
    """The note on a launch of which one workgroup may last longer than all that was simulated."""
    loop = timing.uneven
    if loop is None:
        return ()
    function = timing.function
    locations = (i.loc for i in function.instructions if i.line >= loop.line and i.loc)
    where = place(next(locations, None)) or f"code line {loop.line}"
    return (
        f"uneven work: some waves run the loop at {where} about {loop.most:,} times, half of them"
        f" at most {loop.median + 1:,}; the launch lasts as long as the longest, and the time rests"
        f" on {len(timing.workgroups):,} of {timing.workgroups_in_grid:,} workgroups",
    )


_LEAST_WARM: Final = 0.03
"""Share of the launch's time that data in the Infinity Cache saves at least to be told."""
_MATTERS: Final = 0.1
"""Share of the launch's time from which on what one workgroup does besides is told."""


class LaunchPrice:
    """What work takes of a launch's time, percent: each kind at each place is simulated once."""

    def __init__(self, timing: Timing, now: LaunchTime) -> None:
        self._timing = lightened(timing)
        issues = sum(len(wave.stream) for waves in self._timing.workgroups for wave in waves)
        self._left = max(FEWEST_PRICES, MOST_PRICED // max(1, issues))
        self._now = now if self._timing is timing else None
        self._known: dict[Removal, float | None] = {}

    def __call__(self, removal: Removal) -> float | None:
        """None where it is not known, or where too much has been simulated already."""
        if removal not in self._known and self._left:
            self._left -= 1
            try:
                with without_collections():
                    self._known[removal] = saved_percent(self._timing, self._as_it_is(), removal)
            except Exception:  # the report stands without it, as where nothing is timed
                self._known[removal] = None
        return self._known.get(removal)

    def savings(self) -> tuple[Saving, ...]:
        """What the launch would take with one cost gone, where that can still be afforded."""
        if self._left <= FEWEST_PRICES:
            return ()
        try:
            with without_collections():
                return savings(self._timing, self._as_it_is(), bounds=False)
        except Exception:  # as above
            return ()

    def warm_part(self) -> float:
        """The part of its time that the launch takes with its data in the Infinity Cache."""
        return timed(self._timing.warm()).us / self._as_it_is().us

    def _as_it_is(self) -> LaunchTime:
        if self._now is None:
            self._now = timed(self._timing)
        return self._now


def _unlaunched(
    code: KernelText,
    report: KernelReport,
    machine: Machine,
    stated_grid: tuple[int, int, int] | None,
    options: TimeOptions,
) -> _Found:
    """What iterations take of a kernel of which no launch is known; its time by stated counts."""
    device = _in_mode(_device(machine, options), machine, report)
    function, demand = code.function, report.demand
    waves = demand.waves_per_workgroup if demand is not None else None
    if waves is None:
        raise KinspectError("how many waves a workgroup has is not known", "state --waves")
    ids = [loop.id for loop in function.loops]
    trips = dict.fromkeys(ids, options.trips[EVERY_LOOP]) if EVERY_LOOP in options.trips else {}
    trips |= {loop: count for loop, count in options.trips.items() if loop != EVERY_LOOP}
    if unknown := sorted(trips.keys() - set(ids)):
        raise KinspectError(
            f"there is no loop {', '.join(unknown)}", f"it has {', '.join(ids) or 'no loops'}"
        )
    lanes = function.resources.wave_size or machine.wave_sizes[0]
    accesses, guessed = known_accesses(function, report.memory_ops, machine, lanes)
    grid = None if stated_grid is None else math.prod(stated_grid)
    timing = unlaunched(function, machine, device, accesses, _resident(report), waves, grid, trips)
    now, in_l2 = timed(timing), timed(timing.in_l2())
    is_launch = grid is not None and trips.keys() >= set(ids)
    assumed = [_BY_FLOW, *([f"{guessed} unknown addresses side by side"] if guessed else [])]
    found = attributed(timing, now)
    time = _kernel_time(timing, found, now, options, assumed) if is_launch else None
    loops = loop_times(timing, found, now, in_l2, is_launch=is_launch)
    return _Found(time, loops, "" if is_launch else _unknown(report, machine))


def _kernel_time(
    timing: Timing,
    found: Attribution,
    now: LaunchTime,
    options: TimeOptions,
    assumed: Sequence[str],
) -> KernelTime:
    device = timing.device
    stalls, instructions = stalls_of(found), timing.function.instructions
    return KernelTime(
        us=round(now.us, 3),
        low=round(now.us * LOW, 3),
        high=round(now.us * HIGH, 3),
        warm_us=None,
        cycles=round(now.cycles),
        mhz=round(now.mhz),
        gpu=device.name,
        workgroups=timing.workgroups_in_grid,
        rounds=timing.placement.busiest,
        resident=timing.placement.resident,
        limiter=limiter_of(now, stalls),
        units={name: round(share, 4) for name, share in now.units.items()},
        stalls=stalls,
        lines=lines_of(found, instructions),
        stalled=round(sum(map(sum, found.stalled.values())), 4),
        instructions=instructions_of(found, instructions),
        savings=savings(timing, now) if options.savings else (),
        assumed=(_clock(now.mhz, device), *assumed),
        memory_bytes=round(now.memory_bytes),
        peak_mhz=None if device.holds_clock else device.peak_mhz,
    )


def _clock(mhz: float, device: Device) -> str:
    """What is taken for granted of the clock, in words."""
    if device.holds_clock:
        return f"the stated clock of {device.mhz:,.0f} MHz"
    if round(mhz) == round(device.peak_mhz):
        return f"the peak clock of {device.peak_mhz:,.0f} MHz"
    return f"{mhz:,.0f} MHz of {device.peak_mhz:,.0f} at the peak, as power limits the clock"


def _resident(report: KernelReport) -> int:
    resident = int_of(report.metrics, RESIDENT)
    if resident == 0:
        raise KinspectError("it cannot be launched: no workgroup fits on a compute unit")
    if resident is None:
        raise KinspectError("how many workgroups a compute unit holds is not known", "state --lds")
    return resident


def _resident_with(report: KernelReport, machine: Machine, registers: int, waves: int) -> int:
    """As of `Timing.resident_with`."""
    demand = report.demand
    if demand is None or demand.vgprs is None:
        return _resident(report)
    tiles = sum(
        buffer.allocated or buffer.size or 0
        for buffer in report.lds_buffers
        if registers
        and (buffer.kind == "pipelined" or (buffer.kind == "operand" and buffer.in_loop))
    )
    more = replace(
        demand,
        vgprs=demand.vgprs + registers,
        waves_per_workgroup=waves,
        lds_bytes=None if demand.lds_bytes is None else max(demand.lds_bytes, tiles),
    )
    held = occupancy(machine, more).workgroups_per_cu
    return _resident(report) if held is None else held


def _in_mode(device: Device, machine: Machine, report: KernelReport) -> Device:
    """The device by what holds a workgroup: its compute units, or pairs of them in WGP mode."""
    if machine.eus_cu_mode is None or (report.demand is not None and report.demand.cu_mode):
        return device
    return device.in_wgps()


def _device(machine: Machine, options: TimeOptions) -> Device:
    product = find_product(options.gpu) if options.gpu is not None else None
    if options.gpu is not None and (product is None or product.arch != machine.arch):
        known = ", ".join(p.name for p in all_products() if p.arch == machine.arch)
        raise KinspectError(
            f"--gpu {options.gpu}: it is not a known product of {machine.arch}",
            f"there is {known}" if known else "leave it out",
        )
    device = device_of(machine, options.gpu or options.products.get(machine.arch))
    if rates_of(machine.arch) is None or device is None:
        raise KinspectError(
            f"the rates of {machine.arch} are not known to the timing model",
            "docs/explanation/time.md says which it covers",
        )
    if options.clock_mhz is None:
        return device
    return replace(device, mhz=options.clock_mhz, holds_clock=True)
