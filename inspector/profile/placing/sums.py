"""Sums of measurements: of a line, or of a place without a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from ...model import Instruction, MeasuredLine, SourceLoc
from ...model.recording import CodePlace, Samples, Traced

_MOST_LISTED = 3
_CALL_SITE = " -> "  # between a position and where it was inlined into, as the SDK writes it
_POSITION = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?$")


class Unplaced(Struct, frozen=True):
    """Sums of measurements whose line is unknown.

    `lines` are those it may belong to: several, or none that is known.
    """

    place: CodePlace
    why: str
    lines: tuple[int, ...] = ()
    samples: int = 0
    hits: int = 0
    latency_cycles: int = 0
    stall_cycles: int = 0


class LineSum(Struct):
    """Sums of the measurements at an instruction or place, by the fields of `MeasuredLine`.

    A field of which nothing was recorded is not in it.
    """

    place: CodePlace
    address: int | None = None
    amounts: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def add_samples(self, item: Samples) -> None:
        self._add(samples=item.count, issued=item.issued)
        for reason, count in item.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    def add_traced(self, item: Traced) -> None:
        self._add(hits=item.hits, latency_cycles=item.latency, stall_cycles=item.stall)
        self._add(idle_cycles=item.idle)

    def _add(self, **amounts: int | None) -> None:
        for name, amount in amounts.items():
            if amount is not None:
                self.amounts[name] = self.amounts.get(name, 0) + amount

    def measured(self, instruction: Instruction, loop: str | None) -> MeasuredLine:
        """Returns the sums as a line of the report; `loop` is the innermost loop's id."""
        return MeasuredLine(
            line=instruction.line,
            address=self.address,
            mnemonic=instruction.mnemonic,
            loop=loop,
            source=instruction.loc or position(self.place.comment),
            reasons=self.reasons,
            **self.amounts,
        )

    def unplaced(self, why: str, lines: tuple[int, ...]) -> Unplaced:
        """Returns the sums as those of a place without a line."""
        names = ("samples", "hits", "latency_cycles", "stall_cycles")
        known = {name: self.amounts[name] for name in names if name in self.amounts}
        return Unplaced(self.place, why, lines, **known)


def missing(unplaced: Sequence[Unplaced]) -> list[str]:
    """Returns notes on what is on no line: the totals, then the worst places."""
    measured = [u for u in unplaced if u.samples or u.latency_cycles or u.hits]
    if not measured:
        return []
    totals = []
    if samples := sum(u.samples for u in measured):
        totals.append(f"{samples:,} samples")
    if cycles := sum(u.latency_cycles for u in measured):
        stalled = sum(u.stall_cycles for u in measured)
        totals.append(f"{cycles:,} cycles, {stalled:,} of them stalled,")
    notes = [
        f"{' and '.join(totals) or 'some hits'} at {len(measured)} places are on no line: "
        "they are missing in the figures of lines and loops"
    ]
    measured.sort(key=lambda u: (u.stall_cycles, u.latency_cycles, u.samples, u.hits), reverse=True)
    places: dict[str, list[str]] = {}
    for item in measured[:_MOST_LISTED]:
        address = f" at 0x{item.place.offset:x}" if item.place.offset is not None else ""
        lines = f" (lines {', '.join(map(str, item.lines[:8]))})" if item.lines else ""
        place = f"`{item.place.text or '?'}`{address}"
        places.setdefault(f"{item.why}{lines}", []).append(place)
    notes += (f"on no line: {', '.join(named)}: {why}" for why, named in places.items())
    return notes


def position(comment: str | None) -> SourceLoc | None:
    """Parses the innermost source position of a profiler's `file:line`; None if there is none."""
    match = _POSITION.match(comment.split(_CALL_SITE)[0].strip()) if comment else None
    return SourceLoc(match["file"], int(match["line"])) if match and int(match["line"]) else None
