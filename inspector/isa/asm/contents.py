"""The contents of a unit of assembly: its functions, what it states of them, what was not read."""

from __future__ import annotations

from msgspec import Struct, field

from ...model import Unread, UnreadKind
from .operands import SymbolTable
from .rawcode import RawFunction
from .resources import Statements
from .target import AsmTarget

_MOST_NOTED = 3
"""Omissions of a kind that get a note each; further ones are only counted."""


class Omissions(Struct):
    """Lines and words that were not read.

    Attributes:
        notes: for people, of the first few of each kind.
        seen: kind and line of every omission, so that each counts once.
        counts: kind -> its lines.
    """

    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: set[tuple[str, int]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: UnreadKind, line: int, text: str) -> None:
        """Adds an omission, once for each line and kind."""
        if (kind, line) in self.seen:
            return
        self.seen.add((kind, line))
        self.unread.append(Unread(kind, 1, (line,)))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= _MOST_NOTED:
            self.notes.append(text)


class UnitContents(Struct):
    """Everything that one unit of assembly states, before its functions are finished.

    Attributes:
        functions: in the order of the text.
        statements: function -> what directives and comments state of its resources.
        kernels: names of the functions that the text marks as kernels.
        target: the GPU that the text is for.
        code_object_version: as stated; None if it is not.
        display_names: symbol -> the name to show for it.
        notes: for people.
        omissions: what was not read.
        directive_count: AMDGPU directives: they tell an empty kernel from foreign text.
    """

    functions: list[RawFunction] = field(default_factory=list)
    statements: dict[str, Statements] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)
    symbols: SymbolTable = field(default_factory=SymbolTable)
    target: AsmTarget = field(default_factory=AsmTarget.unknown)
    code_object_version: int | None = None
    display_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    omissions: Omissions = field(default_factory=Omissions)
    directive_count: int = 0

    def add_note(self, text: str) -> None:
        """Adds a note for people, once."""
        if text not in self.notes:
            self.notes.append(text)
