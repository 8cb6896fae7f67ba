"""Conversions between formats: bytes, normalised integers, bf16, 8 bits and fewer.

Sources: CDNA3 ISA, 12.8 to 12.10; CDNA4 ISA, V_CVT_SCALEF32_*; RDNA4 ISA, V_CVT_*. Conversions with
stochastic rounding (`sr`) are not covered: the documents' text ("add to the mantissa, wrap around,
then round to nearest even") is not what AMD's headers compute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from .. import crosslane, numbers
from ..access import Assignment, NotCoveredError, destination, elementwise, source
from ..operands import Decoded, Operand
from ..registry import Builder, Context, Step, builds, builds_matching
from ..waves import F32, I32, U32, Array, Waves
from .real import to_integer

F64 = np.float64
I16, U16 = np.int16, np.uint16
Compute = Callable[..., Array]


def _define(names: str, result: str, kinds: str, compute: Compute) -> None:
    builds(*names.split())(elementwise(result, kinds, compute))


def _pair(low: Array, high: Array) -> Array:
    """Two 16-bit values as one register."""
    return low.view(U16).astype(U32) | (high.view(U16).astype(U32) << U32(16))


# ---------------------------------------------------------------------- integers

for _byte in range(4):
    _define(
        f"v_cvt_f32_ubyte{_byte}", "f32", "u32",
        lambda a, by=8 * _byte: (a >> U32(by) & U32(0xFF)).astype(F32),
    )  # fmt: skip
_define("v_cvt_off_f32_i4", "f32", "u32",
        lambda a: (((a & U32(15)) ^ U32(8)).astype(F32) - F32(8)) / F32(16))  # fmt: skip


def _floored(value: Array) -> Array:
    return to_integer(np.floor(value), I32, -(2.0**31), 2.0**31 - 1)


_define("v_cvt_flr_i32_f32 v_cvt_floor_i32_f32", "i32", "f32", _floored)
_define("v_cvt_rpi_i32_f32 v_cvt_nearest_i32_f32", "i32", "f32",
        lambda a: _floored(a + F32(0.5)))  # fmt: skip


def normalised(value: Array, *, signed: bool) -> Array:
    """[-1, 1] or [0, 1] as 16-bit integers, to nearest even; NaN is 0."""
    factor = 32767.0 if signed else 65535.0
    whole = np.nan_to_num(np.asarray(value).astype(F64), nan=0.0, posinf=1.0, neginf=-1.0)
    scaled = np.rint(np.clip(whole, -1.0 if signed else 0.0, 1.0) * factor)
    return scaled.astype(np.int64).astype(I16 if signed else U16)


for _kind in ("f32", "f16"):
    for _sign in ("i16", "u16"):
        _is_signed = _sign == "i16"
        _define(
            f"v_cvt_pknorm_{_sign}_{_kind} v_cvt_pk_norm_{_sign}_{_kind}", "u32",
            f"{_kind} {_kind}",
            lambda a, b, signed=_is_signed: _pair(
                normalised(a, signed=signed), normalised(b, signed=signed)
            ),
        )  # fmt: skip
for _sign in ("i16", "u16"):
    _define(f"v_cvt_norm_{_sign}_f16", _sign, "f16",
            lambda a, signed=_sign == "i16": normalised(a, signed=signed))  # fmt: skip
_define("v_cvt_pk_i16_i32", "u32", "i32 i32",
        lambda a, b: _pair(*(np.clip(x, -32768, 32767).astype(I16) for x in (a, b))))  # fmt: skip
_define("v_cvt_pk_u16_u32", "u32", "u32 u32",
        lambda a, b: _pair(*(np.minimum(x, U32(65535)).astype(U16) for x in (a, b))))  # fmt: skip
_define("v_cvt_pk_i16_f32", "u32", "f32 f32",
        lambda a, b: _pair(*(to_integer(x, I16, -32768.0, 32767.0) for x in (a, b))))  # fmt: skip
_define("v_cvt_pk_u16_f32", "u32", "f32 f32",
        lambda a, b: _pair(*(to_integer(x, U16, 0.0, 65535.0) for x in (a, b))))  # fmt: skip


def _into_byte(value: Array, place: Array, word: Array) -> Array:
    """V_CVT_PK_U8_F32: the byte S1[1:0] of S2 becomes S0, truncated and held in 0 .. 255."""
    shift = (place & U32(3)) * U32(8)
    byte = to_integer(np.asarray(value), U32, 0.0, 255.0)
    return (word & ~(U32(0xFF) << shift)) | (byte << shift)


_define("v_cvt_pk_u8_f32", "u32", "f32 u32 u32", _into_byte)
builds("v_cvt_pkaccum_u8_f32")(elementwise("u32", "f32 u32 u32", _into_byte, reads_result=True))


def _two_bytes(low: Array, high: Array) -> Array:
    """Two values 0 .. 255, or -128 .. 127, as bits 15:0."""
    return ((low & 0xFF) | ((high & 0xFF) << 8)).astype(U16)


_define("v_sat_pk_u8_i16", "u16", "u32",
        lambda a: _two_bytes(*(np.clip(half, 0, 255) for half in _signed_halves(a))))  # fmt: skip


def _signed_halves(word: Array) -> tuple[Array, Array]:
    wide = np.asarray(word).view(I32)
    return (wide << I32(16)) >> I32(16), wide >> I32(16)


def _shifted_bytes(low: int, high: int) -> Builder:
    """V_ASHR_PK: two values shifted right and saturated, in one half; the other stays."""

    def build(decoded: Decoded, context: Context) -> Step:
        first, second = (source(operand, "i32") for operand in decoded.operands[1:3])
        distance = source(decoded.operands[3], "u32")
        half = (*decoded.numbers("op_sel", ()), 0, 0, 0, 0)[3]
        write = destination(decoded.operands[0], "u16", context.target, half=half, keep_half=True)

        def value(waves: Waves) -> Array:
            by = (np.asarray(distance(waves)) & U32(31)).astype(I32)
            held = (np.clip(read(waves) >> by, low, high) for read in (first, second))
            return _two_bytes(*held)

        return Assignment(value, write)

    return build


builds("v_ashr_pk_i8_i32")(_shifted_bytes(-128, 127))
builds("v_ashr_pk_u8_i32")(_shifted_bytes(0, 255))

# ---------------------------------------------------------------------- bf16, f16

_define("v_cvt_f32_bf16", "f32", "bf16", lambda a: np.asarray(a))

# ---------------------------------------------------------------------- 8 bits


def _selected(decoded: Decoded, operand: Operand, unit: int) -> Callable[[Waves], Array]:
    """The bits of a source's byte (unit 8) or word (unit 16) that the instruction chooses."""
    half = operand.half or 0
    if decoded.encoding == "sdwa":
        change = crosslane.byte_select(decoded, operand, "src0_sel")
        read = source(operand, "u32", before=change)
        mask = U32((1 << unit) - 1)
        return lambda waves: np.asarray(read(waves)) & mask
    if unit == 8:
        chosen = decoded.number("byte_sel") if "byte_sel" in decoded.modifiers else 2 * half
    else:
        chosen = half or (*decoded.numbers("op_sel", ()), 0)[0]
    if "byte_sel" not in decoded.modifiers and unit == 8 and "op_sel" in decoded.modifiers:
        raise NotCoveredError(decoded.text)
    return _part(operand, unit, chosen)


