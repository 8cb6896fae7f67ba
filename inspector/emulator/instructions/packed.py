"""Packed operations: two 16-bit results in a register or two f32 in a pair.

Source: CDNA3 ISA, 6.7 and 12.7 to 12.11; RDNA3 ISA, 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from ...isa.dataflow.operands import Decoded, Operand, constant_bits
from .. import numbers
from ..elementwise import (
    Compute,
    ResultStep,
    after_result,
    assemble,
    flushing,
    saturated,
)
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import Read, check_count, source
from ..waves import Array, Waves
from .integer import shift16
from .minmax import Choice, always, greatest, least, maximum, minimum, three
from .real import fused, fused_bfloat, fused_half


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


def _checked(decoded: Decoded, sources: Sequence[Operand], count: int) -> Sequence[Operand]:
    if len(sources) != count:
        raise NotCoveredError(f"{decoded.text}: {len(sources)} sources")
    return sources


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
    sources = _checked(decoded, decoded.operands[1:], count)
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
        return numbers.joined_halves(low, high)

    return ResultStep(value, lambda waves, bits: waves.write(row, bits))


def packed_singles(
    decoded: Decoded, context: BuildContext, kind: str, count: int, compute: Compute
) -> Step:
    """v_pk_*_f32: op_sel picks the register of each pair for the first result."""

    def read_one(operand: Operand, second: int, negate: bool) -> Read:
        return source(_one_of_pair(operand, second), kind, negate=negate)

    sources = _checked(decoded, decoded.operands[1 : 1 + count], count)
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
    """Registers an operation for each kind, which KIND stands for in its names."""
    for kind in kinds.split():
        builds_as(names.replace("KIND", kind), packed_halves, kind, count, choose, **options)


_define("f16 bf16 u16 i16", "v_pk_add_KIND", 2, always(np.add))
_define("u16 i16", "v_pk_sub_KIND", 2, always(np.subtract))
_define("f16 bf16", "v_pk_mul_KIND", 2, always(np.multiply))
_define("u16", "v_pk_mul_lo_KIND", 2, always(np.multiply))
_define("f16", "v_pk_fma_KIND", 3, always(fused_half))
_define("f16", "v_pk_fmac_KIND", 2, always(fused_half), accumulates=True)
_define("bf16", "v_pk_fma_KIND", 3, always(fused_bfloat))
_define("u16 i16", "v_pk_mad_KIND", 3, always(lambda a, b, c: a * b + c))
_define("u16", "v_pk_lshlrev_b16", 2, always(lambda a, b: b << shift16(a)))
_define("u16", "v_pk_lshrrev_b16", 2, always(lambda a, b: b >> shift16(a)))
_define("i16", "v_pk_ashrrev_KIND", 2, always(lambda a, b: b >> shift16(a)))
for _name, _choose in (("min", least), ("max", greatest)):
    _define("f16 bf16", f"v_pk_{_name}_KIND v_pk_{_name}_num_KIND", 2, _choose)
    _define("f16 bf16", f"v_pk_{_name}3_num_KIND", 3, three(_choose))
for _name, _compute in (("minimum", minimum), ("maximum", maximum)):
    _define("f16", f"v_pk_{_name}_KIND", 2, always(_compute))
    _define("f16", f"v_pk_{_name}3_KIND", 3, three(always(_compute)))
for _name, _ufunc in (("min", np.minimum), ("max", np.maximum)):
    _define("u16 i16", f"v_pk_{_name}_KIND", 2, always(_ufunc))
    _define("u16 i16", f"v_pk_{_name}3_KIND", 3, three(always(_ufunc)))
    _define("u16 i16", f"v_pk_add_{_name}_KIND", 3, always(_of_sum(_ufunc)))


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
        lambda a, b: numbers.joined_halves(
            *(numbers.half_bits(np.asarray(value), kind) for value in (a, b))
        ),
    )
