"""Vector integer arithmetic of 16, 32 and 64 bits (CDNA3 ISA, 12.7 to 12.11)."""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import Decoded, constant_bits
from ..elementwise import define, define_each, elementwise
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import check_count, destination, mask_row, raw, source
from ..waves import I32, U32, Array, Waves

U64 = np.uint64
I64 = np.int64


def low5(value: Array) -> Array:
    """Bits 4:0, the part of a shift's distance that counts for 32 bits."""
    return value & U32(31)


def shift16(value: Array) -> Array:
    """The part of a shift's distance that counts for 16 bits."""
    return value & value.dtype.type(15)


def _low24(value: Array) -> Array:
    return value & value.dtype.type(0xFFFFFF)


def _signed24(value: Array) -> Array:
    up = value.dtype.type(8 * value.dtype.itemsize - 24)
    return (value << up) >> up


def _high(a: Array, b: Array) -> Array:
    return (np.multiply(a, b, dtype=U64) >> U64(32)).astype(U32)


def _high_signed(a: Array, b: Array) -> Array:
    return (np.multiply(a, b, dtype=I64) >> I64(32)).astype(I32)


def middle(a: Array, b: Array, c: Array) -> Array:
    """The middle one of three."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _shift64(value: Array) -> Array:
    return (np.asarray(value) & U32(63)).astype(U64)


define("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "u32", "u32",
        np.asarray)  # fmt: skip
define("v_mov_b16", "u16", "u16", np.asarray)
define("v_mov_b64", "u64", "u64", lambda a: a)
define_each("u32 i32 u16 i16", "v_add_{} v_add_nc_{}", 2, np.add, saturates=True)
define_each("u32 i32 u16 i16", "v_sub_{} v_sub_nc_{}", 2, np.subtract, saturates=True)
define_each("u32", "v_subrev_{} v_subrev_nc_{}", 2, lambda a, b: np.subtract(b, a), saturates=True)
define_each("u16", "v_subrev_{}", 2, lambda a, b: np.subtract(b, a), saturates=True)
define_each("u64", "v_add_nc_{} v_add_{}", 2, np.add)
define_each("u64", "v_sub_nc_{} v_sub_{}", 2, np.subtract)
define_each("u64", "v_mul_{}", 2, np.multiply)
define_each("u16", "v_mul_lo_{}", 2, np.multiply)
define("v_mul_lo_u32 v_mul_lo_i32", "u32", "u32 u32", np.multiply)
define_each("u32", "v_mul_hi_{}", 2, _high)
define_each("i32", "v_mul_hi_{}", 2, _high_signed)
define_each("u32", "v_mul_{}_u24", 2, lambda a, b: _low24(a) * _low24(b))
define_each("i32", "v_mul_{}_i24", 2, lambda a, b: _signed24(a) * _signed24(b))
define_each("u32", "v_mul_hi_{}_u24", 2, lambda a, b: _high(_low24(a), _low24(b)))
define_each("i32", "v_mul_hi_{}_i24", 2, lambda a, b: _high_signed(_signed24(a), _signed24(b)))
define_each("u32", "v_mad_{}_u24", 3, lambda a, b, c: _low24(a) * _low24(b) + c, saturates=True)
define_each(
    "i32", "v_mad_{}_i24", 3, lambda a, b, c: _signed24(a) * _signed24(b) + c, saturates=True
)
define_each("u32", "v_mad_{}", 3, lambda a, b, c: a * b + c)
define_each("u16 i16", "v_mad_{} v_mad_legacy_{}", 3, lambda a, b, c: a * b + c, saturates=True)
define("v_mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(U32) * b.astype(U32) + c)
define("v_mad_i32_i16", "i32", "i16 i16 i32", lambda a, b, c: a.astype(I32) * b.astype(I32) + c)
define("v_mad_nc_u64_u32", "u64", "u32 u32 u64", lambda a, b, c: np.multiply(a, b, dtype=U64) + c)
define("v_mad_nc_i64_i32", "i64", "i32 i32 i64", lambda a, b, c: np.multiply(a, b, dtype=I64) + c)
define_each("u16", "v_lshlrev_b16", 2, lambda a, b: b << shift16(a))
define_each("u16", "v_lshrrev_b16", 2, lambda a, b: b >> shift16(a))
define_each("i16", "v_ashrrev_{}", 2, lambda a, b: b >> shift16(a))
define_each("u32", "v_lshlrev_b32", 2, lambda a, b: np.left_shift(b, low5(a)))
define_each("u32", "v_lshrrev_b32", 2, lambda a, b: np.right_shift(b, low5(a)))
define_each("i32", "v_ashrrev_{}", 2, lambda a, b: np.right_shift(b, a & I32(31)))
define("v_lshlrev_b64", "u64", "u32 u64", lambda a, b: b << _shift64(a))
define("v_lshrrev_b64", "u64", "u32 u64", lambda a, b: b >> _shift64(a))
define("v_ashrrev_i64", "i64", "u32 i64", lambda a, b: b >> _shift64(a).astype(I64))
define_each("u32 i32 u16 i16 u64 i64", "v_min_{}", 2, np.minimum)
define_each("u32 i32 u16 i16 u64 i64", "v_max_{}", 2, np.maximum)
define_each("u32 i32 u16 i16", "v_min3_{}", 3, lambda a, b, c: np.minimum(np.minimum(a, b), c))
define_each("u32 i32 u16 i16", "v_max3_{}", 3, lambda a, b, c: np.maximum(np.maximum(a, b), c))
define_each("u32 i32 u16 i16", "v_med3_{}", 3, middle)
define_each("u32 i32", "v_maxmin_{}", 3, lambda a, b, c: np.minimum(np.maximum(a, b), c))
define_each("u32 i32", "v_minmax_{}", 3, lambda a, b, c: np.maximum(np.minimum(a, b), c))
define_each("u32 i32", "v_add_min_{}", 3, lambda a, b, c: np.minimum(a + b, c), saturates=True)
define_each("u32 i32", "v_add_max_{}", 3, lambda a, b, c: np.maximum(a + b, c), saturates=True)
define_each("u32", "v_add3_{}", 3, lambda a, b, c: np.add(np.add(a, b), c))
define_each("u32", "v_lshl_add_{}", 3, lambda a, b, c: np.add(a << low5(b), c))
define_each("u32", "v_lshl_or_b32", 3, lambda a, b, c: (a << low5(b)) | c)
define_each("u32", "v_add_lshl_{}", 3, lambda a, b, c: np.add(a, b) << low5(c))
define_each("u32", "v_xad_{}", 3, lambda a, b, c: np.add(a ^ b, c))


def _shifted_sum(value: Array, by: Array, addend: Array) -> Array:
    """V_LSHL_ADD_U64; shifts of more than 4 are undefined (CDNA3 ISA, 12.11)."""
    shift = (np.asarray(by) & U32(7)).astype(U64)
    return np.asarray((value << shift) + addend)


_shift_add_any = elementwise("u64", "u64 u32 u64", _shifted_sum)


@builds("v_lshl_add_u64")
def shift_add(decoded: Decoded, context: BuildContext) -> Step:
    """Shifts by halves where the shift is constant, as in addresses: half the time of 64 bits."""
    result, value, by, addend = decoded.operands
    vectors = [operand for operand in (value, addend) if operand.kind == "vgpr"]
    for operand in (result, value, addend):
        check_count(operand, 2)
    if by.kind != "constant" or decoded.encoding not in ("", "e64") or not vectors:
        return _shift_add_any(decoded, context)
    shift, row = constant_bits(by, "u32") & 7, result.first
    low_of, high_of = raw(value), raw(value, 1)
    low_addend_of, high_addend_of = raw(addend), raw(addend, 1)

    def step(waves: Waves) -> None:
        low, high = low_of(waves), high_of(waves)
        if shift:
            high = (high << U32(shift)) | (low >> U32(32 - shift))
            low = low << U32(shift)
        low_sum = low + low_addend_of(waves)
        # Before anything is written: the result's registers may be a source's.
        high_sum = high + high_addend_of(waves) + (low_sum < low)
        waves.write(row, low_sum)
        waves.write(row + 1, high_sum)

    return step


def _wide_multiply_add(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """V_MAD_U64_U32: D.64 = S0 * S1 + S2.64; bit 64 of the sum goes to a mask."""
    target, carry, first, second, third = decoded.operands
    carry_row = mask_row(carry, context.target)
    if decoded.flag("clamp"):
        raise NotCoveredError(f"{decoded.text}: clamp")
    narrow, wide = ("u32", "u64") if kind == "u" else ("i32", "i64")
    a, b = source(first, narrow), source(second, narrow)
    c = source(third, wide)
    write = destination(target, wide, context.target)
    dtype = U64 if kind == "u" else I64

    def step(waves: Waves) -> None:
        product, addend = np.multiply(a(waves), b(waves), dtype=dtype), c(waves)
        total = product + addend
        if not carry.is_null:
            if kind == "u":
                beyond = total < product
            else:  # the sign that the exact sum has
                overflow = ((product ^ total) & (addend ^ total)) < 0
                beyond = (total < 0) ^ overflow
            beyond = np.broadcast_to(beyond, (waves.count, waves.lanes))
            waves.set_mask(carry_row, beyond & waves.active)
        write(waves, total)

    return step


builds_as("v_mad_u64_u32 v_mad_co_u64_u32", _wide_multiply_add, "u")
builds_as("v_mad_i64_i32 v_mad_co_i64_i32", _wide_multiply_add, "i")
