"""The call sites that code was inlined at, and the variables in registers, of `.debug_info`.

Source: DWARF Debugging Information Format, version 5, sections 2.17, 3.3.8 and 7.5. Bounded in the
same way as `dwarf.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from .dwarf import (
    ADDRESS_INDEX_FORMS,
    ADDRESS_SIZE,
    BLOCK_FORMS,
    FORM_ADDR,
    FORM_IMPLICIT,
    FORM_INDIRECT,
    FORM_LINE_STRP,
    FORM_LOCLISTX,
    FORM_RNGLISTX,
    FORM_STRING,
    FORM_STRP,
    STRING_INDEX_FORMS,
    Abbreviation,
    DebugSections,
    DwarfBudget,
    DwarfCursor,
    DwarfError,
    indexed_address,
    read_abbreviations,
    read_form,
    string_at,
)
from .variables import LocationLists, RegisterVariable, VariableReader

_DEPTH_LIMIT = 256  # of nested entries
_CHAIN_LIMIT = 64  # of nested inlined calls

_TAG_INLINED = 0x1D
_AT_STMT_LIST, _AT_LOW_PC, _AT_HIGH_PC, _AT_COMP_DIR = 0x10, 0x11, 0x12, 0x1B
_AT_RANGES, _AT_CALL_COLUMN, _AT_CALL_FILE, _AT_CALL_LINE = 0x55, 0x57, 0x58, 0x59
_AT_STR_OFFSETS_BASE, _AT_ADDR_BASE, _AT_RNGLISTS_BASE = 0x72, 0x73, 0x74
_AT_LOCATION, _AT_NAME, _AT_ABSTRACT_ORIGIN, _AT_LOCLISTS_BASE = 0x02, 0x03, 0x31, 0x8C
_VARIABLES = frozenset((0x05, 0x34))
"""Tags of formal parameters and variables."""
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
        _AT_STR_OFFSETS_BASE,
        _AT_LOCATION,
        _AT_NAME,
        _AT_ABSTRACT_ORIGIN,
        _AT_LOCLISTS_BASE,
    }
)
_UNIT_KINDS_PLAIN, _UNIT_KINDS_SKELETON = frozenset({0x01, 0x03}), frozenset({0x04, 0x05})


class InlinedCall(Struct, frozen=True):
    """A call that was inlined: its place in the source, its code, and the call around it.

    `parent` is an index into `CompilationUnit.calls`, `file` a file number of its line table.
    """

    ranges: tuple[tuple[int, int], ...]
    file: int
    line: int
    column: int
    depth: int
    parent: int | None


class CompilationUnit(Struct, frozen=True):
    """A compilation unit: the offset of its line table, its inlined calls, outer ones first, and
    the variables that vector registers hold.
    """

    line_offset: int | None
    compile_dir: str
    calls: tuple[InlinedCall, ...]
    variables: tuple[RegisterVariable, ...] = ()


class _Value(Struct, frozen=True):
    form: int
    number: int


class _UnitContext(Struct, frozen=True):
    """The properties of a unit that its values are read by."""

    sections: DebugSections
    version: int
    offset_size: int
    low_pc: int = 0
    addr_base: int = 8
    rnglists_base: int = 12
    loclists_base: int = 12
    str_offsets_base: int = 8
    start: int = 0  # of the unit in its section


_Entry = Mapping[int, _Value]
_EMPTY: _Entry = MappingProxyType({})


def read_units(sections: DebugSections, budget: DwarfBudget) -> tuple[CompilationUnit, ...]:
    """Read every compilation unit of `.debug_info`.

    Raises:
        DwarfError: the information is damaged.
    """
    units = []
    cursor = DwarfCursor(sections.info)
    tables: dict[int, Mapping[int, Abbreviation]] = {}
    while cursor.position < cursor.end:
        start = cursor.position
        unit, offset_size = cursor.unit()
        parsed = _unit(unit, start, offset_size, sections, tables, budget)
        if parsed is not None:
            units.append(parsed)
    return tuple(units)


def _unit(
    cursor: DwarfCursor,
    start: int,
    offset_size: int,
    sections: DebugSections,
    tables: dict[int, Mapping[int, Abbreviation]],
    budget: DwarfBudget,
) -> CompilationUnit | None:
    """Reads a unit; None for a kind that describes no code."""
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
    if address_size != ADDRESS_SIZE:
        raise DwarfError(f"addresses of {address_size} bytes")
    if table_offset not in tables:
        tables[table_offset] = read_abbreviations(sections.abbrev, table_offset, budget)
    return _entries(
        cursor,
        tables[table_offset],
        _UnitContext(sections, version, offset_size, start=start),
        budget,
    )


def _entries(
    cursor: DwarfCursor,
    abbreviations: Mapping[int, Abbreviation],
    context: _UnitContext,
    budget: DwarfBudget,
) -> CompilationUnit:
    """Reads the entries of a unit."""
    line_offset: int | None = None
    compile_dir = ""
    calls: list[InlinedCall] = []
    variables = VariableReader(budget)
    open_calls: list[int | None] = []  # per open entry, the innermost inlined call around it
    is_root = True
    while cursor.position < cursor.end:
        offset = cursor.position - context.start
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
        if abbreviation.tag in _VARIABLES:
            _add_variable(entry, offset, variables, cursor, context)
        if abbreviation.tag == _TAG_INLINED:
            calls.append(_call(entry, owner, calls, context, budget))
            owner = len(calls) - 1
        if abbreviation.children:
            open_calls.append(owner)
            if len(open_calls) > _DEPTH_LIMIT:
                raise DwarfError("entries nested deeper than compilers write")
        elif not open_calls:
            break
    return CompilationUnit(line_offset, compile_dir, tuple(calls), variables.found())


def _add_variable(
    entry: _Entry,
    offset: int,
    variables: VariableReader,
    cursor: DwarfCursor,
    context: _UnitContext,
) -> None:
    """Takes the name and the locations of a variable."""
    origin = entry.get(_AT_ABSTRACT_ORIGIN)
    name = _string(entry.get(_AT_NAME), cursor, context)
    variables.names[offset] = name or (origin.number if origin is not None else "")
    location = entry.get(_AT_LOCATION)
    if location is None or location.form in BLOCK_FORMS:
        return  # all over its scope, as in memory: no register holds anything that long
    lists = LocationLists(
        context.sections,
        context.version,
        context.offset_size,
        context.low_pc,
        context.addr_base,
        context.loclists_base,
    )
    with suppress(DwarfError):  # a variable less, which must not cost the lines of the source
        variables.add(offset, lists, location.number, indexed=location.form == FORM_LOCLISTX)


def _attributes(cursor: DwarfCursor, abbreviation: Abbreviation, context: _UnitContext) -> _Entry:
    """Reads the attributes of an entry; those that are not needed are skipped."""
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


def _with_bases(context: _UnitContext, entry: _Entry) -> _UnitContext:
    """The context with the addresses and bases that the unit's first entry states."""

    def number(attribute: int, default: int) -> int:
        return entry[attribute].number if attribute in entry else default

    based = replace(
        context,
        addr_base=number(_AT_ADDR_BASE, context.addr_base),
        rnglists_base=number(_AT_RNGLISTS_BASE, context.rnglists_base),
        loclists_base=number(_AT_LOCLISTS_BASE, context.loclists_base),
        str_offsets_base=number(_AT_STR_OFFSETS_BASE, context.str_offsets_base),
    )
    return replace(based, low_pc=_address(entry.get(_AT_LOW_PC), based) or 0)


