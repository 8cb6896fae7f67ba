"""Conversions between formats: bytes, normalised and saturated integers, bf16.

Sources: CDNA3 ISA, 12.8 and 12.11; RDNA4 ISA, V_CVT_*. `convert_float8` has 8-bit floats,
`convert_scaled` the conversions with a scale.
"""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import Decoded
from ..elementwise import Compute, ResultStep, define
from ..registry import BuildContext, Step, builds_as
from ..vector_operands import destination, source
from ..waves import F32, I32, U32, Array, Waves
from .real import to_integer

F64 = np.float64
I16, U16 = np.int16, np.uint16


def _pair(low: Array, high: Array) -> Array:
    """Two 16-bit values as one register."""
    return low.view(U16).astype(U32) | (high.view(U16).astype(U32) << U32(16))


for _byte in range(4):
    define(
        f"v_cvt_f32_ubyte{_byte}", "f32", "u32",
        lambda a, by=8 * _byte: (a >> U32(by) & U32(0xFF)).astype(F32),
    )  # fmt: skip
define("v_cvt_off_f32_i4", "f32", "u32",
        lambda a: (((a & U32(15)) ^ U32(8)).astype(F32) - F32(8)) / F32(16))  # fmt: skip


def _floored(value: Array) -> Array:
    return to_integer(np.floor(value), I32, -(2.0**31), 2.0**31 - 1)


define("v_cvt_flr_i32_f32 v_cvt_floor_i32_f32", "i32", "f32", _floored)
define("v_cvt_rpi_i32_f32 v_cvt_nearest_i32_f32", "i32", "f32",
        lambda a: _floored(a + F32(0.5)))  # fmt: skip


def normalised(value: Array, *, signed: bool) -> Array:
    """[-1, 1] or [0, 1] as 16-bit integers, to nearest even; NaN is 0."""
    factor = 32767.0 if signed else 65535.0
    clean = np.nan_to_num(np.asarray(value).astype(F64), nan=0.0, posinf=1.0, neginf=-1.0)
    scaled = np.rint(np.clip(clean, -1.0 if signed else 0.0, 1.0) * factor)
    return scaled.astype(np.int64).astype(I16 if signed else U16)


for _kind in ("f32", "f16"):
    for _sign in ("i16", "u16"):
        _is_signed = _sign == "i16"
        define(
            f"v_cvt_pknorm_{_sign}_{_kind} v_cvt_pk_norm_{_sign}_{_kind}", "u32",
            f"{_kind} {_kind}",
            lambda a, b, signed=_is_signed: _pair(
                normalised(a, signed=signed), normalised(b, signed=signed)
            ),
        )  # fmt: skip
for _sign in ("i16", "u16"):
    define(f"v_cvt_norm_{_sign}_f16", _sign, "f16",
            lambda a, signed=_sign == "i16": normalised(a, signed=signed))  # fmt: skip
define("v_cvt_pk_i16_i32", "u32", "i32 i32",
        lambda a, b: _pair(*(np.clip(x, -32768, 32767).astype(I16) for x in (a, b))))  # fmt: skip
define("v_cvt_pk_u16_u32", "u32", "u32 u32",
        lambda a, b: _pair(*(np.minimum(x, U32(65535)).astype(U16) for x in (a, b))))  # fmt: skip
define("v_cvt_pk_i16_f32", "u32", "f32 f32",
        lambda a, b: _pair(*(to_integer(x, I16, -32768.0, 32767.0) for x in (a, b))))  # fmt: skip
define("v_cvt_pk_u16_f32", "u32", "f32 f32",
        lambda a, b: _pair(*(to_integer(x, U16, 0.0, 65535.0) for x in (a, b))))  # fmt: skip


def _into_byte(value: Array, index: Array, word: Array) -> Array:
    """V_CVT_PK_U8_F32: the byte S1[1:0] of S2 becomes S0, truncated and limited to 0 .. 255."""
    shift = (index & U32(3)) * U32(8)
    byte = to_integer(np.asarray(value), U32, 0.0, 255.0)
    return (word & ~(U32(0xFF) << shift)) | (byte << shift)


define("v_cvt_pk_u8_f32", "u32", "f32 u32 u32", _into_byte)
define("v_cvt_pkaccum_u8_f32", "u32", "f32 u32 u32", _into_byte, accumulates=True)


def _two_bytes(low: Array, high: Array) -> Array:
    """Two values 0 .. 255, or -128 .. 127, as bits 15:0."""
    return ((low & 0xFF) | ((high & 0xFF) << 8)).astype(U16)


define("v_sat_pk_u8_i16", "u16", "u32",
        lambda a: _two_bytes(*(np.clip(half, 0, 255) for half in _signed_halves(a))))  # fmt: skip


def _signed_halves(word: Array) -> tuple[Array, Array]:
    """Returns the low and the high half of a word, sign-extended, int32."""
    wide = np.asarray(word).view(I32)
    return (wide << I32(16)) >> I32(16), wide >> I32(16)


def _saturated_nibbles(signed: bool) -> Compute:
    """V_SAT_PK4: four bytes saturated to four bits each, side by side."""
    lowest, highest = (-8, 7) if signed else (0, 15)
    dtype = np.int8 if signed else np.uint8

    def compute(value: Array) -> Array:
        result = np.zeros(np.shape(value), U16)
        for index in range(4):
            byte = (value >> U32(8 * index)).astype(np.uint8).view(dtype)
            nibble = np.clip(byte, lowest, highest).astype(U16) & U16(15)
            result = result | nibble << U16(4 * index)
        return result

    return compute


define("v_sat_pk4_i4_i8", "u16", "u32", _saturated_nibbles(signed=True))
define("v_sat_pk4_u4_u8", "u16", "u32", _saturated_nibbles(signed=False))


def _shifted_bytes(decoded: Decoded, context: BuildContext, low: int, high: int) -> Step:
    """V_ASHR_PK: two values shifted right and saturated, in one half; the other stays."""
    first, second = (source(operand, "i32") for operand in decoded.operands[1:3])
    distance = source(decoded.operands[3], "u32")
    half = decoded.bits("op_sel", 4)[3]
    write = destination(decoded.operands[0], "u16", context.target, half=half, keep_half=True)

    def value(waves: Waves) -> Array:
        by = (np.asarray(distance(waves)) & U32(31)).astype(I32)
        saturated = (np.clip(read(waves) >> by, low, high) for read in (first, second))
        return _two_bytes(*saturated)

    return ResultStep(value, write)


builds_as("v_ashr_pk_i8_i32", _shifted_bytes, -128, 127)
builds_as("v_ashr_pk_u8_i32", _shifted_bytes, 0, 255)
