"""A report of stopped waves → the lines of code where they stopped, and what may have done it."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ... import limits, machines
from ...errors import KinspectError
from ...isa.objects.load import LoadedImage
from ...model import Function, Instruction, Machine, SourceLoc
from .addresses import asked_by
from .objects import CODE_LIMIT, Held, Objects, find
from .parse import parse_report
from .suspects import (
    ARITHMETIC,
    IMPRECISE,
    TRAPS,
    outstanding_at,
    previous,
    reaches_memory,
    trap_at,
    waited_before,
)
from .values import AgentReport, CodeLine, Excerpt, FaultReport, Stop, Suspect, Wave

_LINES_BEFORE, _LINES_AFTER = 6, 4
"""Instructions shown around a pc."""
_MOST_SUSPECTS = 12
_MOST_EXAMINED = 40
_UNSAID = "UNKNOWN"
"""Stands for the reason where a report shows code and no wave."""
_NO_LINES = (
    "the code object has no line information: compile HIP with -ggdb, and Triton without"
    " TRITON_DISABLE_LINE_INFO"
)


def read_reports(paths: Sequence[Path]) -> AgentReport:
    """Reads saved reports as one, in order.

    Raises:
        KinspectError: a file can't be read, or none says anything of a fault.
    """
    size = sum(path.stat().st_size for path in paths if path.is_file())
    with limits.reading(", ".join(map(str, paths)), size):
        report = parse_report(_lines(paths))
    if not report.waves and not report.messages and not report.excerpts:
        names = ", ".join(map(str, paths))
        raise KinspectError(
            f"{names}: holds neither a report of the ROCm debug agent nor a fault message of the"
            " runtime",
            "pass what the program wrote to stderr, or the agent's --output file",
        )
    return report


def report_files(path: Path) -> tuple[Path, ...]:
    """The files of a report: itself, or of a run folder its reports and the program's stderr.

    Raises:
        KinspectError: there are none.
    """
    if not path.exists():
        raise KinspectError(f"{path}: no such file or folder", "name a saved report")
    if not path.is_dir():
        return (path,)
    files = (*sorted(path.glob("report*.txt")), *sorted(path.glob("stderr.txt")))
    if not files:
        raise KinspectError(
            f"{path}: no report*.txt or stderr.txt in it",
            "name the file, or a folder that `kinspect fault -- command` made",
        )
    return files


def explain(
    report: AgentReport,
    files: Sequence[str],
    folders: Sequence[Path],
    *,
    precise: bool = False,
    limit: int = CODE_LIMIT,
) -> FaultReport:
    """Finds the code of a report.

    Args:
        report: as read.
        files: their names.
        folders: where saved code objects may be.
        precise: whether precise memory mode was on: the pc is just after the culprit then.
        limit: bytes of code of one code object that are disassembled at most.
    """
    named = tuple(e.loaded for e in report.excerpts.values() if e.loaded)
    code = Objects(folders, named, limit)
    page = next((m.address for m in report.messages if m.address), None)
    groups = sorted(_groups(report), key=lambda waves: (_rank(waves[0]), -len(waves)))
    stops = tuple(
        _stop(waves, report.excerpts.get(waves[0].pc), code, page, precise, at < _MOST_EXAMINED)
        for at, waves in enumerate(groups)
    )
    notes = [*report.notes, *_lacks(report), *code.notes]
    if len(stops) > _MOST_EXAMINED:
        notes.append(f"suspects are worked out for the {_MOST_EXAMINED} stops with most waves")
    return FaultReport(tuple(files), report.messages, stops, report.kernel, notes=tuple(notes))


def _rank(wave: Wave) -> int:
    """Faults first, then code that no wave is known for, then waves that merely ran."""
    return 2 if not wave.reasons else 1 if wave.reasons == (_UNSAID,) else 0


def _lines(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                yield from stream
        except OSError as error:
            raise KinspectError(
                f"{path}: cannot be read ({error.strerror})", "check the path"
            ) from None


def _groups(report: AgentReport) -> list[list[Wave]]:
    """Waves by pc and reasons; a disassembly without its wave (a log cut off) stands for one."""
    groups: dict[tuple[int, tuple[str, ...]], list[Wave]] = {}
    for wave in report.waves:
        groups.setdefault((wave.pc, wave.reasons), []).append(wave)
    pcs = {wave.pc for wave in report.waves}
    for pc, excerpt in report.excerpts.items():
        if excerpt.pc is not None and pc not in pcs:
            groups[pc, (_UNSAID,)] = [Wave("", pc, (_UNSAID,))]
    return list(groups.values())


def _lacks(report: AgentReport) -> Iterator[str]:
    if not report.waves and not report.excerpts:
        yield (
            "the runtime's message alone: it names neither kernel nor instruction; run"
            " `kinspect fault -- command` for the waves, their pcs and the code"
        )
    elif not report.messages:
        yield "the runtime's own message (which page, why) is not in it: it goes to stderr"
    if report.waves and not any(wave.reasons for wave in report.waves):
        yield "no wave was stopped by a fault: this report was asked for (SIGQUIT)"


# --------------------------------------------------------------------------- stops


def _line(inst: Instruction) -> CodeLine:
    text = f"{inst.mnemonic} {inst.operands}".strip()
    return replace(_code_line(inst.address or 0, text, inst.loc), line=inst.line)


def _code_line(address: int, text: str, loc: SourceLoc | None) -> CodeLine:
    source = ""
    if loc is not None:
        place = loc.in_user_code
        source = linecache.getline(place.file, place.line).strip()
    return CodeLine(address, None, text, loc, source)


def _stop(
    waves: Sequence[Wave],
    excerpt: Excerpt | None,
    code: Objects,
    page: int | None,
    precise: bool,
    examined: bool,
) -> Stop:
    first = waves[0]
    registers = next((w.registers for w in waves if w.registers), {})
    kernels = tuple(dict.fromkeys(w.kernel for w in waves if w.kernel))
    loaded = excerpt.loaded if excerpt and excerpt.loaded else code.at(first.pc)
    stop = Stop(
        first.pc,
        first.reasons,
        tuple(w.id for w in waves if w.id),
        kernels,
        function=excerpt.function if excerpt else "",
        uri=loaded.uri if loaded else None,
        offset=first.pc - loaded.first if loaded else None,
        registers=registers,
    )
    if loaded is None:
        return _from_excerpt(stop, excerpt, None, 0)
    held = code.held(loaded)
    if held is not None and held.path is not None:
        stop = replace(stop, saved=str(held.path))
    image = held.image_with(first.pc - loaded.first) if held else None
    location = find(image, first.pc - loaded.first) if image else None
    if image is None or location is None:
        return _from_excerpt(stop, excerpt, held, loaded.first)
    return _in_code(stop, image, *location, page, precise, examined)


def _from_excerpt(stop: Stop, excerpt: Excerpt | None, held: Held | None, first: int) -> Stop:
    """What the report itself shows, where the code object is not disassembled or not there."""
    notes: tuple[str, ...] = ()
    if held is not None and held.images:
        notes = ("no instruction of the code object is at this pc: is it another build's?",)
    if excerpt is None:
        notes = (*notes, "the report has no disassembly for this pc")
    lines = excerpt.lines if excerpt else ((stop.pc, ""),) if held and held.lines else ()
    context = tuple(
        _code_line(a, text, held.lines.at(a - first) if held and held.lines else None)
        for a, text in lines
    )
    at = next((line for line in context if line.address == stop.pc), None)
    culprit = at if at and set(stop.reasons) & TRAPS and "s_trap" in at.text else None
    context = context if excerpt else ()
    return replace(stop, at=at, culprit=culprit, context=context, notes=notes)


def _in_code(
    stop: Stop,
    image: LoadedImage,
    function: Function,
    place: int,
    page: int | None,
    precise: bool,
    examined: bool,
) -> Stop:
    around = function.instructions[max(0, place - _LINES_BEFORE) : place + _LINES_AFTER + 1]
    stop = replace(
        stop,
        function=stop.function or function.name,
        at=_line(function.instructions[place]),
        context=tuple(map(_line, around)),
    )
    if not any(i.loc for i in function.instructions):
        stop = replace(stop, notes=(*stop.notes, _NO_LINES))
    reasons = set(stop.reasons)
    if reasons & TRAPS:
        trap = trap_at(function, place)
        return replace(stop, culprit=_line(trap) if trap else None)
    if reasons & IMPRECISE:
        return _memory(stop, image, function, place, page, precise) if examined else stop
    if reasons & ARITHMETIC:
        note = "an arithmetic exception is reported late: it came from an instruction before the pc"
        return replace(stop, notes=(*stop.notes, note))
    return replace(stop, culprit=stop.at if reasons and _UNSAID not in reasons else None)


def _memory(
    stop: Stop,
    image: LoadedImage,
    function: Function,
    place: int,
    page: int | None,
    precise: bool,
) -> Stop:
    preceding = previous(function, place)
    if precise and preceding is not None and reaches_memory(preceding):
        suspects_before = (_suspect(preceding, "before", stop.registers, page),)
        return replace(stop, culprit=_line(preceding), suspects=suspects_before)
    notes = ["not exact: the pc of a memory violation stands after the operation that caused it"]
    machine = _machine(image.program.arch)
    candidates = outstanding_at(function, place, machine) if machine else ()
    why = "outstanding"
    if not candidates:
        candidates, why = waited_before(function, place), "waited"
        doubt = "its waits are over" if machine else "the target is unknown here"
        if candidates:
            notes.append(f"nothing is known to be outstanding at the pc ({doubt})")
    suspects = [
        _suspect(inst, "before" if inst is preceding else why, stop.registers, page)
        for inst in candidates
    ]
    suspects.sort(key=lambda s: not s.lanes)  # stable: nearest first otherwise
    if len(suspects) > _MOST_SUSPECTS:
        notes.append(f"{len(suspects) - _MOST_SUSPECTS} older suspects are left out")
    if any(s.lanes for s in suspects):
        notes.append(
            "registers are those at the pc: an address in the faulting page is strong evidence,"
            " any other proves nothing"
        )
    return replace(stop, suspects=tuple(suspects[:_MOST_SUSPECTS]), notes=(*stop.notes, *notes))


def _suspect(
    inst: Instruction, why: str, registers: Mapping[str, str], page: int | None
) -> Suspect:
    addresses = asked_by(inst, registers) if page else None
    lanes = addresses.in_page(page) if addresses and page else ()
    address = addresses.lanes[lanes[0]] if addresses and lanes else None
    return Suspect(_line(inst), why, lanes, address)


def _machine(arch: str | None) -> Machine | None:
    if arch is None:
        return None
    try:
        return machines.load(arch)
    except KinspectError:
        return None
