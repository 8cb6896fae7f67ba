"""Source locations of instructions, by the `.file` and `.loc` directives.

Variables of the source in registers, by the comments that LLVM writes for code built with -g.

`;DEBUG_VALUE: axpy:total <- [DW_OP_constu 1, DW_OP_swap, DW_OP_xderef] $vgpr3`: from here on VGPR 3
holds `total`. Source: LLVM's AsmPrinter (`emitDebugValueComment`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from ...model import Function, SourceLoc, VariableMark

# DWARF 4: `.file 1 "dir" "name"` or `.file 1 "path"`; DWARF 5 adds file 0, `md5 0x...` and
# `source "..."`. `.file "name"` without a number is an ELF symbol and no entry.
_FILE = re.compile(r'\s*(\d{1,9})\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')
_LOC = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})(?:\s+(\d{1,9}))?")
# "standard.py:43:13 @[ k.py:16:22 @[ k.py:30:5 ] ]"; the column is left out where it is unknown.
_FRAME = re.compile(r"(.*?):(\d{1,9})(?::(\d{1,9}))?$")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_MAX_CHAIN = 256  # nested inlined frames; a longer chain comes from a damaged comment


def _unescape(text: str) -> str:
    """A quoted name of a directive with its escapes resolved."""
    if "\\" not in text:
        return text
    raw = bytearray()
    position = 0
    for match in _ESCAPE.finditer(text):
        raw += text[position : match.start()].encode()
        code = match[1]
        # LLVM prints bytes outside of ASCII in octal.
        raw += bytes((int(code, 8) & 0xFF,)) if code[0] in "01234567" else code.encode()
        position = match.end()
    raw += text[position:].encode()
    return raw.decode(errors="replace")


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:3] in (":\\", ":/")


class LocationTable:
    """The file table of one assembly text, and the locations made from it so far."""

    def __init__(self) -> None:
        self._files: dict[int, str] = {}
        self._folder = ""
        """The folder of the compile, which relative names start from; "" where it is not stated."""
        self._by_base: dict[str, list[str]] = {}
        self._cache: dict[str, SourceLoc | None] = {}
        self._locations: dict[tuple[str, int, int | None, SourceLoc | None], SourceLoc] = {}

    def file(self, text: str) -> None:
        """Adds the file that a `.file` directive names."""
        match = _FILE.match(text)
        if match is None:
            return
        number = int(match[1])
        first_name, second_name = _unescape(match[2]), match[3]
        path = first_name
        if second_name is not None:
            name = _unescape(second_name)
            path = (
                name if _is_absolute(name) or not first_name else f"{first_name.rstrip('/')}/{name}"
            )
        if number == 0:
            # clang names the folder it was started in, and the source as it was given from there.
            folder = first_name if second_name is not None else path.rpartition("/")[0]
            self._folder = folder.rstrip("/") if _is_absolute(folder) else ""
        elif self._folder and not _is_absolute(path):
            path = f"{self._folder}/{path}"
        if self._files.get(number) == path:
            return
        self._files[number] = path
        paths = self._by_base.setdefault(path.rpartition("/")[2], [])
        if path not in paths:
            paths.append(path)
        self._cache.clear()

    def loc(self, text: str) -> SourceLoc | None:
        """The location that a `.loc` directive states; None for line 0 and unreadable ones.

        `text`: its operands and comment, `1 11 57 is_stmt 1 ; k.py:11:57 @[ k.py:20:5 ]`.
        """
        try:
            return self._cache[text]
        except KeyError:
            location = self._cache[text] = self._parse(text)
            return location

    def _parse(self, text: str) -> SourceLoc | None:
        """The location of a `.loc` directive's operands and comment, as for `loc`."""
        match = _LOC.match(text)
        if match is None:
            return None
        line, column = int(match[2]), int(match[3] or 0)
        file = self._files.get(int(match[1]))
        comment = text.partition(";")[2]
        if file is None:
            # Without a file table entry the comment is all there is.
            frame_match = _FRAME.match(comment.partition(" @[ ")[0].strip())
            file = frame_match[1] if frame_match is not None and frame_match[1] else None
        if line == 0 or file is None:
            return None
        frames = comment.split(" @[ ")[1:_MAX_CHAIN]
        caller: SourceLoc | None = None
        for frame in reversed(frames):
            frame_match = _FRAME.match(frame.rstrip(" ]\t"))
            if frame_match is not None and int(frame_match[2]) > 0 and frame_match[1]:
                caller = self.location(
                    self._full_path(frame_match[1], file),
                    int(frame_match[2]),
                    int(frame_match[3] or 0),
                    caller,
                )
        return self.location(file, line, column, caller)

    def location(
        self, file: str, line: int, column: int, inlined_at: SourceLoc | None = None
    ) -> SourceLoc:
        """The location of a place in a source; equal places share one object.

        Args:
            file: path of the source.
            line: from 1.
            column: 0 means unknown, as in DWARF.
            inlined_at: the call site that the place is inlined at.
        """
        key = (file, line, column or None, inlined_at)
        location = self._locations.get(key)
        if location is None:
            location = self._locations[key] = SourceLoc(*key)
        return location

    def _full_path(self, name: str, callee: str) -> str:
        """The entry of the file table that a name in an inlined-at comment stands for.

        LLVM prints there what the debug information calls the file, without its directory. Where
        several files share the name, the one next to the callee's file is the best guess.
        """
        if _is_absolute(name):
            return name
        candidates = [
            path
            for path in self._by_base.get(name.rpartition("/")[2], ())
            if path == name or path.endswith("/" + name)
        ]
        if len(candidates) <= 1:
            return candidates[0] if candidates else name
        folder = callee.rpartition("/")[0] + "/"
        return next((path for path in candidates if path.startswith(folder)), candidates[0])


