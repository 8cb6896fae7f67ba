"""How long launches take, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from ..explain import time_view, view
from ..model import KernelReport
from ..model.time import BOUNDS, KernelTime, LoopTime
from ..present.paper import Line, Paper, paper_for, print_wrapped

_BAR: Final = 40
"""Characters of the bar of reasons that stands for the whole time."""
_SAVINGS: Final = (
    ("  what it would take with one cost gone", False),
    ("  at the most, with all of a kind gone", True),
)
_MOST_SAVINGS: Final = 5
_MOST_LINES: Final = 8
_BELOW: Final = "    "


def write(
    kernels: Sequence[KernelReport],
    measured_us: float | None,
    stream: TextIO,
    *,
    color: bool | None = None,
) -> None:
    """Writes the time of each kernel: how long, what limits it, where it goes, what would save."""
    paper = paper_for(stream, color)
    for number, kernel in enumerate(kernels):
        if number:
            paper.print(Line())
        title = Line(kernel.name, style="bold")
        title.append(f"  {kernel.arch or 'unknown target'}")
        if kernel.source is not None:
            title.append(f"  {view.place(kernel.source)}")
        if kernel.variant is not None and kernel.variant.case:
            title.append(f"  [{kernel.variant.case}]")
        paper.print(title)
        if kernel.time is None:
            print_wrapped(paper, Line(f"  no time: {kernel.no_time}", "yellow"), _BELOW)
        else:
            _time(paper, kernel.time, measured_us)
        _loops(paper, kernel.loop_times)
        if kernel.time is not None:
            _savings(paper, kernel.time)


def _time(paper: Paper, time: KernelTime, measured_us: float | None) -> None:
    line = Line("  ")
    line.append(time_view.estimate(time), "bold")
    line.append(f"  limited by {time.limiter}")
    if time.warm_us is not None:
        line.append(f"; {time_view.amount(time.warm_us)} with the data in the Infinity Cache")
    paper.print(line)
    paper.print(
        Line(
            f"  {time.gpu}: {time.cycles:,.0f} cycles at {time.mhz:,.0f} MHz,"
            f" {time.workgroups:,} workgroups, up to {time.rounds:,} on a compute unit,"
            f" {time.resident} at a time"
        )
    )
    print_wrapped(paper, Line(f"  units busy: {time_view.busy_units(time)}"), _BELOW)
    if measured_us is not None:
        print_wrapped(paper, Line(f"  {time_view.against(time, measured_us)}", "bold"), _BELOW)
    paper.print(Line())
    for stall in time.stalls:
        bar = "█" * max(1, round(_BAR * stall.share))
        paper.print(
            Line(f"  {time_view.STALLS[stall.reason]:<18}{100 * stall.share:4.0f} %  {bar}")
        )
    if time.lines:
        paper.print(Line())
        paper.print(Line("  where the time goes", "bold"))
    for row in time.lines[:_MOST_LINES]:
        where = view.place(row.source) if row.source else f"code line {row.line}"
        paper.print(Line(f"  {100 * row.share:4.0f} %  {time_view.STALLS[row.reason]:<18} {where}"))


def _loops(paper: Paper, loops: Sequence[LoopTime]) -> None:
    told = [loop for loop in loops if loop.cycles is not None]
    if told:
        paper.print(Line())
        paper.print(Line("  what an iteration takes", "bold"))
    for loop in told:
        print_wrapped(paper, Line(f"  {time_view.iteration(loop)}"), _BELOW)


def _savings(paper: Paper, time: KernelTime) -> None:
    for title, are_bounds in _SAVINGS:
        savings = [saving for saving in time.savings if (saving.change in BOUNDS) == are_bounds]
        if savings:
            paper.print(Line())
            paper.print(Line(title, "bold"))
        for saving in savings[:_MOST_SAVINGS]:
            paper.print(
                Line(
                    f"  {-saving.percent:4.0f} %  {time_view.amount(saving.us):>9}"
                    f"  {time_view.change_of(saving)}"
                )
            )
    if time.assumed:
        paper.print(Line())
        print_wrapped(paper, Line(f"  assumed: {'; '.join(time.assumed)}", "dim"), _BELOW)
