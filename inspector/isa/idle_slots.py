"""The issue slots that a nop lets pass."""

from __future__ import annotations

from ..model import Instruction

_NOP_BITS = 0xF


def idle_slots(inst: Instruction) -> int:
    """Issue slots that a nop lets pass: N + 1 for `s_nop N` (CDNA3 ISA, S_NOP), 1 for others."""
    if inst.op.name != "s_nop":
        return 1
    try:
        return (int(inst.operands.strip(), 0) & _NOP_BITS) + 1
    except ValueError:
        return 1
