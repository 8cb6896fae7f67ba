"""Fused multiply-adds of which each source is f16, bf16 or f32: V_FMA_MIX.

Source: CDNA3 ISA, 6.7 and 12.7 to 12.11; RDNA3 ISA, 16.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, Operand
from ..elementwise import (
    ResultStep,
    after_result,
    flushing,
)
from ..registry import BuildContext, Step, builds_as
from ..vector_operands import Read, destination, source, then_apply
from ..waves import Array, Waves
from .real import fused


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
        plain, negate = _without_sign(operand)
        kind = small if narrow else "f32"
        read = source(plain, kind, half=half, negate=bool(sign) != negate)
        reads.append(read if (flush := flushing(kind, target)) is None else then_apply(read, flush))
    return reads


def _without_sign(operand: Operand) -> tuple[Operand, bool]:
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
