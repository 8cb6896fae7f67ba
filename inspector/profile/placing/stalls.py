"""The lines and the source lines at which a kernel stalls, with what static analysis says of them.

A load's latency shows at the wait that waits for it, so a wait has its loads beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...model import Access, KernelReport, MeasuredLine, SourceLoc, WaitOp
from .line_measures import amount, measure_of, percent, sum_known


class Awaited(Struct, frozen=True):
    """A memory operation that a wait waits for: its stall shows at the wait."""

    line: int
    mnemonic: str | None
    source: SourceLoc | None


class StaticFacts(Struct, frozen=True):
    """Results of static analysis for a line of the assembly."""

    rules: tuple[str, ...] = ()  # ids of the findings that point here
    waits: tuple[WaitOp, ...] = ()  # the counters that the wait on this line waits for
    waits_for: tuple[Awaited, ...] = ()
    access: Access | None = None  # a narrow memory access
    spill: Literal["store", "reload"] | None = None


class Stall(Struct, frozen=True):
    """A line of the assembly that cost something."""

    line: int
    mnemonic: str
    loop: str | None  # id of the innermost loop that contains it
    source: SourceLoc | None  # the line of the user's Python
    stall_cycles: int | None  # shader clocks in which it could not be issued, over traced waves
    samples: int | None  # PC samples with a wave at it
    cost: int  # the one of these two that the kernel's lines are compared by
    share: float | None  # the cost, % of the kernel's
    reasons: Mapping[str, int]  # why the waves of its samples did not issue -> number of samples
    static: StaticFacts | None


class SourceCost(Struct, frozen=True):
    """The cost of all instructions of one source line."""

    file: str
    line: int
    instructions: int  # measured ones
    stall_cycles: int | None
    samples: int | None
    share: float | None  # % of the kernel's measure
    rules: tuple[str, ...] = ()


def stalls(report: KernelReport) -> list[Stall]:
    """Returns the lines that cost something, the dearest first; none if no line was measured."""
    lines = report.measured_lines
    measure = measure_of(lines)
    if measure is None:
        return []
    total = sum(amount(line, measure) or 0 for line in lines)
    static = _StaticLookup(report)
    costly = [
        Stall(
            line=line.line,
            mnemonic=line.mnemonic,
            loop=line.loop,
            source=line.source.in_user_code if line.source is not None else None,
            stall_cycles=line.stall_cycles,
            samples=line.samples,
            cost=cost,
            share=percent(cost, total),
            reasons=line.reasons,
            static=static.facts_at(line.line),
        )
        for line in lines
        if (cost := amount(line, measure) or 0) > 0
    ]
    return sorted(costly, key=lambda stall: (-stall.cost, stall.line))


def source_costs(report: KernelReport) -> tuple[SourceCost, ...]:
    """The cost of each line of the user's source, the most stalled first.

    An instruction belongs to its innermost position outside libraries.
    """
    measure = measure_of(report.measured_lines)
    total = sum_known(amount(line, measure) for line in report.measured_lines)
    static = _StaticLookup(report)
    by_place: dict[tuple[str, int], list[MeasuredLine]] = {}
    for line in report.measured_lines:
        if line.source is not None:
            location = line.source.in_user_code
            by_place.setdefault((location.file, location.line), []).append(line)
    costs = [
        SourceCost(
            file=file,
            line=number,
            instructions=len(lines),
            stall_cycles=sum_known(line.stall_cycles for line in lines),
            samples=sum_known(line.samples for line in lines),
            share=percent(sum_known(amount(line, measure) for line in lines), total),
            rules=static.rules_at(*(line.line for line in lines)),
        )
        for (file, number), lines in by_place.items()
    ]

    def rank(cost: SourceCost) -> tuple[int, int, str, int]:
        return -(cost.stall_cycles or 0), -(cost.samples or 0), cost.file, cost.line

    return tuple(sorted(costs, key=rank))


class _StaticLookup:
    """The facts of static analysis, by line of the assembly."""

    def __init__(self, report: KernelReport) -> None:
        self._rules: dict[int, dict[str, None]] = {}
        for finding in report.findings:
            for location in finding.locations:
                if location.kind == "amdgcn" and location.line is not None:
                    self._rules.setdefault(location.line, {})[finding.rule] = None
        self._waits: dict[int, list[WaitOp]] = {}
        for wait in report.waits:
            self._waits.setdefault(wait.line, []).append(wait)
        self._accesses = {
            line: access
            for access in report.accesses
            if access.limited_by is not None
            for line in access.lines
        }
        self._spills: dict[int, Literal["store", "reload"]] = {}
        for slot in report.spills:
            self._spills.update(dict.fromkeys(slot.stores, "store"))
            self._spills.update(dict.fromkeys(slot.reloads, "reload"))
        self._operations = {op.line: op for op in report.memory_ops}
        self._measured = {line.line: line for line in report.measured_lines}

    def rules_at(self, *lines: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule for line in lines for rule in self._rules.get(line, ())))

    def facts_at(self, line: int) -> StaticFacts | None:
        """The facts of a line; None if there are none."""
        waits = tuple(self._waits.get(line, ()))
        facts = StaticFacts(
            rules=self.rules_at(line),
            waits=waits,
            waits_for=tuple(
                self._awaited(awaited)
                for awaited in dict.fromkeys(n for wait in waits for n in wait.waits_for or ())
            ),
            access=self._accesses.get(line),
            spill=self._spills.get(line),
        )
        return facts if facts != StaticFacts() else None

    def _awaited(self, line: int) -> Awaited:
        known = self._operations.get(line) or self._measured.get(line)
        return Awaited(line, known.mnemonic if known else None, known.source if known else None)
