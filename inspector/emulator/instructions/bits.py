"""Vector operations on single bits and fields of bits (CDNA3 ISA, 12.7 to 12.11)."""

from __future__ import annotations

import numpy as np

from ..elementwise import ResultStep, assemble, define
from ..operands import Decoded, Operand
from ..registry import BuildContext, Builder, Step, builds
from ..vector_operands import destination, source
from ..waves import I32, U32, Array, Waves
from .integer import low5

U64 = np.uint64
I64 = np.int64


def bit_field(value: Array, start: Array, length: Array) -> Array:
    """V_BFE_U32: `length` (5 bits) bits from `start` on."""
    return (value >> low5(start)) & ((U32(1) << low5(length)) - U32(1))


def signed_bit_field(value: Array, start: Array, length: Array) -> Array:
    """V_BFE_I32: a bit field, sign-extended; 0 for length 0."""
    up = (U32(32) - low5(length)) & U32(31)
    moved = value.view(I32) >> low5(start).astype(I32)
    return np.where(low5(length) == 0, I32(0), (moved << up.astype(I32)) >> up.astype(I32))


def leading_zeros(value: Array) -> Array:
    """V_FFBH_U32: zeros above the highest set bit; -1 for 0."""
    exact = np.frexp(np.asarray(value).astype(np.float64))[1]
    return np.where(value == 0, I32(-1), (32 - exact).astype(I32))


def _leading_sign_bits(value: Array) -> Array:
    folded = np.where(value < 0, ~value, value).view(U32)
    return leading_zeros(folded)


def _trailing_zeros(value: Array) -> Array:
    low = value & (~value + U32(1))
    exact = np.frexp(np.asarray(low).astype(np.float64))[1]
    return np.where(value == 0, I32(-1), (exact - 1).astype(I32))


def _reversed(value: Array) -> Array:
    result = np.asarray(value)
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        part, by = U32(mask), U32(step)
        result = ((result >> by) & part) | ((result & part) << by)
    return np.ascontiguousarray(result).byteswap()


def next_random(value: Array) -> Array:
    """V_PRNG_B32: a step of a shift register of 32 bits (CDNA4 ISA)."""
    return (value << U32(1)) ^ ((value >> U32(31)) * U32(197))


define("v_not_b32", "u32", "u32", np.invert)
define("v_bfrev_b32", "u32", "u32", _reversed)
define("v_ffbh_u32 v_clz_i32_u32", "i32", "u32", leading_zeros)
define("v_ffbh_i32 v_cls_i32", "i32", "i32", _leading_sign_bits)
define("v_ffbl_b32 v_ctz_i32_b32", "i32", "u32", _trailing_zeros)
define("v_bcnt_u32_b32", "u32", "u32 u32", lambda a, b: np.bitwise_count(a).astype(U32) + b)
define("v_and_b32", "u32", "u32 u32", np.bitwise_and)
define("v_or_b32", "u32", "u32 u32", np.bitwise_or)
define("v_xor_b32", "u32", "u32 u32", np.bitwise_xor)
define("v_xnor_b32", "u32", "u32 u32", lambda a, b: ~(a ^ b))
define("v_and_or_b32", "u32", "u32 u32 u32", lambda a, b, c: (a & b) | c)
define("v_or3_b32", "u32", "u32 u32 u32", lambda a, b, c: a | b | c)
define("v_xor3_b32", "u32", "u32 u32 u32", lambda a, b, c: a ^ b ^ c)
define("v_bfe_u32", "u32", "u32 u32 u32", bit_field)
define("v_bfe_i32", "i32", "u32 u32 u32", signed_bit_field)
define("v_bfi_b32", "u32", "u32 u32 u32", lambda a, b, c: (a & b) | (~a & c))
define("v_bfm_b32", "u32", "u32 u32", lambda a, b: ((U32(1) << low5(a)) - U32(1)) << low5(b))
define("v_alignbit_b32", "u32", "u32 u32 u32",
        lambda a, b, c: (((np.asarray(a).astype(U64) << U64(32)) | b) >> low5(c).astype(U64))
        .astype(U32))  # fmt: skip
define("v_prng_b32", "u32", "u32", next_random)


def _truth_table(kind: str) -> Builder:
    """V_BITOP3: bit a*4 + b*2 + c of the table is the result for bits a, b, c (CDNA4 ISA)."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        table = decoded.number("bitop3")
        operands = decoded.operands[1:]
        if len(operands) == 2:  # the dual form has no third source
            operands = (*operands, Operand("constant", "0", integer=0))

        def compute(a: Array, b: Array, c: Array) -> Array:
            result = np.zeros_like(a & b & c)
            for row in range(8):
                if table >> row & 1:
                    result = result | (
                        (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                    )
            return result

        return assemble(decoded, context, kind, (kind,) * 3, operands, compute)

    return build


builds("v_bitop3_b32", "v_bitop2_b32")(_truth_table("u32"))
builds("v_bitop3_b16")(_truth_table("u16"))


def _lanes_below(high: bool) -> Builder:
    """V_MBCNT: S1 plus the set bits of S0 that belong to lanes below this one."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        mask, base = (source(operand, "u32") for operand in decoded.operands[1:])
        write = destination(decoded.operands[0], "u32", context.target)
        lane = np.arange(context.target.lanes, dtype=np.int64) - (32 if high else 0)
        below = ((1 << np.clip(lane, 0, 32)) - 1).astype(U32)

        def value(waves: Waves) -> Array:
            return np.bitwise_count(mask(waves) & below).astype(U32) + base(waves)

        return ResultStep(value, write)

    return build


builds("v_mbcnt_lo_u32_b32")(_lanes_below(high=False))
builds("v_mbcnt_hi_u32_b32")(_lanes_below(high=True))
