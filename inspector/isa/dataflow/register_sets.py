"""Sets of registers as the bits of one integer: vector rows, then scalar rows, then high halves.

Sets that tell halves apart hold the low halves of vector registers where other sets hold whole
registers.
"""

from __future__ import annotations

import functools
from typing import Final

from .operands import M0, VCC

SCALAR_BIT: Final = 1024
"""Bit of scalar row 0 in a set of registers; vector rows come before."""
VECTOR_REGISTERS: Final = (1 << SCALAR_BIT) - 1
"""The set of all vector registers."""
HIGH_HALVES: Final = 2048
"""Bit of the high half of vector row 0 in a set of halves; scalar rows come before."""


def vector_bits(first: int, count: int) -> int:
    """The set of `count` vector registers from row `first` on."""
    return ((1 << count) - 1) << first


def half_bits(first: int, count: int, half: int | None = None) -> int:
    """The halves of `count` vector registers from row `first` on.

    A 16-bit load into one half leaves the other at once usable, where the GPU keeps that one (LLVM,
    SIInsertWaitcnts.cpp: registers are tracked by halves unless D16 loads write 32 bits).

    Args:
        first: row of the first register.
        count: how many.
        half: 0 or 1 for the low or the high half alone.
    """
    rows = vector_bits(first, count)
    return (0 if half == 1 else rows) | (0 if half == 0 else rows << HIGH_HALVES)


def scalar_bits(first: int, count: int) -> int:
    """The set of `count` scalar registers from row `first` on."""
    return ((1 << count) - 1) << (first + SCALAR_BIT)


@functools.lru_cache(maxsize=1 << 13)
def rows_of(registers: int) -> tuple[int, ...]:
    """The rows in a bit set of registers, ascending; code comes back to the same few sets."""
    rows = []
    while registers:
        rows.append((registers & -registers).bit_length() - 1)
        registers &= registers - 1
    return tuple(rows)


def name_of(row: int, accum_offset: int) -> str:
    """`v12`, `a3`, `s40`, `vcc_lo`, `m0`."""
    if row < SCALAR_BIT:
        return f"a{row - accum_offset}" if row >= accum_offset else f"v{row}"
    scalar = row - SCALAR_BIT
    return {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0"}.get(scalar, f"s{scalar}")
