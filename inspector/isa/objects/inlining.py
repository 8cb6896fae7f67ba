"""Which call sites inlined code came through: the inlined subroutines of `.debug_info`.

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
    """A call that was inlined: where it stood, the code it became, and the call around it.

    `parent` is an index into `Unit.calls`; `file` a file number of the unit's line table.
    """

    ranges: tuple[tuple[int, int], ...]
    file: int
    line: int
    column: int
    depth: int
    parent: int | None


class Unit(Struct, frozen=True):
    """One compilation unit: where its line table stands, and its inlined calls, outer first."""

    line_offset: int | None
    compile_dir: str
    calls: tuple[InlinedCall, ...]


class _Value(Struct, frozen=True):
    form: int
    number: int


class _Context(Struct, frozen=True):
    """What the forms of one unit depend on."""

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
    while cursor.at < cursor.end:
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
    version = cursor.uint(2)
    if not 2 <= version <= 5:
        raise DwarfError(f"a unit of DWARF version {version}")
    if version >= 5:
        kind, address_size = cursor.uint(1), cursor.uint(1)
        abbreviations = cursor.uint(offset_size)
        if kind in _UNIT_KINDS_SKELETON:
            cursor.skip(8)
        elif kind not in _UNIT_KINDS_PLAIN:
            return None
    else:
        abbreviations = cursor.uint(offset_size)
        address_size = cursor.uint(1)
    if address_size != _ADDRESS_SIZE:
        raise DwarfError(f"addresses of {address_size} bytes")
    if abbreviations not in tables:
        tables[abbreviations] = read_abbreviations(sections.abbrev, abbreviations, budget)
    return _entries(cursor, tables[abbreviations], _Context(sections, version, offset_size), budget)


def _entries(
    cursor: Cursor,
    abbreviations: Mapping[int, Abbreviation],
    context: _Context,
    budget: Budget,
) -> Unit:
    line_offset: int | None = None
    compile_dir = ""
    calls: list[InlinedCall] = []
    around: list[int | None] = []  # per open entry: the innermost inlined call it belongs to
    first = True
    while cursor.at < cursor.end:
        code = cursor.uleb()
        budget.take()
        if not code:
            if around:
                around.pop()
            if not around:
                break
            continue
        kind = abbreviations.get(code)
        if kind is None:
            raise DwarfError(f"an entry of unknown kind {code}")
        budget.take(len(kind.attributes))
        entry = _attributes(cursor, kind, context)
        if first:
            first = False
            context = _with_bases(context, entry)
            line_offset = entry[_AT_STMT_LIST].number if _AT_STMT_LIST in entry else None
            compile_dir = _string(entry.get(_AT_COMP_DIR), cursor, context)
        owner = around[-1] if around else None
        if kind.tag == _TAG_INLINED:
            calls.append(_call(entry, owner, calls, context, budget))
            owner = len(calls) - 1
        if kind.children:
            around.append(owner)
            if len(around) > _DEPTH_LIMIT:
                raise DwarfError("entries nested deeper than compilers write")
        elif not around:
            break
    return Unit(line_offset, compile_dir, tuple(calls))


def _attributes(cursor: Cursor, kind: Abbreviation, context: _Context) -> _Entry:
    values: dict[int, _Value] = {}
    for attribute, form, constant in kind.attributes:
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
    listed = entry.get(_AT_RANGES)
    if listed is not None:
        read = _range_list if context.version >= 5 else _range_pairs
        yield from (r for r in read(listed, context, budget) if r[0] < r[1])
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
    section, offset = context.sections.rnglists, value.number
    if value.form == FORM_RNGLISTX:
        entry = context.rnglists_base + context.offset_size * value.number
        offset = context.rnglists_base + Cursor(section, entry).uint(context.offset_size)
    cursor, base = Cursor(section, offset), context.low_pc

    def indexed() -> int:
        return _indexed_address(cursor.uleb(), context)

    while kind := cursor.uint(1):
        budget.take()
        if kind == 1:
            base = indexed()
        elif kind == 2:
            yield indexed(), indexed()
        elif kind == 3:
            low = indexed()
            yield low, low + cursor.uleb()
        elif kind == 4:
            low, high = cursor.uleb(), cursor.uleb()
            yield base + low, base + high
        elif kind == 5:
            base = cursor.uint(_ADDRESS_SIZE)
        elif kind == 6:
            yield cursor.uint(_ADDRESS_SIZE), cursor.uint(_ADDRESS_SIZE)
        elif kind == 7:
            low = cursor.uint(_ADDRESS_SIZE)
            yield low, low + cursor.uleb()
        else:
            raise DwarfError(f"a range of unknown kind {kind}")


def innermost(calls: tuple[InlinedCall, ...]) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Where the innermost inlined call changes, and to which: parallel (addresses, call indices).

    Calls nested deeper than 64 count as the 64th.
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
