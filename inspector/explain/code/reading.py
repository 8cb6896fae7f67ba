"""Parses a kernel's texts and links their lines, which is the slow part of opening a kernel.

The lines of one of a kernel's texts, each with what is known of it, for a printed listing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from ... import machines
from ...base import named_files
from ...base.errors import KinspectError
from ...isa.asm.units import includes_beside
from ...isa.assembly import parse_text
from ...model import Finding, Function, KernelReport, Program, RegisterPressure, SourceLoc
from .folds import all_folds
from .links import Links, llir_positions
from .marks import LineMarks
from .texts import Texts, lines_of

_OPERATION = re.compile(r' *(?:%[\w$.-]+(?::\d+)? = )?"?([a-z_]\w*(?:\.\w+)+)')


class KernelReading(Struct, frozen=True):
    """A kernel's texts with the facts about their lines.

    Args:
        texts: the texts; those of a code object include its disassembly.
        function: the kernel's code; None if it could not be parsed.
        positions: kind of text -> line, from 0 -> its source position.
    """

    texts: Texts
    links: Links
    marks: LineMarks
    function: Function | None
    notes: tuple[str, ...] = ()
    positions: Mapping[str, Mapping[int, SourceLoc]] = field(default_factory=dict)


def followed_thing(reading: KernelReading, kind: str, line: int) -> str | None:
    """What to follow through the compiler's passes from a line, as `kinspect passes --of` takes it.

    For a line of TTGIR its operation with the line of the source, for others that line alone;
    None for a line that stems from none. Lines count from 0.
    """
    loc = reading.positions.get(kind, {}).get(line)
    if kind == "ttgir" and (operation := _OPERATION.match(reading.texts.lines[kind][line])):
        return operation[1] if loc is None else f"{operation[1]}@{loc.in_user_code.line}"
    source_line = reading.links.nearest(kind, line, "source")
    return None if source_line is None else str(source_line + 1)


def reading_of(report: KernelReport | None, texts: Texts) -> KernelReading:
    """Parses the texts of a kernel, links their lines and collects the facts about them.

    This takes seconds for a large assembly. Texts that cannot be parsed are noted. Without a report
    the file has not been analysed.
    """
    notes: list[str] = []
    functions: Sequence[Function] = ()
    positions: dict[str, Mapping[int, SourceLoc]] = {}
    code = _code(report, texts, notes)
    if code is not None:
        if "amdgcn" not in texts.lines:
            texts = _with_disassembly(code, texts)
        functions = code.program.functions
        positions["amdgcn"] = {
            inst.line - 1: inst.loc
            for function in reversed(functions)
            for inst in reversed(function.instructions)
            if inst.loc is not None
        }
    for kind in ("ttgir", "ttir"):
        if kind in texts.lines:
            positions[kind] = _ttgir_positions(texts.lines[kind], notes)
    if "llir" in texts.lines:
        positions["llir"] = llir_positions(texts.lines["llir"])
    source = texts.files.get("source")
    links = Links(positions, source, len(texts.lines.get("source", ())))
    function = kernel_of(functions, report)
    arch = report.arch if report is not None else None
    if arch is None and code is not None:
        arch = code.program.arch
    machine = machines.load(arch) if arch is not None and arch in machines.names() else None
    others = [other for other in functions if other is not function]
    marks = LineMarks(report, function, machine, others, source)
    return KernelReading(texts, links, marks, function, tuple(notes), positions)


def kernel_of(functions: Sequence[Function], report: KernelReport | None) -> Function | None:
    """The function of a report's kernel; without a report, the first kernel."""
    kernels = [f for f in functions if f.is_kernel] or [f for f in functions if f.instructions]
    if report is not None and len(kernels) > 1:
        named = report.id.partition("::")[2].rpartition("@")[0]
        names = {report.name, named}
        candidates = [f for f in kernels if f.name in names or f.symbol in names]
        starts = {line for loop in report.loops for span in loop.lines for line in span}
        # Demangled names may be equal: the function that holds the report's loops is preferred.
        candidates.sort(key=lambda f: -sum(f.line_first <= line <= f.line_last for line in starts))
        return candidates[0] if candidates else None
    return kernels[0] if kernels else None


class _KernelCode(Struct, frozen=True):
    """A kernel's code; `listing` is its disassembly, None where it was read as a text."""

    program: Program
    listing: str | None = None


