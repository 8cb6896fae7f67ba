"""Addresses of constants, which code makes from the program counter.

LLVM writes `s_getpc_b64 s[0:1]`, `s_add_u32 s0, s0, table@rel32@lo+4`, `s_addc_u32 s1, s1,
table@rel32@hi+12`. The linker puts table + addend - the place of the literal itself, so that the
addend holds the literal's distance from the program counter, and an offset in the table on top.
Source: R_AMDGPU_REL32_LO, _HI and REL64 in LLVM's AMDGPUUsage, "Relocation Records".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..isa.dataflow.operands import Decoded, Operand

_RELATIVE: Final = re.compile(r"([\w.$]+)@(rel32@lo|rel32@hi|rel64)(?:\+(\d{1,9}))?")
_COUNTERS: Final = ("s_getpc_b64", "s_get_pc_i64")
_FARTHEST: Final = 8
"""Instructions between the program counter and an addition to it, at most."""


def resolved(decoded: Sequence[Decoded], symbols: Mapping[str, int]) -> list[Decoded]:
    """The instructions, with numbers for constants' relative addresses.

    `decoded`: a function's instructions. The emulator's program counter is an index of these.
    `symbols`: constant -> address. Operands that name another symbol stay as they are.
    """
    return [
        replace(
            parts,
            operands=tuple(
                _resolved(decoded, site, operand, symbols) if "@rel" in operand.text else operand
                for operand in parts.operands
            ),
        )
        if "@rel" in parts.text
        else parts
        for site, parts in enumerate(decoded)
    ]


def _resolved(
    decoded: Sequence[Decoded], site: int, operand: Operand, symbols: Mapping[str, int]
) -> Operand:
    """Returns an operand with the constant's distance for its relocation."""
    match = _RELATIVE.fullmatch(operand.text)
    if match is None or match[1] not in symbols:
        return operand
    for counter in range(site - 1, max(site - _FARTHEST, 0) - 1, -1):
        if decoded[counter].name in _COUNTERS:
            break
    else:
        return operand
    # Between are additions with such a literal (8 bytes, 12 for 64 bits) and waits (4).
    distance = 4 + sum(8 if "@rel" in decoded[n].text else 4 for n in range(counter + 1, site))
    program_counter = counter + 1
    value = symbols[match[1]] + int(match[3] or 0) - distance - program_counter
    if match[2] == "rel64":
        bits = value & (1 << 64) - 1
    else:
        bits = (value >> (32 if match[2] == "rel32@hi" else 0)) & 0xFFFF_FFFF
    return Operand("constant", operand.text, integer=bits)
