"""The call sites that code was inlined at, by the inlined subroutines of `.debug_info`.

Source: DWARF Debugging Information Format, version 5, sections 2.17, 3.3.8 and 7.5. Bounded in the
same way as `dwarf.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from .dwarf import (
    FORM_LINE_STRP,
    FORM_STRING,
    FORM_STRP,
    Budget,
    Cursor,
    DwarfError,
    Sections,
    string_at,
)
from .forms import (
    ADDRESS_INDEX_FORMS,
    FORM_ADDR,
    FORM_IMPLICIT,
    FORM_INDIRECT,
    FORM_RNGLISTX,
    Abbreviation,
    read_abbreviations,
    read_form,
)

_ADDRESS_SIZE = 8
_DEPTH_LIMIT = 256  # of nested entries
_CHAIN_LIMIT = 64  # of nested inlined calls

_TAG_INLINED = 0x1D
_AT_STMT_LIST, _AT_LOW_PC, _AT_HIGH_PC, _AT_COMP_DIR = 0x10, 0x11, 0x12, 0x1B
_AT_RANGES, _AT_CALL_COLUMN, _AT_CALL_FILE, _AT_CALL_LINE = 0x55, 0x57, 0x58, 0x59
_AT_ADDR_BASE, _AT_RNGLISTS_BASE = 0x73, 0x74
_READ_ATTRIBUTES = frozenset(
    {
        _AT_STMT_LIST,
        _AT_LOW_PC,
        _AT_HIGH_PC,
        _AT_COMP_DIR,
        _AT_RANGES,
        _AT_CALL_COLUMN,
        _AT_CALL_FILE,
        _AT_CALL_LINE,
        _AT_ADDR_BASE,
        _AT_RNGLISTS_BASE,
    }
)
_UNIT_KINDS_PLAIN, _UNIT_KINDS_SKELETON = frozenset({0x01, 0x03}), frozenset({0x04, 0x05})


class InlinedCall(Struct, frozen=True):
    """A call that was inlined: its place in the source, its code, and the call around it.

    `parent` is an index into `Unit.calls`; `file` a file number of the unit's line table.
    """

    ranges: tuple[tuple[int, int], ...]
    file: int
    line: int
    column: int
    depth: int
    parent: int | None


class Unit(Struct, frozen=True):
    """A compilation unit: the offset of its line table, and its inlined calls, outer ones first."""

    line_offset: int | None
    compile_dir: str
    calls: tuple[InlinedCall, ...]


class _Value(Struct, frozen=True):
    form: int
    number: int


class _Context(Struct, frozen=True):
    """The properties of a unit that its values are read by."""

    sections: Sections
    version: int
    offset_size: int
    low_pc: int = 0
    addr_base: int = 8
    rnglists_base: int = 12


_Entry = Mapping[int, _Value]
_EMPTY: _Entry = MappingProxyType({})


def read_units(sections: Sections, budget: Budget) -> tuple[Unit, ...]:
    """Read every compilation unit of `.debug_info`.

    Raises:
        DwarfError: the information is damaged.
    """
    units = []
    cursor = Cursor(sections.info)
    tables: dict[int, Mapping[int, Abbreviation]] = {}
    while cursor.position < cursor.end:
        unit, offset_size = cursor.unit()
        parsed = _unit(unit, offset_size, sections, tables, budget)
        if parsed is not None:
            units.append(parsed)
    return tuple(units)


def _unit(
    cursor: Cursor,
    offset_size: int,
    sections: Sections,
    tables: dict[int, Mapping[int, Abbreviation]],
    budget: Budget,
) -> Unit | None:
    """Reads a unit; None for a kind that describes no code. `tables` caches abbreviations."""
    version = cursor.uint(2)
    if not 2 <= version <= 5:
        raise DwarfError(f"a unit of DWARF version {version}")
    if version >= 5:
        unit_type, address_size = cursor.uint(1), cursor.uint(1)
        table_offset = cursor.uint(offset_size)
        if unit_type in _UNIT_KINDS_SKELETON:
            cursor.skip(8)
        elif unit_type not in _UNIT_KINDS_PLAIN:
            return None
    else:
        table_offset = cursor.uint(offset_size)
        address_size = cursor.uint(1)
    if address_size != _ADDRESS_SIZE:
        raise DwarfError(f"addresses of {address_size} bytes")
    if table_offset not in tables:
        tables[table_offset] = read_abbreviations(sections.abbrev, table_offset, budget)
    return _entries(cursor, tables[table_offset], _Context(sections, version, offset_size), budget)


def _entries(
    cursor: Cursor,
    abbreviations: Mapping[int, Abbreviation],
    context: _Context,
    budget: Budget,
) -> Unit:
    """Reads the entries of a unit."""
    line_offset: int | None = None
    compile_dir = ""
    calls: list[InlinedCall] = []
    open_calls: list[int | None] = []  # per open entry, the innermost inlined call around it
    is_root = True
    while cursor.position < cursor.end:
        code = cursor.uleb()
        budget.take()
        if not code:
            if open_calls:
                open_calls.pop()
            if not open_calls:
                break
            continue
        abbreviation = abbreviations.get(code)
        if abbreviation is None:
            raise DwarfError(f"an entry of unknown kind {code}")
        budget.take(len(abbreviation.attributes))
        entry = _attributes(cursor, abbreviation, context)
        if is_root:
            is_root = False
            context = _with_bases(context, entry)
            line_offset = entry[_AT_STMT_LIST].number if _AT_STMT_LIST in entry else None
            compile_dir = _string(entry.get(_AT_COMP_DIR), cursor, context)
        owner = open_calls[-1] if open_calls else None
        if abbreviation.tag == _TAG_INLINED:
            calls.append(_call(entry, owner, calls, context, budget))
            owner = len(calls) - 1
        if abbreviation.children:
            open_calls.append(owner)
            if len(open_calls) > _DEPTH_LIMIT:
                raise DwarfError("entries nested deeper than compilers write")
        elif not open_calls:
            break
    return Unit(line_offset, compile_dir, tuple(calls))


def _attributes(cursor: Cursor, abbreviation: Abbreviation, context: _Context) -> _Entry:
    values: dict[int, _Value] = {}
    for attribute, form, constant in abbreviation.attributes:
        if form == FORM_INDIRECT:
            form = cursor.uleb()
        if form == FORM_IMPLICIT:
            value = _Value(form, constant or 0)
        else:
            value = _Value(form, read_form(cursor, form, context.offset_size))
        if attribute in _READ_ATTRIBUTES:
            values[attribute] = value
    return values if values else _EMPTY


def _with_bases(context: _Context, entry: _Entry) -> _Context:
    """The context with the addresses and bases that the unit's first entry states."""

    def number(attribute: int, default: int) -> int:
        return entry[attribute].number if attribute in entry else default

    based = _Context(
        context.sections,
        context.version,
        context.offset_size,
        0,
        number(_AT_ADDR_BASE, context.addr_base),
        number(_AT_RNGLISTS_BASE, context.rnglists_base),
    )
    low = _address(entry.get(_AT_LOW_PC), based)
    return _Context(
        based.sections,
        based.version,
        based.offset_size,
        low or 0,
        based.addr_base,
        based.rnglists_base,
    )


