"""Registers that scalar loads fill with words of the kernel's arguments or of its dispatch packet.

The code is gone through once, in its order, whatever way an execution takes: compilers load
arguments in front of what uses them.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from ..isa.waitflow.registers import FIRST_SGPR, named, split_destination
from ..model import Function, Instruction

KERNARG, DISPATCH = "kernarg", "dispatch"

Word = tuple[str, int]
"""Where a word lies: `KERNARG` or `DISPATCH`, and bytes from there."""

_OFFSET: Final = re.compile(r",\s*(-?0x[0-9a-f]{1,8}|-?\d{1,9})(?:\s+[a-z].*)?\s*$")
"""The constant offset of a load, before its cache modifiers, or the last operand of a sum."""
_WORD_BYTES: Final = 4
_POINTER_REGISTERS: Final = 2


class LoadedWords:
    """Follows the pointers to arguments and dispatch packet through a kernel's code.

    Args:
        function: the kernel.
        wanted: the words that are looked for.
    """

    def __init__(self, function: Function, wanted: Set[Word]) -> None:
        self._wanted = wanted
        self._pointers: dict[int, Word] = {}
        """Register of a pointer's low word -> where it points to."""
        start = function.resources.wave_start
        for register, place in (
            (start.kernarg_ptr if start is not None else None, KERNARG),
            (start.dispatch_ptr if start is not None else None, DISPATCH),
        ):
            if register is not None:
                self._pointers[FIRST_SGPR + register] = place, 0

    def after(self, inst: Instruction, written: Set[int]) -> set[int]:
        """The registers that the next instruction fills with wanted words.

        Args:
            inst: the instruction.
            written: the registers that it writes.
        """
        destination, source = split_destination(inst.operands)
        base = next((reg for reg in named(source) if reg in self._pointers), None)
        loaded: set[int] = set()
        moved: dict[int, Word] = {}
        if base is not None:
            place, begin = self._pointers[base]
            offset = _OFFSET.search(inst.operands)
            begin += int(offset[1], 0) if offset else 0
            made = named(destination)
            if inst.cls == "smem_load" and len(named(source)) > _POINTER_REGISTERS:
                pass  # an offset in a register: whatever lies there
            elif inst.cls == "smem_load":
                loaded = {
                    register
                    for number, register in enumerate(made)
                    if (place, begin + _WORD_BYTES * number) in self._wanted
                }
            elif made and (
                inst.op.name in ("s_mov_b64", "s_mov_b32")
                or (offset and inst.op.name in ("s_add_u32", "s_add_nc_u64", "s_add_co_u32"))
            ):
                moved = {made[0]: (place, begin)}
        if not written.isdisjoint(self._pointers):
            self._pointers = {
                register: word
                for register, word in self._pointers.items()
                if register not in written
            }
        self._pointers |= moved
        return loaded
