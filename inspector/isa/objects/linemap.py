"""Maps the addresses of a code object to places in the source, inlined calls included.

Source lines of a code object: the DWARF line table (versions 2 to 5).

Source: DWARF Debugging Information Format, version 5, section 6.2, and version 4 for the older form
of the header.
"""

from __future__ import annotations

import bisect
import posixpath
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from ...base.errors import KinspectError
from ...model import SourceLoc
from .dwarf import (
    ADDRESS_MASK,
    DebugSections,
    DwarfBudget,
    DwarfCursor,
    DwarfError,
    read_value,
    text_of,
)
from .elf import ET_REL, Elf
from .inlining import CompilationUnit, InlinedCall, RegisterVariable, innermost, read_units

_SECTION_NAMES = (
    *("line", "info", "abbrev", "str", "line_str", "ranges", "rnglists", "addr"),
    *("loclists", "loc", "str_offsets"),
)


@dataclass(frozen=True, slots=True)
class _UnitCalls:
    """The inlined calls of one unit, and where each becomes the innermost one."""

    starts: tuple[int, ...]
    owners: tuple[int | None, ...]
    sites: tuple[SourceLoc | None, ...]


@dataclass(frozen=True, slots=True)
class LineMap:
    """Source locations by address, and variables in vector registers.

    `problem` says why some or all are missing.
    """

    problem: str | None = None
    variables: tuple[RegisterVariable, ...] = ()
    _addresses: tuple[int, ...] = ()
    _rows: tuple[tuple[LineRow, int], ...] = field(default=(), repr=False)
    _units: tuple[_UnitCalls, ...] = field(default=(), repr=False)

    def location_at(self, address: int) -> SourceLoc | None:
        """The source location of the instruction at an address; None where none is stated."""
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0:
            return None
        row, unit = self._rows[index]
        # Line 0 is the compiler's "no particular line".
        if not row.file or row.line <= 0:
            return None
        return SourceLoc(row.file, row.line, row.column or None, self._site(unit, address))

    def _site(self, unit: int, address: int) -> SourceLoc | None:
        calls = self._units[unit]
        index = bisect.bisect_right(calls.starts, address) - 1
        owner = calls.owners[index] if index >= 0 else None
        return calls.sites[owner] if owner is not None else None

    def __bool__(self) -> bool:
        return bool(self._rows)


def read_line_map(elf: Elf) -> LineMap:
    """Read the debug information of a linked code object; never fails.

    Returns:
        An empty map with `problem` set where the information is damaged or not linked yet, and
        an empty map without one where the file has none.
    """
    try:
        sections = _sections(elf)
        if not sections.line:
            return LineMap()
        if elf.type == ET_REL:
            return LineMap("source lines are left out: the object is not linked yet")
        return _line_map(sections)
    except (DwarfError, KinspectError) as error:
        return LineMap(f"source lines are left out: damaged debug information ({error})")


def _sections(elf: Elf) -> DebugSections:
    sections = {n: elf.section(f".debug_{n}") for n in _SECTION_NAMES}
    return DebugSections(**{n: elf.bytes_of(s) for n, s in sections.items() if s is not None})


def _line_map(sections: DebugSections) -> LineMap:
    """Builds the map of all units."""
    read = (sections.line, sections.info, sections.abbrev, sections.loclists, sections.loc)
    budget = DwarfBudget(sum(map(len, read)))
    units = [u for u in read_units(sections, budget) if u.line_offset is not None]
    if not units:
        units = list(_units_of_lines(sections))
    rows: list[tuple[LineRow, int]] = []
    calls: list[_UnitCalls] = []
    offsets_read: set[int] = set()
    for unit in units:
        offset = unit.line_offset or 0
        if offset in offsets_read:
            continue  # partial units share the table of the full one
        offsets_read.add(offset)
        program = read_line_program(sections, offset, unit.compile_dir, budget)
        rows.extend((row, len(calls)) for row in _with_extent(program.rows))
        calls.append(_unit_calls(unit, program))
    # At one address, the end of one sequence comes before the start of the next, and the last row
    # of several wins; sorting is stable.
    rows.sort(key=lambda entry: (entry[0].address, entry[0].file is not None))
    return LineMap(
        variables=tuple(variable for unit in units for variable in unit.variables),
        _addresses=tuple(row.address for row, _ in rows),
        _rows=tuple(rows),
        _units=tuple(calls),
    )


