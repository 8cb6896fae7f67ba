"""Variables of the source in vector registers, by the location lists of debug information.

Source: DWARF Debugging Information Format, version 5, sections 2.6 and 7.7.3; LLVM's AMDGPUUsage,
"Register Identifier", for the numbers of registers. Bounded in the same way as `dwarf.py`.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from .dwarf import DwarfBudget, DwarfCursor, DwarfError, DwarfUnit, DwarfValue

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