_MARK = "DEBUG_VALUE:"
_COMMENT = re.compile(
    r"^[ \t]*;[ \t]*DEBUG_VALUE:[ \t]*(?:[^\n]*:)?([^\s:]+)[ \t]+<-[ \t]+(?:\[([^\]\n]*)\][ \t]+)?"
    r"\$([va])gpr(\d{1,9})((?:_[va]gpr\d+)*)[ \t]*$",
    re.MULTILINE,
)
_IN_REGISTER = re.compile(
    r"(?:DW_OP_constu \d+|DW_OP_swap|DW_OP_xderef|DW_OP_LLVM_fragment \d+ \d+|, )*"
)
"""Operations that say where a variable is, and compute nothing of it."""


def with_variables(
    functions: Sequence[Function], text: str, lines_before: int = 0
) -> list[Function]:
    """The functions of a text with the variables that its comments place in vector registers.

    Args:
        functions: as they were read.
        text: the assembly.
        lines_before: lines of the file that precede it.
    """
    if _MARK not in text:
        return list(functions)
    marks = list(_marks(text, lines_before))
    return [replace(f, variables=tuple(_of_function(f, marks))) for f in functions]


def _marks(text: str, lines_before: int) -> Iterator[tuple[int, VariableMark]]:
    """Yields the comments that name a register: line, and the mark without its instruction."""
    line, counted_to = lines_before + 1, 0
    for match in _COMMENT.finditer(text):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        name, operations, file, first, others = match.groups()
        if operations is None or _IN_REGISTER.fullmatch(operations):
            registers: Literal["v", "a"] = "v" if file == "v" else "a"
            yield line, VariableMark(-1, registers, int(first), 1 + others.count("_"), name)


def _of_function(
    function: Function, marks: Sequence[tuple[int, VariableMark]]
) -> Iterator[VariableMark]:
    """Yields the marks in a function, each before the instruction that follows it."""
    lines = [inst.line for inst in function.instructions]
    for line, mark in marks:
        index = bisect_right(lines, line)
        if function.line_first <= line <= function.line_last and index < len(lines):
            yield replace(mark, index=index)
