"""What kernels' registers hold, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ..explain import registers_view, view
from ..metrics.occupancy import vgpr_levels
from ..model import KernelReport, value_of
from .paper import Line, Paper, paper_for, wrapped

_MARGIN = 4
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
    head = f"  {registers_view.amount(peak, kernel)}, {registers_view.where(peak)}"
    for line in wrapped(Line(head), paper.width, "    "):
        paper.print(line)
    paper.print(Line())
    for index, text in enumerate(registers_view.table(peak)):
        paper.print(Line(f"  {text}", "bold" if index == 0 else ""))
    if kernel.spilled_values:
        paper.print(Line())
        paper.print(Line("  spilled, over the whole kernel", "bold"))
        for text in registers_view.spilled_table(kernel.spilled_values):
            paper.print(Line(f"  {text}"))
    _curves(paper, kernel)
    steps = registers_view.steps(kernel, vgpr_levels(kernel))
    if steps:
        paper.print(Line())
        for line in wrapped(Line(f"  {steps}", "dim"), paper.width, "    "):
            paper.print(line)


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
        for text in registers_view.curve(counts, paper.width - 2 * _MARGIN):
            paper.print(Line(" " * _MARGIN + text))
