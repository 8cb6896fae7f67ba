"""Reading DWARF debug information: bounded, since the file may be hostile.

General readers follow whatever counts the information states: pyelftools 0.33 spends 10 seconds and
gigabytes on a line table header of 44 bytes that announces two million directories. Here each step
consumes bytes of the file and of a budget that is proportional to the file's size.

Source: DWARF Debugging Information Format, version 5, sections 7.5.3 and 7.5.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

_STRING_LIMIT = 4096
# A step takes about a microsecond; the last figure bounds the time for one file.
_STEPS_PER_BYTE, _FIRST_STEPS, _MOST_STEPS = 4, 10_000, 30_000_000
ADDRESS_SIZE = 8
ADDRESS_MASK = (1 << 64) - 1

_FORM_STRING, _FORM_STRP, _FORM_LINE_STRP = 0x08, 0x0E, 0x1F
FORM_ADDR, _FORM_INDIRECT, _FORM_IMPLICIT = 0x01, 0x16, 0x21
ADDRESS_INDEX_FORMS = frozenset({0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})
"""Index forms into .debug_addr: addrx, addrx1 .. addrx4, GNU's predecessor."""
_STRING_INDEX_FORMS = frozenset({0x1A, 0x25, 0x26, 0x27, 0x28})
"""Index forms into .debug_str_offsets: strx, strx1 .. strx4."""
_LIST_INDEX_FORMS = frozenset({0x22, 0x23})
"""Index forms into the tables of lists: loclistx, rnglistx."""
BLOCK_FORMS = frozenset({0x03, 0x04, 0x09, 0x0A, 0x18})
"""Blocks of bytes behind their length, expressions among them."""
_KINDS_LIMIT = 1 << 16
_DEFAULT_LOCATION = -1


class DwarfError(ValueError):
    """The debug information contradicts itself, or goes on for absurdly long."""


class DwarfBudget:
    """The number of steps that may still be spent on one file's debug information."""

    def __init__(self, size: int) -> None:
        self._remaining = min(_FIRST_STEPS + _STEPS_PER_BYTE * size, _MOST_STEPS)

    def take(self, steps: int = 1) -> None:
        """Use up `steps`; DwarfError where none are left."""
        self._remaining -= steps
        if self._remaining < 0:
            raise DwarfError("it is too large, or repeats itself without end")


