"""The contents of a unit of assembly: its functions, what it states of them, what was not read."""

from __future__ import annotations

from msgspec import Struct, field

from ...model import Unread, UnreadKind
from .rawcode import RawFunction
from .resources import Statements
from .symbols import SymbolTable
from .target import AsmTarget

_MOST_NOTED = 3
"""Omissions of a kind that get a note each; further ones are only counted."""
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


class Omissions(Struct):
    """Lines and words that were not read: `unread` for the model, `notes` for people."""

    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    noted_lines: set[tuple[str, int]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: UnreadKind, line: int, text: str) -> None:
        """Adds an omission, once for each line and kind."""
        if (kind, line) in self.noted_lines:
            return
        self.noted_lines.add((kind, line))
        self.unread.append(Unread(kind, 1, (line,)))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= _MOST_NOTED:
            self.notes.append(text)


class UnitContents(Struct):
    """Everything that one unit of assembly states, before its functions are finished."""

    functions: list[RawFunction] = field(default_factory=list)
    statements: dict[str, Statements] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)
    symbols: SymbolTable = field(default_factory=SymbolTable)
    target: AsmTarget = field(default_factory=AsmTarget.unknown)
    code_object_version: int | None = None
    display_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    omissions: Omissions = field(default_factory=Omissions)
    directives: int = 0  # AMDGPU directives: they tell an empty kernel from foreign text

    def add_note(self, text: str) -> None:
        """Adds a note for people, once."""
        if text not in self.notes:
            self.notes.append(text)


class SectionStack:
    """The current section; a text begins in `.text`.

    Data directives are code in `.text`, and nothing of interest elsewhere.
    """

    def __init__(self) -> None:
        self._name = self._previous = ".text"
        self._pushed: list[tuple[str, str]] = []

    @property
    def is_code(self) -> bool:
        """Whether the current section holds code."""
        return self._name.startswith(".text")

    def switch(self, directive: str, operands: str) -> None:
        """Acts on one of `SECTION_DIRECTIVES`.

        Args:
            directive: the directive, with its dot.
            operands: its operands, without comments.
        """
        if directive == ".popsection":
            if self._pushed:
                self._name, self._previous = self._pushed.pop()
            return
        if directive == ".previous":
            self._name, self._previous = self._previous, self._name
            return
        if directive == ".pushsection":
            self._pushed.append((self._name, self._previous))
        is_named = directive in (".section", ".pushsection")
        name = operands.partition(",")[0].strip().strip('"') if is_named else directive
        self._previous, self._name = self._name, name
