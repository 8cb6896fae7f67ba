"""Attributes a profiler's measurements to the lines of a kernel's assembly, by address, order or
text, and adds them up.

Totals are kept: measurements without a line are listed with their samples and cycles. They are
neither dropped nor spread over the lines that they may belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ...base.errors import KinspectError
from ...base.named_files import MOST_BYTES, is_named, opened, opened_named
from ...isa.asm.units import includes_beside
from ...isa.assembly import parse_text
from ...model import Function, Instruction, KernelReport, MeasuredLine, Program, SourceLoc
from ...model.recording import CodePlace, Samples, Traced
from .addresses import (
    PADDING,
    AddressMap,
    addresses_of,
    disassembled,
    is_data,
    key_of,
    operation,
    split,
    text_key,
)
from .sequence import in_sequence


class Landing(Struct, frozen=True):
    """Measured lines of one kernel, ascending, and the measurements that have no line."""

    lines: tuple[MeasuredLine, ...]
    unplaced: tuple[Unplaced, ...] = ()
    notes: tuple[str, ...] = ()


def measured_lines(
    report: KernelReport,
    samples: Sequence[Samples] = (),
    traced: Sequence[Traced] = (),
    saved: Sequence[Path] = (),
) -> Landing:
    """Attributes samples and traced cycles of a kernel to the lines of its assembly.

    `report`: the kernel. Its artifacts `amdgcn` and `hsaco` are read, or the file it was read
    from where it has none.
    `samples`: PC samples of this kernel and no other.
    `saved`: code objects that the profiler saved of this kernel; used where the report has none
    of its own.
    """
    if not samples and not traced:
        return Landing(())
    text, notes = _text(report)
    if text is None:
        return _unlanded(samples, traced, notes)
    functions = code_of(report, text)
    if not functions:
        return _unlanded(samples, traced, [*notes, f"{text.name}: no kernel {report.name} in it"])
    addresses = None
    if _have_addresses(samples, traced):
        addresses = _addresses(report, text, functions, saved, notes)
    landing = land(functions, addresses, samples, traced)
    return Landing(landing.lines, landing.unplaced, (*notes, *landing.notes))


def land(
    functions: Sequence[Function],
    addresses: AddressMap | None,
    samples: Iterable[Samples] = (),
    traced: Iterable[Traced] = (),
) -> Landing:
    """Attributes measurements to lines, given the parsed code; reads no file.

    `functions`: the kernel first, then the device functions that it calls.
    `addresses`: addresses of the instructions; None: places are located by order and text.
    """
    samples, traced = tuple(samples), tuple(traced)
    places = [*(sample.place for sample in samples), *(item.place for item in traced)]
    locator = PlaceLocator(functions, addresses)
    locations = locator.locate(tuple(dict.fromkeys(places)))
    sums: dict[Instruction | CodePlace, LineSum] = {}

    def total_at(place: CodePlace) -> LineSum:
        location = locations[place]
        if isinstance(location, Unlocated):
            return sums.setdefault(place, LineSum(place))
        total = sums.setdefault(location, LineSum(place))
        if total.address is None:
            total.address = place.offset if place.offset is not None else location.address
        return total

    for sample in samples:
        total_at(sample.place).add_samples(sample)
    for item in traced:
        total_at(item.place).add_traced(item)
    notes = list(locator.notes)
    if len({sample.method for sample in samples}) > 1:
        notes.append("samples of two methods (host_trap and stochastic) are added up")
    loops = _innermost(functions[0]) if functions else {}
    lines, unplaced = [], []
    for key, total in sums.items():
        if isinstance(key, Instruction):
            lines.append(total.measured(key, loops.get(key.line)))
        elif isinstance(location := locations[key], Unlocated):
            unplaced.append(total.unplaced(location.why, location.lines))
    lines.sort(key=lambda line: line.line)
    return Landing(tuple(lines), tuple(unplaced), (*notes, *missing(unplaced)))


def code_of(report: KernelReport, program: Program) -> tuple[Function, ...]:
    """Returns the function that a report is about, and those that it calls, directly or not."""
    kernels = [function for function in program.functions if function.is_kernel]
    kernels = kernels or [function for function in program.functions if function.instructions]
    if len(kernels) > 1:
        names = {report.name, report.id.partition("::")[2].rpartition("@")[0]}
        kernels = [
            function for function in kernels if function.name in names or function.symbol in names
        ]
    if len(kernels) != 1:
        return ()
    by_symbol = {function.symbol or function.name: function for function in program.functions}
    reached = {kernels[0].symbol or kernels[0].name: kernels[0]}
    pending = list(kernels[0].calls)
    while pending:
        name = pending.pop()
        if name in by_symbol and name not in reached:
            reached[name] = by_symbol[name]
            pending.extend(by_symbol[name].calls)
    return tuple(reached.values())


def _text(report: KernelReport) -> tuple[Program | None, list[str]]:
    """Reads the program whose lines the report refers to; returns None and a note if it cannot."""
    path = Path(report.file)
    artifact = report.artifacts.get("amdgcn")
    if artifact is not None:
        path = artifact.path
    elif "hsaco" in report.artifacts:
        path = report.artifacts["hsaco"].path
    own = artifact is not None or "hsaco" in report.artifacts
    try:
        with opened(path, MOST_BYTES) if own else opened_named(path, MOST_BYTES) as stream:
            data = stream.read()
        if data.startswith(b"\x7fELF"):
            return disassembled(path, report.arch), []
        return parse_text(data.decode("utf-8", "replace"), str(path), includes_beside(path)), []
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
    except KinspectError as error:
        reason = error.message
    return None, [f"the kernel's assembly cannot be read: {reason}"]


def _addresses(
    report: KernelReport,
    text: Program,
    functions: Sequence[Function],
    saved: Sequence[Path],
    notes: list[str],
) -> AddressMap | None:
    """Returns the addresses of the functions' instructions; None, with notes, if unknown."""
    if all(i.address is not None for function in functions for i in function.instructions):
        return addresses_of(functions, text)  # a disassembly has them already
    hsaco = report.artifacts.get("hsaco")
    for path in [hsaco.path] if hsaco is not None else filter(is_named, saved):
        try:
            program = disassembled(path, report.arch)
        except KinspectError as error:
            notes.append(f"no addresses from the code object: {error.message}")
            continue
        address_map = addresses_of(functions, program)
        if address_map is not None:
            notes.extend(address_map.notes)
            if address_map.instructions:
                return address_map
    return None


def _have_addresses(samples: Sequence[Samples], traced: Sequence[Traced]) -> bool:
    places = [*(sample.place for sample in samples), *(line.place for line in traced)]
    return any(place.offset is not None for place in places)


def _unlanded(
    samples: Sequence[Samples], traced: Sequence[Traced], notes: Sequence[str]
) -> Landing:
    landing = land((), None, samples, traced)
    return Landing((), landing.unplaced, (*notes, *landing.notes))


def _innermost(function: Function) -> dict[int, str]:
    """Returns line -> id of the innermost loop that contains it."""
    loop_of_line: dict[int, str] = {}
    for loop in sorted(function.loops, key=lambda item: item.depth):
        for block in loop.blocks:
            span = function.blocks[block]
            for instruction in function.instructions[span.start : span.stop]:
                loop_of_line[instruction.line] = loop.id
    return loop_of_line


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