class DwarfCursor:
    """Reads little-endian values from a section, never past `end`."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        if not 0 <= position <= self.end <= len(data):
            raise DwarfError("an offset outside its section")

    def uint(self, size: int) -> int:
        """An unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def sint(self, size: int) -> int:
        """A signed integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little", signed=True)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.end - self.position:
            raise DwarfError("a value reaches past its section")
        raw = self.data[self.position : self.position + size]
        self.position += size
        return raw

    def skip(self, size: int) -> None:
        """Step over `size` bytes."""
        if size > self.end - self.position:
            raise DwarfError("a value reaches past its section")
        self.position += size

    def uleb(self) -> int:
        """An unsigned LEB128 number of at most 64 bits."""
        value = shift = 0
        while True:
            byte = self.uint(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value & ADDRESS_MASK
            shift += 7
            if shift > 63:
                raise DwarfError("a number of more than 64 bits")

    def sleb(self) -> int:
        """A signed LEB128 number of at most 64 bits."""
        start = self.position
        value = self.uleb()
        bits = min(7 * (self.position - start), 64)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def string(self) -> str:
        """A string up to its NUL; longer ones than 4096 bytes are cut off."""
        start = self.position
        self.skip_string()
        return string_at(self.data, start)

    def skip_string(self) -> None:
        """Step over a string and its NUL."""
        end = self.data.find(b"\0", self.position, self.end)
        if end < 0:
            raise DwarfError("a string reaches past its section")
        self.position = end + 1

    def unit(self) -> tuple[DwarfCursor, int]:
        """Steps over a unit: returns a cursor over its contents, and the size of its offsets."""
        length, offset_size = self.uint(4), 4
        if length == 0xFFFFFFFF:
            length, offset_size = self.uint(8), 8
        start = self.position
        self.skip(length)
        return DwarfCursor(self.data, start, self.position), offset_size


def string_at(section: bytes, offset: int) -> str:
    """The string at `offset` of a string section; longer ones than 4096 bytes are cut off."""
    if offset >= len(section):
        raise DwarfError("a string outside its section")
    limit = offset + _STRING_LIMIT
    end = section.find(b"\0", offset, limit)
    return section[offset : end if end >= 0 else limit].decode("utf-8", "replace")


class DebugSections(Struct, frozen=True):
    """The debug sections that are read here; missing ones are empty."""

    line: bytes = b""
    info: bytes = b""
    abbrev: bytes = b""
    str: bytes = b""
    line_str: bytes = b""
    ranges: bytes = b""
    rnglists: bytes = b""
    addr: bytes = b""
    loclists: bytes = b""
    loc: bytes = b""
    str_offsets: bytes = b""


class Abbreviation(Struct, frozen=True):
    """A kind of entry: its tag, and per attribute (name, form, implicit constant)."""

    tag: int
    children: bool
    attributes: tuple[tuple[int, int, int | None], ...]


def read_abbreviations(
    section: bytes, offset: int, budget: DwarfBudget
) -> Mapping[int, Abbreviation]:
    """Read the table of entry kinds at `offset` of `.debug_abbrev`, by code.

    Raises:
        DwarfError: the table is damaged.
    """
    cursor = DwarfCursor(section, offset)
    abbreviations: dict[int, Abbreviation] = {}
    while code := cursor.uleb():
        tag, children = cursor.uleb(), bool(cursor.uint(1))
        attributes = []
        while True:
            budget.take()
            attribute, form = cursor.uleb(), cursor.uleb()
            constant = cursor.sleb() if form == _FORM_IMPLICIT else None
            if not attribute and not form:
                break
            attributes.append((attribute, form, constant))
        abbreviations[code] = Abbreviation(tag, children, tuple(attributes))
        if len(abbreviations) > _KINDS_LIMIT:
            raise DwarfError("more kinds of entries than compilers write")
    return abbreviations


class DwarfValue(Struct, frozen=True):
    """A value of an entry: its form, and its number or where its inline string stands."""

    form: int
    number: int


def read_value(
    cursor: DwarfCursor, form: int, offset_size: int, constant: int | None = None
) -> DwarfValue:
    """Reads a value of a form; `constant`: one that stands with the form."""
    if form == _FORM_INDIRECT:
        form = cursor.uleb()
    if form == _FORM_IMPLICIT:
        return DwarfValue(form, constant or 0)
    if form in _FIXED:
        return DwarfValue(form, cursor.uint(_FIXED[form]))
    if form in _OFFSETS:
        # DW_FORM_ref_addr had the size of an address in version 2.
        return DwarfValue(form, cursor.uint(offset_size))
    if form not in _VARIABLE:
        raise DwarfError(f"a value of unknown form 0x{form:x}")
    return DwarfValue(form, _VARIABLE[form](cursor))


def text_of(value: DwarfValue, data: bytes, sections: DebugSections) -> str | None:
    """The string that a value is, in a section with some data; None of another value."""
    tables = {_FORM_STRING: data, _FORM_STRP: sections.str, _FORM_LINE_STRP: sections.line_str}
    table = tables.get(value.form)
    return None if table is None else string_at(table, value.number)


class DwarfUnit(Struct, frozen=True):
    """A unit of `.debug_info`: what its values are read by.

    `start` is its place in the section; the bases are those of its tables of addresses and lists.
    """

    sections: DebugSections
    version: int
    offset_size: int
    start: int = 0
    low_pc: int = 0
    addr_base: int = 8
    rnglists_base: int = 12
    loclists_base: int = 12
    str_offsets_base: int = 8

    def address(self, value: DwarfValue | None) -> int | None:
        """The address that a value is."""
        if value is None or value.form not in ADDRESS_INDEX_FORMS:
            return value.number if value is not None else None
        return self._address_at(value.number)

    def string(self, value: DwarfValue | None) -> str:
        """The string that a value is; empty without one."""
        if value is None:
            return ""
        if value.form not in _STRING_INDEX_FORMS:
            return text_of(value, self.sections.info, self.sections) or ""
        at = self.str_offsets_base + self.offset_size * value.number
        offset = DwarfCursor(self.sections.str_offsets, at).uint(self.offset_size)
        return string_at(self.sections.str, offset)

    def ranges(self, value: DwarfValue, budget: DwarfBudget) -> Iterator[tuple[int, int, bytes]]:
        """Yields low and high address of each entry of a list of ranges, and no bytes."""
        sections = self.sections
        if self.version < 5:
            return self._pairs(DwarfCursor(sections.ranges, value.number), budget)
        return self._entries(self._list(sections.rnglists, self.rnglists_base, value), budget)

    def locations(self, value: DwarfValue, budget: DwarfBudget) -> Iterator[tuple[int, int, bytes]]:
        """Yields low and high address of each entry of a list of locations, and its expression."""
        sections = self.sections
        if self.version < 5:
            return self._pairs(DwarfCursor(sections.loc, value.number), budget, located=True)
        cursor = self._list(sections.loclists, self.loclists_base, value)
        return self._entries(cursor, budget, located=True)

    def _address_at(self, index: int) -> int:
        at = self.addr_base + ADDRESS_SIZE * index
        return DwarfCursor(self.sections.addr, at).uint(ADDRESS_SIZE)

    def _list(self, section: bytes, base: int, value: DwarfValue) -> DwarfCursor:
        """A list of DWARF 5, by its offset or its number in the unit's table."""
        if value.form not in _LIST_INDEX_FORMS:
            return DwarfCursor(section, value.number)
        at = base + self.offset_size * value.number
        return DwarfCursor(section, base + DwarfCursor(section, at).uint(self.offset_size))

    def _entries(
        self, cursor: DwarfCursor, budget: DwarfBudget, *, located: bool = False
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yields the entries of a list of DWARF 5 (7.7.3, 7.25), empty ones included."""
        base = self.low_pc
        while kind := cursor.uint(1):
            budget.take()
            if located and kind >= 5:  # ranges have no default, and the other kinds a number less
                kind = kind - 1 if kind > 5 else _DEFAULT_LOCATION
            if kind in (1, 5):
                base = self._address_at(cursor.uleb()) if kind == 1 else cursor.uint(ADDRESS_SIZE)
                continue
            if kind in (2, 3):
                low = self._address_at(cursor.uleb())
                high = self._address_at(cursor.uleb()) if kind == 2 else low + cursor.uleb()
            elif kind == 4:
                low, high = base + cursor.uleb(), base + cursor.uleb()
            elif kind in (6, 7):
                low = cursor.uint(ADDRESS_SIZE)
                high = cursor.uint(ADDRESS_SIZE) if kind == 6 else low + cursor.uleb()
            elif kind == _DEFAULT_LOCATION:  # everywhere else: no register's range
                low = high = 0
            else:
                raise DwarfError(f"a list's entry of unknown kind {kind}")
            yield low, high, cursor.take(cursor.uleb()) if located else b""

    def _pairs(
        self, cursor: DwarfCursor, budget: DwarfBudget, *, located: bool = False
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yields the entries of a list of DWARF 4 (2.6.2, 2.17.3)."""
        base = self.low_pc
        while True:
            budget.take()
            low, high = cursor.uint(ADDRESS_SIZE), cursor.uint(ADDRESS_SIZE)
            if not low and not high:
                return
            if low == ADDRESS_MASK:
                base = high
            else:
                yield base + low, base + high, cursor.take(cursor.uint(2)) if located else b""


def _skip_string(cursor: DwarfCursor) -> int:
    start = cursor.position
    cursor.skip_string()
    return start


def _skip_block(length: Callable[[DwarfCursor], int]) -> Callable[[DwarfCursor], int]:
    def read(cursor: DwarfCursor) -> int:
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
_VARIABLE: Mapping[int, Callable[[DwarfCursor], int]] = MappingProxyType(
    dict.fromkeys((0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02), DwarfCursor.uleb)
    | dict.fromkeys((0x09, 0x18), _skip_block(DwarfCursor.uleb))
    | {
        0x03: _skip_block(lambda c: c.uint(2)),
        0x04: _skip_block(lambda c: c.uint(4)),
        0x08: _skip_string,
        0x0A: _skip_block(lambda c: c.uint(1)),
        0x0D: DwarfCursor.sleb,
    }
)
