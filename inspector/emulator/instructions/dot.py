"""Dot products of a register's parts (CDNA3 ISA, V_DOT*; RDNA3 and RDNA4 ISA, V_DOT*)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import numbers
from ..elementwise import Assignment, after_result, flushing
from ..operands import Decoded, Operand
from ..registry import Builder, Context, NotCoveredError, Step, builds
from ..vector_operands import DTYPES, destination, source
from ..waves import F32, U32, Array, Waves
from .packed import half_source

I64 = np.int64
Parts = Callable[[Array], list[Array]]


def integers(word: Array, bits: int, *, signed: bool) -> list[Array]:
    """The 32 / bits parts of a register, int64, lowest first."""
    mask, sign = (1 << bits) - 1, (1 << (bits - 1)) if signed else 0
    wide = np.asarray(word).astype(I64)
    return [((wide >> shift & mask) ^ sign) - sign for shift in range(0, 32, bits)]


def _integer_dot(bits: int, result: str, signs: tuple[bool, bool] | None) -> Builder:
    """D = S2 + the sum of products; with clamp, limited to the result's range.

    Args:
        bits: width of each part.
        result: `i32` or `u32`.
        signs: whether S0 and S1 are signed; None: `neg_lo` says so (`iu8`, `iu4`).
    """
    dtype = DTYPES[result]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def build(decoded: Decoded, context: Context) -> Step:
        target, first, second, *addends = decoded.operands
        neg_lo = (*decoded.numbers("neg_lo", ()), 0, 0, 0)
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

        return Assignment(value, write)

    return build


for _bits in (16, 8, 4):
    for _kind, _sign in (("i", True), ("u", False)):
        _name = f"v_dot{32 // _bits}_{_kind}32_{_kind}{_bits}"
        builds(_name)(_integer_dot(_bits, f"{_kind}32", (_sign, _sign)))
        if _sign:
            _name = f"v_dot{32 // _bits}c_i32_i{_bits}"
            builds(_name)(_integer_dot(_bits, "i32", (True, True)))
    if _bits < 16:
        builds(f"v_dot{32 // _bits}_i32_iu{_bits}")(_integer_dot(_bits, "i32", None))


def _half_products(decoded: Decoded) -> list[tuple[Operand, Operand, int, int]]:
    """Returns, for the low and the high product, both operands and the halves they take."""
    first, second = decoded.operands[1:3]
    low = (*decoded.numbers("op_sel", ()), 0, 0)
    high = (*decoded.numbers("op_sel_hi", (1, 1)), 1, 1)
    return [(first, second, low[0], low[1]), (first, second, high[0], high[1])]


def _same(values: Array) -> Array:
    return values


def _real_dot(kind: str, result: str) -> Builder:
    """D = S2 + S0.lo * S1.lo + S0.hi * S1.hi: rounded after each sum, in the document's order."""

    def build(decoded: Decoded, context: Context) -> Step:
        target, _, _, *addends = decoded.operands
        products = []
        for (first, second, first_half, second_half), name in zip(
            _half_products(decoded), ("neg_lo", "neg_hi"), strict=True
        ):
            signs = (*decoded.numbers(name, ()), 0, 0)
            products.append(
                [
                    half_source(operand, kind, half, negate=bool(sign))
                    for operand, half, sign in (
                        (first, first_half, signs[0]),
                        (second, second_half, signs[1]),
                    )
                ]
            )
        add_sign = (*decoded.numbers("neg_lo", ()), 0, 0, 0)[2] if addends else 0
        addend_half = (
            (*decoded.numbers("op_sel", ()), 0, 0, 0)[2] if result in ("f16", "bf16") else 0
        )
        addend = source(
            addends[0] if addends else target, result, half=addend_half, negate=bool(add_sign)
        )
        halves = decoded.numbers("op_sel", ())
        write = destination(
            target, result, context.target, half=halves[3] if len(halves) > 3 else 0
        )
        changes = after_result(decoded, result, context.target)
        flush = flushing(kind, context.target) or _same
        narrow: Callable[[Array], Array] = {
            "f32": _same,
            "f16": lambda value: numbers.from_f16(numbers.to_f16(value)),
            "bf16": lambda value: numbers.from_bf16(numbers.to_bf16(value)),
        }[result]

        def value(waves: Waves) -> Array:
            total = np.asarray(addend(waves))
            for left, right in products:
                total = narrow((total + flush(left(waves)) * flush(right(waves))).astype(F32))
            for change in changes:
                total = change(total)
            return total

        return Assignment(value, write)

    return build


builds("v_dot2_f32_f16", "v_dot2c_f32_f16", "v_dot2acc_f32_f16")(_real_dot("f16", "f32"))
builds("v_dot2_f32_bf16", "v_dot2c_f32_bf16", "v_dot2acc_f32_bf16")(_real_dot("bf16", "f32"))
builds("v_dot2_f16_f16")(_real_dot("f16", "f16"))
builds("v_dot2_bf16_bf16")(_real_dot("bf16", "bf16"))


def _float8_dot(first_kind: str, second_kind: str) -> Builder:
    """V_DOT4_F32_FP8_BF8 and its like."""

    def build(decoded: Decoded, context: Context) -> Step:
        target, first, second, third = decoded.operands
        tables = [
            numbers.SMALL[numbers.float8(kind, context.target.arch)]
            for kind in (first_kind, second_kind)
        ]
        reads = [source(operand, "u32") for operand in (first, second)]
        signs = (*decoded.numbers("neg_lo", ()), 0, 0, 0)
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

        return Assignment(value, write)

    return build


for _first_kind in ("fp8", "bf8"):
    for _second_kind in ("fp8", "bf8"):
        builds(f"v_dot4_f32_{_first_kind}_{_second_kind}")(_float8_dot(_first_kind, _second_kind))
