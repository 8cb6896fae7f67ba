"""Lists the lines at which a kernel stalls, with the results of static analysis for them.

A load's latency shows at the wait that waits for it, so a wait has its loads beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ...model import KernelReport, SourceLoc
from .loop_costs import amount, measure_of
from .static_costs import StaticLine, static_lines


class Stall(Struct, frozen=True):
    """A line of the assembly that cost something.

    Attributes:
        stall_cycles: shader clocks in which it could not be issued, summed over traced waves; None
            without a thread trace.
    """

    line: int  # number of the line in the assembly
    mnemonic: str  # its instruction
    loop: str | None  # id of the innermost loop that contains it; None outside loops
    source: SourceLoc | None  # the line of the user's Python; None where it is unknown
    stall_cycles: int | None
    samples: int | None  # PC samples with a wave at it; None without samples
    cost: int  # the one of these two that the kernel's lines are compared by
    share: float | None  # the cost, % of the kernel's
    reasons: Mapping[str, int]  # why the waves of its samples did not issue -> number of samples
    static: StaticLine | None  # results of static analysis for the line; None if there are none


def stalls(report: KernelReport) -> list[Stall]:
    """Returns the lines that cost something, the dearest first; none if no line was measured."""
    lines = report.measured_lines
    if not lines:
        return []
    measure = measure_of(lines)
    total = sum(amount(line, measure) or 0 for line in lines)
    static_by_line = {static.line: static for static in static_lines(report)}
    costly = [
        Stall(
            line=line.line,
            mnemonic=line.mnemonic,
            loop=line.loop,
            source=line.source.in_user_code if line.source is not None else None,
            stall_cycles=line.stall_cycles,
            samples=line.samples,
            cost=cost,
            share=100 * cost / total if total else None,
            reasons=line.reasons,
            static=static_by_line.get(line.line),
        )
        for line in lines
        if (cost := amount(line, measure) or 0) > 0
    ]
    costly.sort(key=lambda stall: (-stall.cost, stall.line))
    return costly
