"""Common parts of all matrix instructions: operands as numbers, results back into registers.

D = A * B + C. A lane holds elements of one row of A, of one column of B and of one column of C and
D. EXEC plays no part. `mfma.py`, `wmma.py` and `sparse.py` hold the layouts of each family.

Operands become arrays with K before the rows, [wave, group, k of the lane, row], where lane =
group * rows + row. Which K an element has matters only where A and B disagree about it: everywhere
else the elements of a lane of A meet those of the same place in a lane of B, whatever K they are
called.

Arithmetic. Products are exact in float32 (f16, bf16, 8 bits and less: at most 22 bits) and are
summed in float32 by the CPU's BLAS in an order of its own; C is added last; everything is rounded
to nearest even. The hardware differs in the last bits: CDNA3 adds groups of 8 products (4 of xf32,
16 of fp8) aligned to the largest and truncated at 24 fractional bits, then C; CDNA2 adds 4 products
at a time and flushes subnormals; f32 and f64 are chains of fused multiply-adds
(MMA-Sim, arXiv 2511.10909). Results are therefore to be compared with a tolerance. Integers are
exact and wrap at 32 bits, or saturate with `clamp`.

C and D lie in registers in the layout of the instruction's family; a product comes as a view in
that order, [register, ..., wave, ..., lane].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, Operand, constant_bits
from .. import numbers
from ..matrix_products import Accumulator
from ..registry import NotCoveredError
from ..vector_operands import check_count
from ..waves import F32, I32, U32, Array, Waves

Take = Callable[[Array], Array]
"""uint32 [register, wave, lane] -> float32 [wave, group, k of a lane, row]."""
Finish = Callable[[Waves, Array], None]
"""Adds C to a product, given as [register, ..., wave, ..., lane], and writes D."""

FORMATS: Final = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""Formats by number in cbsz, blgp, matrix_a_fmt and matrix_b_fmt of f8f6f4 (CDNA4 ISA, 7.1.5)."""
BITS: Final = {
    "f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "u8": 8, "i4": 4, "u4": 4,
    "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4,
}  # fmt: skip
_F16_BIAS: Final = F32(2.0**112)
_F16_SPECIAL: Final = 65536.0
"""The smallest infinity or NaN of float16, read like any other number."""
_SIGN_AND_F16: Final = I32(-0x70002000)
"""Bits 31 and 13 to 27: sign, exponent and mantissa of a float16, moved down by 3."""


def registers_of(operand: Operand, text: str) -> slice:
    """The rows of a matrix operand, which lies in registers."""
    if operand.kind != "vgpr":
        raise NotCoveredError(f"{text}: a matrix outside of VGPRs and AGPRs")
    return slice(operand.first, operand.first + operand.count)


def only_modifiers(decoded: Decoded, *known: str) -> None:
    """Raises NotCoveredError for modifiers other than those named."""
    unknown = set(decoded.modifiers) - set(known)
    if unknown:
        raise NotCoveredError(f"{decoded.text}: {', '.join(sorted(unknown))}")


def take_operand(kind: str, size: int, target: ExecutionTarget) -> Take:
    """How an operand's registers become numbers, K before the rows.

    `kind`: see `BITS`; the i and u kinds differ by their sign. `size`: rows, which are the lanes of
    a group.
    """
    flush = flushes(kind, target)
    if kind == "f16":
        return _take_f16(size, flush)
    if kind == "bf16":
        return _take_bf16(size, flush)
    if kind in ("f32", "xf32"):
        return _take_f32(size, U32(0xFFFFE000) if kind == "xf32" else None)
    if kind in ("i8", "u8"):
        dtype = np.int8 if kind == "i8" else np.uint8
        return lambda words: _flat(_elements(words, size, dtype).astype(F32), size)
    if kind in ("fp8", "bf8"):
        table = numbers.SMALL[numbers.float8(kind, target.arch)]
        return lambda words: _flat(table.take(_elements(words, size, np.uint8)), size)
    if kind in ("i4", "u4", "fp4"):
        return _take_packed(size, 4, _small_values(kind))
    if kind in ("fp6", "bf6"):
        return _take_packed(size, 6, numbers.SMALL[kind])
    raise NotCoveredError(f"matrix elements of type {kind}")


def flushes(kind: str, target: ExecutionTarget) -> bool:
    """MI200 takes subnormals of f16 and bf16 as 0, and so it writes them (ROCm's documentation)."""
    return target.arch == "gfx90a" and kind in ("f16", "bf16")


def _flushed_f16() -> Array:
    small = np.abs(numbers.F16) < 2.0**-14
    return np.where(small, np.copysign(F32(0), numbers.F16), numbers.F16)


