"""16-bit operations, one in a register, conversions to and from 16 bits, and V_FMA_MIX.

Source: CDNA3 ISA, 12.7 to 12.11; RDNA3 ISA, 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, Operand
from .. import numbers
from ..elementwise import (
    Compute,
    ResultStep,
    after_result,
    assemble,
    define,
    define_by_target,
    flushing,
)
from ..registry import BuildContext, Builder, Step, builds
from ..vector_operands import Read, destination, source, then_apply
from ..waves import F32, U32, Array, Waves
from .fused import F64, fused, fused_half
from .integer import middle
from .real import cosine, exponent_of, mantissa_of, sine, to_integer, without_denormals

U16 = np.uint16
I16 = np.int16


def shift16(value: Array) -> Array:
    """The part of a shift's distance that counts for 16 bits."""
    return value & value.dtype.type(15)


define("v_add_f16", "f16", "f16 f16", np.add)
define("v_sub_f16", "f16", "f16 f16", np.subtract)
define("v_subrev_f16", "f16", "f16 f16", lambda a, b: np.subtract(b, a))
define("v_mul_f16", "f16", "f16 f16", np.multiply)
define("v_fma_f16", "f16", "f16 f16 f16", fused_half)
define("v_fmac_f16", "f16", "f16 f16 f16", fused_half, accumulates=True)
define("v_fmamk_f16 v_fmaak_f16 v_fma_legacy_f16", "f16", "f16 f16 f16", fused_half)
define("v_mad_f16 v_mad_legacy_f16 v_madmk_f16 v_madak_f16", "f16", "f16 f16 f16",
        lambda a, b, c: numbers.from_f16(numbers.to_f16(a * b)) + c)  # fmt: skip
define("v_mac_f16", "f16", "f16 f16 f16",
        lambda a, b, c: numbers.from_f16(numbers.to_f16(a * b)) + c, accumulates=True)  # fmt: skip
define("v_fract_f16", "f16", "f16", lambda a: np.minimum(a - np.floor(a), F32(1 - 2.0**-11)))
define("v_frexp_exp_i16_f16", "i16", "f16", lambda a: exponent_of(a).astype(I16))
define("v_frexp_mant_f16", "f16", "f16", mantissa_of)
define("v_sin_f16", "f16", "f16", sine)
define("v_cos_f16", "f16", "f16", cosine)
define("v_rcp_f16", "f16", "f16", lambda a: F32(1) / a)
define("v_sqrt_f16", "f16", "f16", np.sqrt)
define("v_rsq_f16", "f16", "f16", lambda a: F32(1) / np.sqrt(a))
define("v_exp_f16", "f16", "f16", np.exp2)
define("v_log_f16", "f16", "f16", np.log2)
define("v_floor_f16", "f16", "f16", np.floor)
define("v_ceil_f16", "f16", "f16", np.ceil)
define("v_trunc_f16", "f16", "f16", np.trunc)
define("v_rndne_f16", "f16", "f16", np.rint)
define("v_ldexp_f16", "f16", "f16 i16",
        lambda a, b: np.ldexp(a.astype(F64), b.astype(np.int32)))  # fmt: skip
# gfx1250: the same of bf16, rounded from float32; denormals of bf16 are those of float32.
for _name, _compute in (
    ("exp", np.exp2), ("log", np.log2), ("sqrt", np.sqrt), ("rcp", lambda a: F32(1) / a),
    ("rsq", lambda a: F32(1) / np.sqrt(a)), ("sin", sine), ("cos", cosine),
    ("tanh", np.tanh),
):  # fmt: skip
    define(f"v_{_name}_bf16", "bf16", "bf16", without_denormals(_compute))
define("v_tanh_f16", "f16", "f16", np.tanh)
define("v_tanh_f32", "f32", "f32", np.tanh)
define("v_mov_b16", "u16", "u16", lambda a: np.asarray(a))
define("v_not_b16", "u16", "u16", np.invert)
define("v_and_b16", "u16", "u16 u16", np.bitwise_and)
define("v_or_b16", "u16", "u16 u16", np.bitwise_or)
define("v_xor_b16", "u16", "u16 u16", np.bitwise_xor)
define("v_add_u16 v_add_nc_u16", "u16", "u16 u16", np.add, saturates=True)
define("v_add_i16 v_add_nc_i16", "i16", "i16 i16", np.add, saturates=True)
define("v_sub_u16 v_sub_nc_u16", "u16", "u16 u16", np.subtract, saturates=True)
define("v_sub_i16 v_sub_nc_i16", "i16", "i16 i16", np.subtract, saturates=True)
define("v_subrev_u16", "u16", "u16 u16", lambda a, b: np.subtract(b, a), saturates=True)
define("v_mul_lo_u16", "u16", "u16 u16", np.multiply)
for _kind in ("u16", "i16"):
    _three = f"{_kind} {_kind} {_kind}"
    define(f"v_mad_{_kind} v_mad_legacy_{_kind}", _kind, _three, lambda a, b, c: a * b + c,
            saturates=True)  # fmt: skip
    define(f"v_min3_{_kind}", _kind, _three, lambda a, b, c: np.minimum(np.minimum(a, b), c))
    define(f"v_max3_{_kind}", _kind, _three, lambda a, b, c: np.maximum(np.maximum(a, b), c))
    define(f"v_med3_{_kind}", _kind, _three, middle)
