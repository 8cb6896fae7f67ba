"""Bytes of each instruction: from addresses where the code has them, else from its mnemonic.

Without addresses (assembly text) the size follows from the encoding's length in the ISA documents
of CDNA and RDNA, "microcode formats": memory, matrix and three-operand vector instructions take 64
bits, others 32 and 32 more for a literal, which LLVM prints in hex.
"""

from __future__ import annotations

from itertools import pairwise

from ..model import Function, Instruction
from .subject import MATRIX_CLASSES, MEMORY_CLASSES

_LONG_CLASSES = frozenset(
    (*MEMORY_CLASSES, *MATRIX_CLASSES, "acc_move", "cross_lane", "smem_load", "lds_atomic", "image")
)
_SHORT, _LONG = 4, 8  # bytes
_SHORT_VECTOR = "_e32"


def has_addresses(function: Function) -> bool:
    """Whether every instruction has an address, as in disassembled code."""
    return bool(function.instructions) and all(
        inst.address is not None for inst in function.instructions
    )


def instruction_bytes(function: Function) -> list[int]:
    """Bytes of each instruction: exact where it and the next one have addresses."""
    sizes = [_encoded_bytes(inst) for inst in function.instructions]
    if has_addresses(function):
        addresses = [inst.address or 0 for inst in function.instructions]
        sizes[:-1] = [following - address for address, following in pairwise(addresses)]
    return sizes


def _encoded_bytes(inst: Instruction) -> int:
    if inst.cls in _LONG_CLASSES:
        return _LONG
    is_vector = inst.mnemonic.startswith("v_")
    if is_vector and not inst.mnemonic.endswith(_SHORT_VECTOR):
        return _LONG
    has_literal = "0x" in inst.operands and (is_vector or inst.cls == "salu")
    # SOPK (s_movk_i32, s_addk_i32) holds 16 bits of constant in its 32.
    return _LONG if has_literal and "k_" not in inst.mnemonic else _SHORT
