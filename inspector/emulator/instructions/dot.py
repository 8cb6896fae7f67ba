"""Dot products of a register's parts (CDNA3 ISA, V_DOT*; RDNA3 and RDNA4 ISA, V_DOT*)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.operands import Decoded
from .. import numbers
from ..elementwise import ResultStep, after_result, flushing
from ..registry import BuildContext, NotCoveredError, Step, builds_as
from ..vector_operands import DTYPES, Read, destination, source
from ..waves import F32, U32, Array, Waves
from .packed import half_source

I64 = np.int64


def integers(word: Array, bits: int, *, signed: bool) -> list[Array]:
    """The 32 / bits parts of a register, int64, lowest first."""
    mask, sign = (1 << bits) - 1, (1 << (bits - 1)) if signed else 0
    wide = np.asarray(word).astype(I64)
    return [((wide >> shift & mask) ^ sign) - sign for shift in range(0, 32, bits)]


def _integer_dot(
    decoded: Decoded, context: BuildContext, bits: int, result: str, signs: tuple[bool, bool] | None
) -> Step:
    """D = S2 + the sum of products; with clamp, limited to the result's range."""
    dtype = DTYPES[result]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    target, first, second, *addends = decoded.operands
    neg_lo = decoded.bits("neg_lo", 3)
    unused = (*decoded.numbers("neg_hi", ()), *decoded.numbers("op_sel", ()))
    halves = decoded.numbers("op_sel_hi", ()) if bits == 16 else ()
    if not all(halves) or any(unused) or any(neg_lo[2:] if signs is None else neg_lo):
        raise NotCoveredError(f"{decoded.text}: modifiers that mean nothing here")
    first_signed, second_signed = signs or (bool(neg_lo[0]), bool(neg_lo[1]))
    reads = [source(operand, "u32") for operand in (first, second)]
    addend = source(addends[0] if addends else target, result)
    write = destination(target, result, context.target)
    clamp = decoded.flag("clamp")

    def value(waves: Waves) -> Array:
        a = integers(reads[0](waves), bits, signed=first_signed)
        b = integers(reads[1](waves), bits, signed=second_signed)
        total = np.asarray(addend(waves)).astype(I64)
        for left, right in zip(a, b, strict=True):
            total = total + left * right
        return (np.clip(total, low, high) if clamp else total).astype(dtype)

    return ResultStep(value, write)


for _bits in (16, 8, 4):
    for _kind, _sign in (("i", True), ("u", False)):
        _name = f"v_dot{32 // _bits}_{_kind}32_{_kind}{_bits}"
        builds_as(_name, _integer_dot, _bits, f"{_kind}32", (_sign, _sign))
        if _sign:
            _name = f"v_dot{32 // _bits}c_i32_i{_bits}"
            builds_as(_name, _integer_dot, _bits, "i32", (True, True))
    if _bits < 16:
        builds_as(f"v_dot{32 // _bits}_i32_iu{_bits}", _integer_dot, _bits, "i32", None)


def _same(values: Array) -> Array:
    return values


_ROUNDED: Final[dict[str, Callable[[Array], Array]]] = {
    "f32": _same,
    "f16": lambda values: numbers.from_f16(numbers.to_f16(values)),
    "bf16": lambda values: numbers.from_bf16(numbers.to_bf16(values)),
}
"""Kind of a sum -> float32 as that kind has them."""


def _half_products(decoded: Decoded, kind: str) -> list[tuple[Read, Read]]:
    """Returns the sources of the low and of the high product."""
    operands = decoded.operands[1:3]
    products = []
    for select, negate, default in (("op_sel", "neg_lo", 0), ("op_sel_hi", "neg_hi", 1)):
        halves, signs = decoded.bits(select, 2, default), decoded.bits(negate, 2)
        first, second = (
            half_source(operand, kind, halves[index], negate=bool(signs[index]))
            for index, operand in enumerate(operands)
        )
        products.append((first, second))
    return products


def _half_addend(decoded: Decoded, kind: str) -> Read:
    """Returns the reader of S2, or of the destination where that is added to."""
    target, _, _, *addends = decoded.operands
    half = decoded.bits("op_sel", 3)[2] if kind in ("f16", "bf16") else 0
    if not addends:
        return source(target, kind, half=half)
    return source(addends[0], kind, half=half, negate=bool(decoded.bits("neg_lo", 3)[2]))


def _real_dot(decoded: Decoded, context: BuildContext, kind: str, result: str) -> Step:
    """D = S2 + S0.lo * S1.lo + S0.hi * S1.hi: rounded after each sum, in the document's order."""
    rounded = _ROUNDED[result]

    products = _half_products(decoded, kind)
    addend = _half_addend(decoded, result)
    half = decoded.bits("op_sel", 4)[3]
    write = destination(decoded.operands[0], result, context.target, half=half)
    changes = after_result(decoded, result, context.target)
    flush = flushing(kind, context.target) or _same

    def value(waves: Waves) -> Array:
        total = np.asarray(addend(waves))
        for left, right in products:
            total = rounded((total + flush(left(waves)) * flush(right(waves))).astype(F32))
        for change in changes:
            total = change(total)
        return total

    return ResultStep(value, write)


builds_as("v_dot2_f32_f16 v_dot2c_f32_f16 v_dot2acc_f32_f16", _real_dot, "f16", "f32")
builds_as("v_dot2_f32_bf16 v_dot2c_f32_bf16 v_dot2acc_f32_bf16", _real_dot, "bf16", "f32")
builds_as("v_dot2_f16_f16", _real_dot, "f16", "f16")
builds_as("v_dot2_bf16_bf16", _real_dot, "bf16", "bf16")


def _float8_dot(decoded: Decoded, context: BuildContext, first_kind: str, second_kind: str) -> Step:
    """V_DOT4_F32_FP8_BF8 and its like."""
    target, first, second, third = decoded.operands
    tables = [
        numbers.SMALL[numbers.float8(kind, context.target.arch)]
        for kind in (first_kind, second_kind)
    ]
    reads = [source(operand, "u32") for operand in (first, second)]
    signs = decoded.bits("neg_lo", 3)
    addend = source(third, "f32", negate=bool(signs[2]))
    write = destination(target, "f32", context.target)

    def value(waves: Waves) -> Array:
        words = [np.asarray(read(waves)) for read in reads]
        total = np.asarray(addend(waves))
        for shift in (0, 8, 16, 24):
            left, right = (
                table[word >> U32(shift) & U32(0xFF)]
                for table, word in zip(tables, words, strict=True)
            )
            total = (total + left * right).astype(F32)
        return total

    return ResultStep(value, write)


for _first_kind in ("fp8", "bf8"):
    for _second_kind in ("fp8", "bf8"):
        builds_as(
            f"v_dot4_f32_{_first_kind}_{_second_kind}", _float8_dot, _first_kind, _second_kind
        )