def _string(value: _Value | None, cursor: Cursor, context: _Context) -> str:
    if value is None:
        return ""
    if value.form == FORM_STRING:
        return string_at(cursor.data, value.number)
    if value.form == FORM_STRP:
        return string_at(context.sections.str, value.number)
    if value.form == FORM_LINE_STRP:
        return string_at(context.sections.line_str, value.number)
    return ""  # in an index table, which device compilers do not write without -gsplit-dwarf


def _address(value: _Value | None, context: _Context) -> int | None:
    if value is None:
        return None
    if value.form in ADDRESS_INDEX_FORMS:
        return _indexed_address(value.number, context)
    return value.number


def _indexed_address(index: int, context: _Context) -> int:
    return Cursor(context.sections.addr, context.addr_base + _ADDRESS_SIZE * index).uint(
        _ADDRESS_SIZE
    )


def _call(
    entry: _Entry,
    owner: int | None,
    calls: list[InlinedCall],
    context: _Context,
    budget: Budget,
) -> InlinedCall:
    """The inlined call of an entry within the call `owner`."""

    def number(attribute: int) -> int:
        return entry[attribute].number if attribute in entry else 0

    return InlinedCall(
        ranges=tuple(_ranges(entry, context, budget)),
        file=number(_AT_CALL_FILE),
        line=number(_AT_CALL_LINE),
        column=number(_AT_CALL_COLUMN),
        depth=calls[owner].depth + 1 if owner is not None else 0,
        parent=owner,
    )