def _part(operand: Operand, unit: int, chosen: int) -> Callable[[Waves], Array]:
    plain = Operand(operand.kind, operand.text, operand.first, operand.count,
                    integer=operand.integer, real=operand.real)  # fmt: skip
    read = source(plain, "u32")
    shift, mask = U32(unit * chosen), U32((1 << unit) - 1)
    return lambda waves: np.asarray(read(waves)) >> shift & mask


def _from_float8(kind: str, result: str) -> Builder:
    def build(decoded: Decoded, context: Context) -> Step:
        table = numbers.SMALL[numbers.float8(kind, context.target.arch)]
        read = _selected(decoded, decoded.operands[1], 8)
        write = destination(decoded.operands[0], result, context.target)
        return Assignment(lambda waves: table[read(waves)], write)

    return build


def _two_from_float8(kind: str) -> Builder:
    """V_CVT_PK_F32_FP8: two bytes become two registers."""

    def build(decoded: Decoded, context: Context) -> Step:
        table = numbers.SMALL[numbers.float8(kind, context.target.arch)]
        read = _selected(decoded, decoded.operands[1], 16)
        row = decoded.operands[0].first

        def step(waves: Waves) -> None:
            word = read(waves)
            waves.write(row, table[word & U32(0xFF)])
            waves.write(row + 1, table[word >> U32(8)])

        return step

    return build


