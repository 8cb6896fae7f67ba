"""Maps the addresses of a code object to places in the source, inlined calls included."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...base.errors import KinspectError
from ...model import SourceLoc
from .dwarf import DebugSections, DwarfBudget, DwarfCursor, DwarfError
from .elf import ET_REL, Elf
from .inlining import CompilationUnit, InlinedCall, innermost, read_units
from .line_program import LineProgram, LineRow, read_line_program
from .variables import RegisterVariable

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
