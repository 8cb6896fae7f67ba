"""Sums up measured lines: for the kernel, its loops, Python lines and static findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...model import Access, KernelReport, MeasuredLine, Metric, SourceLoc, WaitOp

Measure = Literal["stall cycles", "samples not issued", "samples"]
"""What lines are compared by: the first of these that was recorded."""

_ISA = "amdgcn"


class Awaited(Struct, frozen=True):
    """A memory operation that a wait waits for: its stall shows at the wait."""

    line: int
    mnemonic: str | None
    source: SourceLoc | None


class Beside(Struct, frozen=True):
    """A line of the assembly that static analysis describes, and what it cost.

    Args:
        line: number of the line in the assembly.
        mnemonic: its instruction; None where neither measurement nor analysis names it.
        source: the Python line.
        loop: id of the innermost loop that contains it.
        hits: how often traced waves executed it.
        latency_cycles: shader clocks, summed over traced waves.
        stall_cycles: those of these clocks in which the wave could not continue.
        samples: PC samples with a wave at this line.
        share: % of the kernel's `measure`; None where this line was not measured.
        measure: what the share is of; None where nothing was measured.
        rules: ids of the findings that point here.
        waits: the counters that the wait on this line waits for.
        waits_for: the operations that it waits for.
        waited_at: lines of the waits that wait for this operation.
        waited_stall: stall cycles at those waits. They may wait for other operations as well, so
            that sums over lines would count them several times.
        access: why this memory access is narrow.
        spill: whether it stores or reloads a spilled value.
    """

    line: int
    mnemonic: str | None
    source: SourceLoc | None
    loop: str | None
    hits: int | None
    latency_cycles: int | None
    stall_cycles: int | None
    samples: int | None
    share: float | None
    measure: Measure | None
    rules: tuple[str, ...] = ()
    waits: tuple[WaitOp, ...] = ()
    waits_for: tuple[Awaited, ...] = ()
    waited_at: tuple[int, ...] = ()
    waited_stall: int | None = None
    access: Access | None = None
    spill: Literal["store", "reload"] | None = None


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


def with_lines(report: KernelReport, lines: Sequence[MeasuredLine]) -> KernelReport:
    """The report with measured lines, and with their sums as metrics of kernel and loops."""
    if not lines:
        return report
    measure = measure_of(lines)
    loops = tuple(
        replace(
            loop,
            metrics={
                **loop.metrics,
                **_named(
                    _metrics(
                        [line for line in lines if line.loop == loop.id],
                        lines,
                        measure,
                        "own instructions, without those of nested loops"
                        if any(inner.parent == loop.id for inner in report.loops)
                        else "",
                    )
                ),
            },
        )
        for loop in report.loops
    )
    metrics = {**report.metrics, **_named(_metrics(lines, None, measure, ""))}
    return replace(report, metrics=metrics, loops=loops, measured_lines=tuple(lines))


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


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _share(amount: int | None, total: int | None) -> float | None:
    return 100.0 * amount / total if amount is not None and total else None


def _metrics(
    lines: Sequence[MeasuredLine],
    kernel: Sequence[MeasuredLine] | None,
    measure: Measure | None,
    note: str,
) -> Iterable[Metric]:
    """Sums over some lines.

    Args:
        lines: the lines.
        kernel: all lines of the kernel, to take a share of; None where `lines` are all.
        measure: what the share is of.
        note: a note for the metrics.
    """
    figures = (
        ("measured.hits", "count", _sum(line.hits for line in lines)),
        ("measured.latency_cycles", "cycles", _sum(line.latency_cycles for line in lines)),
        ("measured.stall_cycles", "cycles", _sum(line.stall_cycles for line in lines)),
        ("measured.samples", "count", _sum(line.samples for line in lines)),
    )
    for name, unit, value in figures:
        if value is not None:
            yield Metric(name=name, value=value, unit=unit, origin="measured", note=note)
    if kernel is None or measure is None:
        return
    of_lines = _sum(amount(line, measure) for line in lines)
    of_kernel = _sum(amount(line, measure) for line in kernel)
    share = _share(of_lines, of_kernel)
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


# --------------------------------------------------------------------------- beside the static


def beside(report: KernelReport) -> tuple[Beside, ...]:
    """Every line with a finding, a wait, a narrow access or a spill, and what it cost.

    Lines that were not measured are included without figures: the trace may have missed them.

    Returns:
        The lines ordered by stall cycles, then by samples (most first), then by number.
    """
    measured = {line.line: line for line in report.measured_lines}
    measure = measure_of(report.measured_lines)
    total = _sum(amount(line, measure) for line in report.measured_lines)
    static = _Static(report)
    rows = [
        _beside(line, measured, static, measure=measure, total=total)
        for line in sorted(static.lines)
    ]
    rows.sort(key=lambda row: (-(row.stall_cycles or 0), -(row.samples or 0), row.line))
    return tuple(rows)


class _Static:
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


def _beside(
    line: int,
    measured: Mapping[int, MeasuredLine],
    static: _Static,
    *,
    measure: Measure | None,
    total: int | None,
) -> Beside:
    """Returns a line of the assembly with its cost and the results of static analysis.

    Args:
        line: number of the line.
        measured: the measured lines by number.
        static: the results of static analysis.
        measure: the measure that lines are compared by.
        total: the kernel's amount of the measure.
    """
    cost = measured.get(line)
    waits = tuple(static.waits.get(line, ()))
    operation = static.operations.get(line)
    access = static.accesses.get(line)
    awaited = dict.fromkeys(awaited_line for wait in waits for awaited_line in wait.waits_for or ())
    waiting_lines = tuple(static.waited.get(line, ()))
    stalls = [
        waiting.stall_cycles
        for awaited_line in waiting_lines
        if (waiting := measured.get(awaited_line)) is not None
    ]
    mnemonic = operation.mnemonic if operation is not None else None
    sources = [row.source for row in waits] + [
        static_row.source for static_row in (operation, access) if static_row is not None
    ]
    return Beside(
        line=line,
        mnemonic=cost.mnemonic if cost is not None else mnemonic,
        source=next(
            (source for source in [cost.source if cost else None, *sources] if source), None
        ),
        loop=_loop(cost, waits, operation.loop if operation is not None else None),
        hits=cost.hits if cost is not None else None,
        latency_cycles=cost.latency_cycles if cost is not None else None,
        stall_cycles=cost.stall_cycles if cost is not None else None,
        samples=cost.samples if cost is not None else None,
        share=_share(amount(cost, measure), total) if cost is not None else None,
        measure=measure,
        rules=tuple(static.rules.get(line, ())),
        waits=waits,
        waits_for=tuple(_awaited(awaited_line, measured, static) for awaited_line in awaited),
        waited_at=waiting_lines,
        waited_stall=_sum(stalls),
        access=access,
        spill=static.spills.get(line),
    )


def _loop(cost: MeasuredLine | None, waits: Sequence[WaitOp], fallback: str | None) -> str | None:
    if cost is not None:
        return cost.loop
    return waits[0].loop if waits else fallback


def _awaited(line: int, measured: Mapping[int, MeasuredLine], static: _Static) -> Awaited:
    operation, cost = static.operations.get(line), measured.get(line)
    if operation is not None:
        return Awaited(line, operation.mnemonic, operation.source)
    return Awaited(line, cost.mnemonic if cost else None, cost.source if cost else None)


def source_costs(report: KernelReport) -> tuple[SourceCost, ...]:
    """The cost of each line of the user's source, the most stalled first.

    An instruction belongs to its innermost position outside libraries.
    """
    measure = measure_of(report.measured_lines)
    total = _sum(amount(line, measure) for line in report.measured_lines)
    rules = _Static(report).rules
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
                hits=_sum(line.hits for line in lines),
                latency_cycles=_sum(line.latency_cycles for line in lines),
                stall_cycles=_sum(line.stall_cycles for line in lines),
                samples=_sum(line.samples for line in lines),
                share=_share(_sum(amount(line, measure) for line in lines), total),
                rules=tuple(rules_of_line),
            )
        )
    costs.sort(
        key=lambda cost: (-(cost.stall_cycles or 0), -(cost.samples or 0), cost.file, cost.line)
    )
    return tuple(costs)
