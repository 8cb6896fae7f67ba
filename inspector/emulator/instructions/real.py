"""Vector floating point of 32 and 64 bits, and conversions between formats."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ..elementwise import after_result, elementwise
from ..minmax import (
    is_signalling,
    larger_number,
    largest,
    quieted,
    smaller_number,
    smallest,
)
from ..operands import VCC, Decoded
from ..registry import Builder, Context, ExecutionTarget, Step, builds
from ..vector_operands import destination, source
from ..waves import F32, I32, U32, Array, Waves

F64 = np.float64
Compute = Callable[..., Array]


def _define(
    names: str, result: str, kinds: str, compute: Compute, *, accumulates: bool = False
) -> None:
    builds(*names.split())(elementwise(result, kinds, compute, reads_result=accumulates))


def by_target(result: str, kinds: str, choose: Callable[[ExecutionTarget], Compute]) -> Builder:
    """A builder for an operation that depends on the target's mode."""

    def build(decoded: Decoded, context: Context) -> Step:
        return elementwise(result, kinds, choose(context.target))(decoded, context)

    return build


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


_LOW_BITS = np.uint64((1 << 29) - 1)
_HALF = np.uint64(1 << 28)
"""The bits of a float64 that a float32 does not have, and the highest of them."""


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


def smaller(a: Array, b: Array) -> Array:
    """The smaller one: a number before a NaN, -0 before +0."""
    result = np.minimum(a, b)
    return result if (np.abs(result) > 0).all() else smaller_number(*np.broadcast_arrays(a, b))


def larger(a: Array, b: Array) -> Array:
    """The larger one: a number before a NaN, +0 before -0."""
    result = np.maximum(a, b)
    return result if (np.abs(result) > 0).all() else larger_number(*np.broadcast_arrays(a, b))


def _signals(choose: Compute, target: ExecutionTarget) -> Compute:
    """Returns a choice that obeys IEEE rules up to gfx11: a signalling NaN is the result, quiet.

    CDNA3 ISA, V_MIN_F32; RDNA4 ISA, V_MIN_NUM_F32.
    """
    if target.generation >= 12 or not target.ieee:
        return choose

    def compute(a: Array, b: Array) -> Array:
        result = choose(a, b)
        if not (np.isnan(a).any() or np.isnan(b).any()):
            return result
        a, b = np.broadcast_arrays(a, b)
        result = np.where(is_signalling(b), quieted(b), result)
        return np.where(is_signalling(a), quieted(a), result)

    return compute


def least(target: ExecutionTarget) -> Compute:
    """V_MIN of a target."""
    return _signals(smaller, target)


def greatest(target: ExecutionTarget) -> Compute:
    """V_MAX of a target."""
    return _signals(larger, target)


def minimum(a: Array, b: Array) -> Array:
    """IEEE 754-2019's minimum: a NaN where either is one."""
    return quieted(smallest(*np.broadcast_arrays(a, b)))


def maximum(a: Array, b: Array) -> Array:
    """IEEE 754-2019's maximum."""
    return quieted(largest(*np.broadcast_arrays(a, b)))


def middle_of(target: ExecutionTarget) -> Compute:
    """V_MED3: the middle one; where one is a NaN, the smallest of the numbers (CDNA3 ISA)."""
    low = least(target)

    def compute(a: Array, b: Array, c: Array) -> Array:
        highest = larger(larger(a, b), c)
        picked = np.where(
            highest == a, larger(b, c), np.where(highest == b, larger(a, c), larger(a, b))
        )
        nans = np.isnan(a) | np.isnan(b) | np.isnan(c)
        return np.where(nans, low(low(a, b), c), picked) if nans.any() else picked

    return compute


def always(compute: Compute) -> Callable[[ExecutionTarget], Compute]:
    """Returns the choice of one operation for all targets."""
    return lambda target: compute


def three(choose: Callable[[ExecutionTarget], Compute]) -> Callable[[ExecutionTarget], Compute]:
    """Returns the choice of an operation on three operands that applies one on two, twice."""

    def chosen(target: ExecutionTarget) -> Compute:
        pick = choose(target)
        return lambda a, b, c: pick(pick(a, b), c)

    return chosen


