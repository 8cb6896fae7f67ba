"""Which piece of a kernel's inline assembly the compiler complains about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import KinspectError
from ..model import SourceLoc, TtgirOp
from ..ttgir.parser import parse_ttgir
from ..ttgir.queries import assembly_text, inline_assembly
from .diagnostics import Diagnostics

_CONSTRAINT = re.compile(r"register for constraint '(?P<constraint>[^']+)'")
_ABOUT_ASSEMBLY = re.compile(
    r"inline asm|for constraint '|invalid instruction|unexpected token|invalid operand"
    r"|unknown directive|instruction not supported|not a valid operand",
    re.I,
)
_WORD = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of inline assembly: its text in one line, and where the user called it."""

    text: str
    loc: SourceLoc | None

    def __str__(self) -> str:
        place = ""
        if self.loc is not None:
            user = self.loc.in_user_code
            place = f" at {user.file}:{user.line}"
        return f'inline assembly "{self.text}"{place}'


def culprit(ttir: str, said: Diagnostics) -> Piece | None:
    """The inline assembly that the compiler's errors are about, as far as they tell.

    Args:
        ttir: the kernel.
        said: what the compiler wrote to stderr.

    Returns:
        The piece; None where the errors are about something else, or about one of several pieces
        without saying which.
    """
    if not any(_ABOUT_ASSEMBLY.search(error) for error in said.errors):
        return None
    if "inline_asm" not in ttir:
        return None
    try:
        pieces = inline_assembly(parse_ttgir(ttir, "the kernel's TTIR"))
    except KinspectError:
        return None
    fitting = list(_fitting(pieces, said)) or (list(pieces) if len(pieces) == 1 else [])
    if not fitting:
        return None
    return Piece(assembly_text(fitting[0]), fitting[0].loc)


def _fitting(pieces: Sequence[TtgirOp], said: Diagnostics) -> Iterator[TtgirOp]:
    asked = {m["constraint"] for e in said.errors if (m := _CONSTRAINT.search(e)) is not None}
    # The assembler quotes the line with registers filled in; its first word is as written.
    words = {m[0] for line in said.quoted if (m := _WORD.search(line)) is not None}
    for op in pieces:
        own = {
            c.strip().strip("=&+~") for c in str(op.attributes.get("constraints", "")).split(",")
        }
        text = set(_WORD.findall(str(op.attributes.get("asm_string", ""))))
        if asked & own or words & text:
            yield op
