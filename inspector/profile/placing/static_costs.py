"""What the lines cost that static analysis describes, and the lines of the user's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ...model import Access, KernelReport, MeasuredLine, MemoryOp, SourceLoc, WaitOp
from .loop_costs import Measure, amount, measure_of, percent, sum_known

_ISA = "amdgcn"


class Awaited(Struct, frozen=True):
    """A memory operation that a wait waits for: its stall shows at the wait."""

    line: int
    mnemonic: str | None
    source: SourceLoc | None


class StaticLine(Struct, frozen=True):
    """A line of the assembly that static analysis describes, and what it cost.

    Args:
        waited_stall: stall cycles at those waits. They may wait for other operations as well, so
            that sums over lines would count them several times.
    """

    line: int  # number of the line in the assembly
    mnemonic: str | None  # its instruction; None where neither measurement nor analysis names it
    source: SourceLoc | None  # the Python line
    loop: str | None  # id of the innermost loop that contains it
    hits: int | None  # how often traced waves executed it
    latency_cycles: int | None  # shader clocks, summed over traced waves
    stall_cycles: int | None  # those of these clocks in which the wave could not continue
    samples: int | None  # PC samples with a wave at this line
    share: float | None  # % of the kernel's `measure`; None where this line was not measured
    measure: Measure | None  # what the share is of; None where nothing was measured
    rules: tuple[str, ...] = ()  # ids of the findings that point here
    waits: tuple[WaitOp, ...] = ()  # the counters that the wait on this line waits for
    waits_for: tuple[Awaited, ...] = ()  # the operations that it waits for
    waited_at: tuple[int, ...] = ()  # lines of the waits that wait for this operation
    waited_stall: int | None = None
    access: Access | None = None  # why this memory access is narrow
    spill: Literal["store", "reload"] | None = None  # whether it stores or reloads a spilled value


class SourceCost(Struct, frozen=True):
    """The cost of all instructions of one source line."""

    file: str
    line: int
    instructions: int  # measured ones
    hits: int | None
    latency_cycles: int | None
    stall_cycles: int | None
    samples: int | None
    share: float | None  # % of the kernel's measure
    rules: tuple[str, ...] = ()


def static_lines(report: KernelReport) -> tuple[StaticLine, ...]:
    """Every line with a finding, a wait, a narrow access or a spill, and what it cost.

    Lines that were not measured are included without figures: the trace may have missed them.

    Returns:
        The lines ordered by stall cycles, then by samples (most first), then by number.
    """
    measured = {line.line: line for line in report.measured_lines}
    measure = measure_of(report.measured_lines)
    total = sum_known(amount(line, measure) for line in report.measured_lines)
    static = _Analysis(report)
    rows = [
        _static_line(line, measured, static, measure=measure, total=total)
        for line in sorted(static.lines)
    ]
    rows.sort(key=lambda row: (-(row.stall_cycles or 0), -(row.samples or 0), row.line))
    return tuple(rows)


class _Analysis:
    """The results of static analysis, by line of the assembly."""

    def __init__(self, report: KernelReport) -> None:
        self.rules: dict[int, dict[str, None]] = {}
        for finding in report.findings:
            for location in finding.locations:
                if location.kind == _ISA and location.line is not None:
                    self.rules.setdefault(location.line, {})[finding.rule] = None
        self.waits: dict[int, list[WaitOp]] = {}
        self.waited: dict[int, dict[int, None]] = {}
        for wait in report.waits:
            self.waits.setdefault(wait.line, []).append(wait)
            for line in wait.waits_for or ():
                self.waited.setdefault(line, {})[wait.line] = None
        self.accesses = {
            line: access
            for access in report.accesses
            if access.limited_by is not None
            for line in access.lines
        }
        self.spills: dict[int, Literal["store", "reload"]] = {}
        for slot in report.spills:
            self.spills.update(dict.fromkeys(slot.stores, "store"))
            self.spills.update(dict.fromkeys(slot.reloads, "reload"))
        self.operations = {op.line: op for op in report.memory_ops}
        self.lines = {*self.rules, *self.waits, *self.accesses, *self.spills}


def _static_line(
    line: int,
    measured: Mapping[int, MeasuredLine],
    static: _Analysis,
    *,
    measure: Measure | None,
    total: int | None,
) -> StaticLine:
    """Returns a line of the assembly with its cost and the results of static analysis."""
    waits = tuple(static.waits.get(line, ()))
    operation, access = static.operations.get(line), static.accesses.get(line)
    awaited = dict.fromkeys(awaited_line for wait in waits for awaited_line in wait.waits_for or ())
    waiting_lines = tuple(static.waited.get(line, ()))
    cost = measured.get(line) or _unmeasured(line, operation, waits)
    sources = [cost.source, *(row.source for row in (*waits, operation, access) if row is not None)]
    return StaticLine(
        line=line,
        mnemonic=cost.mnemonic or None,
        source=next((source for source in sources if source), None),
        loop=cost.loop,
        hits=cost.hits,
        latency_cycles=cost.latency_cycles,
        stall_cycles=cost.stall_cycles,
        samples=cost.samples,
        share=percent(amount(cost, measure), total),
        measure=measure,
        rules=tuple(static.rules.get(line, ())),
        waits=waits,
        waits_for=tuple(_awaited(awaited_line, measured, static) for awaited_line in awaited),
        waited_at=waiting_lines,
        waited_stall=sum_known(
            measured[waiting].stall_cycles for waiting in waiting_lines if waiting in measured
        ),
        access=access,
        spill=static.spills.get(line),
    )


def _unmeasured(line: int, operation: MemoryOp | None, waits: Sequence[WaitOp]) -> MeasuredLine:
    """Returns a line without figures; of its instruction only what static analysis names."""
    loop = waits[0].loop if waits else operation.loop if operation is not None else None
    return MeasuredLine(
        line=line,
        address=None,
        mnemonic=operation.mnemonic if operation is not None else "",
        loop=loop,
        source=None,
    )


def _awaited(line: int, measured: Mapping[int, MeasuredLine], static: _Analysis) -> Awaited:
    operation, cost = static.operations.get(line), measured.get(line)
    if operation is not None:
        return Awaited(line, operation.mnemonic, operation.source)
    return Awaited(line, cost.mnemonic if cost else None, cost.source if cost else None)


def source_costs(report: KernelReport) -> tuple[SourceCost, ...]:
    """The cost of each line of the user's source, the most stalled first.

    An instruction belongs to its innermost position outside libraries.
    """
    measure = measure_of(report.measured_lines)
    total = sum_known(amount(line, measure) for line in report.measured_lines)
    rules = _Analysis(report).rules
    by_place: dict[tuple[str, int], list[MeasuredLine]] = {}
    for line in report.measured_lines:
        if line.source is not None:
            location = line.source.in_user_code
            by_place.setdefault((location.file, location.line), []).append(line)
    costs = []
    for (file, number), lines in by_place.items():
        rules_of_line = dict.fromkeys(rule for line in lines for rule in rules.get(line.line, ()))
        costs.append(
            SourceCost(
                file=file,
                line=number,
                instructions=len(lines),
                hits=sum_known(line.hits for line in lines),
                latency_cycles=sum_known(line.latency_cycles for line in lines),
                stall_cycles=sum_known(line.stall_cycles for line in lines),
                samples=sum_known(line.samples for line in lines),
                share=percent(sum_known(amount(line, measure) for line in lines), total),
                rules=tuple(rules_of_line),
            )
        )
    costs.sort(
        key=lambda cost: (-(cost.stall_cycles or 0), -(cost.samples or 0), cost.file, cost.line)
    )
    return tuple(costs)
