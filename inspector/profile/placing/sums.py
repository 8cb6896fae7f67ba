"""Sums of measurements: of one line, or of everything that could not be placed on a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from ...model import Instruction, MeasuredLine, SourceLoc
from ...recording import Place, Samples, Traced

_MOST_LISTED = 3
_CALL_SITE = " -> "  # between a position and where it was inlined into, as the SDK writes it
_POSITION = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?$")


class Unplaced(Struct, frozen=True):
    """Sums of measurements whose line is unknown.

    `lines` are those it may belong to: several, or none that is known.
    """

    place: Place
    why: str
    lines: tuple[int, ...] = ()
    samples: int = 0
    hits: int = 0
    latency_cycles: int = 0
    stall_cycles: int = 0


class LineSum(Struct):
    """Sums over what was recorded at one instruction; None where nothing of the kind was."""

    instruction: Instruction | None = None
    place: Place | None = None
    address: int | None = None
    hits: int | None = None
    latency: int | None = None
    stall: int | None = None
    idle: int | None = None
    samples: int | None = None
    issued: int | None = None
    reasons: dict[str, int] = field(default_factory=dict)

    def sampled(self, item: Samples) -> None:
        self.samples = (self.samples or 0) + item.count
        if item.issued is not None:
            self.issued = (self.issued or 0) + item.issued
        for reason, count in item.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    def traced(self, item: Traced) -> None:
        self.hits = (self.hits or 0) + item.hits
        self.latency = (self.latency or 0) + item.latency
        self.stall = (self.stall or 0) + item.stall
        if item.idle is not None:
            self.idle = (self.idle or 0) + item.idle

    def measured(self, loop: str | None) -> MeasuredLine:
        assert self.instruction is not None
        source = self.instruction.loc
        if source is None and self.place is not None:
            source = position(self.place.comment)
        return MeasuredLine(
            line=self.instruction.line,
            address=self.address,
            mnemonic=self.instruction.mnemonic,
            loop=loop,
            source=source,
            hits=self.hits,
            latency_cycles=self.latency,
            stall_cycles=self.stall,
            idle_cycles=self.idle,
            samples=self.samples,
            issued=self.issued,
            reasons=self.reasons,
        )


def missing(unplaced: Sequence[Unplaced]) -> list[str]:
    """What could not be placed, in words: the totals, then the worst of it."""
    lost = [u for u in unplaced if u.samples or u.latency_cycles or u.hits]
    if not lost:
        return []
    totals = []
    if samples := sum(u.samples for u in lost):
        totals.append(f"{samples:,} samples")
    if cycles := sum(u.latency_cycles for u in lost):
        totals.append(f"{cycles:,} cycles, {sum(u.stall_cycles for u in lost):,} of them stalled,")
    lost.sort(key=lambda u: (u.stall_cycles, u.latency_cycles, u.samples, u.hits), reverse=True)
    notes = [
        f"{' and '.join(totals) or 'some hits'} at {len(lost)} places are on no line: "
        "they are missing in the figures of lines and loops"
    ]
    for place in lost[:_MOST_LISTED]:
        at = f" at 0x{place.place.offset:x}" if place.place.offset is not None else ""
        may_be = f" (lines {', '.join(map(str, place.lines[:8]))})" if place.lines else ""
        notes.append(f"on no line: `{place.place.text or '?'}`{at}: {place.why}{may_be}")
    return notes


def position(comment: str | None) -> SourceLoc | None:
    """The innermost source position of a profiler's `file:line`."""
    match = _POSITION.match(comment.split(_CALL_SITE)[0].strip()) if comment else None
    return SourceLoc(match["file"], int(match["line"])) if match and int(match["line"]) else None
