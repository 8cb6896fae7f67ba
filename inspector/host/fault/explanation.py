"""Explains a report of stopped waves: the code where they stopped, and the likely culprits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ... import machines
from ...base.errors import KinspectError
from ...base.named_files import left_out, source_line
from ...model import Instruction, Machine, SourceLoc
from .code_objects import CODE_LIMIT, CodeContents, CodeObjects, CodePlace
from .suspects import (
    ARITHMETIC,
    IMPRECISE,
    TRAPS,
    addresses_of,
    outstanding_at,
    previous,
    reaches_memory,
    trap_at,
    waited_before,
)
from .values import AgentReport, CodeLine, Excerpt, FaultReport, Stop, Suspect, Wave

_LINES_BEFORE, _LINES_AFTER = 6, 4
"""How many instructions are shown around a pc."""
_MOST_SUSPECTS = 12
"""Most suspects that are listed for one stop."""
_MOST_EXAMINED = 40
"""Stops for which suspects are searched, those with most waves first."""
_UNKNOWN_REASON = "UNKNOWN"
"""The reason of a stop of which a report shows the code and no wave."""
_NO_LINES = (
    "the code object has no line information: compile HIP with -ggdb, and Triton without"
    " TRITON_DISABLE_LINE_INFO"
)


class _CauseSearch(Struct, frozen=True):
    """How the cause of a stop is searched."""

    page: int | None  # an address in the faulting page, if the runtime named one
    precise: bool  # whether precise memory mode was on: then the pc is just behind the culprit
    for_suspects: bool  # whether the suspects of a memory violation are searched, which takes time


def explain(
    report: AgentReport,
    files: Sequence[str],
    folders: Sequence[Path],
    *,
    precise: bool = False,
    limit: int = CODE_LIMIT,
) -> FaultReport:
    """Locates the code of a report's stops, and the suspects for each.

    `folders`: where saved code objects may be.
    `precise`: whether precise memory mode was on: then the pc is just behind the culprit.
    `limit`: most bytes of code of one code object that are disassembled.
    """
    loaded = tuple(excerpt.loaded for excerpt in report.excerpts.values() if excerpt.loaded)
    code = CodeObjects(folders, loaded, limit)
    page = next((message.address for message in report.messages if message.address), None)
    groups = sorted(_groups(report), key=lambda waves: (_rank(waves[0]), -len(waves)))
    stops = tuple(
        _stop(
            waves,
            report.excerpts.get(waves[0].pc),
            code,
            _CauseSearch(page, precise, for_suspects=number < _MOST_EXAMINED),
        )
        for number, waves in enumerate(groups)
    )
    notes = [*report.notes, *_missing_notes(report), *code.notes]
    places = [stop.at.loc.in_user_code for stop in stops if stop.at is not None and stop.at.loc]
    notes += filter(None, [left_out(place.file for place in places)])
    if len(stops) > _MOST_EXAMINED:
        notes.append(f"suspects are worked out for the {_MOST_EXAMINED} stops with most waves")
    return FaultReport(tuple(files), report.messages, stops, report.kernel, notes=tuple(notes))


def _rank(wave: Wave) -> int:
    """Sort key of a stop: 0 for a fault, 1 for code without a wave, 2 for a wave that ran on."""
    return 2 if not wave.reasons else 1 if wave.reasons == (_UNKNOWN_REASON,) else 0


def _groups(report: AgentReport) -> list[list[Wave]]:
    """Waves grouped by pc and reasons.

    A disassembly without its wave (in a truncated log) gets a wave of unknown reason.
    """
    groups: dict[tuple[int, tuple[str, ...]], list[Wave]] = {}
    for wave in report.waves:
        groups.setdefault((wave.pc, wave.reasons), []).append(wave)
    pcs = {wave.pc for wave in report.waves}
    for pc, excerpt in report.excerpts.items():
        if excerpt.pc is not None and pc not in pcs:
            groups[pc, (_UNKNOWN_REASON,)] = [Wave("", pc, (_UNKNOWN_REASON,))]
    return list(groups.values())


def _missing_notes(report: AgentReport) -> Iterator[str]:
    """Notes on what a report does not hold."""
    if not report.waves and not report.excerpts:
        yield (
            "the runtime's message alone: it names neither kernel nor instruction; run"
            " `kinspect fault -- command` for the waves, their pcs and the code"
        )
    elif not report.messages:
        yield "the runtime's own message (which page, why) is not in it: it goes to stderr"
    if report.waves and not any(wave.reasons for wave in report.waves):
        yield "no wave was stopped by a fault: this report was asked for (SIGQUIT)"


def _stop(
    waves: Sequence[Wave], excerpt: Excerpt | None, code: CodeObjects, search: _CauseSearch
) -> Stop:
    """Explains the stop of waves at one pc, for the same reasons."""
    first = waves[0]
    loaded = excerpt.loaded if excerpt and excerpt.loaded else code.loaded_at(first.pc)
    stop = Stop(
        first.pc,
        first.reasons,
        tuple(wave.id for wave in waves if wave.id),
        tuple(dict.fromkeys(wave.kernel for wave in waves if wave.kernel)),
        function=excerpt.function if excerpt else "",
        uri=loaded.uri if loaded else None,
        offset=first.pc - loaded.first if loaded else None,
        registers=next((wave.registers for wave in waves if wave.registers), {}),
    )
    if loaded is None:
        return _from_excerpt(stop, excerpt, None, 0)
    code_object = code.contents(loaded)
    if code_object is not None and code_object.path is not None:
        stop = replace(stop, saved=str(code_object.path))
    place = code_object.place_at(first.pc - loaded.first) if code_object else None
    if place is None:
        return _from_excerpt(stop, excerpt, code_object, loaded.first)
    return _in_code(stop, place, search)


def _from_excerpt(
    stop: Stop, excerpt: Excerpt | None, code_object: CodeContents | None, load_address: int
) -> Stop:
    """Adds the report's own disassembly to a stop without a disassembled code object."""
    notes: list[str] = []
    if code_object is not None and code_object.images:
        notes.append("no instruction of the code object is at this pc: is it another build's?")
    if excerpt is None:
        notes.append("the report has no disassembly for this pc")
    line_map = code_object.lines if code_object is not None else None
    lines = excerpt.lines if excerpt else ((stop.pc, ""),) if line_map else ()
    context = tuple(
        _code_line(
            address, text, line_map.location_at(address - load_address) if line_map else None
        )
        for address, text in lines
    )
    stopped_at = next((line for line in context if line.address == stop.pc), None)
    is_trap = stopped_at and set(stop.reasons) & TRAPS and "s_trap" in stopped_at.text
    return replace(
        stop,
        at=stopped_at,
        culprit=stopped_at if is_trap else None,
        context=context if excerpt else (),
        notes=tuple(notes),
    )


