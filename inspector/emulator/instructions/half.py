"""Conversions to and from 16 bits, packs of two, and V_FMA_MIX.

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
from ..registry import BuildContext, Step, builds, builds_as
from ..vector_operands import Read, destination, source, then_apply
from ..waves import F32, U32, Array, Waves
from .fused import fused
from .real import to_integer

define("v_cvt_f16_i16", "f16", "i16", lambda a: a.astype(F32))
define("v_cvt_f16_u16", "f16", "u16", lambda a: a.astype(F32))
define("v_cvt_i16_f16", "i16", "f16", lambda a: to_integer(a, np.int16, -32768.0, 32767.0))
define("v_cvt_u16_f16", "u16", "f16", lambda a: to_integer(a, np.uint16, 0.0, 65535.0))
define("v_cvt_i32_i16", "i32", "i16", lambda a: a.astype(np.int32))
define("v_cvt_u32_u16", "u32", "u16", lambda a: a.astype(U32))


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
    bits = nearest.view(np.uint16).astype(U32)
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


def _mixed(decoded: Decoded, context: BuildContext, half: int | None, small: str = "f16") -> Step:
    """V_FMA_MIX: a fused multiply-add in float32, written whole (None) or as one half."""
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


builds_as("v_fma_mix_f32 v_mad_mix_f32", _mixed, None)
builds_as("v_fma_mixlo_f16 v_mad_mixlo_f16", _mixed, 0)
builds_as("v_fma_mixhi_f16 v_mad_mixhi_f16", _mixed, 1)


builds_as("v_fma_mix_f32_bf16", _mixed, None, "bf16")
builds_as("v_fma_mixlo_bf16", _mixed, 0, "bf16")
builds_as("v_fma_mixhi_bf16", _mixed, 1, "bf16")
