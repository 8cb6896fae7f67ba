"""The lines of one of a kernel's texts, each with what is known of it, for a printed listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...model import Finding, RegisterPressure, SourceLoc
from .folds import all_folds
from .reading import KernelReading


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
