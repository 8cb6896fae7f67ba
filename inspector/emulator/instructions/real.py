"""Vector floating point: arithmetic, elementary functions, conversions, fused multiply-adds.

Source: CDNA3 ISA, 12.7 to 12.11; RDNA3 ISA, 16.8 to 16.12. Numpy has no multiply-add with one
rounding: a wider sum is rounded once, or rounded to odd first where that would round twice.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from .. import numbers
from ..elementwise import Compute, define, define_each
from ..waves import F32, I32, U32, Array

F64 = np.float64
_LOW_BITS: Final = np.uint64((1 << 29) - 1)
_HALF: Final = np.uint64(1 << 28)
"""The bits of a float64 that a float32 does not have, and the highest of them."""


def fused_half(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of f16 values: exact in float64 but for gaps of more than 30 binary digits."""
    return np.multiply(a, b, dtype=F64) + c


def fused_bfloat(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of bf16, as float64 rounded to odd: rounding that to bf16 rounds once."""
    return odd_sum(np.multiply(a, b, dtype=F64), np.asarray(c).astype(F64))


def fused(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of float32 with one rounding.

    The product is exact in float64. The sum is not always: where it lies halfway between two
    float32 (1 of 2**29), what was rounded away decides. Of denormal results that is not looked at.
    """
    product = np.multiply(a, b, dtype=F64)
    total = product + c
    halfway = (total.view(np.uint64) & _LOW_BITS) == _HALF
    if halfway.any():
        total = np.where(halfway, odd_sum(product, np.asarray(c).astype(F64)), total)
    return np.asarray(total).astype(F32)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what was rounded away (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd_sum(a: Array, b: Array) -> Array:
    """A + b of float64, rounded to odd: a later rounding to fewer bits gives the exact sum's."""
    total, rounded_off = two_sum(a, b)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    nudged = np.nextafter(total, np.where(rounded_off > 0, np.inf, -np.inf))
    return np.where(
        even & np.isfinite(total) & np.isfinite(rounded_off) & (rounded_off != 0), nudged, total
    )


def fused_double(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of float64 with one rounding.

    Dekker's product, then sums of which the last but one is rounded to odd (Boldo and Melquiond,
    "Emulation of a FMA and correctly rounded sums", 2008); exact fractions where that could over-
    or underflow.
    """
    a, b, c = np.broadcast_arrays(np.asarray(a, F64), np.asarray(b, F64), np.asarray(c, F64))
    product = a * b
    total = product + c
    plain = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    size_a, size_b, size, size_c = np.abs(a), np.abs(b), np.abs(product), np.abs(c)
    easy = (size_a < 2.0**480) & (size_b < 2.0**480) & (size > 2.0**-900)
    easy &= (size_c < 2.0**900) & ((size_c > 2.0**-900) | (c == 0))
    exact = two_product(a, b, product)
    high, low = two_sum(c, exact)
    upper, middle = two_sum(product, high)
    result = np.where(easy & ~plain, upper + odd_sum(middle, low), total)
    infinite_addend = np.isinf(c) & np.isfinite(a) & np.isfinite(b)
    result = np.where(infinite_addend, c, result)
    for position in np.argwhere(~easy & ~plain):
        index = tuple(position)
        result[index] = _exactly(float(a[index]), float(b[index]), float(c[index]))
    return np.asarray(result)


def two_product(a: Array, b: Array, product: Array) -> Array:
    """Returns the part that rounding took from a product of float64 (Dekker, Veltkamp)."""
    splitter = F64(2**27 + 1)
    big_a, big_b = a * splitter, b * splitter
    high_a, high_b = big_a - (big_a - a), big_b - (big_b - b)
    low_a, low_b = a - high_a, b - high_b
    return np.asarray(
        low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    )


def _exactly(a: float, b: float, c: float) -> float:
    """Returns a * b + c by exact fractions, rounded once; an infinity where it overflows."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return 0.0
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def to_integer(value: Array, kind: type, low: float, high: float) -> Array:
    """Truncation with saturation; NaN becomes 0."""
    bounded = np.clip(np.nan_to_num(np.trunc(value.astype(F64)), nan=0.0), low, high)
    return bounded.astype(np.int64).astype(kind)


def fraction(a: Array) -> Array:
    """A - floor(a), below 1 (LLVM, ConstantFolding.cpp, amdgcn_fract)."""
    below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    return np.minimum(a - np.floor(a), below_one)


def sine(a: Array) -> Array:
    """V_SIN: of an angle in turns of 2 pi; exact at quarters of a turn."""
    turns = np.asarray(a).astype(F64)
    part = turns - np.rint(turns)
    folded = np.where(np.abs(part) > 0.25, np.copysign(0.5, part) - part, part)
    return np.sin(folded * (2 * np.pi)).astype(a.dtype)


def cosine(a: Array) -> Array:
    """V_COS: of an angle in turns of 2 pi; the sine a quarter of a turn ahead."""
    turns = np.asarray(a).astype(F64)
    return np.sin((0.25 - np.abs(turns - np.rint(turns))) * (2 * np.pi)).astype(a.dtype)


def exponent_of(a: Array) -> Array:
    """V_FREXP_EXP: the power of 2 of a mantissa in [0.5, 1); 0 for what is not finite."""
    return np.where(np.isfinite(a), np.frexp(a)[1], 0)


def mantissa_of(a: Array) -> Array:
    """V_FREXP_MANT: in [0.5, 1); what is not finite stays."""
    return np.where(np.isfinite(a), np.frexp(a)[0], a)


def without_denormals(compute: Compute) -> Compute:
    """Denormals of float32 are 0 on the way in and out, whatever the mode.

    "Denormals are flushed" (CDNA3 ISA, V_RCP_F32, V_EXP_F32, V_LOG_F32, V_RSQ_F32, V_SQRT_F32;
    LLVM, SITargetLowering::lowerFastUnsafeFDIV).
    """
    smallest_normal = F32(2.0**-126)

    def flushed(a: Array) -> Array:
        a = a * (np.abs(a) >= smallest_normal)
        value = compute(a)
        return np.asarray(value * (np.abs(value) >= smallest_normal))

    return flushed


def zero_wins(a: Array, b: Array) -> Array:
    """DX9's product: 0 times anything is +0."""
    return np.where((a == 0) | (b == 0), F32(0), a * b)


def fused_zero_wins(a: Array, b: Array, c: Array) -> Array:
    """DX9's product, with c added in the same rounding: 0 times anything is +0."""
    return np.where((a == 0) | (b == 0), c, fused(a, b, c))


def _twice_rounded(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of f16 whose product is rounded too."""
    return numbers.from_f16(numbers.to_f16(a * b)) + c


def _lit(a: Array, b: Array, c: Array) -> Array:
    """V_MULLIT_F32: the product; -MAX where the exponent or the base does not allow it."""
    largest_float = np.finfo(F32).max
    none = (b <= -largest_float) | np.isnan(b) | (c <= 0) | np.isnan(c)
    return np.where(none, -largest_float, a * b)


define_each("f16 f32 f64", "v_add_{}", 2, np.add)
define_each("f16 f32 f64", "v_mul_{}", 2, np.multiply)
define_each("f16 f32", "v_sub_{}", 2, np.subtract)
define_each("f16 f32", "v_subrev_{}", 2, lambda a, b: np.subtract(b, a))
for _kind, _fused in (("f16", fused_half), ("f32", fused), ("f64", fused_double)):
    define_each(_kind, "v_fma_{} v_fmamk_{} v_fmaak_{}", 3, _fused)
    define_each(_kind, "v_fmac_{}", 3, _fused, accumulates=True)
define_each("f16", "v_fma_legacy_{}", 3, fused_half)
define_each("f16 f32 f64", "v_floor_{}", 1, np.floor)
define_each("f16 f32 f64", "v_ceil_{}", 1, np.ceil)
define_each("f16 f32 f64", "v_trunc_{}", 1, np.trunc)
define_each("f16 f32 f64", "v_rndne_{}", 1, np.rint)
define_each("f32 f64", "v_fract_{}", 1, fraction)
define_each("f16", "v_fract_{}", 1, lambda a: np.minimum(a - np.floor(a), F32(1 - 2.0**-11)))
define_each("f16 f32 f64", "v_frexp_mant_{}", 1, mantissa_of)
define_each("f16 f32", "v_sin_{}", 1, sine)
define_each("f16 f32", "v_cos_{}", 1, cosine)
define_each("f16 f32", "v_tanh_{}", 1, np.tanh)
# Those of f64 are good to some 26 bits in hardware; code that uses them refines what they give.
define_each("f16 f64", "v_rcp_{}", 1, lambda a: a.dtype.type(1) / a)
define_each("f16 f64", "v_rsq_{}", 1, lambda a: a.dtype.type(1) / np.sqrt(a))
define_each("f16 f64", "v_sqrt_{}", 1, np.sqrt)
define_each("f16", "v_exp_{}", 1, np.exp2)
define_each("f16", "v_log_{}", 1, np.log2)
define_each("f32", "v_rcp_{} v_rcp_iflag_{}", 1, without_denormals(lambda a: F32(1) / a))
define_each("f32", "v_rsq_{}", 1,
            without_denormals(lambda a: (1 / np.sqrt(a.astype(F64))).astype(F32)))  # fmt: skip
define_each("f32", "v_sqrt_{}", 1, without_denormals(np.sqrt))
define_each("f32", "v_exp_{} v_exp_legacy_{}", 1, without_denormals(np.exp2))
define_each("f32", "v_log_{} v_log_legacy_{}", 1, without_denormals(np.log2))
# gfx1250: the same of bf16, rounded from float32; denormals of bf16 are those of float32.
for _name, _compute in (
    ("exp", np.exp2), ("log", np.log2), ("sqrt", np.sqrt), ("rcp", lambda a: F32(1) / a),
    ("rsq", lambda a: F32(1) / np.sqrt(a)), ("sin", sine), ("cos", cosine), ("tanh", np.tanh),
):  # fmt: skip
    define_each("bf16", f"v_{_name}_{{}}", 1, without_denormals(_compute))
define_each("f32", "v_mul_legacy_{} v_mul_dx9_zero_{}", 2, zero_wins)
define_each("f32", "v_fma_dx9_zero_{} v_fma_legacy_{}", 3, fused_zero_wins)
define_each("f32", "v_fmac_dx9_zero_{} v_fmac_legacy_{}", 3, fused_zero_wins, accumulates=True)
define_each("f32", "v_mad_{} v_madmk_{} v_madak_{}", 3, lambda a, b, c: a * b + c)
define_each("f32", "v_mac_{}", 3, lambda a, b, c: a * b + c, accumulates=True)
define_each("f32", "v_mad_legacy_{}", 3, lambda a, b, c: zero_wins(a, b) + c)
define_each("f16", "v_mad_{} v_mad_legacy_{} v_madmk_{} v_madak_{}", 3, _twice_rounded)
define_each("f16", "v_mac_{}", 3, _twice_rounded, accumulates=True)
define_each("f32", "v_mullit_{}", 3, _lit)
define("v_ldexp_f16", "f16", "f16 i16", lambda a, b: np.ldexp(a.astype(F64), b.astype(I32)))
define("v_ldexp_f32", "f32", "f32 i32", lambda a, b: np.ldexp(a, b).astype(F32))
define("v_ldexp_f64", "f64", "f64 i32", np.ldexp)
define("v_frexp_exp_i16_f16", "i16", "f16", lambda a: exponent_of(a).astype(np.int16))
for _kind in ("f32", "f64"):
    define(f"v_frexp_exp_i32_{_kind}", "i32", _kind, lambda a: exponent_of(a).astype(I32))
    define(
        f"v_cvt_i32_{_kind}", "i32", _kind, lambda a: to_integer(a, I32, -(2.0**31), 2.0**31 - 1)
    )
    define(f"v_cvt_u32_{_kind}", "u32", _kind, lambda a: to_integer(a, U32, 0.0, 2.0**32 - 1))
for _kind in ("i32", "u32"):
    define(f"v_cvt_f32_{_kind}", "f32", _kind, lambda a: np.asarray(a).astype(F32))
    define(f"v_cvt_f64_{_kind}", "f64", _kind, lambda a: np.asarray(a).astype(F64))
define("v_cvt_f16_f32", "f16", "f32", np.asarray)
define("v_cvt_f32_f16", "f32", "f16", np.asarray)
define("v_cvt_f32_bf16", "f32", "bf16", np.asarray)
define("v_cvt_f64_f32", "f64", "f32", lambda a: np.asarray(a).astype(F64))
define("v_cvt_f32_f64", "f32", "f64", lambda a: np.asarray(a).astype(F32))


def _face(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Whether z, else y, is the longest coordinate."""
    x, y, z = (np.abs(value) for value in (a, b, c))
    return (z >= x) & (z >= y), y >= x


def _cube(on_z: Compute, on_y: Compute, on_x: Compute) -> Compute:
    def compute(a: Array, b: Array, c: Array) -> Array:
        z, y = _face(a, b, c)
        return np.where(z, on_z(a, b, c), np.where(y, on_y(a, b, c), on_x(a, b, c))).astype(F32)

    return compute


define("v_cubeid_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: np.where(c < 0, 5.0, 4.0), lambda a, b, c: np.where(b < 0, 3.0, 2.0),
    lambda a, b, c: np.where(a < 0, 1.0, 0.0)))  # fmt: skip
define("v_cubesc_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: np.where(c < 0, -a, a), lambda a, b, c: a,
    lambda a, b, c: np.where(a < 0, c, -c)))  # fmt: skip
define("v_cubetc_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: -b, lambda a, b, c: np.where(b < 0, -c, c), lambda a, b, c: -b))  # fmt: skip
define("v_cubema_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: c * 2, lambda a, b, c: b * 2, lambda a, b, c: a * 2))  # fmt: skip


@cache
def _two_over_pi() -> Array:
    """53 bits of 2 / pi, from bit `index` behind the point on, as float64."""
    bits = 1201
    unit = 1 << (bits + 64)
    pi = 4 * (4 * _arctangent(5, unit) - _arctangent(239, unit))  # Machin's formula
    fraction_bits = (2 * unit * unit // pi) >> 64
    chunks = [(fraction_bits << shift >> (bits - 53)) & ((1 << 53) - 1) for shift in range(bits)]
    return np.array([float(chunk) for chunk in chunks])


def _arctangent(inverse: int, unit: int) -> int:
    """arctan(1 / inverse), scaled by `unit`."""
    power = total = unit // inverse
    divisor, sign = 1, 1
    while power:
        power //= inverse * inverse
        divisor, sign = divisor + 2, -sign
        total += sign * (power // divisor)
    return total


def trigonometric_bits(value: Array, segment: Array) -> Array:
    """V_TRIG_PREOP_F64: a segment of 2 / pi that matters for an argument's size."""
    table = _two_over_pi()
    exponent = (np.asarray(value).view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(int)
    shift = (np.asarray(segment) & U32(31)).astype(int) * 53 + np.maximum(exponent - 1077, 0)
    chunk = np.where(shift < len(table), table[np.minimum(shift, len(table) - 1)], 0.0)
    return np.ldexp(chunk, np.where(exponent >= 1968, 128, 0) - 53 - shift)


define("v_trig_preop_f64", "f64", "f64 u32", trigonometric_bits)