def _small_values(kind: str) -> Array:
    if kind == "fp4":
        return numbers.SMALL["fp4"]
    values = np.arange(16, dtype=F32)
    return np.where(values > 7, values - 16, values) if kind == "i4" else values


def _elements(words: Array, size: int, dtype: type) -> Array:
    """[wave, group, register, element of the register, row], a view."""
    registers, waves, lanes = words.shape
    elements = 4 // np.dtype(dtype).itemsize
    words = np.ascontiguousarray(words)
    parted: Array = words.view(dtype).reshape(registers, waves, lanes // size, size, elements)
    return parted.transpose(1, 2, 0, 4, 3)


def _flat(array: Array, size: int) -> Array:
    return array.reshape(array.shape[0], array.shape[1], -1, size)


def _room(words: Array, size: int, elements: int) -> tuple[Array, Array]:
    """An array [wave, group, register, element, row] and its view as int32 [register, wave, ...].

    The view's element axis comes last but one, so that `view[..., n, :]` is one element of every
    register, in the order in which the registers lie.
    """
    registers, waves, lanes = words.shape
    values = np.empty((waves, lanes // size, registers, elements, size), F32)
    return values, values.view(I32).transpose(2, 0, 1, 3, 4)


def _take_f16(size: int, flush: bool) -> Take:
    """Moves sign, exponent and mantissa to float32's places and makes up for the bias."""
    table = _flushed_f16() if flush else numbers.F16

    def take(words: Array) -> Array:
        values, bits = _room(words, size, 2)
        signed = words.view(I32).reshape(*words.shape[:2], -1, size)
        moved = np.left_shift(signed, 16)
        np.right_shift(moved, 3, out=moved)
        np.bitwise_and(moved, _SIGN_AND_F16, out=bits[..., 0, :])
        np.right_shift(signed, 3, out=moved)
        np.bitwise_and(moved, _SIGN_AND_F16, out=bits[..., 1, :])
        if flush:
            flush_subnormals(values)
        values *= _F16_BIAS
        if _reach(values, _F16_SPECIAL):
            return _flat(table.take(_elements(words, size, np.uint16)), size)
        return _flat(values, size)

    return take


def _reach(values: Array, magnitude: float) -> bool:
    """Whether any value is that large; one fast pass where all are much smaller."""
    flat = values.reshape(-1)
    if np.dot(flat, flat) < magnitude * magnitude:
        return False
    return bool(flat.max() >= magnitude or flat.min() <= -magnitude)


def _take_bf16(size: int, flush: bool) -> Take:
    """Returns a `Take` of bf16: the upper half of a float32."""

    def take(words: Array) -> Array:
        values, bits = _room(words, size, 2)
        signed = words.view(I32).reshape(*words.shape[:2], -1, size)
        np.left_shift(signed, 16, out=bits[..., 0, :])
        np.bitwise_and(signed, I32(-0x10000), out=bits[..., 1, :])
        if flush:
            flush_subnormals(values)
        return _flat(values, size)

    return take


def flush_subnormals(values: Array) -> None:
    """float32 in place: subnormals become zeros of their sign."""
    bits = values.view(U32)
    small = (bits & U32(0x7F800000)) == 0
    if small.any():
        bits[small] &= U32(0x80000000)


def _take_f32(size: int, mask: np.uint32 | None) -> Take:
    """`mask`: xf32 drops the lowest 13 bits of the mantissa (MMA-Sim: TF32 by truncation)."""

    def take(words: Array) -> Array:
        taken = _flat(np.ascontiguousarray(_elements(words, size, U32)), size)
        return (taken if mask is None else taken & mask).view(F32)

    return take


def _take_packed(size: int, width: int, table: Array) -> Take:
    """Elements of 4 or 6 bits that follow one another through the registers of a lane."""

    def take(words: Array) -> Array:
        registers, waves, lanes = words.shape
        count = 32 * registers // width
        values = np.empty((count, waves, lanes), F32)
        mask = U32((1 << width) - 1)
        for index in range(count):
            register, shift = divmod(index * width, 32)
            bits = words[register] >> U32(shift)
            if shift + width > 32:
                bits = bits | (words[register + 1] << U32(32 - shift))
            values[index] = table.take(bits & mask)
        parted = values.reshape(count, waves, lanes // size, size)
        return np.ascontiguousarray(parted.transpose(1, 2, 0, 3))

    return take


def in_k_order(values: Array, chunk: int) -> Array:
    """[wave, group, k of the lane, row] -> [wave, k, row] where the groups take turns at K.

    `chunk`: consecutive K that a lane holds before the next group's turn.
    """
    waves, groups, lane_depth, rows = values.shape
    parted = values.reshape(waves, groups, lane_depth // chunk, chunk, rows)
    return parted.transpose(0, 2, 1, 3, 4).reshape(waves, groups * lane_depth, rows)


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
