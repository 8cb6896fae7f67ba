"""Packed operations, two 16-bit results in a register or two f32 in a pair; 16-bit conversions.

Source: CDNA3 ISA, 6.7 and 12.7 to 12.11; RDNA3 ISA, 16. V_FMA_MIX is here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, Operand, constant_bits
from .. import numbers
from ..elementwise import (
    Compute,
    ResultStep,
    after_result,
    assemble,
    define,
    define_by_target,
    flushing,
    saturated,
)
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import Read, check_count, destination, source, then_apply
from ..waves import F32, U32, Array, Waves
from .integer import shift16
from .minmax import Choice, always, greatest, least, maximum, minimum, three
from .real import fused, fused_bfloat, fused_half, to_integer


def _one_of_pair(operand: Operand, second: int) -> Operand:
    """The low or the high register of a pair; a constant stands for itself."""
    if operand.kind == "constant":
        return operand
    check_count(operand, 2)
    return replace(operand, first=operand.first + second, count=1)


def half_source(operand: Operand, kind: str, half: int, *, negate: bool) -> Read:
    """A half of a register or of a constant's 32 bits.

    A float stands in bits 0 to 15 in an operation on f16 (its upper half is 0), with all its 32
    bits in one on integers; an integer is sign-extended (LLVM, getInlineEncodingV2F16, -V2I16).
    """
    if operand.kind == "constant":
        narrow = operand.real is not None and kind in ("f16", "bf16")
        bits = constant_bits(operand, kind if narrow else "u32")
        value = np.array(bits >> (16 * half) & 0xFFFF, np.uint16)
        operand = Operand(
            "constant", operand.text, negate=operand.negate, absolute=operand.absolute,
            integer=int(value),
        )  # fmt: skip
        half = 0
    return source(operand, kind, half=half, negate=negate)


def _sources_of_both(
    decoded: Decoded, sources: Sequence[Operand], reader: Callable[[Operand, int, bool], Read]
) -> list[list[Read]]:
    """Returns the readers of the low and of the high result's sources."""
    results = []
    for select, negate, default in (("op_sel", "neg_lo", 0), ("op_sel_hi", "neg_hi", 1)):
        chosen = decoded.bits(select, len(sources), default)
        signs = decoded.bits(negate, len(sources))
        results.append(
            [
                reader(operand, half, bool(sign))
                for operand, half, sign in zip(sources, chosen, signs, strict=True)
            ]
        )
    return results


def _evaluated(
    compute: Compute, flush: Callable[[Array], Array] | None, changes: Sequence[Compute]
) -> Callable[[Waves, list[Read]], Array]:
    """Returns what computes one result from its sources, with the mode and the modifiers."""

    def evaluate(waves: Waves, reads: list[Read]) -> Array:
        values = [read(waves) for read in reads]
        if flush is not None:
            values = [flush(value) for value in values]
        value = compute(*values)
        for change in changes:
            value = change(value)
        return value

    return evaluate


def packed_halves(
    decoded: Decoded,
    context: BuildContext,
    kind: str,
    count: int,
    choose: Choice,
    *,
    accumulates: bool = False,
) -> Step:
    """v_pk_*_f16 and its like: op_sel picks halves for the low result, op_sel_hi for the high.

    `accumulates`: the destination is the last source (v_pk_fmac_f16).
    """
    integral = kind in ("u16", "i16")

    compute = choose(context.target)
    sources = decoded.operands[1:]
    if len(sources) != count:
        raise NotCoveredError(f"{decoded.text}: {len(sources)} sources")
    if accumulates:
        sources = (*sources, decoded.operands[0])
    if integral and any("neg" in name for name in decoded.modifiers):
        raise NotCoveredError(f"{decoded.text}: signs of integers")
    results = _sources_of_both(
        decoded,
        sources,
        lambda operand, half, negate: half_source(operand, kind, half, negate=negate),
    )
    check_count(decoded.operands[0], 1)
    row = decoded.operands[0].first
    changes: list[Compute] = []
    if integral and decoded.flag("clamp"):
        compute = saturated(compute, kind)
    else:
        changes = after_result(decoded, kind, context.target)
    evaluate = _evaluated(compute, flushing(kind, context.target), changes)
    saturates = context.target.saturates16

    def value(waves: Waves) -> Array:
        low, high = (
            numbers.half_bits(evaluate(waves, reads), kind, saturates=saturates)
            for reads in results
        )
        return low | (high << U32(16))

    return ResultStep(value, lambda waves, bits: waves.write(row, bits))


