"""The lines and the source lines at which a kernel stalls, with what static analysis says of them.

A load's latency shows at the wait that waits for it, so a wait has its loads beside it.

Sums up measured lines, for the kernel and its loops, and says what lines are compared by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...model import Access, KernelReport, MeasuredLine, Metric, SourceLoc, WaitOp


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
    static = _Analysis(report)
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
            static=static.of(line.line),
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
    static = _Analysis(report)
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
            rules=tuple(dict.fromkeys(rule for line in lines for rule in static.rules_at(line))),
        )
        for (file, number), lines in by_place.items()
    ]
    return tuple(
        sorted(
            costs,
            key=lambda cost: (
                -(cost.stall_cycles or 0),
                -(cost.samples or 0),
                cost.file,
                cost.line,
            ),
        )
    )


class _Analysis:
    """The results of static analysis, by line of the assembly."""

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

    def rules_at(self, line: MeasuredLine) -> tuple[str, ...]:
        return tuple(self._rules.get(line.line, ()))

    def of(self, line: int) -> StaticFacts | None:
        """The results for a line; None if there are none."""
        waits = tuple(self._waits.get(line, ()))
        facts = StaticFacts(
            rules=tuple(self._rules.get(line, ())),
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


Measure = Literal["stall cycles", "samples not issued", "samples"]
"""What lines are compared by: the first of these that was recorded."""


def with_lines(report: KernelReport, lines: Sequence[MeasuredLine]) -> KernelReport:
    """The report with measured lines, and with their sums as metrics of kernel and loops."""
    if not lines:
        return report
    measure = measure_of(lines)
    loops = []
    for loop in report.loops:
        is_outer = any(inner.parent == loop.id for inner in report.loops)
        note = "own instructions, without those of nested loops" if is_outer else ""
        own_lines = [line for line in lines if line.loop == loop.id]
        figures = _named(_metrics(own_lines, lines, measure, note))
        loops.append(replace(loop, metrics={**loop.metrics, **figures}))
    metrics = {**report.metrics, **_named(_metrics(lines, None, measure, ""))}
    return replace(report, metrics=metrics, loops=tuple(loops), measured_lines=tuple(lines))


def measure_of(lines: Iterable[MeasuredLine]) -> Measure | None:
    """Returns the measure that lines are compared by; None if nothing was measured.

    Stall cycles of a thread trace are preferred to samples: a trace misses nothing on its CU.
    """
    lines = tuple(lines)
    if any(line.stall_cycles for line in lines):
        return "stall cycles"
    sampled = [line for line in lines if line.samples]
    # Without `issued` on some line, issued and other samples cannot be told apart: count all.
    if sampled and all(line.issued is not None for line in sampled):
        return "samples not issued"
    return "samples" if sampled else None


def amount(line: MeasuredLine, measure: Measure | None) -> int | None:
    """A line's amount of the measure; None where it was not measured."""
    if measure == "stall cycles":
        return line.stall_cycles
    if line.samples is None:
        return None
    if measure == "samples not issued":
        return line.samples - (line.issued or 0)
    return line.samples if measure == "samples" else None


def sum_known(values: Iterable[int | None]) -> int | None:
    """Returns the sum of the values that are known; None if none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def percent(amount: int | None, total: int | None) -> float | None:
    """Returns an amount in % of a total; None if either is unknown, or the total is 0."""
    return 100.0 * amount / total if amount is not None and total else None


def _metrics(
    lines: Sequence[MeasuredLine],
    kernel: Sequence[MeasuredLine] | None,
    measure: Measure | None,
    note: str,
) -> Iterable[Metric]:
    """Sums over some lines."""
    figures = (
        ("measured.hits", "count", sum_known(line.hits for line in lines)),
        ("measured.latency_cycles", "cycles", sum_known(line.latency_cycles for line in lines)),
        ("measured.stall_cycles", "cycles", sum_known(line.stall_cycles for line in lines)),
        ("measured.samples", "count", sum_known(line.samples for line in lines)),
    )
    for name, unit, value in figures:
        if value is not None:
            yield Metric(name=name, value=value, unit=unit, origin="measured", note=note)
    if kernel is None or measure is None:
        return
    of_lines = sum_known(amount(line, measure) for line in lines)
    of_kernel = sum_known(amount(line, measure) for line in kernel)
    share = percent(of_lines, of_kernel)
    if share is not None:
        formula = f"100 · {measure} {of_lines} / {of_kernel}"
        yield Metric(
            name="measured.stall_share",
            value=share,
            unit="%",
            origin="measured",
            note=f"{formula}; {note}" if note else formula,
        )


def _named(metrics: Iterable[Metric]) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}
