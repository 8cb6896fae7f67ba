"""Division of floats in steps: V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP.

Compilers divide by a reciprocal that is refined: the operands are scaled so that no step over- or
underflows, the last step scales back, and the special cases are put in at the end.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ...isa.dataflow.operands import VCC, Decoded
from ..elementwise import after_result, define
from ..registry import BuildContext, Step, builds_as
from ..vector_operands import destination, mask_row, source
from ..waves import F32, I32, U32, Array, Waves
from .minmax import quieted
from .real import F64, fused, fused_double, odd_sum


def fixed_division(quotient: Array, divisor: Array, dividend: Array) -> Array:
    """V_DIV_FIXUP: the sign and the special cases of a division worked out in steps."""
    quotient, divisor, dividend = (
        np.ascontiguousarray(array) for array in np.broadcast_arrays(quotient, divisor, dividend)
    )
    signed = np.copysign(quotient, 1) * _sign(divisor) * _sign(dividend)
    special = (divisor == 0) | (dividend == 0) | ~np.isfinite(divisor) | ~np.isfinite(dividend)
    # So small that it rounds to 0 ("UNDERFLOW").
    lost = biased_exponent(dividend) - biased_exponent(divisor) < (
        -150 if quotient.dtype == F32 else -1075
    )
    signed = np.where(lost & ~special, signed * quotient.dtype.type(0), signed)
    # Steps that overflowed end in inf - inf; the hardware makes that an infinity (tinygrad,
    # test/mockgpu/amd/emu.py). The document has it under "OVERFLOW".
    overflown = np.isnan(quotient) & ~special
    infinite = _sign(divisor) * _sign(dividend) * quotient.dtype.type(np.inf)
    signed = np.where(overflown, infinite, signed)
    if not special.any():
        return signed
    return np.where(special, np.divide(quieted(dividend), quieted(divisor)), signed)


def biased_exponent(value: Array) -> Array:
    """The exponent's bits of a float32 or float64, int64."""
    if value.dtype == F32:
        return (value.view(U32) >> U32(23) & U32(0xFF)).astype(np.int64)
    return (value.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)


def _sign(value: Array) -> Array:
    return np.copysign(value.dtype.type(1), value)