def _string(value: _Value | None, cursor: DwarfCursor, context: _UnitContext) -> str:
    if value is None:
        return ""
    if value.form == FORM_STRING:
        return string_at(cursor.data, value.number)
    if value.form == FORM_STRP:
        return string_at(context.sections.str, value.number)
    if value.form == FORM_LINE_STRP:
        return string_at(context.sections.line_str, value.number)
    if value.form in STRING_INDEX_FORMS:
        at = context.str_offsets_base + context.offset_size * value.number
        offset = DwarfCursor(context.sections.str_offsets, at).uint(context.offset_size)
        return string_at(context.sections.str, offset)
    return ""


def _address(value: _Value | None, context: _UnitContext) -> int | None:
    if value is None:
        return None
    if value.form in ADDRESS_INDEX_FORMS:
        return _indexed_address(value.number, context)
    return value.number


def _indexed_address(index: int, context: _UnitContext) -> int:
    return indexed_address(context.sections, context.addr_base, index)


def _call(
    entry: _Entry,
    owner: int | None,
    calls: list[InlinedCall],
    context: _UnitContext,
    budget: DwarfBudget,
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


def _ranges(entry: _Entry, context: _UnitContext, budget: DwarfBudget) -> Iterator[tuple[int, int]]:
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


def _range_pairs(
    value: _Value, context: _UnitContext, budget: DwarfBudget
) -> Iterator[tuple[int, int]]:
    cursor, base = DwarfCursor(context.sections.ranges, value.number), context.low_pc
    while True:
        budget.take()
        low, high = cursor.uint(ADDRESS_SIZE), cursor.uint(ADDRESS_SIZE)
        if not low and not high:
            return
        if low == (1 << 64) - 1:
            base = high
        else:
            yield base + low, base + high


def _range_list(
    value: _Value, context: _UnitContext, budget: DwarfBudget
) -> Iterator[tuple[int, int]]:
    """Yields the ranges of a list in `.debug_rnglists` (DWARF 5, 7.25), empty ones included."""
    section, offset = context.sections.rnglists, value.number
    if value.form == FORM_RNGLISTX:
        entry = context.rnglists_base + context.offset_size * value.number
        offset = context.rnglists_base + DwarfCursor(section, entry).uint(context.offset_size)
    cursor, base = DwarfCursor(section, offset), context.low_pc

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
            base = cursor.uint(ADDRESS_SIZE)
        elif entry_kind == 6:
            yield cursor.uint(ADDRESS_SIZE), cursor.uint(ADDRESS_SIZE)
        elif entry_kind == 7:
            low = cursor.uint(ADDRESS_SIZE)
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