def then(
    first: Callable[[ExecutionTarget], Compute], second: Callable[[ExecutionTarget], Compute]
) -> Callable[[ExecutionTarget], Compute]:
    """V_MAXMIN and its like: one operation on two operands, another on its result and the third."""

    def chosen(target: ExecutionTarget) -> Compute:
        inner, outer = first(target), second(target)
        return lambda a, b, c: outer(inner(a, b), c)

    return chosen


def register_orders(kind: str) -> None:
    """Minimum, maximum and what is made of them, for a kind of float."""
    two, triple = f"{kind} {kind}", f"{kind} {kind} {kind}"
    numbers: dict[str, Callable[[ExecutionTarget], Compute]] = {"min": least, "max": greatest}
    strict = {"minimum": always(minimum), "maximum": always(maximum)}
    for name, choose in numbers.items():
        builds(f"v_{name}_{kind}", f"v_{name}_num_{kind}")(by_target(kind, two, choose))
        builds(f"v_{name}3_{kind}", f"v_{name}3_num_{kind}")(by_target(kind, triple, three(choose)))
    builds(f"v_med3_{kind}", f"v_med3_num_{kind}")(by_target(kind, triple, middle_of))
    for name, choose in strict.items():
        builds(f"v_{name}_{kind}")(by_target(kind, two, choose))
        builds(f"v_{name}3_{kind}")(by_target(kind, triple, three(choose)))
    for first, second in (("min", "max"), ("max", "min")):
        both = then(numbers[first], numbers[second])
        names = (f"v_{first}{second}_{kind}", f"v_{first}{second}_num_{kind}")
        builds(*names)(by_target(kind, triple, both))
        pair = f"{first}imum", f"{second}imum"
        builds(f"v_{pair[0]}{pair[1]}_{kind}")(
            by_target(kind, triple, then(strict[pair[0]], strict[pair[1]]))
        )


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


def to_integer(value: Array, kind: type, low: float, high: float) -> Array:
    """Truncation with saturation; NaN becomes 0."""
    bounded = np.clip(np.nan_to_num(np.trunc(value.astype(F64)), nan=0.0), low, high)
    return bounded.astype(np.int64).astype(kind)


def fraction(a: Array) -> Array:
    """A - floor(a), below 1 (LLVM, ConstantFolding.cpp, amdgcn_fract)."""
    below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    return np.minimum(a - np.floor(a), below_one)


def sine(a: Array) -> Array:
    """V_SIN: of an angle in turns of 2 pi; exact at quarters of a turn."""
    turns = np.asarray(a).astype(F64)
    part = turns - np.rint(turns)
    folded = np.where(np.abs(part) > 0.25, np.copysign(0.5, part) - part, part)
    return np.sin(folded * (2 * np.pi)).astype(a.dtype)


def cosine(a: Array) -> Array:
    """V_COS: of an angle in turns of 2 pi; the sine a quarter of a turn ahead."""
    turns = np.asarray(a).astype(F64)
    return np.sin((0.25 - np.abs(turns - np.rint(turns))) * (2 * np.pi)).astype(a.dtype)


def exponent_of(a: Array) -> Array:
    """V_FREXP_EXP: the power of 2 of a mantissa in [0.5, 1); 0 for what is not finite."""
    return np.where(np.isfinite(a), np.frexp(a)[1], 0)


def mantissa_of(a: Array) -> Array:
    """V_FREXP_MANT: in [0.5, 1); what is not finite stays."""
    return np.where(np.isfinite(a), np.frexp(a)[0], a)


def without_denormals(compute: Compute) -> Compute:
    """Denormals of float32 are 0 on the way in and out, whatever the mode.

    "Denormals are flushed" (CDNA3 ISA, V_RCP_F32, V_EXP_F32, V_LOG_F32, V_RSQ_F32, V_SQRT_F32;
    LLVM, SITargetLowering::lowerFastUnsafeFDIV).
    """
    smallest_normal = F32(2.0**-126)

    def flushed(a: Array) -> Array:
        a = a * (np.abs(a) >= smallest_normal)
        value = compute(a)
        return np.asarray(value * (np.abs(value) >= smallest_normal))

    return flushed


def zero_wins(a: Array, b: Array) -> Array:
    """DX9's product: 0 times anything is +0."""
    return np.where((a == 0) | (b == 0), F32(0), a * b)


def fused_zero_wins(a: Array, b: Array, c: Array) -> Array:
    """DX9's product, with c added in the same rounding: 0 times anything is +0."""
    return np.where((a == 0) | (b == 0), c, fused(a, b, c))