def _in_code(stop: Stop, place: CodePlace, search: _CauseSearch) -> Stop:
    """Adds the disassembled code around a stop, and its culprit or suspects."""
    function, index = place.function, place.index
    neighbours = function.instructions[max(0, index - _LINES_BEFORE) : index + _LINES_AFTER + 1]
    stop = replace(
        stop,
        function=stop.function or function.name,
        at=_line(function.instructions[index]),
        context=tuple(map(_line, neighbours)),
    )
    if not any(i.loc for i in function.instructions):
        stop = replace(stop, notes=(*stop.notes, _NO_LINES))
    reasons = set(stop.reasons)
    if reasons & TRAPS:
        trap = trap_at(function, index)
        return replace(stop, culprit=_line(trap) if trap else None)
    if reasons & IMPRECISE:
        return _with_suspects(stop, place, search) if search.for_suspects else stop
    if reasons & ARITHMETIC:
        note = "an arithmetic exception is reported late: it came from an instruction before the pc"
        return replace(stop, notes=(*stop.notes, note))
    return replace(stop, culprit=stop.at if reasons and _UNKNOWN_REASON not in reasons else None)


def _with_suspects(stop: Stop, place: CodePlace, search: _CauseSearch) -> Stop:
    """Adds the operations that may have caused a memory violation; see `_in_code`."""
    preceding = previous(place.function, place.index)
    if search.precise and preceding is not None and reaches_memory(preceding):
        suspect = _suspect(preceding, "before", stop.registers, search.page)
        return replace(stop, culprit=_line(preceding), suspects=(suspect,))
    notes = ["not exact: the pc of a memory violation stands after the operation that caused it"]
    machine = _machine(place.image.program.arch)
    candidates = outstanding_at(place.function, place.index, machine) if machine else ()
    relation = "outstanding"
    if not candidates:
        candidates, relation = waited_before(place.function, place.index), "waited"
        doubt = "its waits are over" if machine else "the target is unknown here"
        if candidates:
            notes.append(f"nothing is known to be outstanding at the pc ({doubt})")
    suspects = [
        _suspect(
            instruction,
            "before" if instruction is preceding else relation,
            stop.registers,
            search.page,
        )
        for instruction in candidates
    ]
    suspects.sort(key=lambda suspect: not suspect.lanes)  # stable: nearest first otherwise
    if len(suspects) > _MOST_SUSPECTS:
        notes.append(f"{len(suspects) - _MOST_SUSPECTS} older suspects are left out")
    if any(suspect.lanes for suspect in suspects):
        notes.append(
            "registers are those at the pc: an address in the faulting page is strong evidence,"
            " any other proves nothing"
        )
    return replace(stop, suspects=tuple(suspects[:_MOST_SUSPECTS]), notes=(*stop.notes, *notes))


def _suspect(
    instruction: Instruction, relation: str, registers: Mapping[str, str], page: int | None
) -> Suspect:
    """Makes a suspect, with the lanes whose address lies in the faulting page."""
    addresses = addresses_of(instruction, registers) if page else None
    lanes = addresses.in_page(page) if addresses and page else ()
    address = addresses.lanes[lanes[0]] if addresses and lanes else None
    return Suspect(_line(instruction), relation, lanes, address)


def _line(instruction: Instruction) -> CodeLine:
    text = f"{instruction.mnemonic} {instruction.operands}".strip()
    code_line = _code_line(instruction.address or 0, text, instruction.loc)
    return replace(code_line, line=instruction.line)


def _code_line(address: int, text: str, loc: SourceLoc | None) -> CodeLine:
    source = ""
    if loc is not None:
        location = loc.in_user_code
        source = source_line(location.file, location.line)
    return CodeLine(address=address, line=None, text=text, loc=loc, source=source)


def _machine(arch: str | None) -> Machine | None:
    if arch is None:
        return None
    try:
        return machines.load(arch)
    except KinspectError:
        return None
