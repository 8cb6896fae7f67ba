"""A few workgroups of a captured launch, executed while its kernel is analysed.

What comes of it goes to the kernel's report: metrics of origin `emulated`, and counts by line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..emulator.access import NotCoveredError
from ..emulator.hostcall import HOSTCALL_ADDRESS, HostCalls
from ..emulator.launch import Emulator, Launch, without_collections
from ..emulator.lockstep import EmulationLimitError
from ..errors import KinspectError, unforeseen
from ..isa.asm.data import Constants, read_constants
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
    PassedMemory,
)
from .emulating import (
    SCRATCH_ADDRESS,
    implicit_arguments,
    pack_arguments,
    spread,
    takes_implicit,
)
from .emulation_profile import EmulationProfile
from .emulation_tally import LaunchTally
from .made_up import buffers_of

WORKGROUPS: Final = 4
SMALL_GRID: Final = 8
"""Workgroups of a grid that is executed as a whole: those of some kernels wait for one another."""
BLOCKS: Final = 4000
"""Basic blocks that one kernel may run: with the same code and inputs the end is the same on every
machine. A wave that waits for a workgroup which is not executed comes to that end."""
SECONDS: Final = 20.0
"""What it may take all the same."""
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
"""Faults that made-up indices may be the cause of."""
_MAY_BE_ADDRESSES: Final = frozenset({"int64", "uint64"})
"""Elements that may be addresses of memory that the launch does not name."""


class Sample(Struct, frozen=True):
    """How much of each launch is executed.

    Args:
        workgroups: of the grid, spread over it.
        blocks: of instructions that it may run.
        seconds: that it may take.
    """

    workgroups: int = WORKGROUPS
    blocks: int = BLOCKS
    seconds: float = SECONDS


def executed(
    function: Function,
    functions: Sequence[Function],
    report: KernelReport,
    machine: Machine | None,
    metadata: Mapping[str, Any],
    sample: Sample,
) -> KernelReport:
    """The report with what was counted, or with a note that says why nothing was.

    Args:
        function: the kernel's code.
        functions: of the program, for the kernel to call.
        report: on it; its variant says what was launched.
        machine: the target.
        metadata: Triton's, of the compile.
        sample: how much to execute.
    """
    variant = report.variant
    if variant is None:
        return _noted(report, ONLY_CODE)
    if variant.passed is None or variant.grid is None or machine is None:
        return _noted(report, NO_LAUNCH)
    if 0 in variant.grid:
        return _noted(report, "not emulated: its grid is empty")
    try:
        # Beside a run's reports the collector would have much to look through.
        with without_collections():
            run = _run(function, functions, report, variant.passed, machine, metadata, sample)
    except NotCoveredError as error:
        return _noted(report, f"not emulated: the emulator does not carry out this yet: {error}")
    except EmulationLimitError as error:
        hint = "kinspect emulate SCRIPT executes all of it"
        return _noted(report, f"not emulated: {error.message}; {hint}")
    except KinspectError as error:
        return _noted(report, f"not emulated: {error.message}")
    except Exception as error:
        # A bug in the emulator must not take the report with it.
        return _noted(report, f"not emulated: {unforeseen(error).message}")
    return _with(report, run, function)


def _noted(report: KernelReport, note: str) -> KernelReport:
    return replace(report, notes=(*report.notes, note))


class _Run(Struct, frozen=True):
    profile: EmulationProfile
    made_up: tuple[str, ...]
    code: Function
    """The kernel, and behind it the functions that it calls."""
    runs: Mapping[int, int]
    """Index of an instruction -> how many waves executed it."""
    doubted: frozenset[str]
    """Kinds of faults that what was made up may be the cause of."""


def _run(
    function: Function,
    functions: Sequence[Function],
    report: KernelReport,
    passed: Passed,
    machine: Machine,
    metadata: Mapping[str, Any],
    sample: Sample,
) -> _Run:
    emulator = Emulator(
        function,
        machine,
        _constants(report),
        functions,
    )
    grid = report.variant.grid if report.variant is not None else None
    x, y, z = (*(grid or ()), 1, 1, 1)[:3]
    total = x * y * z
    threads = int(metadata["num_warps"]) * emulator.target.lanes
    most = max(sample.workgroups, SMALL_GRID)
    lds = int(metadata.get("shared") or 0)
    buffers, made_up = buffers_of(passed.memories)
    scratch = int(metadata.get("global_scratch_size") or 0) * total
    if scratch:
        (zeros,), _ = buffers_of([PassedMemory(SCRATCH_ADDRESS, scratch, "uint8")])
        buffers.append(zeros)
    arguments = [(parameter.kind, parameter.value) for parameter in passed.parameters]
    calls = HostCalls() if takes_implicit(function, arguments) else None
    if calls is not None:  # what it prints goes nowhere
        buffers.append(calls.buffer)
    hostcalls = HOSTCALL_ADDRESS if calls is not None else 0
    launch = Launch(
        (x, y, z),
        (threads, 1, 1),
        lds,
        pack_arguments(
            arguments,
            SCRATCH_ADDRESS if scratch else 0,
            implicit_arguments((x, y, z), (threads, 1, 1), lds, hostcalls),
        ),
        workgroups=None if total <= most else spread(total, sample.workgroups),
        seconds=sample.seconds,
        blocks=sample.blocks,
    )
    outcome = emulator.run(launch, buffers)
    tally = LaunchTally(machine.arch, emulator)
    tally.add(outcome, total, 0.0)
    runs = {
        index: block.runs
        for block in emulator.code.blocks
        if block.runs
        for index in range(block.first, block.stop)
    }
    doubted: frozenset[str] = frozenset()
    if any("float" not in dtype for dtype in made_up):
        doubted = _BY_INDEX
    elif any(memory.dtype in _MAY_BE_ADDRESSES for memory in passed.memories):
        doubted = frozenset({"outside"})
    return _Run(tally.profile(), made_up, emulator.code.function, runs, doubted)


def _constants(report: KernelReport) -> Constants:
    """The program's constants."""
    artifact = report.artifacts.get("amdgcn")
    if artifact is None:
        return Constants()
    return read_constants(artifact.path.read_text("utf-8", "replace"), artifact.path.name)


