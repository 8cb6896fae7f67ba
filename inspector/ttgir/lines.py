"""Lines of MLIR text that are one statement each, which is most of them.

Modules repeat a few dozen forms of statement, and give nearly every one a line and a location of
its own. Such a line is taken apart here into its form, the names and the shaped types in it and its
location, without looking at what it says: `%a = arith.addi %b, %c : tensor<64xi32> loc(#loc7)` is
the form `% = arith.addi %, % : ~` with three names and a type. The parser reads each form once.
"""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from ..model import TtgirType

NAME = r"%[\w$.]+(?:-[\w$.]+)*(?:\#\d+)?"
"""A pattern for the name of an SSA value."""


def _balanced(depth: int) -> str:
    """A pattern for text whose angle brackets nest at most `depth` deep.

    The alternatives start with different characters, so that matching stays linear. Quotes end
    the match (a string may hold brackets), and so does `-` (`->` is not a closing bracket): such
    types take the slow way through single tokens.
    """
    plain = r'[^<>"\n\-]*'
    pattern = plain
    for _ in range(depth):
        pattern = rf"{plain}(?:<{pattern}>{plain})*"
    return pattern


SHAPED = rf"(?:tensor|![\w.]+)<{_balanced(4)}>"
"""A pattern for a type with something in angle brackets."""

_NAME_OR_TYPE_RE = re.compile(rf"({NAME}|(?<![\w$.@\#!^]){SHAPED})", re.ASCII)
_MARK_RE = re.compile("[%~]")
_GLUED_RE = re.compile(r"[%~][\w$.\#]")  # what follows would become part of a number
_TYPE_MARK = "!_."
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
        names, types: those in it, in their order.
        loc: the alias of its location, `#loc12`.
    """

    form: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    loc: str


class Form(Struct):
    """What all statements of one form have in common.

    Attributes:
        name: of the operation.
        results: for each result the number of the name it bears, and what follows it (`#1`).
        operands: the numbers of the names that are operands.
        attributes: those of the operation.
        printed, arrow: the types after `:` and after `->`, the shaped ones by their number.
    """

    name: str
    results: list[tuple[int, str]]
    operands: list[int]
    attributes: dict[str, object]
    printed: list[TtgirType | int]
    arrow: list[TtgirType | int] | None


LocationLine = tuple[str | None, ...]
"""What a line that defines a location says: the alias; file, line and column; the alias of the
location that it gives a name to; the aliases of a call site's callee and caller. Nothing but the
first is there for the unknown location.
"""


def location(line: str) -> LocationLine | None:
    """What a line says, if it defines a location that nests nothing."""
    match = _LOCATION_RE.fullmatch(line)
    return match.groups() if match is not None else None


def statement(line: str) -> Statement | None:
    """What a line says, if it is one statement by itself."""
    match = _STATEMENT_RE.fullmatch(line)
    if match is None or "//" in line:  # a comment may hide the end of the line
        return None
    text, loc = match.groups()
    parts = _parts(text)
    return Statement(*parts, loc) if parts is not None else None


@functools.lru_cache(8192)  # variants of a kernel share most of their statements
def _parts(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Form, names and types of a statement."""
    parts = _NAME_OR_TYPE_RE.split(text)
    names, types = [], []
    for k in range(1, len(parts), 2):
        part = parts[k]
        if part[0] == "%":
            names.append(part)
            parts[k] = "%"
        else:
            types.append(part)
            parts[k] = "~"
    form = "".join(parts)
    if form.count("%") + form.count("~") != len(parts) // 2 or _GLUED_RE.search(form):
        return None
    return form, tuple(names), tuple(types)


def numbered(form: str) -> str:
    """A form with names and types again: `%0 = arith.addi %1, %2 : !_.0`."""
    numbers = {"%": iter(range(len(form))), "~": iter(range(len(form)))}
    prefix = {"%": "%", "~": _TYPE_MARK}
    return _MARK_RE.sub(lambda m: f"{prefix[m[0]]}{next(numbers[m[0]])}", form)


def number_of_type(ttgir_type: TtgirType) -> TtgirType | int:
    """The number that `numbered` gave a type; another type is itself."""
    return (
        int(ttgir_type.text[len(_TYPE_MARK) :])
        if ttgir_type.text.startswith(_TYPE_MARK)
        else ttgir_type
    )


def number_of(name: str) -> tuple[int, str]:
    """The number that `numbered` gave a name, and what follows it: `%3#1` is (3, "#1")."""
    digits, sharp, part = name[1:].partition("#")
    return int(digits), sharp + part