def _ranges(entry: _Entry, context: _Context, budget: Budget) -> Iterator[tuple[int, int]]:
    """Yields the address ranges (start, end) of an entry."""
    range_list = entry.get(_AT_RANGES)
    if range_list is not None:
        read_ranges = _range_list if context.version >= 5 else _range_pairs
        yield from (r for r in read_ranges(range_list, context, budget) if r[0] < r[1])
        return
    low, high = _address(entry.get(_AT_LOW_PC), context), entry.get(_AT_HIGH_PC)
    if low is None or high is None:
        return
    absolute = high.form == FORM_ADDR or high.form in ADDRESS_INDEX_FORMS
    end = _address(high, context) if absolute else low + high.number
    if end is not None and low < end:
        yield low, end


def _range_pairs(value: _Value, context: _Context, budget: Budget) -> Iterator[tuple[int, int]]:
    cursor, base = Cursor(context.sections.ranges, value.number), context.low_pc
    while True:
        budget.take()
        low, high = cursor.uint(_ADDRESS_SIZE), cursor.uint(_ADDRESS_SIZE)
        if not low and not high:
            return
        if low == (1 << 64) - 1:
            base = high
        else:
            yield base + low, base + high


def _range_list(value: _Value, context: _Context, budget: Budget) -> Iterator[tuple[int, int]]:
    """Yields the ranges of a list in `.debug_rnglists` (DWARF 5, 7.25), empty ones included."""
    section, offset = context.sections.rnglists, value.number
    if value.form == FORM_RNGLISTX:
        entry = context.rnglists_base + context.offset_size * value.number
        offset = context.rnglists_base + Cursor(section, entry).uint(context.offset_size)
    cursor, base = Cursor(section, offset), context.low_pc

    def indexed() -> int:
        return _indexed_address(cursor.uleb(), context)

    while entry_kind := cursor.uint(1):
        budget.take()
        if entry_kind == 1:
            base = indexed()
        elif entry_kind == 2:
            yield indexed(), indexed()
        elif entry_kind == 3:
            low = indexed()
            yield low, low + cursor.uleb()
        elif entry_kind == 4:
            low, high = cursor.uleb(), cursor.uleb()
            yield base + low, base + high
        elif entry_kind == 5:
            base = cursor.uint(_ADDRESS_SIZE)
        elif entry_kind == 6:
            yield cursor.uint(_ADDRESS_SIZE), cursor.uint(_ADDRESS_SIZE)
        elif entry_kind == 7:
            low = cursor.uint(_ADDRESS_SIZE)
            yield low, low + cursor.uleb()
        else:
            raise DwarfError(f"a range of unknown kind {entry_kind}")


def innermost(calls: tuple[InlinedCall, ...]) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """The innermost inlined call at each address.

    Calls nested deeper than 64 count as the 64th.

    Returns:
        The addresses where it changes, and the index of the call from each of them on, or None.
    """
    events = sorted(
        (address, opens, call.depth, index)
        for index, call in enumerate(calls)
        if call.depth < _CHAIN_LIMIT
        for low, high in call.ranges
        for address, opens in ((low, True), (high, False))
    )
    addresses: list[int] = []
    owners: list[int | None] = []
    heap: list[tuple[int, int]] = []
    open_count: dict[int, int] = {}
    for address, opens, depth, index in events:
        open_count[index] = open_count.get(index, 0) + (1 if opens else -1)
        if opens:
            heapq.heappush(heap, (-depth, index))
        while heap and not open_count[heap[0][1]]:
            heapq.heappop(heap)
        owner = heap[0][1] if heap else None
        if addresses and addresses[-1] == address:
            owners[-1] = owner
        else:
            addresses.append(address)
            owners.append(owner)
    return tuple(addresses), tuple(owners)
