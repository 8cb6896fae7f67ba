"""Vector floating point of 64 bits (CDNA3 ISA, 12.7 to 12.11; RDNA3 ISA, 16.8 to 16.12)."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..elementwise import define
from ..waves import F32, I32, U32, Array
from .fused import F64, fused_double
from .real import exponent_of, fraction, mantissa_of, to_integer


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


define("v_add_f64", "f64", "f64 f64", np.add)
define("v_mul_f64", "f64", "f64 f64", np.multiply)
define("v_fma_f64 v_fmamk_f64 v_fmaak_f64", "f64", "f64 f64 f64", fused_double)
define("v_fmac_f64", "f64", "f64 f64 f64", fused_double, accumulates=True)
define("v_floor_f64", "f64", "f64", np.floor)
define("v_ceil_f64", "f64", "f64", np.ceil)
define("v_trunc_f64", "f64", "f64", np.trunc)
define("v_rndne_f64", "f64", "f64", np.rint)
define("v_fract_f64", "f64", "f64", fraction)
# The hardware's are good to some 26 bits; code that uses them refines what they give.
define("v_rcp_f64", "f64", "f64", lambda a: F64(1) / a)
define("v_rsq_f64", "f64", "f64", lambda a: F64(1) / np.sqrt(a))
define("v_sqrt_f64", "f64", "f64", np.sqrt)
define("v_ldexp_f64", "f64", "f64 i32", np.ldexp)
define("v_frexp_exp_i32_f64", "i32", "f64", lambda a: exponent_of(a).astype(I32))
define("v_frexp_mant_f64", "f64", "f64", mantissa_of)
define("v_trig_preop_f64", "f64", "f64 u32", trigonometric_bits)
define("v_cvt_f64_f32", "f64", "f32", lambda a: np.asarray(a).astype(F64))
define("v_cvt_f32_f64", "f32", "f64", lambda a: np.asarray(a).astype(F32))
define("v_cvt_f64_i32", "f64", "i32", lambda a: np.asarray(a).astype(F64))
define("v_cvt_f64_u32", "f64", "u32", lambda a: np.asarray(a).astype(F64))
define("v_cvt_i32_f64", "i32", "f64", lambda a: to_integer(a, I32, -(2.0**31), 2.0**31 - 1))
define("v_cvt_u32_f64", "u32", "f64", lambda a: to_integer(a, U32, 0.0, 2.0**32 - 1))
