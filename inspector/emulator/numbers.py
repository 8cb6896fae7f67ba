"""Number formats that numpy does not compute in, as float32 and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]
F32 = np.float32
F64 = np.float64
U32 = np.uint32


def _half_values() -> Array:
    """All float16 as float32; a NaN keeps its bits, so that signalling ones stay recognisable."""
    bits = np.arange(65536, dtype=U32)
    values = bits.astype(np.uint16).view(np.float16).astype(F32)
    plain = (bits & U32(0x8000)) << U32(16) | U32(0x7F800000) | (bits & U32(0x3FF)) << U32(13)
    return np.where(np.isnan(values), plain, values.view(U32)).view(F32)


F16: Final = _half_values()
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
    """float32 or float64 -> uint16, rounded once, to nearest even; NaNs become quiet ones."""
    bits = (odd_single(values) if values.dtype == F64 else values.astype(F32)).view(U32)
    rounded = (bits + U32(0x7FFF) + ((bits >> U32(16)) & U32(1))) >> U32(16)
    nan = np.isnan(values)
    if nan.any():
        rounded = np.where(nan, (bits >> U32(16)) | U32(0x40), rounded)
    return rounded.astype(np.uint16)


def odd_single(values: Array) -> Array:
    """float64 -> float32 rounded to odd: rounding that to 22 bits or fewer rounds only once."""
    nearest = values.astype(F32)
    back = nearest.astype(F64)
    bits = nearest.view(U32)
    inexact = (back != values) & np.isfinite(values)
    if not inexact.any():
        return nearest
    outside = np.abs(back) > np.abs(values)
    return np.where(inexact, (bits - outside.astype(U32)) | U32(1), bits).view(F32)


def half_bits(value: Array, kind: str, *, saturates: bool = False) -> Array:
    """A 16-bit result as uint32 in bits 0 to 15.

    `saturates`: an f16 that overflows becomes the largest number (MODE.FP16_OVFL).
    """
    if kind == "f16":
        bits = to_f16(value).astype(U32)
        if saturates:
            bits = bits - (((bits & U32(0x7FFF)) == U32(0x7C00)) & np.isfinite(value))
        return bits
    if kind == "bf16":
        return to_bf16(value).astype(U32)
    return value.view(np.uint16).astype(U32)


def joined_halves(low: Array, high: Array) -> Array:
    """Two 16-bit results, each in bits 0 to 15, as one register."""
    return low | (high << U32(16))


def _small_floats(exponent: int, mantissa: int, bias: int, nans: str) -> Array:
    """Values of all bit patterns of a small float."""
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
    # "FNUZ" of gfx942: no infinities, one NaN, a bias larger by 1 (CDNA3 ISA, 7.2).
    "fp8_fnuz": _small_floats(4, 3, 8, "negative_zero"),
    "bf8_fnuz": _small_floats(5, 2, 16, "negative_zero"),
}
"""Format -> float32 value of every bit pattern."""


def float8(kind: str, arch: str) -> str:
    """The format that a target means by fp8 or bf8."""
    return f"{kind}_fnuz" if arch in ("gfx940", "gfx941", "gfx942") else kind


class SmallFormat(Struct, frozen=True):
    """How a small float is encoded.

    Args:
        lowest: exponent of the smallest normal number.
        top: code of the largest number.
        beyond: code of what is larger, where it does not saturate.
        nan: code of NaN.
        signless: whether 0 and NaN have no sign (FNUZ).
    """

    width: int
    mantissa: int
    lowest: int
    top: int
    beyond: int
    nan: int
    signless: bool = False


FORMATS: Final = {
    "fp8": SmallFormat(8, 3, -6, 0x7E, 0x7F, 0x7F),
    "bf8": SmallFormat(8, 2, -14, 0x7B, 0x7C, 0x7F),
    "fp8_fnuz": SmallFormat(8, 3, -7, 0x7F, 0x80, 0x80, signless=True),
    "bf8_fnuz": SmallFormat(8, 2, -15, 0x7F, 0x80, 0x80, signless=True),
    # Without infinities and NaN, both become the largest number (HIP's amd_hip_ocp_host.hpp).
    "fp6": SmallFormat(6, 3, 0, 0x1F, 0x1F, 0x1F),
    "bf6": SmallFormat(6, 2, -2, 0x1F, 0x1F, 0x1F),
    "fp4": SmallFormat(4, 1, 0, 0x7, 0x7, 0x7),
    "f16": SmallFormat(16, 10, -14, 0x7BFF, 0x7C00, 0x7E00),
    "bf16": SmallFormat(16, 7, -126, 0x7F7F, 0x7F80, 0x7FC0),
}


def to_small(
    values: Array, kind: str, *, saturates: bool = False, noise: tuple[Array, int] | None = None
) -> Array:
    """Floats -> codes of a small format, uint32.

    `kind`: one of `FORMATS`. `saturates`: what is too large becomes the largest number
    (MODE.FP16_OVFL). `noise`: for stochastic rounding: random uint32, and how many bits of mantissa
    the source format has more. The noise's highest bits are added below the result's last bit, then
    it is truncated (CDNA3 ISA, V_CVT_SR_FP8_F32). Otherwise it is rounded to nearest even.
    """
    form = FORMATS[kind]
    wide = np.asarray(values).astype(F64)
    bits = wide.view(np.int64)
    power = np.maximum((bits >> 52 & 0x7FF) - 1023, form.lowest)
    # How many of the result's last places there are: exact, it only changes the exponent.
    places = np.abs(wide) * ((1023 + form.mantissa - power) << 52).view(F64)
    finite = np.isfinite(wide)
    if not finite.all():
        places = np.where(finite, places, 0.0)
        power = np.where(finite, power, form.lowest)
    if noise is None:
        rounded = np.rint(places).astype(np.int64)
    else:
        random, extra = noise
        added = (random >> U32(32 - extra)).astype(np.int64)
        rounded = (np.floor(places * 2.0**extra).astype(np.int64) + added) >> extra
    code = rounded + ((power - form.lowest) << form.mantissa)
    beyond = form.top if saturates else form.beyond
    code = np.where((code > form.top) | np.isinf(wide), beyond, code)
    code = np.where(np.isnan(wide), form.nan, code)
    signed = np.signbit(wide)
    if form.signless:
        signed = signed & (code != 0) & (code != form.nan)
    return np.where(signed, code | 1 << (form.width - 1), code).astype(U32)
