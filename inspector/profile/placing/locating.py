"""Finds the instruction of the assembly that a recorded place means: by address, order or text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ...model import Function, Instruction, MeasuredLine, SourceLoc
from ...model.recording import CodePlace, Samples, Traced
from .addresses import PADDING, AddressMap, is_data, key_of, operation, split, text_key
from .sequence import in_sequence

_MOST_WRONG = 0.1
"""A code object that contradicts a larger share of the recorded instructions is another build's."""


class Unlocated(Struct, frozen=True):
    """A place without a line: why, and the lines that it may be."""

    why: str
    lines: tuple[int, ...] = ()


Location = Instruction | Unlocated


class PlaceLocator:
    """Locates the instruction of each place: by address, by order, or by its text alone."""

    def __init__(self, functions: Sequence[Function], addresses: AddressMap | None) -> None:
        self._code = [i for f in functions for i in f.instructions]
        self._functions = functions
        self._addresses = addresses
        self._by_key: dict[str, list[Instruction]] = {}
        for instruction in self._code:
            self._by_key.setdefault(key_of(instruction), []).append(instruction)
        self.notes: list[str] = []

    def locate(self, places: Sequence[CodePlace]) -> Mapping[CodePlace, Location]:
        """Locates places; `notes` then says what was uncertain."""
        locations: dict[CodePlace, Location] = {}
        objects: dict[tuple[int | None, int | None], list[CodePlace]] = {}
        for place in places:
            if place.offset is None:
                locations[place] = self._by_text(place)
            else:
                objects.setdefault((place.process, place.code_object), []).append(place)
        for group in objects.values():
            locations.update(self._by_address(group))
        return locations

    def _by_address(self, places: Sequence[CodePlace]) -> Mapping[CodePlace, Location]:
        """Locates places of one code object of one process."""
        address_map = self._addresses
        if address_map is None or not address_map.instructions:
            return self._by_order(places, "no code object of this kernel could be laid beside it")
        with_text = [
            recorded
            for recorded in places
            if recorded.text and split(recorded.text)[0] not in PADDING
        ]
        contradicting = sum(_contradicts(recorded, address_map) for recorded in with_text)
        absent = sum(recorded.offset not in address_map.code for recorded in with_text)
        if contradicting > _MOST_WRONG * len(with_text) or 2 * absent > len(with_text) > 0:
            return self._by_order(
                places,
                f"the code object at hand is another build: {contradicting + absent} of"
                f" {len(with_text)} recorded instructions are not at their addresses in it",
            )
        return {place: self._at_address(place, address_map) for place in places}

    def _at_address(self, place: CodePlace, address_map: AddressMap) -> Location:
        assert place.offset is not None
        instruction = address_map.instructions.get(place.offset)
        if instruction is not None:
            if place.text and not _same_operation(place.text, instruction):
                return Unlocated(f"{instruction.mnemonic} is at this address", (instruction.line,))
            return instruction
        if place.offset in address_map.code:
            return Unlocated("its instruction is not in the assembly")
        return Unlocated("no instruction of this kernel is at this address")

    def _by_order(self, places: Sequence[CodePlace], why: str) -> Mapping[CodePlace, Location]:
        """Locates places by their texts and order; `why` is the reason for not using addresses."""
        rows = {p.offset: p.text for p in places if p.offset is not None and p.text}
        note = f"{why}: recorded instructions were placed by their texts and order"
        if note not in self.notes:
            self.notes.append(note)
        sequenced = in_sequence(self._functions, rows)
        if sequenced.problem is not None:
            self.notes.append(sequenced.problem)
        locations: dict[int, Location] = {
            address: Unlocated("nothing decides between lines", _lines(candidates))
            for address, candidates in sequenced.candidates.items()
        }
        locations.update(sequenced.instructions)
        not_in_text = Unlocated(sequenced.problem or "its instruction is not in the assembly")
        return {
            place: self._by_comment(
                place,
                locations.get(place.offset, not_in_text)
                if place.text
                else Unlocated("no instruction was recorded with the address"),
            )
            for place in places
            if place.offset is not None
        }

    def _by_text(self, place: CodePlace) -> Location:
        if not place.text:
            return Unlocated("neither address nor instruction was recorded")
        candidates = self._by_key.get(text_key(place.text), [])
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            return Unlocated("its instruction is not in the assembly")
        return self._by_comment(
            place, Unlocated(f"{len(candidates)} lines have this instruction", _lines(candidates))
        )

    def _by_comment(self, place: CodePlace, location: Location) -> Location:
        """Chooses the line that has the recorded source position, if only one of several has it."""
        recorded_position = position(place.comment)
        if (
            isinstance(location, Instruction)
            or recorded_position is None
            or len(location.lines) < 2
        ):
            return location
        lines = set(location.lines)
        candidates = [i for i in self._code if i.line in lines and _is_at(i.loc, recorded_position)]
        if len(candidates) == 1:
            return candidates[0]
        return Unlocated(location.why, _lines(candidates)) if candidates else location


def _is_at(loc: SourceLoc | None, recorded_position: SourceLoc) -> bool:
    # Paths differ between machines, file names do not.
    return (
        loc is not None
        and loc.line == recorded_position.line
        and Path(loc.file).name == Path(recorded_position.file).name
    )


def _contradicts(place: CodePlace, address_map: AddressMap) -> bool:
    instruction = address_map.code.get(place.offset) if place.offset is not None else None
    return instruction is not None and not _same_operation(place.text or "", instruction)


def _same_operation(text: str, instruction: Instruction) -> bool:
    return is_data(text) or operation(split(text)[0]) == operation(instruction.mnemonic)


def _lines(instructions: Iterable[Instruction]) -> tuple[int, ...]:
    return tuple(sorted(instruction.line for instruction in instructions))


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