def packed_singles(
    decoded: Decoded, context: BuildContext, kind: str, count: int, compute: Compute
) -> Step:
    """v_pk_*_f32: op_sel picks the register of each pair for the first result."""

    def read_one(operand: Operand, second: int, negate: bool) -> Read:
        return source(_one_of_pair(operand, second), kind, negate=negate)

    sources = decoded.operands[1 : 1 + count]
    if len(sources) != count:
        raise NotCoveredError(f"{decoded.text}: {len(sources)} sources")
    results = _sources_of_both(decoded, sources, read_one)
    check_count(decoded.operands[0], 2)
    row = decoded.operands[0].first
    changes = after_result(decoded, kind, context.target)
    evaluate = _evaluated(compute, flushing(kind, context.target), changes)

    def step(waves: Waves) -> None:
        low, high = (evaluate(waves, reads) for reads in results)
        waves.write(row, low)
        waves.write(row + 1, high)

    return step


def _move_pair(decoded: Decoded, context: BuildContext) -> Step:
    """V_PK_MOV_B32: the low result from the first pair, the high one from the second."""
    first, second = decoded.operands[1:3]
    low, high = decoded.bits("op_sel", 2)
    reads = [
        source(_one_of_pair(operand, pick), "u32")
        for operand, pick in ((first, low), (second, high))
    ]
    check_count(decoded.operands[0], 2)
    row = decoded.operands[0].first

    def step(waves: Waves) -> None:
        values = [np.array(read(waves)) for read in reads]
        waves.write(row, values[0])
        waves.write(row + 1, values[1])

    return step


builds("v_pk_mov_b32")(_move_pair)
builds_as("v_pk_add_f32", packed_singles, "f32", 2, np.add)
builds_as("v_pk_mul_f32", packed_singles, "f32", 2, np.multiply)
builds_as("v_pk_fma_f32", packed_singles, "f32", 3, fused)


def _of_sum(choose: Compute) -> Compute:
    """V_PK_ADD_MAX and its like: a sum, then the larger or smaller one."""
    return lambda a, b, c: choose(a + b, c)


def _define(kinds: str, names: str, count: int, choose: Choice, **options: bool) -> None:
    """Registers an operation for each kind, which `{}` stands for in its names."""
    for kind in kinds.split():
        builds_as(names.replace("{}", kind), packed_halves, kind, count, choose, **options)


_define("f16 bf16 u16 i16", "v_pk_add_{}", 2, always(np.add))
_define("u16 i16", "v_pk_sub_{}", 2, always(np.subtract))
_define("f16 bf16", "v_pk_mul_{}", 2, always(np.multiply))
_define("u16", "v_pk_mul_lo_{}", 2, always(np.multiply))
_define("f16", "v_pk_fma_{}", 3, always(fused_half))
_define("f16", "v_pk_fmac_{}", 2, always(fused_half), accumulates=True)
_define("bf16", "v_pk_fma_{}", 3, always(fused_bfloat))
_define("u16 i16", "v_pk_mad_{}", 3, always(lambda a, b, c: a * b + c))
_define("u16", "v_pk_lshlrev_b16", 2, always(lambda a, b: b << shift16(a)))
_define("u16", "v_pk_lshrrev_b16", 2, always(lambda a, b: b >> shift16(a)))
_define("i16", "v_pk_ashrrev_{}", 2, always(lambda a, b: b >> shift16(a)))
for _name, _choose in (("min", least), ("max", greatest)):
    _define("f16 bf16", f"v_pk_{_name}_{{}} v_pk_{_name}_num_{{}}", 2, _choose)
    _define("f16 bf16", f"v_pk_{_name}3_num_{{}}", 3, three(_choose))
for _name, _compute in (("minimum", minimum), ("maximum", maximum)):
    _define("f16", f"v_pk_{_name}_{{}}", 2, always(_compute))
    _define("f16", f"v_pk_{_name}3_{{}}", 3, three(always(_compute)))
for _name, _ufunc in (("min", np.minimum), ("max", np.maximum)):
    _define("u16 i16", f"v_pk_{_name}_{{}}", 2, always(_ufunc))
    _define("u16 i16", f"v_pk_{_name}3_{{}}", 3, three(always(_ufunc)))
    _define("u16 i16", f"v_pk_add_{_name}_{{}}", 3, always(_of_sum(_ufunc)))


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
