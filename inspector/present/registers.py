"""What kernels' registers hold, as a document and as JSON: values, spills, curves, steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..explain import registers_view, view
from ..metrics.line_bounds import register_pressure
from ..metrics.occupancy import vgpr_levels
from ..model import KernelReport, LivePeak, SpilledValue, value_of
from ..report.json_write import live_peak_dict
from . import kernel as of_kernel
from .document import Code, Column, Columns, Document, Section, paragraphs, table, words

SCHEMA_VERSION: Final = 1
_WIDTH: Final = 72
"""Characters of a curve."""
_LOOPS: Final = 3
"""Most hot loops whose curve is drawn."""


def document(kernels: Sequence[KernelReport]) -> Document:
    """A table for each kernel, its curve along the code, and its steps of occupancy."""
    return tuple(section for kernel in kernels for section in _sections(kernel))


def fields(kernels: Sequence[KernelReport]) -> dict[str, Any]:
    """JSON values: `kernels`.

    Each has its id, the allocated registers, `peak` (as `live_peak` of reports), `spilled`,
    `untouched` and `dead_writes` (as in reports), `counts` ([line, VGPRs, AGPRs] of each
    instruction) and `levels` (most VGPRs for each occupancy).
    """
    return {"schema_version": SCHEMA_VERSION, "kernels": [_fields(kernel) for kernel in kernels]}


def _fields(kernel: KernelReport) -> dict[str, Any]:
    peak = kernel.live_peak
    levels = vgpr_levels(kernel)
    return {
        "id": kernel.id,
        "name": kernel.name,
        "arch": kernel.arch,
        "vgpr_count": value_of(kernel.metrics, "vgpr_count"),
        "agpr_count": value_of(kernel.metrics, "agpr_count"),
        "peak": live_peak_dict(peak) if peak else None,
        "spilled": kernel.spilled_values,
        "untouched": kernel.untouched,
        "dead_writes": kernel.dead_writes,
        "counts": peak.counts if peak else [],
        "levels": [{"waves_per_eu": waves, "vgprs": vgprs} for waves, vgprs in levels],
    }


def _sections(kernel: KernelReport) -> Iterator[Section]:
    """A kernel's values, curves and steps, or why they are not known."""
    peak, title = kernel.live_peak, of_kernel.title(kernel)
    if peak is None:
        metric = kernel.metrics.get("live.vgprs")
        reason = metric.note if metric is not None and metric.note else "it was not followed"
        unknown = f"what its registers hold is not known: {reason}"
        yield Section(paragraphs((unknown,), "warning"), title, is_subject=True)
        return
    head = f"{registers_view.amount_text(peak, kernel)}, {registers_view.place_text(peak)}"
    yield Section(paragraphs((head,)), title, is_subject=True)
    yield Section((table(_HELD, registers_view.held_rows(peak)),))
    if kernel.spilled_values:
        spilled = table(_SPILLED, kernel.spilled_values[: registers_view.MOST_ROWS])
        yield Section((spilled,), words("spilled, over the whole kernel", "strong"))
    idle = [
        *map(registers_view.untouched_text, kernel.untouched),
        registers_view.dead_writes_text(kernel.dead_writes),
    ]
    if any(idle):
        yield Section(paragraphs(idle))
    yield from _curves(kernel, peak)
    pressure = register_pressure(kernel)
    steps = registers_view.steps_text(pressure, has_agprs=peak.agprs > 0) if pressure else ""
    if steps:
        yield Section(paragraphs((steps,), "weak"))


def _curves(kernel: KernelReport, peak: LivePeak) -> Iterator[Section]:
    """The need for registers along the whole code and along each hot loop."""
    if not peak.counts:
        return
    parts = [("whole kernel", peak.counts)]
    for loop in [loop for loop in kernel.loops if loop.hot][:_LOOPS]:
        inside = tuple(
            count
            for count in peak.counts
            if any(first <= count[0] <= last for first, last in loop.lines)
        )
        at_most = view.show(value_of(loop.metrics, "live.vgprs"))
        parts.append((f"{loop.id}, {len(inside)} instructions, {at_most} VGPRs at most", inside))
    for title, counts in parts:
        curve = Code(tuple(registers_view.curve_lines(counts, _WIDTH)))
        yield Section((curve,), words(title, "weak"))


def _spilled_kind(value: SpilledValue) -> str:
    return " ".join(filter(None, (registers_view.KINDS[value.kind], value.type)))


_HELD: Columns = (
    (Column("VGPRs", right=True), lambda row: str(row.vgprs or "")),
    (Column("AGPRs", right=True), lambda row: str(row.agprs or "")),
    (Column("scratch", right=True), lambda row: str(row.scratch or "")),
    (Column("value", shrinks=True), lambda row: row.name),
    (Column("", shrinks=True), lambda row: row.what),
    (Column("line", shrinks=True), lambda row: row.place),
)
_SPILLED: Columns = (
    (Column("dwords", right=True), lambda value: str(value.dwords)),
    (Column("stores", right=True), lambda value: str(value.stores)),
    (Column("reloads", right=True), lambda value: str(value.reloads)),
    (Column("in hot loops", shrinks=True), registers_view.hot_traffic),
    (Column("value", shrinks=True), lambda value: value.name or registers_view.UNNAMED),
    (Column("", shrinks=True, rank=1), _spilled_kind),
    (Column("line", shrinks=True), lambda value: view.place(value.source)),
)
