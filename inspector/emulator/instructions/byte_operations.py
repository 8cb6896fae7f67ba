"""Vector operations on the bytes of registers: permutations, distances, means.

Source: CDNA3 ISA, 12.7 to 12.11.
"""

from __future__ import annotations

import numpy as np

from ..elementwise import define
from ..operands import Decoded
from ..registry import BuildContext, Builder, NotCoveredError, Step, builds
from ..vector_operands import raw, source
from ..waves import U32, Array, Waves

U64 = np.uint64
I64 = np.int64


def permuted_bytes(high: Array, low: Array, selector: Array) -> Array:
    """V_PERM_B32: each byte of the selector picks one of the eight bytes of high:low.

    8 to 11 give the sign of byte 1, 3, 5, 7; 12 gives 0x00; 13 and more 0xff.
    """
    choices = _same_choices(selector)
    if choices is not None:
        return _moved_bytes(high, low, choices)
    both = (np.asarray(high).astype(U64) << U64(32)) | np.asarray(low)
    result = U32(0)
    for byte_index in range(4):
        choice = (selector >> U32(8 * byte_index)) & U32(0xFF)
        shift = (choice & U32(7)).astype(U64) * U64(8)
        byte = ((both >> shift) & U64(0xFF)).astype(U32)
        if np.max(choice) > 7:
            sign_at = (U64(16) * (choice & U32(3)).astype(U64)) + U64(15)
            sign = ((both >> sign_at) & U64(1)).astype(U32) * U32(0xFF)
            byte = np.where(choice < 8, byte, np.where(choice < 12, sign, U32(0xFF)))
            byte = np.where(choice == 12, U32(0), byte)
        result = result | (byte << U32(8 * byte_index))
    return np.asarray(result)


def _same_choices(selector: Array) -> tuple[int, ...] | None:
    """The bytes of a selector that is the same for all waves and picks no sign, lowest first.

    Compilers keep it in a scalar register or a literal. None: there is more to it.
    """
    values = np.asarray(selector)
    if values.ndim and values.shape[-1] != 1:
        return None
    first = int(values.flat[0])
    choices = tuple(first >> 8 * byte_index & 0xFF for byte_index in range(4))
    if any(8 <= choice < 12 for choice in choices) or (values != first).any():
        return None
    return choices


def _moved_bytes(high: Array, low: Array, choices: tuple[int, ...]) -> Array:
    """`permuted_bytes` by one shift and one mask for each run of neighbouring bytes."""
    result = U32(
        sum(0xFF << 8 * byte_index for byte_index, choice in enumerate(choices) if choice > 12)
    )
    begin = 0
    while begin < 4:
        choice, end = choices[begin], begin + 1
        if choice < 8:
            while end < 4 and choices[end] == choices[end - 1] + 1 != 4:
                end += 1
            source, by = (high if choice > 3 else low), 8 * (begin - choice % 4)
            moved = source << U32(by) if by >= 0 else source >> U32(-by)
            # Bits that the shift itself has dropped need no mask.
            if (begin > max(by // 8, 0)) or (end < 4 + min(by // 8, 0)):
                moved = moved & U32((1 << 8 * end) - (1 << 8 * begin))
            result = result | moved
        begin = end
    return np.asarray(result)


def _bytes_of(word: Array) -> list[Array]:
    return [(word >> U32(shift)) & U32(0xFF) for shift in (0, 8, 16, 24)]


def _distance(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


def byte_distances(a: Array, b: Array, *, masked: bool = False) -> Array:
    """V_SAD_U8 without its addend: the sum of bytes' distances; V_MSAD: where S1's is not 0."""
    total = np.asarray(U32(0))
    for left, right in zip(_bytes_of(a), _bytes_of(b), strict=True):
        part = _distance(left, right)
        total = total + (np.where(right == 0, U32(0), part) if masked else part)
    return np.asarray(total)


def byte_means(a: Array, b: Array, rounding: Array) -> Array:
    """V_LERP_U8: each byte's mean, rounded up where the lowest bit of S2's byte is set."""
    total = np.asarray(U32(0))
    parts = zip(_bytes_of(a), _bytes_of(b), _bytes_of(rounding), strict=True)
    for byte_index, (left, right, up) in enumerate(parts):
        total = total | ((left + right + (up & U32(1))) >> U32(1)) << U32(8 * byte_index)
    return np.asarray(total)


define("v_alignbyte_b32", "u32", "u32 u32 u32",
        lambda a, b, c: (((np.asarray(a).astype(U64) << U64(32)) | b)
                         >> ((c & U32(3)) * U32(8)).astype(U64)).astype(U32))  # fmt: skip
define("v_perm_b32", "u32", "u32 u32 u32", permuted_bytes)
define("v_sad_u8", "u32", "u32 u32 u32", lambda a, b, c: byte_distances(a, b) + c, saturates=True)
define("v_sad_hi_u8", "u32", "u32 u32 u32",
        lambda a, b, c: (byte_distances(a, b) << U32(16)) + c, saturates=True)  # fmt: skip
define(
    "v_msad_u8",
    "u32",
    "u32 u32 u32",
    lambda a, b, c: byte_distances(a, b, masked=True) + c,
    saturates=True,
)
define("v_sad_u16", "u32", "u32 u32 u32",
        lambda a, b, c: _distance(a & U32(0xFFFF), b & U32(0xFFFF))
        + _distance(a >> U32(16), b >> U32(16)) + c, saturates=True)  # fmt: skip
define("v_sad_u32", "u32", "u32 u32 u32", lambda a, b, c: _distance(a, b) + c, saturates=True)
define("v_lerp_u8", "u32", "u32 u32 u32", lambda a, b, c: byte_means(a, b, c))


def _sliding_distances(*, masked: bool, wide: bool) -> Builder:
    """V_QSAD_PK_U16_U8, V_MQSAD: four distances of S1 to the bytes of S0.64 from 0, 1, 2, 3 on.

    Results of 16 bits side by side in two registers, or of 32 bits in four (CDNA3 ISA).
    """

    def build(decoded: Decoded, context: BuildContext) -> Step:
        target, window, pattern, addend = decoded.operands
        if decoded.flag("clamp"):
            raise NotCoveredError(decoded.text)
        wide_window, narrow_pattern = source(window, "u64"), source(pattern, "u32")
        addends = [raw(addend, row) for row in range(4 if wide else 2)]
        row = target.first

        def step(waves: Waves) -> None:
            bytes_, other = np.asarray(wide_window(waves)), narrow_pattern(waves)
            before = [np.array(read(waves)) for read in addends]
            sums = [
                byte_distances((bytes_ >> U64(8 * shift)).astype(U32), other, masked=masked)
                for shift in range(4)
            ]
            if wide:
                for number, total in enumerate(sums):
                    waves.write(row + number, total + before[number])
                return
            for number in range(2):
                low = (sums[2 * number] + before[number]) & U32(0xFFFF)
                high = sums[2 * number + 1] + (before[number] >> U32(16))
                waves.write(row + number, low | (high << U32(16)))

        return step

    return build


builds("v_qsad_pk_u16_u8")(_sliding_distances(masked=False, wide=False))
builds("v_mqsad_pk_u16_u8")(_sliding_distances(masked=True, wide=False))
builds("v_mqsad_u32_u8")(_sliding_distances(masked=True, wide=True))
