"""Variables of the source in vector registers, by the location lists of debug information.

Source: DWARF Debugging Information Format, version 5, sections 2.6 and 7.7.3; LLVM's AMDGPUUsage,
"Register Identifier", for the numbers of registers. Bounded in the same way as `dwarf.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from .dwarf import (
    ADDRESS_MASK,
    ADDRESS_SIZE,
    DebugSections,
    DwarfBudget,
    DwarfCursor,
    DwarfError,
    indexed_address,
)

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
        name: the variable's.
        low, high: the addresses.
        file: `v` for VGPRs, `a` for AGPRs.
        number: of the register.
    """

    name: str
    low: int
    high: int
    file: Literal["v", "a"]
    number: int


class LocationLists(Struct, frozen=True):
    """What a unit's location lists are read by; the fields are those of the unit."""

    sections: DebugSections
    version: int
    offset_size: int
    low_pc: int
    addr_base: int
    loclists_base: int

    def ranges(
        self, number: int, budget: DwarfBudget, *, indexed: bool
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yields low address, high address and expression of each entry of a list.

        `number`: its offset, or its index; `indexed`: whether it is an index.
        """
        if self.version < 5:
            yield from self._pairs(number, budget)
            return
        section, offset = self.sections.loclists, number
        if indexed:
            at = self.loclists_base + self.offset_size * number
            offset = self.loclists_base + DwarfCursor(section, at).uint(self.offset_size)
        yield from self._entries(DwarfCursor(section, offset), budget)

    def _entries(
        self, cursor: DwarfCursor, budget: DwarfBudget
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yields the entries of a list in `.debug_loclists` (DWARF 5, 7.7.3)."""
        base = self.low_pc

        def indexed() -> int:
            return indexed_address(self.sections, self.addr_base, cursor.uleb())

        while kind := cursor.uint(1):
            budget.take()
            if kind == 1:
                base = indexed()
                continue
            if kind == 6:
                base = cursor.uint(ADDRESS_SIZE)
                continue
            if kind == 2:
                low, high = indexed(), indexed()
            elif kind == 3:
                low = indexed()
                high = low + cursor.uleb()
            elif kind == 4:
                low, high = base + cursor.uleb(), base + cursor.uleb()
            elif kind == 5:  # everywhere else: no register's range
                low = high = 0
            elif kind == 7:
                low, high = cursor.uint(ADDRESS_SIZE), cursor.uint(ADDRESS_SIZE)
            elif kind == 8:
                low = cursor.uint(ADDRESS_SIZE)
                high = low + cursor.uleb()
            else:
                raise DwarfError(f"a location of unknown kind {kind}")
            yield low, high, cursor.take(cursor.uleb())

    def _pairs(self, offset: int, budget: DwarfBudget) -> Iterator[tuple[int, int, bytes]]:
        """Yields the entries of a list in `.debug_loc` (DWARF 4, 2.6.2)."""
        cursor, base = DwarfCursor(self.sections.loc, offset), self.low_pc
        while True:
            budget.take()
            low, high = cursor.uint(ADDRESS_SIZE), cursor.uint(ADDRESS_SIZE)
            if not low and not high:
                return
            if low == ADDRESS_MASK:
                base = high
            else:
                yield base + low, base + high, cursor.take(cursor.uint(2))


class VariableReader:
    """Collects the variables of a unit."""

    def __init__(self, budget: DwarfBudget) -> None:
        self.names: dict[int, str | int] = {}
        """Offset of an entry -> the variable's name, or the offset of the entry that has it."""
        self._budget = budget
        self._places: list[tuple[int, int, int, Literal["v", "a"], int]] = []

    def add(self, entry: int, lists: LocationLists, number: int, *, indexed: bool) -> None:
        """Takes the registers of a variable, in each of its ranges.

        Args:
            entry: the variable's.
            lists: of the unit.
            number: offset or index of the variable's list.
            indexed: whether it is an index.
        """
        for low, high, expression in lists.ranges(number, self._budget, indexed=indexed):
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
