"""Conversions between formats: bytes, normalised and saturated integers, 8-bit floats.

Sources: CDNA3 ISA, 12.8 and 12.11; RDNA4 ISA, V_CVT_*. Of stochastic rounding (`sr`) the documents'
text ("add to the mantissa, wrap around, then round to nearest even") is not what AMD's headers
compute (amd_hip_ocp_host.hpp: add, then truncate), which is done here. `convert_scaled` has the
conversions with a scale.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, opsel
from .. import crosslane, numbers
from ..elementwise import Compute, ResultStep, define, define_by_target, flushing
from ..numbers import SMALL, float8, to_small
from ..registry import BuildContext, NotCoveredError, Step, builds_as
from ..vector_operands import Read, Write, check_count, destination, source, then_apply
from ..waves import F32, I32, U32, Array, Waves
from .real import to_integer

F64 = np.float64
I16, U16 = np.int16, np.uint16


def _pair(low: Array, high: Array) -> Array:
    """Two 16-bit values as one register."""
    return numbers.joined_halves(low.view(U16).astype(U32), high.view(U16).astype(U32))


define("v_cvt_f16_i16", "f16", "i16", lambda a: a.astype(F32))
define("v_cvt_f16_u16", "f16", "u16", lambda a: a.astype(F32))
define("v_cvt_i16_f16", "i16", "f16", lambda a: to_integer(a, np.int16, -32768.0, 32767.0))
define("v_cvt_u16_f16", "u16", "f16", lambda a: to_integer(a, np.uint16, 0.0, 65535.0))
define("v_cvt_i32_i16", "i32", "i16", lambda a: a.astype(np.int32))
define("v_cvt_u32_u16", "u32", "u16", lambda a: a.astype(U32))


def two_halves(kind: str) -> Callable[[ExecutionTarget], Compute]:
    """Two results of a 16-bit kind in one register, the first in bits 0 to 15."""

    def of_target(target: ExecutionTarget) -> Compute:
        def both(low: Array, high: Array) -> Array:
            first, second = (
                numbers.half_bits(np.asarray(value), kind, saturates=target.saturates16)
                for value in (low, high)
            )
            return numbers.joined_halves(first, second)

        return both

    return of_target


for _kind in ("f16", "bf16"):
    define_by_target(f"v_cvt_pk_{_kind}_f32", "u32", "f32 f32", two_halves(_kind))


def _toward_zero(a: Array, b: Array) -> Array:
    """V_CVT_PKRTZ_F16_F32: rounded toward zero; what is too large becomes the largest number."""
    return numbers.joined_halves(_truncated(np.asarray(a)), _truncated(np.asarray(b)))


def _truncated(value: Array) -> Array:
    """Bits of the f16 next toward zero."""
    nearest = value.astype(np.float16)
    with np.errstate(all="ignore"):
        away = np.abs(nearest.astype(F32)) > np.abs(value)
    bits = nearest.view(np.uint16).astype(U32)
    return np.where(away & ~np.isnan(value) & ~np.isinf(value), bits - U32(1), bits)


define("v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32", "u32", "f32 f32", _toward_zero)


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


def source_byte(decoded: Decoded) -> int:
    """Which byte of the source is converted."""
    if "byte_sel" in decoded.modifiers:
        return decoded.number("byte_sel")
    if decoded.encoding == "sdwa":
        return ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3").index(
            decoded.modifiers.get("src0_sel", "BYTE_0")
        )
    low, high, *_ = opsel(decoded)
    return low + 2 * high


def part_of_register(decoded: Decoded, width: int, index: int) -> Write:
    """Writes uint32 codes of `width` bits as one part of the register; the rest stays."""
    check_count(decoded.operands[0], 1)
    row = decoded.operands[0].first
    shift = U32(index * width)
    mask = U32(((1 << width) - 1) << (index * width))

    def write(waves: Waves, codes: Array) -> None:
        waves.write(row, (waves.u32[row] & ~mask) | ((codes << shift) & mask))

    return write


def written_part(decoded: Decoded, width: int) -> Write:
    """Returns the write of the byte or half that OPSEL, `byte_sel` or the register's name picks."""
    operand = decoded.operands[0]
    if width == 8:
        byte_index = (
            decoded.number("byte_sel")
            if "byte_sel" in decoded.modifiers
            else (opsel(decoded)[2] + 2 * opsel(decoded)[3])
        )
        return part_of_register(decoded, 8, byte_index)
    return part_of_register(decoded, 16, operand.half or opsel(decoded)[3])


def _refuse_lanes(decoded: Decoded, context: BuildContext) -> None:
    """Raises NotCoveredError for DPP, which conversions of packed bytes do not have here."""
    if crosslane.first_operand(decoded, context.target) is not None:
        raise NotCoveredError(decoded.text)


