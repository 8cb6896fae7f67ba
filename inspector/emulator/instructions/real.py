"""Vector floating point of 32 and 64 bits, and conversions between formats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..access import destination, elementwise, source
from ..operands import VCC, Decoded
from ..registry import Builder, Context, Step, builds
from ..waves import F32, I32, U32, Array, Waves

F64 = np.float64
Compute = Callable[..., Array]


def _define(
    names: str, result: str, kinds: str, compute: Compute, *, accumulates: bool = False
) -> None:
    builds(*names.split())(elementwise(result, kinds, compute, reads_result=accumulates))


def fused(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of float32 with one rounding: the product is exact in float64.

    The sum is rounded to float64 and then to float32, which differs from one rounding in about one
    case of 2**29.
    """
    return (np.multiply(a, b, dtype=F64) + c).astype(F32)


def fused_double(a: Array, b: Array, c: Array) -> Array:
    """A * b + c of float64, rounded twice."""
    return np.asarray(a * b + c)


def smaller(a: Array, b: Array) -> Array:
    """IEEE minNum: a number wins over NaN; -0 is less than +0."""
    return np.fmin(a, b)


def larger(a: Array, b: Array) -> Array:
    """IEEE maxNum."""
    return np.fmax(a, b)


def fixed_division(quotient: Array, divisor: Array, dividend: Array) -> Array:
    """V_DIV_FIXUP: the special cases of a division whose quotient is worked out in steps."""
    special = (
        (divisor == 0) | (dividend == 0) | np.isinf(divisor) | np.isinf(dividend)
        | np.isnan(divisor) | np.isnan(dividend)
    )  # fmt: skip
    if not special.any():
        return quotient
    return np.where(special, np.divide(dividend, divisor), quotient)


def to_integer(value: Array, kind: type, low: float, high: float) -> Array:
    """Truncation with saturation; NaN becomes 0."""
    bounded = np.clip(np.nan_to_num(np.trunc(value.astype(F64)), nan=0.0), low, high)
    return bounded.astype(np.int64).astype(kind)


_define("v_add_f32", "f32", "f32 f32", np.add)
_define("v_sub_f32", "f32", "f32 f32", np.subtract)
_define("v_subrev_f32", "f32", "f32 f32", lambda a, b: np.subtract(b, a))
_define("v_mul_f32", "f32", "f32 f32", np.multiply)
_define("v_min_f32 v_min_num_f32", "f32", "f32 f32", smaller)
_define("v_max_f32 v_max_num_f32", "f32", "f32 f32", larger)
_define(
    "v_min3_f32 v_min3_num_f32", "f32", "f32 f32 f32", lambda a, b, c: smaller(smaller(a, b), c)
)
_define("v_max3_f32 v_max3_num_f32", "f32", "f32 f32 f32", lambda a, b, c: larger(larger(a, b), c))
_define("v_fma_f32", "f32", "f32 f32 f32", fused)
_define("v_fmac_f32", "f32", "f32 f32 f32", fused, accumulates=True)
_define("v_fmamk_f32", "f32", "f32 f32 f32", fused)
_define("v_fmaak_f32", "f32", "f32 f32 f32", fused)
_define("v_med3_f32 v_med3_num_f32", "f32", "f32 f32 f32",
        lambda a, b, c: smaller(larger(smaller(a, b), c), larger(a, b)))  # fmt: skip
