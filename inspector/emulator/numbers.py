"""Number formats that numpy does not compute in, as float32 and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
F32 = np.float32
U32 = np.uint32

F16: Final = np.arange(65536, dtype=np.uint16).view(np.float16).astype(F32)
"""Value of every float16."""


HALVES: Final = frozenset({"u16", "i16", "f16", "bf16"})
"""Kinds of operands that have 16 bits."""


def from_f16(bits: Array) -> Array:
    """uint16 -> float32, exactly."""
    return F16.take(bits)


def to_f16(values: Array) -> Array:
    """float32 or float64 -> uint16, rounded to nearest even."""
    return values.astype(np.float16).view(np.uint16)


def from_bf16(bits: Array) -> Array:
    """uint16 -> float32, exactly."""
    return (bits.astype(U32) << U32(16)).view(F32)


def to_bf16(values: Array) -> Array:
    """float32 -> uint16, rounded to nearest even; NaNs stay NaNs and become quiet."""
    bits = values.astype(F32).view(U32)
    rounded = (bits + U32(0x7FFF) + ((bits >> U32(16)) & U32(1))) >> U32(16)
    quiet = (bits >> U32(16)) | U32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def half_bits(value: Array, kind: str) -> Array:
    """A 16-bit result as uint32 in bits 0 to 15."""
    if kind == "f16":
        return to_f16(value).astype(U32)
    if kind == "bf16":
        return to_bf16(value).astype(U32)
    return value.view(np.uint16).astype(U32)


# ---------------------------------------------------------------------- 8, 6 and 4 bits


def _small_floats(exponent: int, mantissa: int, bias: int, nans: str) -> Array:
    """Values of all bit patterns of a small float.

    Args:
        exponent: bits of the exponent.
        mantissa: bits of the mantissa.
        bias: of the exponent.
        nans: `none` (no infinities, no NaN), `all_ones` (S.1111.111 alone is NaN), `ieee`, or
            `negative_zero` (no infinities; -0's pattern is NaN).
    """
    count = 1 << (1 + exponent + mantissa)
    bits = np.arange(count)
    fraction = bits & ((1 << mantissa) - 1)
    power = bits >> mantissa & ((1 << exponent) - 1)
    sign = np.where(bits >> (exponent + mantissa), -1.0, 1.0)
    value = np.where(
        power == 0,
        fraction * 2.0 ** (1 - bias - mantissa),
        (1 + fraction * 2.0**-mantissa) * 2.0 ** (power.astype(float) - bias),
    )
    value = sign * value
    top = power == (1 << exponent) - 1
    if nans == "all_ones":
        value = np.where(top & (fraction == (1 << mantissa) - 1), np.nan, value)
    elif nans == "ieee":
        value = np.where(top, np.where(fraction == 0, sign * np.inf, np.nan), value)
    elif nans == "negative_zero":
        value = np.where(bits == count >> 1, np.nan, value)
    return value.astype(F32)


SMALL: Final = {
    # OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0.
    "fp8": _small_floats(4, 3, 7, "all_ones"),
    "bf8": _small_floats(5, 2, 15, "ieee"),
    "fp6": _small_floats(2, 3, 1, "none"),
    "bf6": _small_floats(3, 2, 3, "none"),
    "fp4": _small_floats(2, 1, 1, "none"),
    # "FNUZ" of gfx942: no infinities, one NaN, a bias larger by 1 (CDNA3 ISA, 2.6).
    "fp8_fnuz": _small_floats(4, 3, 8, "negative_zero"),
    "bf8_fnuz": _small_floats(5, 2, 16, "negative_zero"),
}
"""Format -> float32 value of every bit pattern."""


def float8(kind: str, arch: str) -> str:
    """The format that a target means by fp8 or bf8."""
    return f"{kind}_fnuz" if arch in ("gfx940", "gfx941", "gfx942") else kind


def to_float8(values: Array, kind: str) -> Array:
    """float32 -> bits of fp8 or bf8 (or their FNUZ forms) as uint8, to nearest even.

    What is too large becomes the format's infinity, or NaN where there is none: so does the
    hardware unless MODE.FP16_OVFL is set (CDNA3 ISA, 2.6; OCP 8-bit Floating Point 1.0, 5.2).
    """
    table = SMALL[kind]
    half = len(table) // 2
    finite = np.flatnonzero(np.isfinite(table[:half]))
    most = int(finite[-1])
    top, below = float(table[most]), float(table[most - 1])
    limit = top + (top - below) / 2  # a tie goes to the even pattern
    size = np.abs(values)
    beyond = size >= limit if most & 1 else size > limit
    bits = to_small(values, kind)
    if not beyond.any():
        return bits
    if kind.endswith("fnuz"):
        return np.where(beyond, half, bits).astype(np.uint8)
    infinite = half - 1 if kind == "fp8" else most + 1
    signed = np.where(np.signbit(values), half, 0) + infinite
    return np.where(beyond, signed, bits).astype(np.uint8)


def to_small(values: Array, kind: str) -> Array:
    """float32 -> bits of a small float as uint8: to nearest even, too large saturates.

    NaN becomes the format's NaN where there is one.
    """
    table = SMALL[kind]
    half = len(table) // 2
    positive = table[:half]
    numbers = np.flatnonzero(np.isfinite(positive))
    levels = positive[numbers].astype(np.float64)
    size = np.abs(values).astype(np.float64)
    above = np.clip(np.searchsorted(levels, size), 0, len(levels) - 1)
    below = np.maximum(above - 1, 0)
    low, high = levels[below], levels[above]
    nearer_high = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    index = np.where(nearer_high | (size >= high), above, below)
    bits = numbers[index]
    result = np.where(np.signbit(values), bits + half, bits)
    if kind.endswith("fnuz"):
        result = np.where(bits == 0, 0, result)
        result = np.where(np.isnan(values), half, result)
    elif kind in ("fp8", "bf8"):
        signed = np.where(np.signbit(values), 2 * half - 1, half - 1)
        result = np.where(np.isnan(values), signed, result)
    return result.astype(np.uint8)
