"""Multiply-adds with one rounding, a function for each kind of float.

Numpy has none: a wider sum is rounded once, or rounded to odd first where that would round twice.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from ..waves import F32, Array

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
