"""The smaller and the larger of two floats, with the rules for zeros and NaNs that AMD's ISAs have.

Arrays are float32 or float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def quieted(values: Array) -> Array:
    """Signalling NaNs made quiet."""
    nans = np.isnan(values)
    return np.where(nans, values + values.dtype.type(0), values) if nans.any() else values


def is_signalling(values: Array) -> Array:
    """Whether each is a signalling NaN."""
    bits = values.view(f"u{values.itemsize}")
    quiet = bits.dtype.type(1 << (22 if values.itemsize == 4 else 51))
    return np.asarray(np.isnan(values) & ((bits & quiet) == 0))


def smaller_number(a: Array, b: Array) -> Array:
    """The smaller one: -0 before +0, a number before a NaN (`minNum`); of two NaNs the first."""
    takes_b = (b < a) | ((b == a) & np.signbit(b)) | np.isnan(a)
    return np.where(takes_b & ~np.isnan(b), b, a)


def larger_number(a: Array, b: Array) -> Array:
    """The larger one: +0 before -0, a number before a NaN (`maxNum`); of two NaNs the first."""
    takes_b = (b > a) | ((b == a) & ~np.signbit(b)) | np.isnan(a)
    return np.where(takes_b & ~np.isnan(b), b, a)


def smallest(a: Array, b: Array) -> Array:
    """The smaller one, or a NaN where either is one (`minimum`)."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, smaller_number(a, b)))


def largest(a: Array, b: Array) -> Array:
    """The larger one, or a NaN where either is one (`maximum`)."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, larger_number(a, b)))
