"""Packed operations: two 16-bit results in a register, two f32 in a pair (CDNA3 ISA, 6.7)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import numbers
from ..elementwise import Assignment, Compute, after_result, flushing, saturated
from ..operands import Decoded, Operand, constant_bits
from ..registry import Builder, Context, ExecutionTarget, NotCoveredError, Step, builds
from ..vector_operands import Read, source
from ..waves import U32, Array, Waves
from .fused import fused, fused_bfloat, fused_half
from .half import shift16
from .minmax import always, greatest, least, maximum, minimum, three


def _bits(decoded: Decoded, name: str, otherwise: int, count: int) -> tuple[int, ...]:
    """Returns a modifier's bits for `count` sources; `otherwise` where it names fewer."""
    bits = decoded.numbers(name, ())
    return (*bits, *(otherwise,) * (count - len(bits)))


def _second_register(operand: Operand) -> Operand:
    """The high register of a pair; a constant stands for itself."""
    if operand.kind == "constant":
        return operand
    return Operand(operand.kind, operand.text, operand.first + 1, 1)


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


def packed_halves(
    kind: str,
    count: int,
    compute: Compute | None = None,
    *,
    choose: Callable[[ExecutionTarget], Compute] | None = None,
    accumulates: bool = False,
) -> Builder:
    """v_pk_*_f16 and its like: op_sel picks halves for the low result, op_sel_hi for the high.

    Args:
        kind: kind of all halves.
        count: number of sources.
        compute: from the sources to the result, or
        choose: target -> its `compute`.
        accumulates: the destination is the last source (v_pk_fmac_f16).
    """

    def build(decoded: Decoded, context: Context) -> Step:
        operation = compute if choose is None else choose(context.target)
        assert operation is not None
        sources = decoded.operands[1 : 1 + count]
        if accumulates:
            sources = (*sources, decoded.operands[0])
        flush = flushing(kind, context.target)
        integral = kind in ("u16", "i16")
        if integral and any("neg" in name for name in decoded.modifiers):
            raise NotCoveredError(f"{decoded.text}: signs of integers")
        results = []
        for select, negate, plain in (("op_sel", "neg_lo", 0), ("op_sel_hi", "neg_hi", 1)):
            halves = _bits(decoded, select, plain, len(sources))
            signs = _bits(decoded, negate, 0, len(sources))
            results.append(
                [
                    half_source(operand, kind, half, negate=bool(sign))
                    for operand, half, sign in zip(sources, halves, signs, strict=True)
                ]
            )
        row = decoded.operands[0].first
        if integral and decoded.flag("clamp"):
            operation, changes = saturated(operation, kind), []
        else:
            changes = after_result(decoded, kind, context.target)

        def half_result(waves: Waves, reads: list[Read]) -> Array:
            values = [read(waves) for read in reads]
            if flush is not None:
                values = [flush(value) for value in values]
            value = operation(*values)
            for change in changes:
                value = change(value)
            return numbers.half_bits(value, kind, saturates=context.target.saturates16)

        def value(waves: Waves) -> Array:
            low, high = (half_result(waves, reads) for reads in results)
            return low | (high << U32(16))

        return Assignment(value, lambda waves, bits: waves.write(row, bits))

    return build


def packed_singles(kind: str, count: int, compute: Compute) -> Builder:
    """v_pk_*_f32, v_pk_mov_b32: op_sel picks the register of each pair for the first result."""

    def build(decoded: Decoded, context: Context) -> Step:
        sources = decoded.operands[1 : 1 + count]
        results = []
        for select, negate, plain in (("op_sel", "neg_lo", 0), ("op_sel_hi", "neg_hi", 1)):
            chosen = _bits(decoded, select, plain, count)
            signs = _bits(decoded, negate, 0, count)
            results.append(
                [
                    source(_second_register(operand) if pick else operand, kind, negate=bool(sign))
                    for operand, pick, sign in zip(sources, chosen, signs, strict=True)
                ]
            )
        row = decoded.operands[0].first
        changes = after_result(decoded, kind, context.target)
        flush = flushing(kind, context.target)

        def single_result(waves: Waves, reads: list[Read]) -> Array:
            values = [read(waves) for read in reads]
            if flush is not None:
                values = [flush(value) for value in values]
            value = compute(*values)
            for change in changes:
                value = change(value)
            return value

        def step(waves: Waves) -> None:
            low, high = (single_result(waves, reads) for reads in results)
            waves.write(row, low)
            waves.write(row + 1, high)

        return step

    return build


