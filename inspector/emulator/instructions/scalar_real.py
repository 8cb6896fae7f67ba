"""Scalar operations on floats: gfx11.5 and gfx12 on (RDNA4 ISA, 16.1 to 16.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...isa.dataflow.operands import Decoded, Operand, constant_bits
from .. import numbers
from ..registry import BuildContext, NotCoveredError, Step, builds
from ..waves import F32, I32, U32, Array, Waves
from .lanes import COMPARE
from .minmax import larger_number, largest, quieted, smaller_number, smallest
from .real import fused, to_integer
from .scalar_operands import define_scalar, scalar_destination, scalar_source


def _number(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Returns a choice between two numbers as a scalar operation, whose NaNs come out quiet."""

    def compute(a: Any, b: Any) -> Array:
        first, second = np.atleast_1d(a), np.atleast_1d(b)
        return quieted(choose(first, second))

    return compute


@builds("s_fmac_f32")
def accumulate(decoded: Decoded, context: BuildContext) -> Step:
    """D = S0 * S1 + D, rounded once."""
    target, *sources = decoded.operands
    reads = [scalar_source(operand, "f32") for operand in (*sources, target)]
    write = scalar_destination(target, "f32")
    return lambda waves: write(waves, fused(*(read(waves) for read in reads)))


def _half_source(operand: Operand) -> Callable[[Waves], Array]:
    """Bits 15:0 as float32."""
    if operand.kind == "constant":
        value = np.atleast_1d(numbers.from_f16(np.uint16(constant_bits(operand, "f16"))))
        return lambda waves: value
    read = scalar_source(operand, "u32")
    return lambda waves: numbers.from_f16(np.atleast_1d(read(waves)).astype(np.uint16))


def _half(
    names: str, sources_each: int, compute: Callable[..., Array], *, accumulates: bool = False
) -> None:
    """Operations on f16 of one or two sources; the result's upper half is 0."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        target, *sources = decoded.operands
        if len(sources) != sources_each:
            raise NotCoveredError(f"{decoded.text}: {len(sources)} sources")
        if accumulates:
            sources.append(target)
        reads = [_half_source(operand) for operand in sources]
        write = scalar_destination(target, "u32")

        def step(waves: Waves) -> None:
            value = compute(*(read(waves) for read in reads))
            write(waves, numbers.to_f16(value).astype(U32))

        return step

    builds(*names.split())(build)


_BOTH: Final[tuple[tuple[str, int, Callable[..., Any]], ...]] = (
    ("s_add_{}", 2, np.add),
    ("s_sub_{}", 2, np.subtract),
    ("s_mul_{}", 2, np.multiply),
    ("s_min_{} s_min_num_{}", 2, _number(smaller_number)),
    ("s_max_{} s_max_num_{}", 2, _number(larger_number)),
    ("s_minimum_{}", 2, _number(smallest)),
    ("s_maximum_{}", 2, _number(largest)),
    ("s_floor_{}", 1, np.floor),
    ("s_ceil_{}", 1, np.ceil),
    ("s_trunc_{}", 1, np.trunc),
    ("s_rndne_{}", 1, np.rint),
    # Transcendental operations on scalars, from gfx11.5 on; f16 is worked out in f32.
    ("v_s_rcp_{}", 1, lambda a: F32(1) / a),
    ("v_s_sqrt_{}", 1, np.sqrt),
    ("v_s_rsq_{}", 1, lambda a: F32(1) / np.sqrt(a)),
    ("v_s_exp_{}", 1, np.exp2),
    ("v_s_log_{}", 1, np.log2),
)
"""Names with `{}` for f32 or f16, sources, operation."""
for _names, _count, _compute in _BOTH:
    define_scalar(_names.replace("{}", "f32"), "f32", " ".join(["f32"] * _count), _compute)
    _half(_names.replace("{}", "f16"), _count, _compute)
# The product of two f16 is exact in float32, its sum with a third in float64.
_half("s_fmac_f16", 2, lambda a, b, c: np.add(a * b, c, dtype=np.float64), accumulates=True)
define_scalar("s_fmamk_f32 s_fmaak_f32", "f32", "f32 f32 f32", fused)
define_scalar("s_cvt_f32_i32", "f32", "i32", lambda a: np.asarray(a).astype(F32))
define_scalar("s_cvt_f32_u32", "f32", "u32", lambda a: np.asarray(a).astype(F32))
define_scalar("s_cvt_i32_f32", "i32", "f32",
              lambda a: to_integer(np.asarray(a), I32, -(2.0**31), 2.0**31 - 1))  # fmt: skip
define_scalar("s_cvt_u32_f32", "u32", "f32",
              lambda a: to_integer(np.asarray(a), U32, 0.0, 2.0**32 - 1))  # fmt: skip


def toward_zero(values: Array) -> Array:
    """float32 -> bits of f16, uint16, rounded toward 0: what is too large is the largest number."""
    bits = numbers.to_f16(values)
    rounded = numbers.from_f16(bits)
    grew = np.abs(rounded) > np.abs(values)
    return np.where(grew, bits - np.uint16(1), bits)


define_scalar("s_cvt_f16_f32", "u32", "f32", lambda a: numbers.to_f16(np.atleast_1d(a)).astype(U32))
define_scalar(
    "s_cvt_f32_f16", "f32", "u32",
    lambda a: numbers.from_f16(np.atleast_1d(a).astype(np.uint16)),
)  # fmt: skip
define_scalar(
    "s_cvt_hi_f32_f16", "f32", "u32",
    lambda a: numbers.from_f16((np.atleast_1d(a) >> U32(16)).astype(np.uint16)),
)  # fmt: skip
define_scalar(
    "s_cvt_pk_rtz_f16_f32", "u32", "f32 f32",
    lambda a, b: toward_zero(np.atleast_1d(a)).astype(U32)
    | (toward_zero(np.atleast_1d(b)).astype(U32) << U32(16)),
)  # fmt: skip


def _comparison(name: str, kind: str) -> None:
    """Registers S_CMP of floats: SCC becomes the outcome; kind `f16` or `f32`."""
    compare = COMPARE[name]

    def build(decoded: Decoded, context: BuildContext) -> Step:
        reads = [
            _half_source(operand) if kind == "f16" else scalar_source(operand, "f32")
            for operand in decoded.operands
        ]

        def step(waves: Waves) -> None:
            first, second = (np.atleast_1d(read(waves)) for read in reads)
            waves.scc = np.broadcast_to(compare(first, second), waves.scc.shape).copy()

        return step

    builds(f"s_cmp_{name}_{kind}")(build)


for _name in (
    "lt", "eq", "le", "gt", "ge", "lg", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt",
):  # fmt: skip
    for _kind in ("f32", "f16"):
        _comparison(_name, _kind)
