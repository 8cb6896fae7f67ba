"""Attributes a profiler's measurements to the lines of a kernel's assembly.

Totals are kept: measurements without a line are listed with their samples and cycles. They are
neither dropped nor spread over the lines that they may belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.named_files import MOST_BYTES, is_named, opened, opened_named
from ...isa.asm.units import includes_beside
from ...isa.assembly import parse_text
from ...model import Function, Instruction, KernelReport, MeasuredLine, Program
from ...model.recording import CodePlace, Samples, Traced
from .addresses import AddressMap, addresses_of, disassembled
from .locating import LineSum, PlaceLocator, Unlocated, Unplaced, missing


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
    path = Path(report.id.partition("::")[0])
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
