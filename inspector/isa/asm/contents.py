"""What a text is found to contain while it is read: its lines, sections, and what is not read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

from ...model import Unread, UnreadKind
from .rawcode import RawFunction
from .resources import Statements
from .symbols import SymbolTable
from .target import Target

SECTION_DIRECTIVES = (
    ".text",
    ".data",
    ".bss",
    ".rodata",
    ".section",
    ".pushsection",
    ".popsection",
    ".previous",
)


class Sections:
    """The current section. A text begins in `.text`.

    Data directives mean code in one section, and nothing in others.
    """

    def __init__(self) -> None:
        self._name = self._before = ".text"
        self._pushed: list[tuple[str, str]] = []

    @property
    def is_code(self) -> bool:
        """Whether what is assembled now may be executed."""
        return self._name.startswith(".text")

    def switch(self, directive: str, operands: str) -> None:
        """Acts on one of `SECTION_DIRECTIVES`.

        Args:
            directive: with its dot.
            operands: what follows it, without comments.
        """
        if directive == ".popsection":
            if self._pushed:
                self._name, self._before = self._pushed.pop()
            return
        if directive == ".previous":
            self._name, self._before = self._before, self._name
            return
        if directive == ".pushsection":
            self._pushed.append((self._name, self._before))
        named = directive in (".section", ".pushsection")
        name = operands.partition(",")[0].strip().strip('"') if named else directive
        self._before, self._name = self._name, name


_CHUNK = 1 << 20
_DEBUG_LABEL = re.compile(r"\.L(?:tmp|func_begin|func_end|post_getpc|post_addpc|exception)\d*$")


_MOST_NOTED = 3  # of a kind, one by one; the rest are counted


class Omissions(Struct):
    """What of a text was not read: for the model, and for people."""

    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    noted_lines: set[tuple[str, int]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: UnreadKind, line: int, text: str) -> None:
        """Notes one, once for each line."""
        if (kind, line) in self.noted_lines:
            return
        self.noted_lines.add((kind, line))
        self.unread.append(Unread(kind, 1, (line,)))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= _MOST_NOTED:
            self.notes.append(text)


class UnitContents(Struct):
    """What one unit of assembly says, before its functions are finished."""

    functions: list[RawFunction] = field(default_factory=list)
    statements: dict[str, Statements] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)
    symbols: SymbolTable = field(default_factory=SymbolTable)
    target: Target = field(default_factory=Target.unknown)
    code_object_version: int | None = None
    display_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    omissions: Omissions = field(default_factory=Omissions)
    directives: int = 0  # AMDGPU directives seen: they tell an empty kernel from another text


def lines_of(text: str, lines_before: int) -> Iterator[tuple[int, str]]:
    """(line number, line) without ever holding all lines at once."""
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


def is_debug_label(name: str) -> bool:
    """Whether a label marks a place for debug information or address arithmetic alone."""
    return _DEBUG_LABEL.match(name) is not None
