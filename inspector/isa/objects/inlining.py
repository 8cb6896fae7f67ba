"""The call sites that code was inlined at, and the variables in registers, of `.debug_info`.

Source: DWARF Debugging Information Format, version 5, sections 2.17, 3.3.8 and 7.5. Bounded in the
same way as `dwarf.py`.

Variables of the source in vector registers, by the location lists of debug information.

Source: DWARF Debugging Information Format, version 5, sections 2.6 and 7.7.3; LLVM's AMDGPUUsage,
"Register Identifier", for the numbers of registers. Bounded in the same way as `dwarf.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from .dwarf import (
    ADDRESS_INDEX_FORMS,
    ADDRESS_SIZE,
    BLOCK_FORMS,
    FORM_ADDR,
    Abbreviation,
    DebugSections,
    DwarfBudget,
    DwarfCursor,
    DwarfError,
    DwarfUnit,
    DwarfValue,
    read_abbreviations,
    read_value,
)

_DEPTH_LIMIT = 256  # of nested entries
_CHAIN_LIMIT = 64  # of nested inlined calls

_TAG_INLINED = 0x1D
_AT_STMT_LIST, _AT_LOW_PC, _AT_HIGH_PC, _AT_COMP_DIR = 0x10, 0x11, 0x12, 0x1B
_AT_RANGES, _AT_CALL_COLUMN, _AT_CALL_FILE, _AT_CALL_LINE = 0x55, 0x57, 0x58, 0x59
_AT_STR_OFFSETS_BASE, _AT_ADDR_BASE, _AT_RNGLISTS_BASE = 0x72, 0x73, 0x74
_AT_LOCATION, _AT_NAME, _AT_ABSTRACT_ORIGIN, _AT_LOCLISTS_BASE = 0x02, 0x03, 0x31, 0x8C
_VARIABLES = frozenset((0x05, 0x34))
"""Tags of formal parameters and variables."""
_BASES = {
    _AT_ADDR_BASE: "addr_base",
    _AT_RNGLISTS_BASE: "rnglists_base",
    _AT_LOCLISTS_BASE: "loclists_base",
    _AT_STR_OFFSETS_BASE: "str_offsets_base",
}
_READ_ATTRIBUTES = frozenset(
    (_AT_STMT_LIST, _AT_LOW_PC, _AT_HIGH_PC, _AT_COMP_DIR, _AT_RANGES, _AT_CALL_COLUMN,
     _AT_CALL_FILE, _AT_CALL_LINE, _AT_LOCATION, _AT_NAME, _AT_ABSTRACT_ORIGIN, *_BASES)
)  # fmt: skip
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


_Entry = Mapping[int, DwarfValue]
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
        DwarfUnit(sections, version, offset_size, start),
        budget,
    )


def _entries(
    cursor: DwarfCursor,
    abbreviations: Mapping[int, Abbreviation],
    unit: DwarfUnit,
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
        offset = cursor.position - unit.start
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
        entry = _attributes(cursor, abbreviation, unit)
        if is_root:
            is_root = False
            unit = _with_bases(unit, entry)
            line_offset = entry[_AT_STMT_LIST].number if _AT_STMT_LIST in entry else None
            compile_dir = unit.string(entry.get(_AT_COMP_DIR))
        owner = open_calls[-1] if open_calls else None
        if abbreviation.tag in _VARIABLES:
            _add_variable(entry, offset, variables, unit)
        if abbreviation.tag == _TAG_INLINED:
            calls.append(_call(entry, owner, calls, unit, budget))
            owner = len(calls) - 1
        if abbreviation.children:
            open_calls.append(owner)
            if len(open_calls) > _DEPTH_LIMIT:
                raise DwarfError("entries nested deeper than compilers write")
        elif not open_calls:
            break
    return CompilationUnit(line_offset, compile_dir, tuple(calls), variables.found())


def _add_variable(entry: _Entry, offset: int, variables: VariableReader, unit: DwarfUnit) -> None:
    """Takes the name and the locations of a variable."""
    origin = entry.get(_AT_ABSTRACT_ORIGIN)
    name = unit.string(entry.get(_AT_NAME))
    variables.names[offset] = name or (origin.number if origin is not None else "")
    location = entry.get(_AT_LOCATION)
    if location is None or location.form in BLOCK_FORMS:
        return  # all over its scope, as in memory: no register holds anything that long
    with suppress(DwarfError):  # a variable less, which must not cost the lines of the source
        variables.add(offset, unit, location)


def _attributes(cursor: DwarfCursor, abbreviation: Abbreviation, unit: DwarfUnit) -> _Entry:
    """Reads the attributes of an entry; those that are not needed are skipped."""
    values: dict[int, DwarfValue] = {}
    for attribute, form, constant in abbreviation.attributes:
        value = read_value(cursor, form, unit.offset_size, constant)
        if attribute in _READ_ATTRIBUTES:
            values[attribute] = value
    return values if values else _EMPTY


def _with_bases(unit: DwarfUnit, entry: _Entry) -> DwarfUnit:
    """The unit with the addresses and bases that its first entry states."""
    stated = {name: entry[at].number for at, name in _BASES.items() if at in entry}
    based = replace(unit, **stated)
    return replace(based, low_pc=based.address(entry.get(_AT_LOW_PC)) or 0)


def _call(
    entry: _Entry,
    owner: int | None,
    calls: list[InlinedCall],
    unit: DwarfUnit,
    budget: DwarfBudget,
) -> InlinedCall:
    """The inlined call of an entry within the call `owner`."""
    file, line, column = (
        entry[at].number if at in entry else 0
        for at in (_AT_CALL_FILE, _AT_CALL_LINE, _AT_CALL_COLUMN)
    )
    depth = calls[owner].depth + 1 if owner is not None else 0
    return InlinedCall(tuple(_ranges(entry, unit, budget)), file, line, column, depth, owner)


def _ranges(entry: _Entry, unit: DwarfUnit, budget: DwarfBudget) -> Iterator[tuple[int, int]]:
    """Yields the address ranges (start, end) of an entry."""
    listed = entry.get(_AT_RANGES)
    if listed is not None:
        yield from ((low, high) for low, high, _ in unit.ranges(listed, budget) if low < high)
        return
    low, length = unit.address(entry.get(_AT_LOW_PC)), entry.get(_AT_HIGH_PC)
    if low is None or length is None:
        return
    absolute = length.form == FORM_ADDR or length.form in ADDRESS_INDEX_FORMS
    high = unit.address(length) if absolute else low + length.number
    if high is not None and low < high:
        yield low, high


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


_FILES: Final[tuple[tuple[Literal["v", "a"], int], ...]] = (
    ("v", 1536), ("v", 2560), ("a", 2048), ("a", 3072),
)  # fmt: skip
"""Register files with the number of their first register, of 32 and of 64 lanes."""
_FILE_SIZE: Final = 256
_ORIGIN_LIMIT: Final = 16  # of entries that name each other
_REGX, _BREGX, _PIECE, _SWAP, _XDEREF = 0x90, 0x92, 0x93, 0x16, 0x18
_LITERALS: Final = range(0x30, 0x50)


class RegisterVariable(Struct, frozen=True):
    """A variable that a vector register holds in a range of addresses, from `low` to before `high`.

    Args:
        file: `v` for VGPRs, `a` for AGPRs.
    """

    name: str
    low: int
    high: int
    file: Literal["v", "a"]
    number: int


class VariableReader:
    """Collects the variables of a unit."""

    def __init__(self, budget: DwarfBudget) -> None:
        self.names: dict[int, str | int] = {}
        """Offset of an entry -> the variable's name, or the offset of the entry that has it."""
        self._budget = budget
        self._places: list[tuple[int, int, int, Literal["v", "a"], int]] = []

    def add(self, entry: int, unit: DwarfUnit, location: DwarfValue) -> None:
        """Takes the registers of a variable, by its entry, in each range of its list."""
        for low, high, expression in unit.locations(location, self._budget):
            for file, register in _registers(expression) if low < high else ():
                self._places.append((entry, low, high, file, register))

    def found(self) -> tuple[RegisterVariable, ...]:
        """The variables with a name, in the order in which they were added."""
        return tuple(
            RegisterVariable(name, low, high, file, number)
            for entry, low, high, file, number in self._places
            if (name := self._name(entry))
        )

    def _name(self, entry: int) -> str:
        name: str | int = entry
        for _ in range(_ORIGIN_LIMIT):
            if isinstance(name, str):
                return name
            name = self.names.get(name, "")
        return ""


def _registers(expression: bytes) -> list[tuple[Literal["v", "a"], int]]:
    """The vector registers that hold a variable or its pieces; none where one is computed of them.

    LLVM writes a value in a register as the contents of the register's address in address space 1.
    """
    cursor = DwarfCursor(expression)
    registers = []
    try:
        while cursor.position < cursor.end:
            operation = cursor.uint(1)
            if operation in (_REGX, _BREGX):
                number = cursor.uleb()
                offset = cursor.sleb() if operation == _BREGX else 0
                file = next(((f, n) for f, n in _FILES if n <= number < n + _FILE_SIZE), None)
                if offset or file is None:
                    return []
                registers.append((file[0], number - file[1]))
            elif operation == _PIECE:
                cursor.uleb()
            elif operation not in (_SWAP, _XDEREF) and operation not in _LITERALS:
                return []
    except DwarfError:
        return []
    return registers