def _from_byte(decoded: Decoded, context: BuildContext, kind: str, result: str) -> Step:
    """V_CVT_F32_FP8 and its like: one byte to a float."""
    target = context.target
    table = SMALL[float8(kind, target.arch)]
    before = crosslane.first_operand(decoded, target)
    read = source(decoded.operands[1], "u32", before=before)
    shift = U32(8 * source_byte(decoded))
    write = destination(
        decoded.operands[0], result, target, lanes=crosslane.written(decoded, target)
    )
    return ResultStep(lambda waves: table[(read(waves) >> shift) & U32(255)], write)


def _from_two_bytes(decoded: Decoded, context: BuildContext, kind: str, result: str) -> Step:
    """V_CVT_PK_F32_FP8 and its like: two bytes to two floats."""
    _refuse_lanes(decoded, context)
    target = context.target
    table = SMALL[float8(kind, target.arch)]
    operand = decoded.operands[1]
    high = decoded.modifiers.get("src0_sel") == "WORD_1" or opsel(decoded)[0] or operand.half
    read = source(operand, "u16", half=1 if high else 0)
    check_count(decoded.operands[0], 2 if result == "f32" else 1)
    row = decoded.operands[0].first
    pack = two_halves(result)(target)

    def step(waves: Waves) -> None:
        word = read(waves)
        low, above = table[word & np.uint16(255)], table[word >> np.uint16(8)]
        if result == "f32":
            waves.write(row, low)
            waves.write(row + 1, above)
        else:
            waves.write(row, pack(low, above))

    return step


def _sources(decoded: Decoded, context: BuildContext, kind: str, count: int) -> list[Read]:
    """Returns readers of the first `count` sources, with denormals flushed as the mode says."""
    if len(decoded.operands) <= count:
        raise NotCoveredError(decoded.text)
    flush = flushing(kind, context.target)
    reads = [
        source(operand, kind, half=opsel(decoded)[index] if kind == "f16" else 0)
        for index, operand in enumerate(decoded.operands[1 : 1 + count])
    ]
    return reads if flush is None else [then_apply(read, flush) for read in reads]


def _to_bytes(decoded: Decoded, context: BuildContext, kind: str, wide: str) -> Step:
    """V_CVT_PK_FP8_F32 and its like: two floats to two bytes, in one half of a register."""
    _refuse_lanes(decoded, context)
    target = context.target
    form = float8(kind, target.arch)
    saturates = target.saturates16 or decoded.flag("clamp")
    if wide == "f16":  # both halves of one source
        operand = decoded.operands[1]
        reads = [source(operand, "f16", half=half) for half in (0, 1)]
    else:
        reads = _sources(decoded, context, wide, 2)

    def value(waves: Waves) -> Array:
        low, high = (to_small(read(waves), form, saturates=saturates) for read in reads)
        return low | (high << U32(8))

    return ResultStep(value, written_part(decoded, 16))


_MANTISSA = {"f32": 23, "f16": 10, "bf16": 7}
"""Bits of the mantissa of the formats that are converted from."""


def discarded_bits(wide: str, form: str) -> int:
    """How many bits of mantissa a conversion leaves out."""
    return _MANTISSA[wide] - numbers.FORMATS[form].mantissa


def _to_byte_stochastic(decoded: Decoded, context: BuildContext, kind: str, wide: str) -> Step:
    """V_CVT_SR_FP8_F32 and its like: S1 is the noise."""
    _refuse_lanes(decoded, context)
    target = context.target
    form = float8(kind, target.arch)
    saturates = target.saturates16 or decoded.flag("clamp")
    (read,) = _sources(decoded, context, wide, 1)
    noise = source(decoded.operands[2], "u32")
    extra = discarded_bits(wide, form)

    def value(waves: Waves) -> Array:
        return to_small(
            read(waves), form, saturates=saturates, noise=(np.asarray(noise(waves)), extra)
        )

    return ResultStep(value, written_part(decoded, 8))


def _to_half_stochastic(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """V_CVT_SR_F16_F32, V_CVT_SR_BF16_F32: the noise's highest bits are used, as for bytes."""
    (read,) = _sources(decoded, context, "f32", 1)
    noise = source(decoded.operands[2], "u32")
    extra = discarded_bits("f32", kind)

    def value(waves: Waves) -> Array:
        return to_small(read(waves), kind, noise=(np.asarray(noise(waves)), extra))

    return ResultStep(value, written_part(decoded, 16))


for _kind in ("fp8", "bf8"):
    for _wide in ("f32", "f16"):
        builds_as(f"v_cvt_{_wide}_{_kind}", _from_byte, _kind, _wide)
        builds_as(f"v_cvt_pk_{_wide}_{_kind}", _from_two_bytes, _kind, _wide)
        builds_as(f"v_cvt_pk_{_kind}_{_wide}", _to_bytes, _kind, _wide)
        builds_as(f"v_cvt_sr_{_kind}_{_wide}", _to_byte_stochastic, _kind, _wide)
for _kind in ("f16", "bf16"):
    builds_as(f"v_cvt_sr_{_kind}_f32", _to_half_stochastic, _kind)