def _lit(a: Array, b: Array, c: Array) -> Array:
    """V_MULLIT_F32: the product; -MAX where the exponent or the base does not allow it."""
    largest_float = np.finfo(F32).max
    none = (b <= -largest_float) | np.isnan(b) | (c <= 0) | np.isnan(c)
    return np.where(none, -largest_float, a * b)


_define("v_add_f32", "f32", "f32 f32", np.add)
_define("v_sub_f32", "f32", "f32 f32", np.subtract)
_define("v_subrev_f32", "f32", "f32 f32", lambda a, b: np.subtract(b, a))
_define("v_mul_f32", "f32", "f32 f32", np.multiply)
register_orders("f32")
_define("v_fma_f32", "f32", "f32 f32 f32", fused)
_define("v_fmac_f32", "f32", "f32 f32 f32", fused, accumulates=True)
_define("v_fmamk_f32", "f32", "f32 f32 f32", fused)
_define("v_fmaak_f32", "f32", "f32 f32 f32", fused)
_define("v_floor_f32", "f32", "f32", np.floor)
_define("v_ceil_f32", "f32", "f32", np.ceil)
_define("v_trunc_f32", "f32", "f32", np.trunc)
_define("v_rndne_f32", "f32", "f32", np.rint)
_define("v_fract_f32", "f32", "f32", lambda a: fraction(a))
_define("v_exp_f32 v_exp_legacy_f32", "f32", "f32", without_denormals(np.exp2))
_define("v_log_f32 v_log_legacy_f32", "f32", "f32", without_denormals(np.log2))
_define("v_rcp_f32 v_rcp_iflag_f32", "f32", "f32", without_denormals(lambda a: F32(1) / a))
_define("v_rsq_f32", "f32", "f32",
        without_denormals(lambda a: (1 / np.sqrt(a.astype(F64))).astype(F32)))  # fmt: skip
_define("v_sqrt_f32", "f32", "f32", without_denormals(np.sqrt))
_define("v_sin_f32", "f32", "f32", sine)
_define("v_cos_f32", "f32", "f32", cosine)
_define("v_frexp_exp_i32_f32", "i32", "f32", lambda a: exponent_of(a).astype(I32))
_define("v_frexp_mant_f32", "f32", "f32", mantissa_of)
_define("v_mul_legacy_f32 v_mul_dx9_zero_f32", "f32", "f32 f32", zero_wins)
_define("v_fma_dx9_zero_f32 v_fma_legacy_f32", "f32", "f32 f32 f32", fused_zero_wins)
_define("v_fmac_dx9_zero_f32 v_fmac_legacy_f32", "f32", "f32 f32 f32", fused_zero_wins,
        accumulates=True)  # fmt: skip
_define("v_mad_f32", "f32", "f32 f32 f32", lambda a, b, c: a * b + c)
_define("v_mac_f32", "f32", "f32 f32 f32", lambda a, b, c: a * b + c, accumulates=True)
_define("v_madmk_f32 v_madak_f32", "f32", "f32 f32 f32", lambda a, b, c: a * b + c)
_define("v_mad_legacy_f32", "f32", "f32 f32 f32", lambda a, b, c: zero_wins(a, b) + c)
_define("v_mullit_f32", "f32", "f32 f32 f32", _lit)
_define("v_div_fixup_f32", "f32", "f32 f32 f32", fixed_division)
_define("v_ldexp_f32", "f32", "f32 i32", lambda a, b: np.ldexp(a, b).astype(F32))
_define("v_cvt_f32_i32", "f32", "i32", lambda a: np.asarray(a).astype(F32))
_define("v_cvt_f32_u32", "f32", "u32", lambda a: np.asarray(a).astype(F32))
_define("v_cvt_i32_f32", "i32", "f32", lambda a: to_integer(a, I32, -(2.0**31), 2.0**31 - 1))
_define("v_cvt_u32_f32", "u32", "f32", lambda a: to_integer(a, U32, 0.0, 2.0**32 - 1))
_define("v_cvt_f16_f32", "f16", "f32", lambda a: np.asarray(a))
_define("v_cvt_f32_f16", "f32", "f16", lambda a: np.asarray(a))


# ---------------------------------------------------------------------- cube maps