def _move_pair(decoded: Decoded, context: Context) -> Step:
    """V_PK_MOV_B32: the low result from the first pair, the high one from the second."""
    first, second = decoded.operands[1:3]
    low, high = _bits(decoded, "op_sel", 0, 2)
    reads = [
        source(_second_register(operand) if pick else operand, "u32")
        for operand, pick in ((first, low), (second, high))
    ]
    row = decoded.operands[0].first

    def step(waves: Waves) -> None:
        values = [np.array(read(waves)) for read in reads]
        waves.write(row, values[0])
        waves.write(row + 1, values[1])

    return step


builds("v_pk_mov_b32")(_move_pair)
builds("v_pk_add_f32")(packed_singles("f32", 2, np.add))
builds("v_pk_mul_f32")(packed_singles("f32", 2, np.multiply))
builds("v_pk_fma_f32")(packed_singles("f32", 3, fused))

builds("v_pk_add_f16")(packed_halves("f16", 2, np.add))
builds("v_pk_mul_f16")(packed_halves("f16", 2, np.multiply))
for _kind in ("f16", "bf16"):
    for _name, _choose in (("min", least), ("max", greatest)):
        _words = (f"v_pk_{_name}_{_kind}", f"v_pk_{_name}_num_{_kind}")
        builds(*_words)(packed_halves(_kind, 2, choose=_choose))
        builds(f"v_pk_{_name}3_num_{_kind}")(packed_halves(_kind, 3, choose=three(_choose)))
for _name, _compute in (("minimum", minimum), ("maximum", maximum)):
    builds(f"v_pk_{_name}_f16")(packed_halves("f16", 2, _compute))
    builds(f"v_pk_{_name}3_f16")(packed_halves("f16", 3, choose=three(always(_compute))))


def _chained(choose: Compute) -> Compute:
    return lambda a, b, c: choose(choose(a, b), c)


def _of_sum(choose: Compute) -> Compute:
    """V_PK_ADD_MAX and its like: a sum, then the larger or smaller one."""
    return lambda a, b, c: choose(a + b, c)


_PACKED: dict[str, tuple[str, int, Callable[..., Array]]] = {
    "v_pk_fma_f16": ("f16", 3, fused_half),
    "v_pk_add_u16": ("u16", 2, np.add),
    "v_pk_sub_u16": ("u16", 2, np.subtract),
    "v_pk_add_i16": ("i16", 2, np.add),
    "v_pk_sub_i16": ("i16", 2, np.subtract),
    "v_pk_mul_lo_u16": ("u16", 2, np.multiply),
    "v_pk_mad_u16": ("u16", 3, lambda a, b, c: a * b + c),
    "v_pk_mad_i16": ("i16", 3, lambda a, b, c: a * b + c),
    "v_pk_lshlrev_b16": ("u16", 2, lambda a, b: b << shift16(a)),
    "v_pk_lshrrev_b16": ("u16", 2, lambda a, b: b >> shift16(a)),
    "v_pk_ashrrev_i16": ("i16", 2, lambda a, b: b >> shift16(a)),
    "v_pk_min_i16": ("i16", 2, np.minimum),
    "v_pk_max_i16": ("i16", 2, np.maximum),
    "v_pk_min_u16": ("u16", 2, np.minimum),
    "v_pk_max_u16": ("u16", 2, np.maximum),
    "v_pk_add_bf16": ("bf16", 2, np.add),
    "v_pk_mul_bf16": ("bf16", 2, np.multiply),
    "v_pk_fma_bf16": ("bf16", 3, fused_bfloat),
}
for _kind in ("u16", "i16"):
    for _name, _choice in (("min", np.minimum), ("max", np.maximum)):
        _PACKED[f"v_pk_{_name}3_{_kind}"] = (_kind, 3, _chained(_choice))
        _PACKED[f"v_pk_add_{_name}_{_kind}"] = (_kind, 3, _of_sum(_choice))
builds("v_pk_fmac_f16")(packed_halves("f16", 2, fused_half, accumulates=True))
for _name, (_kind, _count, _compute) in _PACKED.items():
    builds(_name)(packed_halves(_kind, _count, _compute))
