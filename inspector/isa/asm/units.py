"""The units of an assembly text: parts that were assembled on their own.

A clang offload bundle holds one for each device and one for the host, and a file of several kernels
may have an `.amdgcn_target` for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from .target import AsmTarget

_BUNDLE_MARKER = re.compile(
    r"^[#;/]+[ \t]*__CLANG_OFFLOAD_BUNDLE____(START|END)__[ \t]+(\S+).*$", re.MULTILINE
)
_TARGET_LINE = re.compile(r"^[ \t]*\.amdgcn_target\b.*$", re.MULTILINE)
_BLOCK_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|;[^\n]*|//[^\n]*|(/\*.*?(?:\*/|\Z))', re.DOTALL)
_NUMBER_IN_COMMENT = re.compile(r"\bv(?:\d+|\[\d+:\d+\]) /\*(v(?:\d+|\[\d+:\d+\]))\*/")
_LINE_BREAKS = re.compile(r"[^\n]+")
_CHUNK = 1 << 20  # characters that are split into lines at a time


class AssemblyUnit(Struct, frozen=True):
    """A part of a text that was assembled on its own.

    Args:
        lines_before: lines of the file that precede it.
        target: the target that the bundle states; unknown without a bundle.
    """

    text: str
    lines_before: int
    target: AsmTarget


def blank_block_comments(text: str) -> str:
    """Replaces `/* ... */` by blanks, keeping line breaks.

    Where LLVM prints the low bits of a VGPR's number and the full number in a comment (gfx1250,
    `v0 /*v256*/`), the full number replaces the operand.
    """
    if "/*" not in text:
        return text
    text = _NUMBER_IN_COMMENT.sub(lambda match: match[1].ljust(len(match[0])), text)

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else _LINE_BREAKS.sub(" ", match[0])

    return _BLOCK_COMMENT.sub(blank, text)


def split_units(text: str) -> tuple[list[AssemblyUnit], list[str]]:
    """Cuts a text into its units for AMD GPUs; a text without any marker is one unit.

    Returns:
        The units, and the targets of a bundle that are no AMD GPUs.
    """
    spans = list(_bundle_parts(text)) or [(0, len(text), "")]
    units: list[AssemblyUnit] = []
    skipped: list[str] = []
    line, counted = 0, 0  # lines before the character `counted`
    for start, stop, bundle_target in spans:
        if bundle_target and "amdgcn" not in bundle_target:
            skipped.append(bundle_target)
            continue
        for unit_start, unit_end in _by_target_directive(text, start, stop):
            line += text.count("\n", counted, unit_start)
            counted = unit_start
            units.append(
                AssemblyUnit(text[unit_start:unit_end], line, AsmTarget.parse(bundle_target))
            )
    return units, skipped


def _bundle_parts(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and target of each part of a bundle; a part without its end goes to the next."""
    if "__CLANG_OFFLOAD_BUNDLE____" not in text:
        return
    open_part: tuple[int, str] | None = None
    for match in _BUNDLE_MARKER.finditer(text):
        if open_part is not None:
            yield open_part[0], match.start(), open_part[1]
        open_part = (match.end(), match[2]) if match[1] == "START" else None
    if open_part is not None:
        yield open_part[0], len(text), open_part[1]


def _by_target_directive(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Cuts a part before every `.amdgcn_target` but its first."""
    # A cheap search first: nearly every file has at most one directive.
    if text.count(".amdgcn_target", start, stop) < 2:
        return [(start, stop)]
    directives = [match.start() for match in _TARGET_LINE.finditer(text, start, stop)]
    return list(pairwise([start, *directives[1:], stop]))


def lines_of(text: str, lines_before: int) -> Iterator[tuple[int, str]]:
    """Yields (line number, line), splitting a chunk at a time to spare memory."""
    number = lines_before
    position, size = 0, len(text)
    while position < size:
        stop = size
        if size - position > _CHUNK:
            newline = text.find("\n", position + _CHUNK)
            stop = size if newline < 0 else newline
        chunk = text[position:stop].split("\n")
        position = stop + 1
        yield from enumerate(chunk, number + 1)
        number += len(chunk)
