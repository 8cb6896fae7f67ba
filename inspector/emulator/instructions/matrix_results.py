"""Results of matrix instructions: C is added to a product, and D is written.

C and D lie in registers in the layout of the instruction's family; a product comes as a view in
that order, [register, ..., wave, ..., lane].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from ...isa.dataflow.operands import Operand, constant_bits
from .. import numbers
from ..matrix_products import Accumulator
from ..registry import NotCoveredError
from ..vector_operands import check_count
from ..waves import F32, I32, U32, Array, Waves
from .matrix import Finish, flush_subnormals


class Addend(Struct, frozen=True):
    """C, as an instruction adds it.

    Args:
        operand: its registers; an inline constant is every element's value.
        kind: kind of its elements: `f32`, `i32`, `f16`, `bf16`.
        half: of 16-bit elements: the half of every register that C and D have (gfx11); None: two
            consecutive rows share a register (gfx12).
        absolute: its sign is dropped.
        negate: it is negated, after that.
    """

    operand: Operand
    kind: str
    half: int | None = None
    absolute: bool = False
    negate: bool = False


def finish_into(
    target: Operand, c: Addend, kind: str, *, clamp: bool = False, flush: bool = False
) -> Finish:
    """Returns the step that adds C to a product and writes D.

    `clamp`: integers saturate. `flush`: subnormal results become 0.
    """
    if c.kind == kind:
        check_count(c.operand, target.count)
    start = _with_signs(c)
    rows = slice(target.first, target.first + target.count)
    if kind in ("f16", "bf16"):
        return _finish_halves(rows, kind, c.half, start)
    if kind == "i32":
        return _finish_integers(rows, start, clamp)

    def finish(waves: Waves, product: Array) -> None:
        out = waves.f32[rows].reshape(product.shape)
        np.add(product, _like(start(waves), product), out=out)
        if flush:
            flush_subnormals(waves.f32[rows])

    return finish


def accumulator(
    target: Operand, c: Operand, kind: str, *, plain: bool = True, flush: bool = False
) -> Accumulator | None:
    """Returns the registers and number of C that D may be kept for in the product's order.

    Returns None where something modifies the result (not `plain`), or C is no plain matrix or
    number.
    """
    if not plain or kind not in ("f32", "i32") or c.kind not in ("vgpr", "constant"):
        return None
    return Accumulator(
        slice(target.first, target.first + target.count),
        slice(c.first, c.first + c.count) if c.kind == "vgpr" else None,
        np.asarray(_constant(c, kind)) if c.kind == "constant" else np.zeros(()),
        kind == "i32",
        flush_subnormals if flush else None,
    )


def _like(start: Array, product: Array) -> Array:
    """Returns C in a product's shape; a number stays one."""
    return start.reshape(product.shape) if start.ndim else start


def _finish_integers(rows: slice, start: Callable[[Waves], Array], clamp: bool) -> Finish:
    """Returns the step that adds C to a product of integers, which wrap or saturate."""

    def finish(waves: Waves, product: Array) -> None:
        out = waves.i32[rows].reshape(product.shape)
        before = _like(start(waves), product)
        if clamp:
            total = product.astype(np.int64) + before
            np.copyto(out, np.clip(total, -(1 << 31), (1 << 31) - 1), casting="unsafe")
        else:
            np.add(product.astype(I32), before, out=out)

    return finish


def _finish_halves(
    rows: slice, kind: str, half: int | None, start: Callable[[Waves], Array]
) -> Finish:
    """Returns the step that adds C to a product and writes 16-bit floats."""

    def finish(waves: Waves, product: Array) -> None:
        lanes = waves.lanes
        value = product.reshape(-1, waves.count, lanes) + start(waves)
        bits = numbers.to_f16(value) if kind == "f16" else numbers.to_bf16(value)
        pairs = waves.u32[rows].view(np.uint16).reshape(-1, waves.count, lanes, 2)
        if half is None:
            pairs[...] = bits.reshape(-1, 2, waves.count, lanes).transpose(0, 2, 3, 1)
        else:
            pairs[..., half] = bits

    return finish


def _with_signs(c: Addend) -> Callable[[Waves], Array]:
    """Returns the reader of C, [register, wave, lane] or one number, with its signs changed."""
    plain = _start(c.operand, c.kind, c.half)
    if not (c.negate or c.absolute):
        return plain

    def start(waves: Waves) -> Array:
        value = plain(waves)
        value = np.abs(value) if c.absolute else value
        return np.negative(value) if c.negate else value

    return start


def _start(c: Operand, kind: str, half: int | None) -> Callable[[Waves], Array]:
    """C [register, wave, lane] as float32 or int32, or one number."""
    if c.kind == "constant":
        constant = np.asarray(_constant(c, kind))
        return lambda waves: constant
    if c.kind != "vgpr":
        raise NotCoveredError(f"{c.text} as a matrix")
    rows = slice(c.first, c.first + c.count)
    if kind == "i32":
        return lambda waves: waves.i32[rows]
    if kind == "f32":
        return lambda waves: waves.f32[rows]
    convert = numbers.from_f16 if kind == "f16" else numbers.from_bf16

    def halves(waves: Waves) -> Array:
        pairs = waves.u32[rows].view(np.uint16).reshape(-1, waves.count, waves.lanes, 2)
        if half is not None:
            return convert(pairs[..., half])
        parted = pairs.transpose(0, 3, 1, 2)
        return convert(parted.reshape(-1, waves.count, waves.lanes))

    return halves


def _constant(c: Operand, kind: str) -> np.generic:
    """An inline constant as an element of C: float32 or int32."""
    bits = constant_bits(c, kind)
    if kind == "f16":
        return numbers.F16[bits]
    if kind == "bf16":
        return U32(bits << 16).view(F32)
    return U32(bits).view(I32 if kind == "i32" else F32)
