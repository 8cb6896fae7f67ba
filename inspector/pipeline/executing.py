"""Executes a few workgroups of a captured launch while its kernel is analysed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..emulator.launch import without_collections
from ..emulator.lockstep import EmulationLimitError
from ..model import (
    Emulated,
    EmulatedFault,
    EmulatedLine,
    Function,
    KernelReport,
    LoopReport,
    Machine,
    Metric,
    Passed,
    has_integers,
)
from .captured_launch import KernelText, captured_launch, reason_of
from .emulating import spread
from .emulation_profile import EmulationProfile
from .emulation_tally import LaunchTally

WORKGROUPS: Final = 4
"""Workgroups of a larger grid that are executed."""
SMALL_GRID: Final = 8
"""A grid of at most this many workgroups is executed whole: in some kernels the workgroups wait for
one another."""
BLOCKS: Final = 4000
"""Basic blocks that one kernel may execute. Unlike a limit in seconds, this one stops the same code
on the same inputs at the same place on every machine. It ends a wave that waits for a workgroup
which is not executed."""
SECONDS: Final = 20.0
"""Time limit of one kernel, for blocks that are slow to execute."""
NO_LAUNCH: Final = (
    "not emulated: nothing says how it is launched; name a script that launches it, not a case of"
    " types alone"
)
ONLY_CODE: Final = (
    "not emulated: code does not say how it is launched; kinspect emulate FILE --grid N --args"
    " 'f32[4096], i32 4096' executes it"
)
_BY_INDEX: Final = frozenset(
    {"outside", "outside_lds", "outside_scratch", "misaligned", "global_race"}
)
"""Kinds of faults that made-up indices in a buffer can cause."""
_MAY_BE_ADDRESSES: Final = frozenset({"int64", "uint64"})
"""Element types wide enough to hold addresses, of memory that the launch does not name."""


class Sample(Struct, frozen=True):
    """The part of each launch that is executed."""

    workgroups: int = WORKGROUPS
    blocks: int = BLOCKS
    seconds: float = SECONDS


def executed(
    code: KernelText,
    report: KernelReport,
    machine: Machine | None,
    metadata: Mapping[str, Any],
    sample: Sample,
) -> KernelReport:
    """Executes a kernel's captured launch and adds its figures, or a note on why there are none.

    Args:
        report: the kernel's report; its variant holds the captured launch.
        machine: the target; None where it is unknown.
    """
    variant = report.variant
    if variant is None:
        return _with_note(report, ONLY_CODE)
    if variant.passed is None or variant.grid is None or machine is None:
        return _with_note(report, NO_LAUNCH)
    if 0 in variant.grid:
        return _with_note(report, "not emulated: its grid is empty")
    try:
        # The reports of the whole run are in memory: each garbage collection would scan them.
        with without_collections():
            run = _run(code, variant.grid, variant.passed, machine, metadata, sample)
    except Exception as error:
        return _with_note(report, f"not emulated: {reason_of(error)}")
    return _with_emulated(report, run, code.function)


def _with_note(report: KernelReport, note: str) -> KernelReport:
    return replace(report, notes=(*report.notes, note))


class _Run(Struct, frozen=True):
    """The counts of one executed launch."""

    profile: EmulationProfile
    made_up: tuple[str, ...]
    """Element types of the buffers whose contents were made up."""
    code: Function
    """The kernel, followed by the functions that it calls."""
    runs: Mapping[int, int]
    """Index of an instruction -> how often waves executed it."""
    doubted: frozenset[str]
    """Kinds of faults that made-up contents may have caused: they are not reported."""


def _run(
    code: KernelText,
    grid: Sequence[int],
    passed: Passed,
    machine: Machine,
    metadata: Mapping[str, Any],
    sample: Sample,
) -> _Run:
    """Executes the sample of a launch; see `executed` for the arguments."""
    emulator = code.emulator(machine)
    captured = captured_launch(code.function, emulator, grid, passed, metadata)
    grid_workgroups = math.prod(captured.launch.grid)
    is_small = grid_workgroups <= max(sample.workgroups, SMALL_GRID)
    launch = replace(
        captured.launch,
        workgroups=None if is_small else spread(grid_workgroups, sample.workgroups),
        seconds=sample.seconds,
        blocks=sample.blocks,
    )
    try:
        outcome = emulator.run(launch, captured.buffers)
    except EmulationLimitError as error:
        hint = "kinspect emulate SCRIPT executes all of it"
        raise KinspectError(error.message, hint) from None
    tally = LaunchTally(machine.arch, emulator)
    tally.add(outcome, grid_workgroups, 0.0)
    runs = {
        index: block.runs
        for block in emulator.code.blocks
        if block.runs
        for index in range(block.first, block.stop)
    }
    return _Run(
        profile=tally.profile(),
        made_up=captured.made_up,
        code=emulator.code.function,
        runs=runs,
        doubted=_doubted(captured.made_up, passed),
    )


def _doubted(made_up: Sequence[str], passed: Passed) -> frozenset[str]:
    """Returns the kinds of faults that may come from made-up contents, not from the kernel."""
    if has_integers(made_up):
        return _BY_INDEX
    if any(memory.dtype in _MAY_BE_ADDRESSES for memory in passed.memories):
        return frozenset({"outside"})
    return frozenset()


def _with_emulated(report: KernelReport, run: _Run, function: Function) -> KernelReport:
    """Adds the metrics, lines and faults of a run to a report."""
    profile = run.profile
    faults = tuple(
        EmulatedFault(finding.kind, finding.detail, finding.line)
        for finding in profile.findings
        if finding.kind not in run.doubted
    )
    emulated = Emulated(
        workgroups=profile.workgroups,
        grid_workgroups=profile.grid_workgroups,
        waves=profile.waves,
        made_up=run.made_up,
        lines=tuple(_lines(run)),
        faults=faults,
    )
    metrics = {metric.name: metric for metric in _metrics(profile, len(faults))}
    return replace(
        report,
        emulated=emulated,
        metrics={**report.metrics, **metrics},
        loops=tuple(_loop(loop, function, run) for loop in report.loops),
    )


def _lines(run: _Run) -> Iterator[EmulatedLine]:
    """Yields the executed instructions with how often they ran, and what accesses touched."""
    accesses = {access.line: access for access in run.profile.accesses}
    for index, runs in run.runs.items():
        instruction = run.code.instructions[index]
        access = accesses.get(instruction.line)
        if access is None or not access.waves:
            yield EmulatedLine(instruction.line, runs)
            continue
        yield EmulatedLine(
            line=instruction.line,
            executed=runs,
            active_lanes=access.active_lanes,
            cache_lines=_per_execution(access.cache_lines, runs),
            least_cache_lines=_per_execution(access.least_cache_lines, runs),
            conflict_cycles=_per_execution(access.conflict_cycles, runs),
        )


def _per_execution(total: int | None, runs: int) -> float | None:
    """Divides the total of an instruction, one execution of which may access memory twice."""
    return round(total / runs, 3) if total is not None else None


def _loop(loop: LoopReport, function: Function, run: _Run) -> LoopReport:
    """Adds a loop's trip count and its share of the executed instructions to its report."""
    metrics = dict(loop.metrics)
    trips = run.profile.trips.get(loop.id)
    if trips is not None:
        metrics["emulated.trips"] = Metric("emulated.trips", trips, "count", "emulated")
    total = run.profile.executed["instructions"]
    if total:
        in_loop = sum(run.runs.get(index, 0) for index in _own_instructions(function, loop.id))
        share = 100 * in_loop / total
        metrics["emulated.share"] = Metric("emulated.share", round(share, 2), "%", "emulated")
    return replace(loop, metrics=metrics)


