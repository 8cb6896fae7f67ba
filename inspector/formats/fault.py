"""Writes the report of `kinspect fault`, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, TextIO

from ..base.streams import dump_json
from ..host.fault.values import CodeLine, FaultReport, Message, Stop, Suspect
from ..model import SourceLoc
from ..report.json_write import fields_of, plain

SCHEMA = 1
_MOST_SHOWN = 8
"""Stops that are shown in full."""
_MEANINGS = {
    "MEMORY_VIOLATION": "a memory operation touched what it must not",
    "ADDRESS_ERROR": "a memory operation's address is not aligned",
    "ILLEGAL_INSTRUCTION": "the hardware does not know the instruction",
    "ASSERT_TRAP": "a trap in the program: an assertion, or __builtin_trap()",
    "TRAP": "a trap in the program",
    "ECC_ERROR": "the memory's error correction gave up: the hardware's fault, not the program's",
    "FATAL_HALT": "the wave was halted for good",
}
_WHY = {
    "outstanding": "on its way at the pc",
    "before": "the operation just before the pc",
    "waited": "the last before the pc, already waited for",
}


def write(report: FaultReport, stream: TextIO) -> None:
    """The report as text."""
    stream.writelines(f"{line}\n" for line in _text(report))


def write_json(report: FaultReport, stream: TextIO) -> None:
    """The report as JSON; figures that are not known are null."""
    dump_json(_value(report), stream)


def _text(report: FaultReport) -> Iterator[str]:
    """Yields the report as lines; only the first stops are shown in full."""
    for message in report.messages:
        yield _message(message)
    if report.kernel:
        yield f"kernel  {report.kernel}"
    for number, stop in enumerate(report.stops[:_MOST_SHOWN]):
        if number or report.messages or report.kernel:
            yield ""
        yield from _stop(stop)
    if unlisted := report.stops[_MOST_SHOWN:]:
        yield ""
        yield f"{len(unlisted)} more stops (all of them with --format json)"
        yield from (
            f"  {_head(stop)}   {_code(stop.at) if stop.at else ''}".rstrip() for stop in unlisted
        )
    if not report.faulted:
        yield "no fault: nothing says that a GPU stopped"
    if report.notes:
        yield ""
        yield from (f"note: {note}" for note in report.notes)


def _message(message: Message) -> str:
    gpu = f" on GPU node {message.gpu}" if message.gpu else ""
    reason = f": {message.reason}" if message.reason else ""
    if message.kind == "memory":
        if message.address is None:
            return f"memory access fault{gpu} at an address that is not stated{reason}"
        return f"memory access fault{gpu} at {hex(message.address)} (its page){reason}"
    if message.kind == "hang":
        return f"hardware exception{gpu}{reason}"
    return f"queue error {message.text}{reason}"


def _head(stop: Stop) -> str:
    count = len(stop.waves)
    if not count:
        return f"pc {stop.pc:#x}: the report shows code, and no wave"
    waves = "1 wave" if count == 1 else f"{count:,} waves"
    return f"{waves} at pc {stop.pc:#x}: {', '.join(stop.reasons) or 'no fault of their own'}"


def _stop(stop: Stop) -> Iterator[str]:
    yield _head(stop)
    for reason in stop.reasons:
        if reason in _MEANINGS:
            yield f"  {_MEANINGS[reason]}"
    for kernel in stop.kernels:
        yield f"  kernel    {kernel}"
    if stop.function and stop.function not in stop.kernels:
        yield f"  function  {stop.function}"
    if stop.uri:
        offset = f" + {stop.offset:#x}" if stop.offset is not None else ""
        yield f"  code      {stop.uri}{offset}"
    if stop.culprit is not None:
        yield f"  culprit   {_code(stop.culprit)}"
    elif stop.at is not None:
        yield f"  at pc     {_code(stop.at)}"
    if stop.saved and stop.at is not None and stop.at.line is not None:
        yield f"  open      kinspect tui {shlex.quote(stop.saved)}"
    if stop.context:
        yield ""
        yield from _context(stop)
    if stop.suspects and stop.culprit is None:
        yield ""
        yield "  suspects, the likeliest first"
        for number, suspect in enumerate(stop.suspects, 1):
            yield from _suspect(number, suspect)
    for note in stop.notes:
        yield f"  {note}"


def _context(stop: Stop) -> Iterator[str]:
    last = ""
    for line in stop.context:
        position = _position(line.loc)
        if position != last:
            last = position
            yield f"    {position or '(no source line)'}  {line.source}".rstrip()
        arrow = "=>" if stop.at is not None and line.address == stop.at.address else "  "
        isa = "" if line.line is None else f"ISA {line.line}"
        yield f"   {arrow} {isa:<9} {line.address:#08x}  {line.text}"


def _suspect(number: int, suspect: Suspect) -> Iterator[str]:
    yield f"  {number:>3}. {_code(suspect.code)}"
    yield f"       {_WHY[suspect.why]}"
    if suspect.lanes and suspect.address is not None:
        lanes = _lanes(suspect.lanes)
        yield f"       {lanes} of the first wave: {suspect.address:#x}, in the faulting page"


def _lanes(lanes: tuple[int, ...]) -> str:
    """`lane 3`, `lanes 0-63`, `16 lanes, the first 4`."""
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes[-1] - lanes[0] + 1 == len(lanes):
        return f"lanes {lanes[0]}-{lanes[-1]}"
    return f"{len(lanes)} lanes, the first {lanes[0]}"


def _code(line: CodeLine) -> str:
    parts = [line.text] if line.text else []
    if line.line is not None:
        parts.append(f"ISA {line.line}")
    if position := _position(line.loc):
        parts.append(position)
    elif line.line is not None:
        parts.append("(the compiler states no source line)")
    if line.source:
        parts.append(line.source)
    return "   ".join(parts)


def _position(loc: SourceLoc | None) -> str:
    if loc is None:
        return ""
    user_code = loc.in_user_code
    return f"{user_code.file}:{user_code.line}"


def _value(report: FaultReport) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": "fault",
        "faulted": report.faulted,
        "files": report.files,
        "command": list(report.command) or None,
        "exit_status": report.status,
        "kernel": report.kernel or None,
        "messages": [
            {
                **fields_of(message, "kind", "text"),
                "gpu_node": message.gpu,
                "address": _hex(message.address),
                "reason": message.reason or None,
            }
            for message in report.messages
        ],
        "stops": [_stop_value(stop) for stop in report.stops],
        "notes": report.notes,
    }


def _stop_value(stop: Stop) -> dict[str, Any]:
    return {
        "pc": hex(stop.pc),
        "reasons": stop.reasons,
        "waves": len(stop.waves),
        "wave_ids": stop.waves,
        "kernels": stop.kernels,
        "function": stop.function or None,
        "code_object": stop.uri,
        "offset": _hex(stop.offset),
        "saved": stop.saved,
        "at": _line_value(stop.at),
        "culprit": _line_value(stop.culprit),
        "exact": stop.culprit is not None,
        "context": [_line_value(line) for line in stop.context],
        "suspects": [
            {**plain(s), "code": _line_value(s.code), "address": _hex(s.address)}
            for s in stop.suspects
        ],
        **fields_of(stop, "registers", "notes"),
    }


def _line_value(line: CodeLine | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {
        "address": hex(line.address),
        "isa_line": line.line,
        "text": line.text,
        "source": line.loc,
        "source_text": line.source or None,
    }


def _hex(number: int | None) -> str | None:
    return None if number is None else hex(number)
