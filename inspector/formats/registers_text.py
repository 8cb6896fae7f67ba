"""What kernels' registers hold, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ..explain import registers_view, view
from ..metrics.pressure import register_pressure
from ..model import KernelReport, value_of
from ..present.paper import Line, Paper, paper_for, print_table, print_wrapped

_MARGIN = 4
"""Blanks before and after a curve."""
_LOOPS = 3
"""Most hot loops whose curve is drawn."""


def write(kernels: Sequence[KernelReport], stream: TextIO, *, color: bool | None = None) -> None:
    """Writes a table for each kernel, its curve along the code, and its steps of occupancy."""
    paper = paper_for(stream, color)
    for number, kernel in enumerate(kernels):
        if number:
            paper.print(Line())
        _kernel(paper, kernel)


def _kernel(paper: Paper, kernel: KernelReport) -> None:
    """Prints a kernel's values, curves and steps, or why they are not known."""
    title = Line(kernel.name, style="bold")
    title.append(f"  {kernel.arch or 'unknown target'}")
    if kernel.variant is not None and kernel.variant.case:
        title.append(f"  [{kernel.variant.case}]")
    paper.print(title)
    peak = kernel.live_peak
    if peak is None:
        metric = kernel.metrics.get("live.vgprs")
        reason = metric.note if metric is not None and metric.note else "it was not followed"
        paper.print(Line(f"  what its registers hold is not known: {reason}", "yellow"))
        return
    head = f"  {registers_view.amount_text(peak, kernel)}, {registers_view.place_text(peak)}"
    print_wrapped(paper, Line(head), "    ")
    paper.print(Line())
    print_table(paper, registers_view.held_table(peak))
    if kernel.spilled_values:
        paper.print(Line())
        paper.print(Line("  spilled, over the whole kernel", "bold"))
        for text in registers_view.spilled_table(kernel.spilled_values):
            paper.print(Line(f"  {text}"))
    idle = [
        *map(registers_view.untouched_text, kernel.untouched),
        *filter(None, (registers_view.dead_writes_text(kernel.dead_writes),)),
    ]
    if idle:
        paper.print(Line())
    for text in idle:
        print_wrapped(paper, Line(f"  {text}"), "    ")
    _curves(paper, kernel)
    pressure = register_pressure(kernel)
    steps = registers_view.steps_text(pressure, has_agprs=peak.agprs > 0) if pressure else ""
    if steps:
        paper.print(Line())
        print_wrapped(paper, Line(f"  {steps}", "dim"), "    ")


def _curves(paper: Paper, kernel: KernelReport) -> None:
    """Prints the need for registers along the whole code and along each hot loop."""
    peak = kernel.live_peak
    if peak is None or not peak.counts:
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
        paper.print(Line())
        paper.print(Line(f"  {title}", "dim"))
        for text in registers_view.curve_lines(counts, paper.width - 2 * _MARGIN):
            paper.print(Line(" " * _MARGIN + text))