def _with(report: KernelReport, run: _Run, function: Function) -> KernelReport:
    profile = run.profile
    faults = tuple(
        EmulatedFault(finding.kind, finding.detail, finding.line)
        for finding in profile.findings
        if finding.kind not in run.doubted
    )
    emulated = Emulated(
        profile.workgroups,
        profile.grid_workgroups,
        profile.waves,
        run.made_up,
        tuple(_lines(run)),
        faults,
    )
    metrics = {metric.name: metric for metric in _metrics(profile, len(faults))}
    return replace(
        report,
        emulated=emulated,
        metrics={**report.metrics, **metrics},
        loops=tuple(_loop(loop, function, run) for loop in report.loops),
    )


def _lines(run: _Run) -> Iterator[EmulatedLine]:
    accesses = {access.line: access for access in run.profile.accesses}
    for index, runs in run.runs.items():
        instruction = run.code.instructions[index]
        access = accesses.get(instruction.line)
        if access is None or not access.waves:
            yield EmulatedLine(instruction.line, runs)
            continue
        yield EmulatedLine(
            instruction.line,
            runs,
            access.active_lanes,
            _each(access.cache_lines, runs),
            _each(access.least_cache_lines, runs),
            _each(access.conflict_cycles, runs),
        )


def _each(total: int | None, runs: int) -> float | None:
    """For each execution of the instruction, which may access two places."""
    return round(total / runs, 3) if total is not None else None


def _loop(loop: LoopReport, function: Function, run: _Run) -> LoopReport:
    metrics = dict(loop.metrics)
    trips = run.profile.trips.get(loop.id)
    if trips is not None:
        metrics["emulated.trips"] = Metric("emulated.trips", trips, "count", "emulated")
    own = _own(function, loop.id)
    total = run.profile.executed["instructions"]
    if total:
        share = 100 * sum(run.runs.get(index, 0) for index in own) / total
        metrics["emulated.share"] = Metric("emulated.share", round(share, 2), "%", "emulated")
    return replace(loop, metrics=metrics)


def _own(function: Function, loop_id: str) -> Iterator[int]:
    """Indices of a loop's instructions, those of nested loops left out."""
    loop = next(loop for loop in function.loops if loop.id == loop_id)
    nested = {
        block for inner in function.loops if inner.parent == loop_id for block in inner.blocks
    }
    for number in loop.blocks:
        if number not in nested:
            block = function.blocks[number]
            yield from range(block.start, block.stop)


def _metrics(profile: EmulationProfile, faults: int) -> Iterator[Metric]:
    """Figures of the executed workgroups; counters are those of the whole grid."""
    sampled = profile.workgroups < profile.grid_workgroups
    of = f"of {profile.workgroups} of {profile.grid_workgroups} workgroups" if sampled else ""

    def metric(name: str, value: float | None, unit: str, note: str = of) -> Metric:
        rounded = round(value, 4) if isinstance(value, float) else value
        return Metric(f"emulated.{name}", rounded, unit, "emulated", note)

    yield metric("workgroups", profile.workgroups, "count")
    waves = profile.waves
    for name, count in profile.executed.items():
        label = name if name == "instructions" else f"count.{name}"
        yield metric(label, count / waves, "instructions/wave")
    yield from _memory(profile, metric)
    divided = Counter[str]()
    for branch in profile.branches:
        if branch.divided is not None:
            divided["all"] += branch.waves
            divided["divided"] += branch.divided
    share = 100 * divided["divided"] / divided["all"] if divided["all"] else None
    note = of if share is not None else "no branch on a lane mask was executed"
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
            f"{of}, as much for each of the others" if sampled else "",
        )


def _memory(profile: EmulationProfile, metric: Any) -> Iterator[Metric]:
    accesses = [access for access in profile.accesses if access.waves]
    executions = sum(access.waves for access in accesses)
    active = sum(access.active_lanes * access.waves for access in accesses)
    yield metric("active_lanes", 100 * active / executions if executions else None, "%")
    lines = sum(access.cache_lines or 0 for access in accesses)
    least = sum(access.least_cache_lines or 0 for access in accesses)
    yield metric("line_excess", lines / least if least else None, "ratio")
    in_lds = [access for access in accesses if access.conflict_cycles is not None]
    conflicts = sum(access.conflict_cycles or 0 for access in in_lds)
    yield metric("lds.conflict_cycles", conflicts / profile.waves, "cycles/wave")
    times = sum(access.waves for access in in_lds)
    yield metric("lds.conflicts_per_access", conflicts / times if times else None, "cycles")


__all__ = ["BLOCKS", "SECONDS", "WORKGROUPS", "Sample", "executed"]
