"""What measured lines are compared by, and their sums as metrics of the kernel and its loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from ...model import KernelReport, MeasuredLine, Metric

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
