"""Long branches: addresses that code computes from `s_getpc_b64`, and jumps to them.

`s_getpc_b64 s[4:5]; s_add_u32 s4, s4, distance; s_addc_u32 s5, s5, 0; s_setpc_b64 s[4:5]`, as LLVM
writes it, or with the distance added up in a register of its own, as Tensile does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..asm.expr import parse_int
from ..asm.rawcode import ADDRESS, MNEMONIC, OP, OPERANDS, RawFunction
from ..dataflow.operands import operand_texts
from ..mnemonics import flow_of
from ..twos_complement import signed

PAIR = re.compile(r"s\[(\d{1,9}):(\d{1,9})\]")
"""A pair of scalar registers."""
SINGLE = re.compile(r"s(\d{1,9})$|s\[(\d{1,9})\]$")
"""One scalar register."""
_EXPLICIT_LITERAL = re.compile(r"lit(?:64)?\(([^()]*)\)$")
_WINDOW = 16
"""Instructions searched backwards from a long branch for its s_getpc; LLVM emits two to four."""

# Scalar additions that build an address: their sign, and the half of the pair they work on.
_ADDITIONS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "s_add_u32": (1, "low"),
        "s_add_i32": (1, "low"),
        "s_add_co_u32": (1, "low"),
        "s_add_co_i32": (1, "low"),
        "s_sub_u32": (-1, "low"),
        "s_sub_co_u32": (-1, "low"),
        "s_addc_u32": (1, "high"),
        "s_add_co_ci_u32": (1, "high"),
        "s_subb_u32": (-1, "high"),
        "s_sub_co_ci_u32": (-1, "high"),
        "s_add_nc_u64": (1, "both"),
        "s_add_u64": (1, "both"),
        "s_sub_nc_u64": (-1, "both"),
        "s_sub_u64": (-1, "both"),
    }
)


def getpc_row(function: RawFunction, row_index: int) -> int | None:
    """The row of the s_getpc_b64 that a jump's register pair comes from, if it is near."""
    pair = PAIR.search(function.rows[row_index][OPERANDS])
    for i in range(row_index - 1, max(row_index - _WINDOW, -1), -1):
        row = function.rows[i]
        if row[MNEMONIC].startswith(("s_getpc", "s_get_pc")):
            return i if pair is not None and pair[0] in row[OPERANDS] else None
        if not flow_of(row[OP], row[OPERANDS]).falls_through:
            return None
    return None


def register_jump_destination(function: RawFunction, row_index: int) -> int | None:
    """The address that a long branch of a disassembly computes from s_getpc_b64."""
    rows = function.rows
    if PAIR.search(rows[row_index][OPERANDS]) is None:
        distance = _literal(rows[row_index][OPERANDS].strip())
        next_address = _address_after(function, row_index)
        return None if distance is None or next_address is None else next_address + distance
    base = getpc_row(function, row_index)
    if base is None:
        return None
    value = _address_after(function, base)
    pair = PAIR.search(rows[row_index][OPERANDS])
    if value is None or pair is None:
        return None
    constants: dict[int, int] = {}
    for row in rows[base + 1 : row_index]:
        value = add_to_pair(value, int(pair[1]), row[MNEMONIC], row[OPERANDS], constants)
        if value is None:
            return None
        _follow_constant(constants, row[MNEMONIC], row[OPERANDS])
    return value


def _follow_constant(constants: dict[int, int], mnemonic: str, operands: str) -> None:
    """Updates the known values of single scalar registers: Tensile adds up a distance in one."""
    texts = operand_texts(operands)
    single = SINGLE.match(texts[0])
    if single is None:
        pair = PAIR.match(texts[0])
        if pair is not None:
            for register in range(int(pair[1]), int(pair[2]) + 1):
                constants.pop(register, None)
        return
    register = int(single[1] or single[2])
    values = [_constant_value(text, constants) for text in texts[1:]]
    compute = _CONSTANTS.get(mnemonic)
    if compute is None or None in values or len(values) != compute[0]:
        constants.pop(register, None)
    else:
        constants[register] = compute[1](*(v or 0 for v in values)) & 0xFFFFFFFF


def _constant_value(text: str, constants: Mapping[int, int]) -> int | None:
    register = SINGLE.match(text)
    return constants.get(int(register[1] or register[2])) if register else _literal(text)


# Scalar instructions on one register: their number of source operands, and their function.
_CONSTANTS: Mapping[str, tuple[int, Callable[..., int]]] = MappingProxyType(
    {
        "s_mov_b32": (1, operator.pos),
        "s_abs_i32": (1, lambda v: abs(signed(v))),
        **dict.fromkeys(("s_add_i32", "s_add_u32", "s_add_co_i32"), (2, operator.add)),
        **dict.fromkeys(("s_sub_i32", "s_sub_u32", "s_sub_co_i32"), (2, operator.sub)),
    }
)


def add_to_pair(
    value: int,
    low_register: int,
    mnemonic: str,
    operands: str,
    constants: Mapping[int, int] = MappingProxyType({}),
) -> int | None:
    """Applies one instruction to the 64-bit address in a register pair.

    Args:
        value: the address.
        low_register: number of the pair's first register.
        mnemonic: the instruction's mnemonic.
        operands: the instruction's operands.
        constants: scalar registers whose value is known.

    Returns:
        The new value, the old one if the instruction does not touch the pair, None if it does
        something else to it.
    """
    texts = operand_texts(operands)
    match = PAIR.match(texts[0]) or SINGLE.match(texts[0])
    if match is None:
        return value
    first_register = int(next(g for g in match.groups() if g is not None))
    last_register = int(match[2]) if PAIR.match(texts[0]) else first_register
    if last_register < low_register or first_register > low_register + 1:
        return value
    if mnemonic.startswith("s_sext_i32_i16"):
        return value  # gfx12 sign-extends what s_getpc_b64 leaves in the high half
    addition = _ADDITIONS.get(mnemonic)
    literal = _constant_value(texts[2], constants) if len(texts) > 2 else None
    if addition is None or literal is None or texts[1] != texts[0]:
        return None
    sign, half = addition
    if half == "high":
        # The carry is in `value` already: the low half is added as a 64-bit number.
        return (value + (sign * literal << 32)) & ((1 << 64) - 1)
    if half == "low":
        literal &= 0xFFFFFFFF
    return (value + sign * literal) & ((1 << 64) - 1)


def _literal(text: str) -> int | None:
    # LLVM >= 22 writes lit(...) for a literal that an inline constant could express.
    explicit = _EXPLICIT_LITERAL.match(text)
    return parse_int(explicit[1] if explicit is not None else text)


def _address_after(function: RawFunction, row_index: int) -> int | None:
    rows = function.rows
    if row_index + 1 < len(rows):
        return rows[row_index + 1][ADDRESS]
    return None