def _with_extent(rows: tuple[LineRow, ...]) -> Iterator[LineRow]:
    """The rows that cover code, without those at the very end of their sequence."""
    sequence_end: int | None = None
    covering = []
    for row in reversed(rows):
        if row.file is None:
            sequence_end = row.address
        elif sequence_end is None or row.address >= sequence_end:
            continue
        covering.append(row)
    return reversed(covering)


def _units_of_lines(sections: DebugSections) -> list[CompilationUnit]:
    """Line tables alone, for files without `.debug_info`."""
    cursor, units = DwarfCursor(sections.line), []
    while cursor.position < cursor.end:
        units.append(CompilationUnit(cursor.position, "", ()))
        cursor.unit()
    return units


def _unit_calls(unit: CompilationUnit, program: LineProgram) -> _UnitCalls:
    starts, owners = innermost(unit.calls)
    sites: list[SourceLoc | None] = []
    for call in unit.calls:
        outer = sites[call.parent] if call.parent is not None else None
        sites.append(_site(call, program, outer))
    return _UnitCalls(starts, owners, tuple(sites))


def _site(call: InlinedCall, program: LineProgram, outer: SourceLoc | None) -> SourceLoc | None:
    file = program.files.get(call.file)
    if not file or call.line <= 0:
        return outer
    return SourceLoc(file, call.line, call.column or None, outer)


# Standard and extended opcodes of line programs (DWARF 5, 7.22).
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_CONTENT_PATH, _CONTENT_DIRECTORY = 1, 2
_CHARACTERS_PER_STEP = 8
"""Characters of a joined path that count as one step of the budget."""


class LineRow(Struct, frozen=True):
    """A row of a line table: from `address` on, code stems from this place; `file` None ends a
    sequence.
    """

    address: int
    file: str | None
    line: int
    column: int


class LineProgram(Struct, frozen=True):
    """The line table of one unit: its files by number, and its rows in the order of the table."""

    files: Mapping[int, str]
    rows: tuple[LineRow, ...]


class _Header(Struct, frozen=True):
    """The header of a line table, up to the program; `operands` are counts by opcode."""

    cursor: DwarfCursor  # over the program
    min_instruction: int
    line_base: int
    line_range: int
    opcode_base: int
    operands: bytes
    files: Mapping[int, str]


def read_line_program(
    sections: DebugSections, offset: int, compile_dir: str, budget: DwarfBudget
) -> LineProgram:
    """Run the line program at `offset` of `.debug_line`.

    `offset`: from DW_AT_stmt_list of the unit; `compile_dir`: DW_AT_comp_dir, which relative paths
    start from.

    Raises:
        DwarfError: the table is damaged.
    """
    unit, offset_size = DwarfCursor(sections.line, offset).unit()
    header = _header(unit, offset_size, sections, compile_dir, budget)
    return LineProgram(header.files, tuple(_rows(header, budget)))


def _header(
    cursor: DwarfCursor,
    offset_size: int,
    sections: DebugSections,
    compile_dir: str,
    budget: DwarfBudget,
) -> _Header:
    """Reads the header of a line table, of any version."""
    version = cursor.uint(2)
    if not 2 <= version <= 5:
        raise DwarfError(f"a line table of DWARF version {version}")
    if version >= 5:
        cursor.skip(2)  # sizes of addresses and segment selectors
    length = cursor.uint(offset_size)
    program = DwarfCursor(cursor.data, cursor.position + length, cursor.end)
    min_instruction = cursor.uint(1)
    if version >= 4:
        cursor.skip(1)  # operations per instruction, of VLIW machines
    cursor.skip(1)  # default_is_stmt
    line_base, line_range, opcode_base = cursor.sint(1), cursor.uint(1), cursor.uint(1)
    if not line_range or not opcode_base:
        raise DwarfError("a line table without opcodes")
    operands = cursor.take(opcode_base - 1)
    names = DwarfCursor(cursor.data, cursor.position, program.position)
    if version >= 5:
        files = _files_v5(names, offset_size, sections, compile_dir, budget)
    else:
        files = _files_v4(names, compile_dir, budget)
    return _Header(program, min_instruction, line_base, line_range, opcode_base, operands, files)


