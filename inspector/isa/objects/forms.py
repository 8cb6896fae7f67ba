"""Kinds of DWARF entries and the forms of their values.

Source: DWARF Debugging Information Format, version 5, sections 7.5.3 and 7.5.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from .dwarf import Budget, Cursor, DwarfError

FORM_ADDR, FORM_INDIRECT, FORM_IMPLICIT, FORM_RNGLISTX = 0x01, 0x16, 0x21, 0x23
# Index forms into .debug_addr: addrx, addrx1 .. addrx4, GNU's predecessor.
ADDRESS_INDEX_FORMS = frozenset({0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})
_KINDS_LIMIT = 1 << 16


class Abbreviation(Struct, frozen=True):
    """A kind of entry: its tag, and per attribute (name, form, implicit constant)."""

    tag: int
    children: bool
    attributes: tuple[tuple[int, int, int | None], ...]


def read_abbreviations(section: bytes, offset: int, budget: Budget) -> Mapping[int, Abbreviation]:
    """Read the table of entry kinds at `offset` of `.debug_abbrev`, by code.

    Raises:
        DwarfError: the table is damaged.
    """
    cursor = Cursor(section, offset)
    abbreviations: dict[int, Abbreviation] = {}
    while code := cursor.uleb():
        tag, children = cursor.uleb(), bool(cursor.uint(1))
        attributes = []
        while True:
            budget.take()
            attribute, form = cursor.uleb(), cursor.uleb()
            constant = cursor.sleb() if form == FORM_IMPLICIT else None
            if not attribute and not form:
                break
            attributes.append((attribute, form, constant))
        abbreviations[code] = Abbreviation(tag, children, tuple(attributes))
        if len(abbreviations) > _KINDS_LIMIT:
            raise DwarfError("more kinds of entries than compilers write")
    return abbreviations


def read_form(cursor: Cursor, form: int, offset_size: int) -> int:
    """Reads a value of `form`: its number, or the position of an inline string."""
    size = _FIXED.get(form)
    if size is not None:
        return cursor.uint(size)
    if form in _OFFSETS:
        # DW_FORM_ref_addr had the size of an address in version 2.
        return cursor.uint(offset_size)
    read_value = _VARIABLE.get(form)
    if read_value is None:
        raise DwarfError(f"a value of unknown form 0x{form:x}")
    return read_value(cursor)


def _skip_string(cursor: Cursor) -> int:
    start = cursor.position
    cursor.skip_string()
    return start


def _skip_block(length: Callable[[Cursor], int]) -> Callable[[Cursor], int]:
    def read(cursor: Cursor) -> int:
        cursor.skip(length(cursor))
        return 0

    return read


# Form -> size in bytes (DWARF 5, 7.5.6).
_FIXED: Mapping[int, int] = MappingProxyType(
    {
        0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8,
        0x19: 0, 0x1C: 4, 0x1E: 16, 0x20: 8, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1,
        0x2A: 2, 0x2B: 3, 0x2C: 4,
    }
)  # fmt: skip
_OFFSETS = frozenset({0x0E, 0x10, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21})
_VARIABLE: Mapping[int, Callable[[Cursor], int]] = MappingProxyType(
    {
        0x03: _skip_block(lambda c: c.uint(2)),
        0x04: _skip_block(lambda c: c.uint(4)),
        0x08: _skip_string,
        0x09: _skip_block(lambda c: c.uleb()),
        0x0A: _skip_block(lambda c: c.uint(1)),
        0x0D: lambda c: c.sleb(),
        0x0F: lambda c: c.uleb(),
        0x15: lambda c: c.uleb(),
        0x18: _skip_block(lambda c: c.uleb()),
        0x1A: lambda c: c.uleb(),
        0x1B: lambda c: c.uleb(),
        0x22: lambda c: c.uleb(),
        0x23: lambda c: c.uleb(),
        0x1F01: lambda c: c.uleb(),
        0x1F02: lambda c: c.uleb(),
    }
)