_define("v_floor_f32", "f32", "f32", np.floor)
_define("v_ceil_f32", "f32", "f32", np.ceil)
_define("v_trunc_f32", "f32", "f32", np.trunc)
_define("v_rndne_f32", "f32", "f32", np.rint)
_define("v_fract_f32", "f32", "f32", lambda a: np.minimum(a - np.floor(a), F32(1 - 2.0**-24)))
_define("v_exp_f32", "f32", "f32", np.exp2)
_define("v_log_f32", "f32", "f32", np.log2)
_define("v_rcp_f32 v_rcp_iflag_f32", "f32", "f32", lambda a: F32(1) / a)
_define("v_rsq_f32", "f32", "f32", lambda a: F32(1) / np.sqrt(a))
_define("v_sqrt_f32", "f32", "f32", np.sqrt)
_define("v_div_fixup_f32", "f32", "f32 f32 f32", fixed_division)
_define("v_ldexp_f32", "f32", "f32 i32", lambda a, b: np.ldexp(a, b).astype(F32))
_define("v_cvt_f32_i32", "f32", "i32", lambda a: np.asarray(a).astype(F32))
_define("v_cvt_f32_u32", "f32", "u32", lambda a: np.asarray(a).astype(F32))
_define("v_cvt_i32_f32", "i32", "f32", lambda a: to_integer(a, I32, -(2.0**31), 2.0**31 - 1))
_define("v_cvt_u32_f32", "u32", "f32", lambda a: to_integer(a, U32, 0.0, 2.0**32 - 1))
_define("v_cvt_f16_f32", "f16", "f32", lambda a: np.asarray(a))
_define("v_cvt_f32_f16", "f32", "f16", lambda a: np.asarray(a))


# ---------------------------------------------------------------------- division in steps


def _scaled_division(kind: str) -> Builder:
    """V_DIV_SCALE: prepares a division so that no step over- or underflows.

    D = S0, scaled; VCC (or the SGPRs named) tells V_DIV_FMAS to scale back. S0 is the divisor (S1)
    or the dividend (S2). CDNA3 ISA, V_DIV_SCALE_F32.
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
            nothing = (below == 0) | (above == 0)
            gap = np.frexp(above)[1] - np.frexp(below)[1]
            inverse_small = np.abs(dtype(1) / below.astype(dtype)) < tiny
            quotient_small = np.abs(above / below) < tiny
            is_divisor = value == below
            scale = np.ones(value.shape, dtype)
            flag = np.zeros(value.shape, bool)
            remaining = ~nothing
            # The cases in the document's order; the first that holds decides.
            far = remaining & (gap >= reach)
            scale = np.where(far & is_divisor, up, scale)
            flag |= far
            remaining &= ~far
            denormal = remaining & (np.abs(below) < tiny)
            scale = np.where(denormal, up, scale)
            remaining &= ~denormal
            both = remaining & inverse_small & quotient_small
            scale = np.where(both & is_divisor, up, scale)
            flag |= both
            remaining &= ~both
            inverse = remaining & inverse_small
            scale = np.where(inverse, down, scale)
            remaining &= ~inverse
            quotient = remaining & quotient_small
            scale = np.where(quotient & (value == above), up, scale)
            flag |= quotient
            remaining &= ~quotient
            low = remaining & (np.frexp(above)[1] - 1 <= lowest + digits)
            scale = np.where(low, up, scale)
            result = np.where(nothing, dtype(np.nan), value * scale)
            if not mask.is_null:
                waves.set_mask(mask.first, flag & waves.active)
            write(waves, result.astype(dtype))

        return step

    return build


def _fused_and_scaled_back(kind: str) -> Builder:
    """V_DIV_FMAS: a fused multiply-add, times 2**32 (2**64 for f64) where VCC is set."""

    def build(decoded: Decoded, context: Context) -> Step:
        reads = [source(operand, kind) for operand in decoded.operands[1:]]
        write = destination(decoded.operands[0], kind, context.target)
        compute = fused if kind == "f32" else fused_double
        factor = F32(2.0**32) if kind == "f32" else F64(2.0**64)

        def step(waves: Waves) -> None:
            value = compute(*(read(waves) for read in reads))
            scaled = waves.mask(VCC)
            if scaled.any():
                value = np.where(scaled, value * factor, value)
            write(waves, value)

        return step

    return build


for _kind in ("f32", "f64"):
    builds(f"v_div_scale_{_kind}")(_scaled_division(_kind))
    builds(f"v_div_fmas_{_kind}")(_fused_and_scaled_back(_kind))
