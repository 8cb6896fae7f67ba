"""Conversions from and to 8-bit floats, and stochastic rounding to 8 and 16 bits.

Sources: CDNA3 ISA, 12.8 and 12.11; RDNA4 ISA, V_CVT_*. Of stochastic rounding (`sr`) the documents'
text ("add to the mantissa, wrap around, then round to nearest even") is not what AMD's headers
compute (amd_hip_ocp_host.hpp: add, then truncate), which is done here.
"""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import Decoded, opsel
from .. import crosslane, numbers
from ..elementwise import ResultStep, flushing
from ..numbers import SMALL, float8, to_small
from ..registry import BuildContext, NotCoveredError, Step, builds_as
from ..vector_operands import Read, Write, check_count, destination, source, then_apply
from ..waves import U32, Array, Waves
from .half import two_halves


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
