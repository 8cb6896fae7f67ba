"""Scalar operations on bits, fields and halves: one value per wave.

Source: CDNA3 ISA, 12.1 to 12.5; RDNA3 ISA, 16.1 to 16.5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...isa.dataflow.operands import Decoded
from ..registry import BuildContext, Step, builds_as
from ..vector_operands import DTYPES
from ..waves import I32, U32, Array, Waves
from .scalar_operands import define_scalar, low5, low6, scalar_destination, scalar_source

U64 = np.uint64
I64 = np.int64


def _field(value: Array, packed: Array) -> Array:
    """S_BFE: offset in bits 4:0, width in 22:16."""
    offset, width = packed & U32(31), packed >> U32(16) & U32(127)
    moved = value >> offset
    return np.where(width >= 32, moved, moved & ((U32(1) << (width & U32(31))) - U32(1)))


def _signed_field(value: Array, packed: Array) -> Array:
    """S_BFE_I32: offset in bits 4:0, width in 22:16; the field is sign-extended."""
    offset, width = packed & U32(31), packed >> U32(16) & U32(127)
    length = np.minimum(width, U32(32) - offset)
    up = (U32(32) - offset - length) & U32(31)
    down = ((U32(32) - length) & U32(31)).astype(I32)
    moved = np.asarray(value << up).view(I32) >> down
    return np.where(length == 0, I32(0), moved).view(U32)


def _field64(value: Array, packed: Array) -> Array:
    """S_BFE_U64: offset in bits 5:0, width in 22:16."""
    offset, width = packed & U32(63), packed >> U32(16) & U32(127)
    moved = value >> offset.astype(U64)
    ones = (U64(1) << (width & U32(63)).astype(U64)) - U64(1)
    return np.where(width >= 64, moved, moved & ones)


def _signed_field64(value: Array, packed: Array) -> Array:
    """S_BFE_I64: offset in bits 5:0, width in 22:16; the field is sign-extended."""
    offset, width = packed & U32(63), packed >> U32(16) & U32(127)
    length = np.minimum(width, U32(64) - offset)
    up = ((U32(64) - offset - length) & U32(63)).astype(U64)
    down = ((U32(64) - length) & U32(63)).astype(I64)
    moved = np.asarray(value << up).view(I64) >> down
    return np.where(length == 0, I64(0), moved).view(U64)


def _same_as_sign(value: Array, bits: int) -> Array:
    """Bits from the top on that equal the sign bit; -1 where all do (S_CLS_I32)."""
    folded = np.where(value < 0, ~value, value).astype(f"u{bits // 8}")
    return _leading(folded, bits)


def _quads(value: Array, bits: int) -> Array:
    """Bit 4 * i is set where any bit of quad i is."""
    kind = U32 if bits == 32 else U64
    pairs = value | (value >> kind(1))
    return (pairs | (pairs >> kind(2))) & kind(0x1111111111111111 & (2**bits - 1))


def _quad_mask(value: Array, bits: int) -> Array:
    """Bit i is set where any bit of quad i is."""
    kind = U32 if bits == 32 else U64
    result = _quads(value, bits)
    for step, mask in ((3, 0x0303030303030303), (6, 0x000F000F000F000F), (12, 0x000000FF000000FF),
                       (24, 0xFFFF)):  # fmt: skip
        if step < bits:
            result = (result | (result >> kind(step))) & kind(mask & (2**bits - 1))
    return result


def _doubled_bits(value: Array) -> Array:
    """Every bit twice: 32 bits become 64."""
    result = np.asarray(value).astype(U64)
    for step, mask in ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),
                       (2, 0x3333333333333333), (1, 0x5555555555555555)):  # fmt: skip
        result = (result | (result << U64(step))) & U64(mask)
    return result | (result << U64(1))


def _whole_quads(value: Array, bits: int) -> Array:
    """All four bits of a quad are set where any of them is."""
    return _quads(value, bits) * (U32 if bits == 32 else U64)(15)


def _count_ones(value: Array) -> Array:
    return np.bitwise_count(value).astype(U32)


def _lowest_set(value: Array) -> Array:
    """Index of the lowest set bit; -1 where there is none."""
    wide = np.atleast_1d(value).astype(U64)
    low = wide & (~wide + U64(1))
    index = np.where(low > 0, np.log2(np.maximum(low, U64(1)).astype(np.float64)), -1)
    return index.astype(I32)


def _leading(value: Array, bits: int) -> Array:
    """Number of zeros above the highest set bit; -1 for 0."""
    high_part = np.atleast_1d(value).astype(U64)
    highest = np.zeros(high_part.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = high_part >> U64(step)
        highest += np.where(high > 0, step, 0)
        high_part = np.where(high > 0, high, high_part)
    return np.where(np.atleast_1d(value) == 0, -1, bits - 1 - highest).astype(I32)


def _reversed_bits(value: Array, bits: int) -> Array:
    kind = U32 if bits == 32 else U64
    result = np.atleast_1d(value).copy()
    for step, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        part = kind(mask & (2**bits - 1))
        result = ((result >> kind(step)) & part) | ((result & part) << kind(step))
    return np.ascontiguousarray(result).byteswap()


_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "andn2 and_not1": lambda a, b: a & ~b,
    "orn2 or_not1": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _bits in (32, 64):
    _kind = f"u{_bits}"
    for _names, _compute in _LOGIC.items():
        _mnemonics = " ".join(f"s_{name}_b{_bits}" for name in _names.split())
        define_scalar(_mnemonics, _kind, f"{_kind} {_kind}", _compute, "nonzero")
    # Of bits to as many bits.
    define_scalar(f"s_not_b{_bits}", _kind, _kind, np.invert, "nonzero")
    define_scalar(f"s_brev_b{_bits}", _kind, _kind, partial(_reversed_bits, bits=_bits))
    define_scalar(f"s_quadmask_b{_bits}", _kind, _kind, partial(_quad_mask, bits=_bits), "nonzero")
    define_scalar(f"s_wqm_b{_bits}", _kind, _kind, partial(_whole_quads, bits=_bits), "nonzero")
    # Of bits to their number, or to the index of one.
    define_scalar(f"s_bcnt0_i32_b{_bits}", "u32", _kind, lambda a: _count_ones(~a), "nonzero")
    define_scalar(f"s_bcnt1_i32_b{_bits}", "u32", _kind, _count_ones, "nonzero")
    define_scalar(f"s_ff0_i32_b{_bits}", "i32", _kind, lambda a: _lowest_set(~a))
    define_scalar(f"s_ff1_i32_b{_bits} s_ctz_i32_b{_bits}", "i32", _kind, _lowest_set)
    _leading_zeros = f"s_flbit_i32_b{_bits} s_clz_i32_u{_bits}"
    define_scalar(_leading_zeros, "i32", _kind, partial(_leading, bits=_bits))
define_scalar("s_flbit_i32 s_cls_i32", "i32", "i32", partial(_same_as_sign, bits=32))
define_scalar("s_flbit_i32_i64 s_cls_i32_i64", "i32", "i64", partial(_same_as_sign, bits=64))
define_scalar("s_bitreplicate_b64_b32", "u64", "u32", _doubled_bits)
# Fields.
define_scalar("s_bfe_u32", "u32", "u32 u32", _field, "nonzero")
define_scalar("s_bfe_i32", "u32", "u32 u32", _signed_field, "nonzero")
define_scalar("s_bfe_u64", "u64", "u64 u32", _field64, "nonzero")
define_scalar("s_bfe_i64", "u64", "u64 u32", _signed_field64, "nonzero")
define_scalar("s_bfm_b32", "u32", "u32 u32", lambda a, b: ((U32(1) << low5(a)) - U32(1)) << low5(b))
# Halves and bytes.
define_scalar("s_sext_i32_i8", "i32", "u32", lambda a: a.astype(np.uint8).view(np.int8).astype(I32))
define_scalar(
    "s_sext_i32_i16", "i32", "u32", lambda a: a.astype(np.uint16).view(np.int16).astype(I32)
)
define_scalar(
    "s_pack_ll_b32_b16", "u32", "u32 u32", lambda a, b: (a & U32(0xFFFF)) | (b << U32(16))
)
define_scalar(
    "s_pack_lh_b32_b16", "u32", "u32 u32", lambda a, b: (a & U32(0xFFFF)) | (b & U32(0xFFFF0000))
)
define_scalar(
    "s_pack_hh_b32_b16", "u32", "u32 u32", lambda a, b: (a >> U32(16)) | (b & U32(0xFFFF0000))
)
define_scalar("s_pack_hl_b32_b16", "u32", "u32 u32", lambda a, b: (a >> U32(16)) | (b << U32(16)))


def _bit_test(decoded: Decoded, context: BuildContext, expected: int, kind: str) -> Step:
    """S_BITCMP: SCC becomes whether a bit of S0 is `expected`; S1 is its number."""
    value = scalar_source(decoded.operands[0], kind)
    bit_number = scalar_source(decoded.operands[1], "u32")
    shift = low5 if kind == "u32" else low6

    def step(waves: Waves) -> None:
        word = np.asarray(value(waves))
        bit = (word >> shift(bit_number(waves))) & word.dtype.type(1)
        waves.scc = np.broadcast_to(bit == expected, waves.scc.shape).copy()

    return step


for _expected in (0, 1):
    builds_as(f"s_bitcmp{_expected}_b32", _bit_test, _expected, "u32")
    builds_as(f"s_bitcmp{_expected}_b64", _bit_test, _expected, "u64")


def _set_bit(decoded: Decoded, context: BuildContext, value: int, kind: str) -> Step:
    """S_BITSET: sets or clears the bit of the destination whose number S0 is."""
    bit_number = scalar_source(decoded.operands[1], "u32")
    before = scalar_source(decoded.operands[0], kind)
    write = scalar_destination(decoded.operands[0], kind)
    shift = low5 if kind == "u32" else low6
    unit = DTYPES[kind](1)

    def step(waves: Waves) -> None:
        bit = unit << shift(bit_number(waves))
        write(waves, before(waves) | bit if value else before(waves) & ~bit)

    return step


for _value in (0, 1):
    builds_as(f"s_bitset{_value}_b32", _set_bit, _value, "u32")
    builds_as(f"s_bitset{_value}_b64", _set_bit, _value, "u64")