def _files_v4(cursor: DwarfCursor, compile_dir: str, budget: DwarfBudget) -> Mapping[int, str]:
    directories = [compile_dir]
    while directory := cursor.string():
        directories.append(_join([compile_dir], 0, directory, budget))
    files: dict[int, str] = {}
    while name := cursor.string():
        directory_index = cursor.uleb()
        cursor.uleb()  # time of last change
        cursor.uleb()  # length
        files[len(files) + 1] = _join(directories, directory_index, name, budget)
    return files


def _files_v5(
    cursor: DwarfCursor,
    offset_size: int,
    sections: DebugSections,
    compile_dir: str,
    budget: DwarfBudget,
) -> Mapping[int, str]:
    """The files of a line table of version 5, by number."""

    def entries() -> Iterator[tuple[str, int]]:
        """Yields path and directory number of each entry of the next table."""
        formats = [(cursor.uleb(), cursor.uleb()) for _ in range(cursor.uint(1))]
        count = cursor.uleb()
        # Entries without fields take no bytes: nothing would bound their count.
        if count and not formats:
            raise DwarfError("file names without fields")
        for _ in range(count):
            path, directory = "", 0
            for content, form in formats:
                value = read_value(cursor, form, offset_size)
                if content == _CONTENT_PATH:
                    text = text_of(value, cursor.data, sections)
                    if text is None:
                        raise DwarfError(f"a file name of unknown form 0x{form:x}")
                    path = text
                elif content == _CONTENT_DIRECTORY:
                    directory = value.number
            yield path, directory

    # Directory 0 is the compilation directory; others are relative to it.
    directories: list[str] = []
    for path, _ in entries():
        directories.append(_join(directories or [compile_dir], 0, path, budget))
    return {i: _join(directories, d, path, budget) for i, (path, d) in enumerate(entries())}


def _join(directories: list[str], index: int, name: str, budget: DwarfBudget) -> str:
    joined = posixpath.join(directories[index], name) if index < len(directories) else name
    budget.take(1 + len(joined) // _CHARACTERS_PER_STEP)
    return joined


def _rows(header: _Header, budget: DwarfBudget) -> Iterator[LineRow]:
    """Runs a line program and yields its rows."""
    cursor = header.cursor
    address, file, line, column = 0, 1, 1, 0

    def row() -> LineRow:
        return LineRow(address, header.files.get(file, ""), line, column)

    def advance(operations: int) -> int:
        return (address + operations * header.min_instruction) & ADDRESS_MASK

    while cursor.position < cursor.end:
        budget.take()
        opcode = cursor.uint(1)
        if opcode >= header.opcode_base:
            step = opcode - header.opcode_base
            address = advance(step // header.line_range)
            line += header.line_base + step % header.line_range
            yield row()
        elif opcode == 0:
            length = cursor.uleb()
            body = DwarfCursor(cursor.data, cursor.position, cursor.end)
            cursor.skip(length)
            extended = body.uint(1) if length else 0
            if extended == _END_SEQUENCE:
                yield LineRow(address, None, 0, 0)
                address, file, line, column = 0, 1, 1, 0
            elif extended == _SET_ADDRESS:
                address = body.uint(min(length - 1, struct.calcsize("<Q")))
        elif opcode == _COPY:
            yield row()
        elif opcode == _ADVANCE_PC:
            address = advance(cursor.uleb())
        elif opcode == _ADVANCE_LINE:
            line += cursor.sleb()
        elif opcode == _SET_FILE:
            file = cursor.uleb()
        elif opcode == _SET_COLUMN:
            column = cursor.uleb()
        elif opcode == _CONST_ADD_PC:
            address = advance((255 - header.opcode_base) // header.line_range)
        elif opcode == _FIXED_ADVANCE_PC:
            address = (address + cursor.uint(2)) & ADDRESS_MASK
        else:
            # Flags that matter to debuggers, and opcodes of later versions.
            for _ in range(header.operands[opcode - 1]):
                cursor.uleb()