def _own_instructions(function: Function, loop_id: str) -> Iterator[int]:
    """Yields the indices of a loop's instructions, those of nested loops left out."""
    loop = next(loop for loop in function.loops if loop.id == loop_id)
    nested = {
        block for inner in function.loops if inner.parent == loop_id for block in inner.blocks
    }
    for number in loop.blocks:
        if number not in nested:
            block = function.blocks[number]
            yield from range(block.start, block.stop)


def _metrics(profile: EmulationProfile, faults: int) -> Iterator[Metric]:
    """Yields the figures of the executed workgroups; counters are scaled up to the whole grid."""
    sampled = profile.workgroups < profile.grid_workgroups
    sample_note = (
        f"of {profile.workgroups} of {profile.grid_workgroups} workgroups" if sampled else ""
    )

    def metric(name: str, value: float | None, unit: str, note: str = sample_note) -> Metric:
        rounded = round(value, 4) if isinstance(value, float) else value
        return Metric(
            name=f"emulated.{name}", value=rounded, unit=unit, origin="emulated", note=note
        )

    yield metric("workgroups", profile.workgroups, "count")
    waves = profile.waves
    for name, count in profile.executed.items():
        label = name if name == "instructions" else f"count.{name}"
        yield metric(label, count / waves, "instructions/wave")
    yield from _memory(profile, metric)
    mask_branches = [branch for branch in profile.branches if branch.divided is not None]
    branching_waves = sum(branch.waves for branch in mask_branches)
    divided_waves = sum(branch.divided or 0 for branch in mask_branches)
    share = 100 * divided_waves / branching_waves if branching_waves else None
    note = sample_note if share is not None else "no branch on a lane mask was executed"
    yield metric("divided_branches", share, "%", note)
    if profile.traffic is not None:
        traffic = profile.traffic
        yield metric("unique_read", traffic.unique_read, "bytes")
        yield metric("unique_written", traffic.unique_written, "bytes")
        yield metric("flops", traffic.matrix_flops + traffic.vector_flops, "flop")
        yield metric("flops_per_byte", traffic.intensity, "flop/byte")
    balance = profile.per_workgroup
    if balance is not None and balance.median:
        yield metric("imbalance", balance.most / balance.median, "ratio")
    yield metric("faults", faults, "count")
    for name, value in profile.counters.items():
        yield metric(
            f"counter.{name}",
            round(value * profile.grid_workgroups / profile.workgroups),
            "count",
            f"{sample_note}, as much for each of the others" if sampled else "",
        )


def _memory(profile: EmulationProfile, metric: Any) -> Iterator[Metric]:
    """Yields the figures of memory accesses; `metric` makes a `Metric` of name, value and unit."""
    accesses = [access for access in profile.accesses if access.waves]
    executions = sum(access.waves for access in accesses)
    active = sum(access.active_lanes * access.waves for access in accesses)
    yield metric("active_lanes", 100 * active / executions if executions else None, "%")
    cache_lines = sum(access.cache_lines or 0 for access in accesses)
    least_cache_lines = sum(access.least_cache_lines or 0 for access in accesses)
    yield metric(
        "line_excess", cache_lines / least_cache_lines if least_cache_lines else None, "ratio"
    )
    lds_accesses = [access for access in accesses if access.conflict_cycles is not None]
    conflict_cycles = sum(access.conflict_cycles or 0 for access in lds_accesses)
    yield metric("lds.conflict_cycles", conflict_cycles / profile.waves, "cycles/wave")
    lds_executions = sum(access.waves for access in lds_accesses)
    yield metric(
        "lds.conflicts_per_access",
        conflict_cycles / lds_executions if lds_executions else None,
        "cycles",
    )


__all__ = ["BLOCKS", "SECONDS", "WORKGROUPS", "Sample", "executed"]
