"""Lists the lines at which a kernel stalls, with the results of static analysis for them.

A load's latency shows at the wait that waits for it, so a wait names its loads.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ...explain import view
from ...model import KernelReport, MeasuredLine, SourceLoc, WaitOp
from .loop_costs import amount, measure_of
from .static_costs import StaticLine, static_lines

MOST_LOADS = 3


class Stall(Struct, frozen=True):
    """A line of the assembly that cost something. `share` is of all the kernel's, %."""

    line: int
    mnemonic: str
    loop: str | None
    source: SourceLoc | None
    stall_cycles: int | None
    samples: int | None
    cost: int
    share: float | None
    beside: tuple[str, ...]

    @property
    def place(self) -> str:
        return view.place(self.source)


def stalls(report: KernelReport) -> list[Stall]:
    """Returns the lines that cost something, the dearest first; none if no line was measured."""
    lines = report.measured_lines
    if not lines:
        return []
    measure = measure_of(lines)
    total = sum(amount(line, measure) or 0 for line in lines)
    facts_by_line = {facts.line: facts for facts in static_lines(report)}
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
            beside=(*_reasons(line), *_static_facts(facts_by_line.get(line.line))),
        )
        for line in lines
        if (cost := amount(line, measure) or 0) > 0
    ]
    costly.sort(key=lambda stall: (-stall.cost, stall.line))
    return costly


def _reasons(line: MeasuredLine) -> tuple[str, ...]:
    """Returns the two most frequent reasons of its samples, in words; none if it has no reasons."""
    if not line.reasons:
        return ()
    total = sum(line.reasons.values())
    top = sorted(line.reasons.items(), key=lambda item: -item[1])[:2]
    return (", ".join(f"{name.replace('_', ' ')} {100 * n / total:.0f} %" for name, n in top),)


def _static_facts(facts: StaticLine | None) -> Iterator[str]:
    """Yields in words what static analysis says of a line: rules, waits, access, spill."""
    if facts is None:
        return
    yield from facts.rules
    for wait in facts.waits:
        if wait.verdict not in (None, "needed"):
            yield _verdict(wait)
    if facts.waits_for:
        loads = list(
            dict.fromkeys(
                f"{load.mnemonic or ''} {_position(load.source, load.line)}".strip()
                for load in facts.waits_for
            )
        )
        omitted = f" and {len(loads) - MOST_LOADS} more" if len(loads) > MOST_LOADS else ""
        yield f"waits for {', '.join(loads[:MOST_LOADS])}{omitted}"
    if facts.access is not None:
        bits, widest = view.show(facts.access.bits), view.show(facts.access.widest)
        yield f"{bits} of {widest} bits, limited by {facts.access.limited_by}"
    if facts.spill is not None:
        yield f"spill {facts.spill}"


def _verdict(wait: WaitOp) -> str:
    enough = f", {wait.counter}({wait.could_be}) would do" if wait.could_be is not None else ""
    return f"{wait.verdict} wait{enough}"


def _position(source: SourceLoc | None, line: int) -> str:
    return view.place(source.in_user_code) if source is not None else f"line {line}"
