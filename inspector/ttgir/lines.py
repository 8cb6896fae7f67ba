"""Lines of MLIR text that are one statement each, as most of them are."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from msgspec import Struct

from ..model import TtgirType

NAME = r"%[\w$.]+(?:-[\w$.]+)*(?:\#\d+)?"
"""A pattern for the name of an SSA value."""


def _balanced(depth: int) -> str:
    """A pattern for text whose angle brackets nest at most `depth` deep."""
    no_brackets = r'[^<>"\n\-]*'
    pattern = no_brackets
    for _ in range(depth):
        pattern = rf"{no_brackets}(?:<{pattern}>{no_brackets})*"
    return pattern


SHAPED = rf"(?:tensor|![\w.]+)<{_balanced(4)}>"
"""A pattern for a type with something in angle brackets."""

_NAME_OR_TYPE_RE = re.compile(rf"({NAME}|(?<![\w$.@\#!^]){SHAPED})", re.ASCII)
_MARK_RE = re.compile("[%~]")
_GLUED_RE = re.compile(r"[%~][\w$.\#]")  # a character that would become part of a number
_TYPE_MARK = "!_."
_NUMBERED_TYPE = re.compile(rf"{re.escape(_TYPE_MARK)}([0-9]{{1,9}})")
# Quotes are left out since a string may hold a `%`, `name =` since that is no operation.
_STATEMENT_RE = re.compile(
    r"[ \t]*((?:%[^=\"\n]*[ ]=[ ])?[a-z]\w*\.[\w.]+(?![\w.]|[ ]*=)(?:[ ][^\"\n]*)?)"
    r"[ ]loc\((\#\w+)\)",
    re.ASCII,
)
# The forms of a location that nest nothing: a position, a name for another one, a call site.
_LOCATION_RE = re.compile(
    r'(\#\w+)[ ]=[ ]loc\((?:"([^"\\\n]*)"(?::(\d{1,9}):(\d{1,9})|\((\#\w+)\))'
    r"|callsite\((\#\w+)[ ]at[ ](\#\w+)\)|unknown)\)",
    re.ASCII,
)


class Statement(Struct):
    """A line that is one statement with a location.

    Attributes:
        form: its text without location, `%` for each name and `~` for each shaped type.
        names, types: the names and types in it, in their order.
        loc: the alias of its location, `#loc12`.
    """

    form: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    loc: str


class StatementForm(Struct):
    """The common parts of all statements of one form.

    Attributes:
        results: for each result the number of its name, and the suffix after it (`#1`).
        operands: the numbers of the names that are operands.
        printed, arrow: the types after `:` and after `->`, the shaped ones by their number.
    """

    name: str
    results: list[tuple[int, str]]
    operands: list[int]
    attributes: dict[str, object]
    printed: list[TtgirType | int]
    arrow: list[TtgirType | int] | None

    def types(self, shaped: Sequence[TtgirType]) -> tuple[list[TtgirType], list[TtgirType] | None]:
        """The types after `:` and after `->` of a statement with these shaped types."""
        printed = [shaped[t] if isinstance(t, int) else t for t in self.printed]
        if self.arrow is None:
            return printed, None
        return printed, [shaped[t] if isinstance(t, int) else t for t in self.arrow]


LocationLine = tuple[str | None, ...]
"""The parts of a line that defines a location: the alias; file, line and column; the alias of the
location that it names; the aliases of a call site's callee and caller. The unknown location has the
alias alone.
"""


def location(line: str) -> LocationLine | None:
    """The parts of a line that defines a location without nested ones; None for other lines."""
    match = _LOCATION_RE.fullmatch(line)
    return match.groups() if match is not None else None


def statement(line: str) -> Statement | None:
    """The parts of a line that is one statement; None for other lines."""
    match = _STATEMENT_RE.fullmatch(line)
    if match is None or "//" in line:  # a comment may hide the end of the line
        return None
    text, loc = match.groups()
    parts = _parts(text)
    return Statement(*parts, loc) if parts is not None else None


@functools.lru_cache(8192)  # variants of a kernel share most of their statements
def _parts(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """StatementForm, names and types of a statement."""
    pieces = _NAME_OR_TYPE_RE.split(text)
    names, types = [], []
    for k in range(1, len(pieces), 2):
        piece = pieces[k]
        if piece[0] == "%":
            names.append(piece)
            pieces[k] = "%"
        else:
            types.append(piece)
            pieces[k] = "~"
    form = "".join(pieces)
    if form.count("%") + form.count("~") != len(pieces) // 2 or _GLUED_RE.search(form):
        return None
    return form, tuple(names), tuple(types)


def numbered(form: str) -> str:
    """A form with names and types again: `%0 = arith.addi %1, %2 : !_.0`."""
    numbers = {"%": iter(range(len(form))), "~": iter(range(len(form)))}
    prefix = {"%": "%", "~": _TYPE_MARK}
    return _MARK_RE.sub(lambda m: f"{prefix[m[0]]}{next(numbers[m[0]])}", form)


def number_of_type(ttgir_type: TtgirType) -> TtgirType | int:
    """The number that `numbered` gave a type; other types are returned as they are."""
    numbered_type = _NUMBERED_TYPE.fullmatch(ttgir_type.text)
    return int(numbered_type[1]) if numbered_type is not None else ttgir_type


def number_of(name: str) -> tuple[int, str]:
    """The number that `numbered` gave a name, and the suffix after it: `%3#1` is (3, "#1")."""
    digits, sharp, suffix = name[1:].partition("#")
    return int(digits), sharp + suffix