def _face(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Whether z, else y, is the longest coordinate."""
    x, y, z = (np.abs(value) for value in (a, b, c))
    return (z >= x) & (z >= y), y >= x


def _cube(on_z: Compute, on_y: Compute, on_x: Compute) -> Compute:
    def compute(a: Array, b: Array, c: Array) -> Array:
        z, y = _face(a, b, c)
        return np.where(z, on_z(a, b, c), np.where(y, on_y(a, b, c), on_x(a, b, c))).astype(F32)

    return compute


_define("v_cubeid_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: np.where(c < 0, 5.0, 4.0), lambda a, b, c: np.where(b < 0, 3.0, 2.0),
    lambda a, b, c: np.where(a < 0, 1.0, 0.0)))  # fmt: skip
_define("v_cubesc_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: np.where(c < 0, -a, a), lambda a, b, c: a,
    lambda a, b, c: np.where(a < 0, c, -c)))  # fmt: skip
_define("v_cubetc_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: -b, lambda a, b, c: np.where(b < 0, -c, c), lambda a, b, c: -b))  # fmt: skip
_define("v_cubema_f32", "f32", "f32 f32 f32", _cube(
    lambda a, b, c: c * 2, lambda a, b, c: b * 2, lambda a, b, c: a * 2))  # fmt: skip


# ---------------------------------------------------------------------- division in steps


def _scaled_division(kind: str) -> Builder:
    """V_DIV_SCALE: prepares a division so that no step over- or underflows.

    D = S0, scaled; VCC (or the SGPRs named) tells V_DIV_FMAS to scale back. S0 is the divisor (S1)
    or the dividend (S2). CDNA3 ISA, V_DIV_SCALE_F32, but for two things without which the steps
    would not give the quotient: the reciprocal's range is that of the kind (the document compares
    in f64), and a divisor whose reciprocal is denormal is scaled down in all cases.
    """
    digits, power, lowest, reach = (23, 64, -126, 96) if kind == "f32" else (52, 128, -1022, 768)
    dtype = F32 if kind == "f32" else F64

    def build(decoded: Decoded, context: Context) -> Step:
        target, mask, chosen, divisor, dividend = decoded.operands
        reads = [source(operand, kind) for operand in (chosen, divisor, dividend)]
        write = destination(target, kind, context.target)
        up, down = dtype(2.0**power), dtype(2.0**-power)
        tiny = np.finfo(dtype).tiny

        def step(waves: Waves) -> None:
            value, below, above = (
                np.broadcast_to(read(waves), (waves.count, waves.lanes)) for read in reads
            )
            exponents = np.frexp(above)[1], np.frexp(below)[1]
            inverse_small = np.abs(dtype(1) / below.astype(dtype)) < tiny
            quotient_small = np.abs(above / below) < tiny
            is_divisor, is_dividend = value == below, value == above
            # Condition, what S0 is times, VCC; the first that holds decides.
            cases = (
                ((below == 0) | (above == 0), dtype(np.nan), False),
                (exponents[0] - exponents[1] >= reach, np.where(is_divisor, up, dtype(1)), True),
                (np.abs(below) < tiny, up, False),
                (inverse_small & quotient_small, np.where(is_divisor, down, dtype(1)), True),
                (inverse_small, down, False),
                (quotient_small, np.where(is_dividend, up, dtype(1)), True),
                (exponents[0] - 1 <= lowest + digits, up, False),
            )
            conditions = [condition for condition, _, _ in cases]
            scale = np.select(conditions, [factor for _, factor, _ in cases], dtype(1))
            if not mask.is_null:
                flag = np.select(conditions, [np.array(vcc) for _, _, vcc in cases], False)
                waves.set_mask(mask.first, flag.astype(bool) & waves.active)
            write(waves, (value * scale).astype(dtype))

        return step

    return build


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


def _fused_and_scaled_back(kind: str) -> Builder:
    """V_DIV_FMAS: a fused multiply-add; where VCC is set, scaled back, all with one rounding.

    Up where S2, the quotient so far, is 2 or more, otherwise down: by what V_DIV_SCALE has scaled
    by (2**64, for f64 2**128). The documents name half of it and no direction, with which no
    quotient would come out; hardware does this (tinygrad, test/amd/hw/test_vop3.py, on RDNA3).
    """

    def build(decoded: Decoded, context: Context) -> Step:
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

    return build


for _kind in ("f32", "f64"):
    builds(f"v_div_scale_{_kind}")(_scaled_division(_kind))
    builds(f"v_div_fmas_{_kind}")(_fused_and_scaled_back(_kind))
