"""What a text is found to contain while it is read, and how its lines are walked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinspect.inspector.isa.asm.rawcode import RawFunction
from kinspect.inspector.isa.asm.resources import Statements
from kinspect.inspector.isa.asm.symbols import SymbolTable
from kinspect.inspector.isa.asm.target import Target
from kinspect.inspector.model import Unread

_CHUNK = 1 << 20
_DEBUG_LABEL = re.compile(r"\.L(?:tmp|func_begin|func_end|post_getpc|post_addpc|exception)\d*$")


@dataclass(slots=True)
class UnitContents:
    """What one unit of assembly says, before its functions are finished."""

    functions: list[RawFunction] = field(default_factory=list)
    statements: dict[str, Statements] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)
    symbols: SymbolTable = field(default_factory=SymbolTable)
    target: Target = field(default_factory=Target.unknown)
    code_object_version: int | None = None
    display_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    directives: int = 0  # AMDGPU directives seen: they tell an empty kernel from another text


def lines_of(text: str, before: int) -> Iterator[tuple[int, str]]:
    """(line number, line) without ever holding all lines at once."""
    number = before
    position, size = 0, len(text)
    while position < size:
        stop = size
        if size - position > _CHUNK:
            found = text.find("\n", position + _CHUNK)
            stop = size if found < 0 else found
        chunk = text[position:stop].split("\n")
        position = stop + 1
        yield from enumerate(chunk, number + 1)
        number += len(chunk)


def is_debug_label(name: str) -> bool:
    """Whether a label marks a place for debug information or address arithmetic alone."""
    return _DEBUG_LABEL.match(name) is not None