def _two_to_float8(kind: str) -> Builder:
    """V_CVT_PK_FP8_F32: two bytes in one half of the destination; the other half stays."""

    def build(decoded: Decoded, context: Context) -> Step:
        format_ = numbers.float8(kind, context.target.arch)
        target, first, second = decoded.operands
        reads = [source(operand, "f32") for operand in (first, second)]
        half = (*decoded.numbers("op_sel", ()), 0, 0, 0)[2]
        write = destination(target, "u16", context.target, half=half, keep_half=True)

        def value(waves: Waves) -> Array:
            low, high = (numbers.to_float8(np.asarray(read(waves)), format_) for read in reads)
            return _two_bytes(low.astype(U16), high.astype(U16))

        return Assignment(value, write)

    return build


def _two_halves_from_float8(kind: str) -> Builder:
    """V_CVT_PK_F16_FP8 (gfx1250): two bytes become the halves of a register."""

    def build(decoded: Decoded, context: Context) -> Step:
        table = numbers.SMALL[numbers.float8(kind, context.target.arch)]
        read = _selected(decoded, decoded.operands[1], 16)
        write = destination(decoded.operands[0], "u32", context.target)

        def value(waves: Waves) -> Array:
            word = read(waves)
            low, high = table[word & U32(0xFF)], table[word >> U32(8)]
            return numbers.half_bits(low, "f16") | (numbers.half_bits(high, "f16") << U32(16))

        return Assignment(value, write)

    return build


for _kind in ("fp8", "bf8"):
    builds(f"v_cvt_f16_{_kind}")(_from_float8(_kind, "f16"))
    builds(f"v_cvt_pk_f16_{_kind}")(_two_halves_from_float8(_kind))
    builds(f"v_cvt_f32_{_kind}")(_from_float8(_kind, "f32"))
    builds(f"v_cvt_pk_f32_{_kind}")(_two_from_float8(_kind))
    builds(f"v_cvt_pk_{_kind}_f32")(_two_to_float8(_kind))


# ---------------------------------------------------------------------- with a scale (gfx950)

_BITS: Final = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
_FROM_SMALL = re.compile(r"v_cvt_scalef32_(?:pk(32)?_)?(f32|f16|bf16)_(fp8|bf8|fp6|bf6|fp4)")
_TO_SMALL = re.compile(r"v_cvt_scalef32_(pk|pk32|2xpk16)_(fp8|bf8|fp6|bf6|fp4)_(f32|f16|bf16)")


def power_of_scale(bits: Array) -> Array:
    """2 to the exponent of a float32's bits, as float64; NaN for the exponent of NaN."""
    exponent = (bits >> U32(23) & U32(0xFF)).astype(np.int32)
    return np.where(exponent == 255, np.nan, np.ldexp(F64(1), exponent - 127))


