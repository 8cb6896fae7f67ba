"""Multiply-adds of mixed precision: V_FMA_MIX, each source 16 or 32 bits wide.

Source: CDNA3 ISA, 12.7 to 12.11; RDNA3 ISA, 16.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..elementwise import ResultStep, after_result, flushing
from ..operands import Decoded, Operand
from ..registry import BuildContext, Builder, ExecutionTarget, Step, builds
from ..vector_operands import Read, destination, source, then_apply
from ..waves import Array, Waves
from .fused import fused


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