def _scaled_division(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """V_DIV_SCALE: prepares a division so that no step over- or underflows.

    D = S0, scaled; VCC (or the SGPRs named) tells V_DIV_FMAS to scale back. S0 is the divisor (S1)
    or the dividend (S2). CDNA3 ISA, V_DIV_SCALE_F32, but for two things without which the steps
    would not give the quotient: the reciprocal's range is that of the kind (the document compares
    in f64), and a divisor whose reciprocal is denormal is scaled down in all cases.
    """
    target, mask, chosen, divisor, dividend = decoded.operands
    first_row = mask_row(mask, context.target)
    reads = [source(operand, kind) for operand in (chosen, divisor, dividend)]
    write = destination(target, kind, context.target)

    def step(waves: Waves) -> None:
        value, below, above = (
            np.broadcast_to(read(waves), (waves.count, waves.lanes)) for read in reads
        )
        scale, scaled_back = _division_scale(value, below, above, kind)
        if not mask.is_null:
            waves.set_mask(first_row, scaled_back & waves.active)
        write(waves, (value * scale).astype(scale.dtype))

    return step


def _division_scale(
    value: Array, divisor: Array, dividend: Array, kind: str
) -> tuple[Array, Array]:
    """The factor by which V_DIV_SCALE multiplies a value, and where VCC is set."""
    digits, power, lowest, reach = (23, 64, -126, 96) if kind == "f32" else (52, 128, -1022, 768)
    dtype = F32 if kind == "f32" else F64
    up, down, same = dtype(2.0**power), dtype(2.0**-power), dtype(1)
    tiny = np.finfo(dtype).tiny
    exponents = np.frexp(dividend)[1], np.frexp(divisor)[1]
    inverse_small = np.abs(same / divisor.astype(dtype)) < tiny
    quotient_small = np.abs(dividend / divisor) < tiny
    is_divisor, is_dividend = value == divisor, value == dividend
    # Condition, what S0 is times, VCC; the first that holds decides.
    cases = (
        ((divisor == 0) | (dividend == 0), dtype(np.nan), False),
        (exponents[0] - exponents[1] >= reach, np.where(is_divisor, up, same), True),
        (np.abs(divisor) < tiny, up, False),
        (inverse_small & quotient_small, np.where(is_divisor, down, same), True),
        (inverse_small, down, False),
        (quotient_small, np.where(is_dividend, up, same), True),
        (exponents[0] - 1 <= lowest + digits, up, False),
    )
    conditions = [condition for condition, _, _ in cases]
    scale = np.select(conditions, [factor for _, factor, _ in cases], same)
    flag = np.select(conditions, [np.array(vcc) for _, _, vcc in cases], False)
    return scale, flag.astype(bool)


def _scaled_single(a: Array, b: Array, c: Array, power: Array) -> Array:
    """(A * b + c) * 2**power of float32 with one rounding: the quotient may be denormal."""
    total = odd_sum(np.multiply(a, b, dtype=F64), np.asarray(c).astype(F64))
    return np.asarray(np.ldexp(total, power).astype(F32))


def _scaled_double(a: Array, b: Array, c: Array, power: Array) -> Array:
    """(A * b + c) * 2**power of float64; by exact fractions where the result is denormal."""
    result = np.ldexp(fused_double(a, b, c), power)
    small = np.abs(result) < np.finfo(F64).tiny
    for position in np.argwhere(small & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        index = tuple(position)
        total = Fraction(float(a[index])) * Fraction(float(b[index])) + Fraction(float(c[index]))
        result[index] = float(total * Fraction(2) ** int(power[index])) if total else result[index]
    return np.asarray(result)


def _fused_and_scaled_back(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """V_DIV_FMAS: a fused multiply-add; where VCC is set, scaled back, all with one rounding.

    Up where S2, the quotient so far, is 2 or more, otherwise down: by what V_DIV_SCALE has scaled
    by (2**64, for f64 2**128). The documents name half of it and no direction, with which no
    quotient would come out; hardware does this (tinygrad, test/amd/hw/test_vop3.py, on RDNA3).
    """
    reads = [source(operand, kind) for operand in decoded.operands[1:]]
    write = destination(decoded.operands[0], kind, context.target)
    changes = after_result(decoded, kind, context.target)
    compute = fused if kind == "f32" else fused_double
    scale_back = _scaled_single if kind == "f32" else _scaled_double
    exponent = I32(64 if kind == "f32" else 128)

    def step(waves: Waves) -> None:
        values = [read(waves) for read in reads]
        value = compute(*values)
        if waves.mask_nonzero(VCC).any():
            scaled = waves.mask(VCC)
            first, second, third, _ = np.broadcast_arrays(*values, scaled)
            power = np.where(np.abs(third) >= 2, exponent, -exponent)
            value = np.where(scaled, scale_back(first, second, third, power), value)
        for change in changes:
            value = change(value)
        write(waves, value)

    return step


def _fixed_half(quotient: Array, divisor: Array, dividend: Array) -> Array:
    """V_DIV_FIXUP_F16, worked out in float64."""
    return fixed_division(quotient.astype(F64), divisor.astype(F64), dividend.astype(F64))


define("v_div_fixup_f32", "f32", "f32 f32 f32", fixed_division)
define("v_div_fixup_f64", "f64", "f64 f64 f64", fixed_division)
define("v_div_fixup_f16 v_div_fixup_legacy_f16", "f16", "f16 f16 f16", _fixed_half)
for _kind in ("f32", "f64"):
    builds_as(f"v_div_scale_{_kind}", _scaled_division, _kind)
    builds_as(f"v_div_fmas_{_kind}", _fused_and_scaled_back, _kind)