def _code(report: KernelReport | None, texts: Texts, notes: list[str]) -> _KernelCode | None:
    """The parsed assembly, else the disassembled code object; None, with a note, if neither is."""
    try:
        if "amdgcn" in texts.lines:
            lines = texts.lines["amdgcn"]
            file = texts.files["amdgcn"]
            return _KernelCode(parse_text("\n".join(lines), file, includes_beside(Path(file))))
        data, name = _code_object(report)
        if data is not None:
            # Imported late: only code objects need the ELF reader and a disassembler.
            from ...isa.objects.load import load_images

            images = load_images(data, name, report.arch if report else None)
            return _KernelCode(images[0].program, images[0].text) if images else None
    except KinspectError as error:
        notes.append(error.message)
    except OSError as error:
        notes.append(f"the code object cannot be read ({error.strerror})")
    return None


def _code_object(report: KernelReport | None) -> tuple[bytes | None, str]:
    """The code object of a report and its name: an artifact, or the file that it was read from."""
    if report is None:
        return None, ""
    artifact = report.artifacts.get("hsaco")
    if artifact is not None:
        return named_files.file_bytes(artifact.path), str(artifact.path)
    name = report.file
    data = named_files.named_bytes(name, named_files.MOST_BYTES)
    return (data if data is not None and data.startswith(b"\x7fELF") else None), name


def _with_disassembly(code: _KernelCode, texts: Texts) -> Texts:
    if code.listing is None:
        return texts
    missing = {kind: why for kind, why in texts.missing.items() if kind != "amdgcn"}
    lines = {**texts.lines, "amdgcn": lines_of(code.listing)}
    files = {**texts.files, "amdgcn": f"{code.program.name} (disassembled)"}
    return replace(texts, lines=lines, files=files, missing=MappingProxyType(missing))


def _ttgir_positions(lines: Sequence[str], notes: list[str]) -> dict[int, SourceLoc]:
    """Line of the TTGIR -> its source position; empty, with a note, if it cannot be parsed."""
    from ...ttgir.parser import parse_ttgir

    try:
        module = parse_ttgir("\n".join(lines), "the TTGIR")
    except KinspectError as error:
        notes.append(error.message)
        return {}
    positions: dict[int, SourceLoc] = {}
    for op in module.ops:
        if op.loc is not None:
            positions.setdefault(op.line - 1, op.loc)
    return positions


class MarkedLine(Struct, frozen=True):
    """A line of a text.

    Args:
        number: counted from 1.
        loop: id of the innermost loop around it; None outside of loops.
        vgprs, agprs: how many are live at an instruction; None where that is not known.
        need: registers of the file that a wave would need for these; None likewise.
    """

    number: int
    text: str
    source: SourceLoc | None
    loop: str | None
    vgprs: int | None
    agprs: int | None
    need: int | None
    findings: tuple[Finding, ...]


def marked_lines(
    reading: KernelReading, kind: str, numbers: range, pressure: RegisterPressure | None
) -> list[MarkedLine]:
    """Some lines of a text, by their numbers from 1, with their marks."""
    live: Mapping[int, tuple[int, int, int]] = {}
    if pressure is not None and kind == "amdgcn":
        live = {
            line: (vgprs, agprs, need)
            for (line, vgprs, agprs), need in zip(pressure.counts, pressure.needs, strict=True)
        }
    lines = reading.texts.lines[kind]
    positions = reading.positions.get(kind, {})
    marked = []
    for number in numbers:
        vgprs, agprs, need = live.get(number, (None, None, None))
        loc = positions.get(number - 1)
        marked.append(
            MarkedLine(
                number=number,
                text=lines[number - 1],
                source=loc.in_user_code if loc is not None and loc.in_user_code.line else None,
                loop=reading.marks.loop(number - 1) if kind == "amdgcn" else None,
                vgprs=vgprs,
                agprs=agprs,
                need=need,
                findings=reading.marks.findings(number - 1, kind),
            )
        )
    return marked


def code_lines(reading: KernelReading, kind: str) -> range:
    """The numbers, from 1, of the lines of the kernel itself: of assembly those of its function."""
    function = reading.function
    if kind == "amdgcn" and function is not None and function.instructions:
        first = max(function.line_first, 1)
        return range(first, min(function.line_last, len(reading.texts.lines[kind])) + 1)
    return range(1, len(reading.texts.lines[kind]) + 1)


def debug_lines(lines: Sequence[str]) -> frozenset[int]:
    """The numbers, from 1, of an assembly's lines that only tell a debugger something."""
    return frozenset(
        line + 1
        for fold in all_folds("amdgcn", lines)
        if fold.what == "debug"
        for line in range(fold.start + 1, fold.last + 1)
    )
