"""The time of a kernel's launch, for its report: as captured, or as the user states it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..emulator.grid import Launch
from ..emulator.hostcall import HostCalls
from ..emulator.launch import Emulator, without_collections
from ..emulator.memory import Buffer
from ..machines.products import all_products, find_product
from ..machines.rates import rates_of
from ..metrics import times
from ..model import KernelReport, Machine, Metric, int_of
from ..model.time import KernelTime
from ..timing.attribution import limiter_of, lines_of, loop_shares, stalls_of
from ..timing.device import Device, device_of
from ..timing.savings import savings
from ..timing.timed import timed, traced
from .analysis_options import RESIDENT, TimeOptions
from .captured_launch import KernelText, captured_launch, reason_of
from .context import Context
from .emulated_code import CodeLaunch, code_launch, typed_arguments

LOW: Final = 0.72
HIGH: Final = 1.4
"""Of the predicted time: of 386 measured ones three quarters lie between (benchmarks/TIMING.md)."""


def with_time(
    code: KernelText,
    report: KernelReport,
    machine: Machine | None,
    context: Context,
    options: TimeOptions,
) -> KernelReport:
    """Times a kernel's launch, captured or stated, or says why there is no time.

    Args:
        code: of the kernel.
        report: the kernel's report; its variant holds the captured launch.
        machine: the target; None where it is unknown.
        context: what is known besides; the launch of a file of code.
        options: how.
    """
    variant = report.variant
    if variant is None and options.arguments is not None and machine is not None:
        return _timed_report(
            report, lambda: _stated_launch(code, report, machine, context, options)
        )
    if variant is None or variant.passed is None or variant.grid is None or machine is None:
        return _without(report, _unknown(report, machine)) if options.explains else report
    grid, passed = variant.grid, variant.passed

    def time() -> KernelTime:
        emulator = _emulator(code, machine, grid, options)
        captured = captured_launch(code.function, emulator, grid, passed, context.metadata or {})
        assumed = [f"made-up {', '.join(sorted(set(captured.made_up)))} values"]
        found = launch_time(emulator, machine, captured.launch, captured.buffers, report, options)
        return replace(found, assumed=(*found.assumed, *(assumed if captured.made_up else ())))

    return _timed_report(report, time)


def _unknown(report: KernelReport, machine: Machine | None) -> str:
    """What is not known of a launch."""
    if machine is None:
        return f"limits and rates of {report.arch or 'its target'} are not known; see --arch"
    told = "nothing says how it is launched"
    if report.variant is None:
        return f"{told}; add --grid, --workgroup and --args"
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
) -> KernelTime:
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
    return launch_time(emulator, machine, launch, [*buffers, HostCalls().buffer], report, options)


def _timed_report(report: KernelReport, time: Callable[[], KernelTime]) -> KernelReport:
    """A report with the time that a function gives, or with the reason why there is none."""
    try:
        # The reports of the whole run are in memory: each garbage collection would scan them.
        with without_collections():
            found = time()
    except Exception as error:
        return _without(report, reason_of(error))
    return _with_metrics(report, found)


def _with_metrics(report: KernelReport, time: KernelTime) -> KernelReport:
    """A report with its time, which rules and comparisons read as metrics."""
    shares = {
        loop.id: Metric(times.SHARE, round(100 * time.loops[loop.id], 2), "%", "estimated")
        for loop in report.loops
        if loop.id in time.loops
    }
    loops = tuple(
        replace(loop, metrics={**loop.metrics, times.SHARE: shares[loop.id]})
        if loop.id in shares
        else loop
        for loop in report.loops
    )
    metric = Metric(times.US, time.us, "us", "estimated", f"on {time.gpu} at {time.mhz:g} MHz")
    return replace(report, time=time, metrics={**report.metrics, times.US: metric}, loops=loops)


def _without(report: KernelReport, reason: str) -> KernelReport:
    return replace(report, no_time=reason)


def launch_time(
    emulator: Emulator,
    machine: Machine,
    launch: Launch,
    buffers: list[Buffer],
    report: KernelReport,
    options: TimeOptions,
) -> KernelTime:
    """The time of a launch.

    Args:
        emulator: of the kernel.
        machine: the target.
        launch: of the whole grid.
        buffers: global memory; it is written to.
        report: the kernel's, for its occupancy.
        options: how it is timed.

    Raises:
        KinspectError: the model does not cover the target, or nothing fits on a compute unit.
        NotCoveredError: an instruction that the emulator does not carry out was reached.
    """
    device = _device(machine, options)
    resident = int_of(report.metrics, RESIDENT)
    if not resident:
        raise KinspectError("how many workgroups a compute unit holds is not known", "state --lds")
    timing = traced(emulator, machine, device, launch, buffers, resident, options.seconds)
    now = timed(timing)
    stalls = stalls_of(timing, now)
    warm = timed(timing.warm()).us if timing.can_be_warm else None
    assumed = [f"the clock of {device.mhz:g} MHz"]
    return KernelTime(
        us=round(now.us, 3),
        low=round(now.us * LOW, 3),
        high=round(now.us * HIGH, 3),
        warm_us=None if warm is None or warm > 0.97 * now.us else round(warm, 3),
        cycles=round(now.cycles),
        mhz=round(now.mhz),
        gpu=device.name,
        workgroups=timing.workgroups_in_grid,
        rounds=timing.placement.busiest,
        resident=timing.placement.resident,
        limiter=limiter_of(now, stalls),
        units={name: round(share, 4) for name, share in now.units.items()},
        stalls=stalls,
        lines=lines_of(timing, now),
        loops=loop_shares(timing, now),
        savings=savings(timing, now) if options.savings else (),
        assumed=tuple(assumed),
    )


def _device(machine: Machine, options: TimeOptions) -> Device:
    product = find_product(options.gpu) if options.gpu is not None else None
    if options.gpu is not None and (product is None or product.arch != machine.arch):
        known = ", ".join(p.name for p in all_products() if p.arch == machine.arch)
        raise KinspectError(
            f"--gpu {options.gpu}: it is no known product of {machine.arch}",
            f"there is {known}" if known else "leave it out",
        )
    device = device_of(machine, options.gpu)
    if rates_of(machine.arch) is None or device is None:
        raise KinspectError(
            f"the rates of {machine.arch} are not known to the timing model",
            "docs/explanation/time.md says which it covers",
        )
    return device if options.clock_mhz is None else replace(device, mhz=options.clock_mhz)