@builds_matching(_FROM_SMALL.pattern)
def scaled_from_small(decoded: Decoded, context: Context) -> Step:
    """Values times a power of 2, rounded to the result's format.

    One byte's, two values' (op_sel chooses: a byte of fp4, a word of fp8) or 32 values'.
    """
    match = _FROM_SMALL.fullmatch(decoded.name)
    assert match is not None
    many, result, kind = match.groups()
    table = numbers.SMALL[kind].astype(F64)
    target, data, scale = decoded.operands
    chosen = (*decoded.numbers("op_sel", ()), 0, 0, 0, 0)
    power = source(scale, "u32")
    width, row = _BITS[kind], target.first
    if many:
        words = [source(Operand("vgpr", "", data.first + at), "u32") for at in range(data.count)]

        def codes(waves: Waves) -> list[Array]:
            return _unpacked([np.asarray(word(waves)) for word in words], width)
    elif "_pk_" in decoded.name:
        unit = 2 * width
        part = _part(data, unit, chosen[0] if unit == 16 else chosen[0] + 2 * chosen[1])

        def codes(waves: Waves) -> list[Array]:
            both = part(waves)
            return [both & U32((1 << width) - 1), both >> U32(width)]
    else:
        part = _part(data, 8, chosen[0] + 2 * chosen[1])

        def codes(waves: Waves) -> list[Array]:
            return [part(waves)]

    single = not many and "_pk_" not in decoded.name
    narrow = result != "f32"
    write = destination(
        target, result, context.target, half=chosen[3] if single else 0, keep_half=narrow and single
    ) if single else None  # fmt: skip

    def step(waves: Waves) -> None:
        factor = power_of_scale(np.asarray(power(waves)))
        values = [_rounded(table[code] * factor, result) for code in codes(waves)]
        if write is not None:
            write(waves, values[0])
        elif narrow:
            halves = [numbers.half_bits(value, result) for value in values]
            for at in range(0, len(halves), 2):
                waves.write(row + at // 2, halves[at] | (halves[at + 1] << U32(16)))
        else:
            for at, value in enumerate(values):
                waves.write(row + at, value)

    return step


def _rounded(values: Array, kind: str) -> Array:
    """float64 as what a destination of a kind takes. Products of few bits are exact in float32."""
    return values if kind == "f16" else values.astype(F32)


def _unpacked(words: list[Array], width: int) -> list[Array]:
    """All parts of some registers that lie side by side."""
    codes = []
    for first in range(32 * len(words) // width):
        at, shift = divmod(first * width, 32)
        code = words[at] >> U32(shift)
        if shift + width > 32:
            code = code | (words[at + 1] << U32(32 - shift))
        codes.append(code & U32((1 << width) - 1))
    return codes


def _packed(codes: list[Array], width: int) -> list[Array]:
    """The reverse."""
    words: list[Array] = [np.zeros_like(codes[0]) for _ in range(len(codes) * width // 32)]
    for number, code in enumerate(codes):
        at, shift = divmod(number * width, 32)
        words[at] = words[at] | (code << U32(shift))
        if shift + width > 32:
            words[at + 1] = words[at + 1] | (code >> U32(32 - shift))
    return words


@builds_matching(_TO_SMALL.pattern)
def scaled_to_small(decoded: Decoded, context: Context) -> Step:
    """Values divided by a power of 2, rounded to nearest even.

    Two values (op_sel chooses the byte or word; the rest stays), 32 halves, or two times 16 f32
    that alternate in the result.
    """
    match = _TO_SMALL.fullmatch(decoded.name)
    assert match is not None
    form, kind, origin = match.groups()
    target, *data, scale = decoded.operands
    power, width = source(scale, "u32"), _BITS[kind]
    if form == "2xpk16":
        registers = [operand.first + at for at in range(16) for operand in data]
        reads = [source(Operand("vgpr", "", row), "f32") for row in registers]
    elif form == "pk32" or origin != "f32":
        (values,) = data
        reads = [
            source(_register(values, at // 2), origin, half=at % 2)
            for at in range(2 * values.count)
        ]
    else:
        reads = [source(operand, "f32") for operand in data]
    chosen = (*decoded.numbers("op_sel", ()), 0, 0, 0, 0)
    first = 2 if width == 4 else len(data) + 1
    place = chosen[2] + 2 * chosen[3] if width == 4 else chosen[first]
    row = target.first

    def step(waves: Waves) -> None:
        factor = 1 / power_of_scale(np.asarray(power(waves)))
        codes = [_code(np.asarray(read(waves)) * factor, kind) for read in reads]
        if form != "pk":
            for at, word in enumerate(_packed(codes, width)):
                waves.write(row + at, word)
            return
        both = codes[0] | (codes[1] << U32(width))
        shift = U32(2 * width * place)
        kept = waves.u32[row] & ~U32(((1 << 2 * width) - 1) << int(shift) & 0xFFFFFFFF)
        waves.write(row, kept | (both << shift))

    return step


def _register(operand: Operand, at: int) -> Operand:
    if operand.kind == "constant":
        return operand
    return Operand(operand.kind, operand.text, operand.first + at)


def _code(values: Array, kind: str) -> Array:
    """Bits as uint32. Formats without infinities and NaN take their largest number."""
    if kind in ("fp8", "bf8"):
        return numbers.to_float8(values, kind).astype(U32)
    most = float(np.max(numbers.SMALL[kind]))
    held = np.clip(np.nan_to_num(values, nan=most), -most, most)
    return numbers.to_small(held, kind).astype(U32)
