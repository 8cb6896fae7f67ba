"""The words for a line at which a kernel stalls: why it waited, and what analysis says of it.

The stalls themselves lie above this room (`profile/placing/`), so their fields are named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ..model import Access, SourceLoc, WaitOp
from . import view
from .quantities import and_more

_MOST_LOADS = 3
"""How many of the loads that a wait waits for are named."""
_MOST_REASONS = 2


class AwaitedLoad(Protocol):
    """A memory operation that a wait waits for."""

    @property
    def line(self) -> int: ...
    @property
    def mnemonic(self) -> str | None: ...
    @property
    def source(self) -> SourceLoc | None: ...


class StaticFacts(Protocol):
    """Results of static analysis for a line."""

    @property
    def rules(self) -> tuple[str, ...]: ...
    @property
    def waits(self) -> tuple[WaitOp, ...]: ...
    @property
    def waits_for(self) -> Sequence[AwaitedLoad]: ...
    @property
    def access(self) -> Access | None: ...
    @property
    def spill(self) -> str | None: ...


class MeasuredStall(Protocol):
    """A line that cost something."""

    @property
    def reasons(self) -> Mapping[str, int]: ...
    @property
    def static(self) -> StaticFacts | None: ...


def remarks_beside(stall: MeasuredStall) -> str:
    """What stands beside a stall in a table: its reasons, then what static analysis says."""
    reasons = top_reasons(stall.reasons)
    return "; ".join([*([reasons] if reasons is not None else []), *static_remarks(stall.static)])


def top_reasons(reasons: Mapping[str, int]) -> str | None:
    """The two most frequent reasons of a line's samples with their shares; None without any."""
    if not reasons:
        return None
    total = sum(reasons.values())
    top = sorted(reasons.items(), key=lambda item: -item[1])[:_MOST_REASONS]
    return ", ".join(f"{name.replace('_', ' ')} {100 * n / total:.0f} %" for name, n in top)


def static_remarks(facts: StaticFacts | None) -> Iterator[str]:
    """Yields what static analysis says of a line: rules, waits, access, spill."""
    if facts is None:
        return
    yield from facts.rules
    for wait in facts.waits:
        if wait.verdict not in (None, "needed"):
            yield _verdict(wait)
    if facts.waits_for:
        loads = dict.fromkeys(
            f"{load.mnemonic or ''} {_position(load.source, load.line)}".strip()
            for load in facts.waits_for
        )
        yield f"waits for {and_more(list(loads), _MOST_LOADS)}"
    if facts.access is not None:
        bits, widest = view.show(facts.access.bits), view.show(facts.access.widest)
        yield f"{bits} of {widest} bits, limited by {facts.access.limited_by}"
    if facts.spill is not None:
        yield f"spill {facts.spill}"


def _verdict(wait: WaitOp) -> str:
    """Returns the judgement of a wait, with the value of its counter that would do."""
    enough = f", {wait.counter}({wait.could_be}) would do" if wait.could_be is not None else ""
    return f"{wait.verdict} wait{enough}"


def _position(source: SourceLoc | None, line: int) -> str:
    return view.place(source.in_user_code) if source is not None else f"line {line}"