define("v_min_u16", "u16", "u16 u16", np.minimum)
define("v_max_u16", "u16", "u16 u16", np.maximum)
define("v_min_i16", "i16", "i16 i16", np.minimum)
define("v_max_i16", "i16", "i16 i16", np.maximum)
define("v_lshlrev_b16", "u16", "u16 u16", lambda a, b: b << shift16(a))
define("v_lshrrev_b16", "u16", "u16 u16", lambda a, b: b >> shift16(a))
define("v_ashrrev_i16", "i16", "i16 i16", lambda a, b: b >> shift16(a))
define("v_cvt_f16_i16", "f16", "i16", lambda a: a.astype(F32))
define("v_cvt_f16_u16", "f16", "u16", lambda a: a.astype(F32))
define("v_cvt_i16_f16", "i16", "f16", lambda a: to_integer(a, I16, -32768.0, 32767.0))
define("v_cvt_u16_f16", "u16", "f16", lambda a: to_integer(a, U16, 0.0, 65535.0))
define("v_cvt_i32_i16", "i32", "i16", lambda a: a.astype(np.int32))
define("v_cvt_u32_u16", "u32", "u16", lambda a: a.astype(U32))
define("v_mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(U32) * b.astype(U32) + c)
define("v_mad_i32_i16", "i32", "i16 i16 i32",
        lambda a, b, c: a.astype(np.int32) * b.astype(np.int32) + c)  # fmt: skip


@builds("v_pack_b32_f16")
def pack(decoded: Decoded, context: BuildContext) -> Step:
    """Two halves into one register; their bits stay as they are."""
    signs = any(o.negate or o.absolute for o in decoded.operands[1:])
    kind = "f16" if signs else "u16"
    return assemble(
        decoded,
        context,
        "u32",
        (kind, kind),
        decoded.operands[1:],
        lambda a, b: (
            numbers.half_bits(np.asarray(a), kind)
            | (numbers.half_bits(np.asarray(b), kind) << U32(16))
        ),
    )


def two_halves(kind: str) -> Callable[[ExecutionTarget], Compute]:
    """Two results of a 16-bit kind in one register, the first in bits 0 to 15."""

    def of_target(target: ExecutionTarget) -> Compute:
        def both(low: Array, high: Array) -> Array:
            first, second = (
                numbers.half_bits(np.asarray(value), kind, saturates=target.saturates16)
                for value in (low, high)
            )
            return first | (second << U32(16))

        return both

    return of_target


for _kind in ("f16", "bf16"):
    define_by_target(f"v_cvt_pk_{_kind}_f32", "u32", "f32 f32", two_halves(_kind))


def _toward_zero(a: Array, b: Array) -> Array:
    """V_CVT_PKRTZ_F16_F32: rounded toward zero; what is too large becomes the largest number."""
    return _truncated(np.asarray(a)) | (_truncated(np.asarray(b)) << U32(16))


def _truncated(value: Array) -> Array:
    nearest = value.astype(np.float16)
    with np.errstate(all="ignore"):
        away = np.abs(nearest.astype(F32)) > np.abs(value)
    bits = nearest.view(U16).astype(U32)
    return np.where(away & ~np.isnan(value) & ~np.isinf(value), bits - U32(1), bits)


define("v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32", "u32", "f32 f32", _toward_zero)


def _mixed_sources(decoded: Decoded, target: ExecutionTarget, small: str) -> Sequence[Read]:
    """V_FMA_MIX: op_sel_hi says which sources are f16 or bf16, op_sel which half of these."""
    reads = []
    for operand, narrow, half, sign in zip(
        decoded.operands[1:],
        decoded.bits("op_sel_hi", 3),
        decoded.bits("op_sel", 3),
        decoded.bits("neg_lo", 3),
        strict=True,
    ):
        plain, negate = _unsigned(operand)
        kind = small if narrow else "f32"
        read = source(plain, kind, half=half, negate=bool(sign) != negate)
        reads.append(read if (flush := flushing(kind, target)) is None else then_apply(read, flush))
    return reads


def _unsigned(operand: Operand) -> tuple[Operand, bool]:
    """`neg(0)` is how LLVM writes the sign of a constant here."""
    if operand.kind == "none" and operand.text.startswith("neg("):
        text = operand.text[4:-1]
        value = float(text) if "." in text else None
        number = None if value is not None else int(text, 0)
        return Operand("constant", text, integer=number, real=value), True
    return operand, False


def _mixed(half: int | None, small: str = "f16") -> Builder:
    """V_FMA_MIX: a fused multiply-add in float32, written whole (None) or as one half."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        first, second, third = _mixed_sources(decoded, context.target, small)
        kind = "f32" if half is None else small
        write = destination(
            decoded.operands[0], kind, context.target, half=half or 0, keep_half=half is not None
        )
        changes = after_result(decoded, kind, context.target)

        def value(waves: Waves) -> Array:
            result = fused(first(waves), second(waves), third(waves))
            for change in changes:
                result = change(result)
            return result

        return ResultStep(value, write)

    return build


builds("v_fma_mix_f32", "v_mad_mix_f32")(_mixed(None))
builds("v_fma_mixlo_f16", "v_mad_mixlo_f16")(_mixed(0))
builds("v_fma_mixhi_f16", "v_mad_mixhi_f16")(_mixed(1))


builds("v_fma_mix_f32_bf16")(_mixed(None, "bf16"))
builds("v_fma_mixlo_bf16")(_mixed(0, "bf16"))
builds("v_fma_mixhi_bf16")(_mixed(1, "bf16"))
