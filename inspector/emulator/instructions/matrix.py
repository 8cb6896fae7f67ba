"""Matrix instructions: MFMA of CDNA, WMMA of RDNA and gfx1250.

D = A * B + C. Every lane holds one row of A, one column of B and one column of C and D; which
elements of these is the layout. EXEC plays no part. Products are summed in float32 by numpy in an
order of its own, and C is added last; the hardware's order is not documented, so that results are
compared with a tolerance. Layouts: AMD's matrix instruction calculator; CDNA3 ISA, 7.1; RDNA3 ISA,
7.9; RDNA4 ISA, 7.12.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from .. import numbers
from ..access import NotCoveredError
from ..operands import Decoded, Operand
from ..registry import Context, Step, builds_matching
from ..waves import F32, I32, Array, Waves

Values = Callable[[Array], Array]
"""uint32 [..., word] -> float32 [..., element]."""


def element_values(kind: str, arch: str, *, signed: bool = True) -> Values:
    """How an operand's registers become numbers.

    Args:
        kind: `f16`, `bf16`, `f32`, `xf32`, `i8`, `i4`, `fp8`, `bf8`, `fp6`, `bf6` or `fp4`.
        arch: decides which float8 is meant.
        signed: of integers.
    """
    if kind == "f16":
        return lambda words: numbers.from_f16(words.view(np.uint16))
    if kind == "bf16":
        return lambda words: numbers.from_bf16(words.view(np.uint16))
    if kind == "f32":
        return lambda words: words.view(F32)
    if kind == "xf32":  # the mantissa's lowest 13 bits are dropped
        return lambda words: (words & np.uint32(0xFFFFE000)).view(F32)
    if kind == "i8":
        return lambda words: words.view(np.int8 if signed else np.uint8).astype(F32)
    if kind == "i4":
        return lambda words: _nibbles(words, signed=signed)
    if kind in ("fp8", "bf8"):
        table = numbers.SMALL[numbers.float8(kind, arch)]
        return lambda words: table[words.view(np.uint8)]
    if kind == "fp4":
        table = numbers.SMALL["fp4"]
        return lambda words: table[_nibble_bits(words)]
    if kind in ("fp6", "bf6"):
        table = numbers.SMALL[kind]
        return lambda words: table[_six_bits(words)]
    raise NotCoveredError(f"matrix elements of type {kind}")


def _nibble_bits(words: Array) -> Array:
    octets = words.view(np.uint8)
    return np.stack([octets & 15, octets >> 4], -1).reshape(*octets.shape[:-1], -1)


def _nibbles(words: Array, *, signed: bool) -> Array:
    values = _nibble_bits(words).astype(np.int8)
    return (np.where(values > 7, values - 16, values) if signed else values).astype(F32)


def _six_bits(words: Array) -> Array:
    flat = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    bits = flat.reshape(*flat.shape[:-1], -1, 6)
    return (bits << np.arange(6, dtype=np.uint8)).sum(-1).astype(np.uint8)


class Shape(Struct, frozen=True):
    """One matrix instruction.

    Args:
        rows: of A and D.
        columns: of B and D.
        depth: columns of A.
        blocks: independent products.
        integer: whether the sum is int32.
    """

    rows: int
    columns: int
    depth: int
    blocks: int = 1
    integer: bool = False


KMajor = Callable[[Array], Array]
"""uint32 [register, wave, lane] -> float32 [wave, group, k of a lane, row]."""


def k_major(kind: str, size: int, values: Values) -> KMajor:
    """How an operand's registers become numbers with K before the rows, in one pass where it can.

    Args:
        kind: see `element_values`.
        size: rows (lanes of a group).
        values: for the kinds that are taken apart bit by bit.
    """
    narrow = {"f16": np.uint16, "bf16": np.uint16, "i8": np.int8, "fp8": np.uint8, "bf8": np.uint8}

    def parted(words: Array, dtype: type) -> Array:
        """[wave, group, register, element, row], a view."""
        registers, waves, lanes = words.shape
        elements = 4 // np.dtype(dtype).itemsize
        split: Array = words.view(dtype).reshape(registers, waves, lanes // size, size, elements)
        return split.transpose(1, 2, 0, 4, 3)

    def flat(array: Array) -> Array:
        return array.reshape(array.shape[0], array.shape[1], -1, size)

    if kind == "f16":
        return lambda words: flat(numbers.F16.take(parted(words, np.uint16)))
    if kind == "bf16":
        return lambda words: flat(
            (parted(words, np.uint16).astype(np.uint32) << np.uint32(16)).view(F32)
        )
    if kind == "i8":
        return lambda words: flat(parted(words, np.int8).astype(F32))
    if kind == "f32":
        return lambda words: flat(np.ascontiguousarray(parted(words, np.uint32)).view(F32))
    if kind in narrow:
        bits = narrow[kind]
        return lambda words: flat(values(np.ascontiguousarray(parted(words, bits)).view(np.uint8)))

    def general(words: Array) -> Array:
        taken = values(np.ascontiguousarray(words.transpose(1, 2, 0)))
        waves, lanes, depth = taken.shape
        return np.ascontiguousarray(
            taken.reshape(waves, lanes // size, size, depth).transpose(0, 1, 3, 2)
        )

    return general


def gathered(waves: Waves, operand: Operand) -> Array:
    """An operand's registers as uint32 [wave, lane, word], contiguous."""
    words = waves.u32[operand.first : operand.first + operand.count]
    return np.ascontiguousarray(words.transpose(1, 2, 0))


def accumulator(c: Operand, integer: bool) -> Callable[[Waves], Array | np.generic]:
    """C as it lies in registers [register, wave, lane], or one number."""
    if c.kind == "constant":
        if integer:
            number = I32(c.integer or 0)
            return lambda waves: number
        value = F32(c.real if c.real is not None else c.integer or 0)
        return lambda waves: value
    rows = slice(c.first, c.first + c.count)
    if integer:
        return lambda waves: waves.i32[rows]
    return lambda waves: waves.f32[rows]


def add_arranged(
    waves: Waves, target: Operand, product: Array, start: Array | np.generic, *, integer: bool
) -> None:
    """D = product + C, the product as `_mfma_registers` gives it."""
    rows = slice(target.first, target.first + target.count)
    result = (waves.i32 if integer else waves.f32)[rows].reshape(product.shape)
    value = product.astype(I32) if integer else product
    if isinstance(start, np.ndarray):
        start = start.reshape(product.shape)
    np.add(value, start, out=result)


def add_up(
    waves: Waves, target: Operand, product: Array, start: Array | np.generic, *, integer: bool
) -> None:
    """D = product + C, all as [register, wave, lane]; integers wrap."""
    rows = slice(target.first, target.first + target.count)
    if integer:
        np.add(product.astype(I32), start, out=waves.i32[rows])
    else:
        np.add(product, start, out=waves.f32[rows])


# ---------------------------------------------------------------------- CDNA

_MFMA: Final = re.compile(
    r"v_mfma_(f32|i32)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_?"
    r"(f32|xf32|f16|bf16|i8|fp8_fp8|fp8_bf8|bf8_fp8|bf8_bf8|f8f6f4)(?:_1k)?"
)
_FORMATS: Final = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""What CBSZ (for A) and BLGP (for B) mean in the f8f6f4 instructions (CDNA4 ISA, 7.2)."""
_WHOLE_BLOCKS: Final = 64


@builds_matching(r"v_mfma_(f32|i32)_\w+")
def mfma(decoded: Decoded, context: Context) -> Step:
    """MFMA: lane l holds row (column) l % M of block l // M % blocks, and K values of its group."""
    match = _MFMA.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    out, rows, columns, depth, blocks, kinds = match.groups()
    shape = Shape(int(rows), int(columns), int(depth), int(blocks or 0), out == "i32")
    a_kind, b_kind = kinds.split("_") if "_" in kinds else (kinds, kinds)
    target, a, b, c = decoded.operands[:4]
    if kinds == "f8f6f4":
        a_kind, b_kind = (_FORMATS[decoded.number(name)] for name in ("cbsz", "blgp"))
        if (a_kind == "fp4") != (b_kind == "fp4") and a_kind[-1] != b_kind[-1]:
            raise NotCoveredError(f"{decoded.text}: formats whose K orders differ")
    elif {"cbsz", "abid", "blgp"} & set(decoded.modifiers):
        raise NotCoveredError(f"{decoded.text}: broadcasts")
    arch = context.target.arch
    operands = [
        (operand, k_major(kind, shape.rows, element_values(kind, arch)))
        for operand, kind in ((a, a_kind), (b, b_kind))
    ]
    return _mfma_step(shape, target, operands[0], operands[1], c, decoded.text)


def _mfma_step(
    shape: Shape,
    target: Operand,
    a: tuple[Operand, KMajor],
    b: tuple[Operand, KMajor],
    c: Operand,
    text: str,
) -> Step:
    size = shape.rows
    if shape.rows != shape.columns or size not in (4, 16, 32):
        raise NotCoveredError(text)
    # Blocks that are not named fill the lanes: the registers' K values tell how many there are.
    per_lane = a[1](np.zeros((a[0].count, 1, 64), np.uint32)).shape[2]
    groups = max(shape.depth // per_lane, 1)
    blocks = 64 // (size * groups)
    if groups * per_lane != shape.depth or blocks * groups * size != 64:
        raise NotCoveredError(f"{text}: its blocks")
    if shape.blocks and shape.blocks != blocks:
        raise NotCoveredError(f"{text}: its blocks")
    start = accumulator(c, shape.integer)

    def spread(waves: Waves, operand: Operand, take: KMajor) -> Array:
        """[wave, block, k, row]."""
        values = take(waves.u32[operand.first : operand.first + operand.count])
        if blocks == 1:
            return values.reshape(waves.count, 1, shape.depth, size)
        apart = values.reshape(waves.count, groups, blocks, per_lane, size)
        return apart.transpose(0, 2, 1, 3, 4).reshape(waves.count, blocks, shape.depth, size)

    def step(waves: Waves) -> None:
        left, right = spread(waves, *a), spread(waves, *b)
        product = np.matmul(left.transpose(0, 1, 3, 2), right)  # [wave, block, row, column]
        add_arranged(waves, target, arranged(product), start(waves), integer=shape.integer)

    def arranged(product: Array) -> Array:
        return _mfma_registers(product, size, blocks)

    return step


def _mfma_registers(product: Array, size: int, blocks: int) -> Array:
    """[wave, block, row, column] -> a view [register, ..., wave, ..., lane] of many axes.

    A lane holds column lane % M. Four consecutive rows lie in four registers; the lane groups take
    turns at such fours, then the next registers (AMD's calculator: row
    `8 * (r // 4) + 4 * group + r % 4` for 32x32, with 2 groups, `4 * group + r` for 16x16).
    Blocks of 4x4 lie in lanes; of several larger blocks each has registers of its own.

    Returns:
        Axes of the registers, the waves' axis, axes of the lanes; `add_arranged` takes it.
    """
    waves = len(product)
    if size == 4:  # 16 blocks, one in each 4 lanes
        return product.transpose(2, 0, 1, 3)[None, None]
    groups = 64 // size
    fours = size // (4 * groups)
    parted = product.reshape(waves, blocks, fours, groups, 4, size)
    return parted.transpose(1, 2, 4, 0, 3, 5)


# ---------------------------------------------------------------------- RDNA

_WMMA: Final = re.compile(
    r"v_wmma_(f32|i32|f16|bf16)_16x16x(\d+)_"
    r"(f16|bf16|f32|xf32|iu8|iu4|fp8_fp8|fp8_bf8|bf8_fp8|bf8_bf8)"
)


@builds_matching(r"v_wmma_\w+")
def wmma(decoded: Decoded, context: Context) -> Step:
    """WMMA on 32 lanes.

    gfx11: lanes 16 to 31 repeat what lanes 0 to 15 hold of A and B; D has row 2 * register + half.
    gfx12: the halves of the wave hold different K; D has row register + 8 * half.
    """
    match = _WMMA.fullmatch(decoded.name)
    if match is None or context.target.lanes != 32 or match[1] in ("f16", "bf16"):
        raise NotCoveredError(decoded.text)
    out, depth, kinds = match[1], int(match[2]), match[3]
    left_kind, right_kind = kinds.split("_") if "_" in kinds else (kinds, kinds)
    signs = (*decoded.numbers("neg_lo", ()), 0, 0, 0)[:3]
    integer = out == "i32"
    if not integer and (any(signs) or "neg_hi" in decoded.modifiers):
        raise NotCoveredError(f"{decoded.text}: signs")
    if decoded.flag("clamp"):
        raise NotCoveredError(f"{decoded.text}: clamp")
    arch = context.target.arch
    target, a, b, c = decoded.operands[:4]
    take_a = element_values(left_kind.replace("iu", "i"), arch, signed=bool(signs[0]))
    take_b = element_values(right_kind.replace("iu", "i"), arch, signed=bool(signs[1]))
    doubled = context.target.generation == 11
    start = accumulator(c, integer)

    def spread(waves: Waves, operand: Operand, take: Values) -> Array:
        """[wave, row, k]; the order of K is the same for A and B."""
        values = take(gathered(waves, operand))
        if doubled:
            return values[:, :16]
        halves = values.reshape(waves.count, 2, 16, -1)
        return halves.transpose(0, 2, 1, 3).reshape(waves.count, 16, depth)

    def step(waves: Waves) -> None:
        left, right = spread(waves, a, take_a), spread(waves, b, take_b)
        product = np.matmul(left, right.transpose(0, 2, 1))
        if doubled:
            arranged = product.reshape(waves.count, 8, 2, 16).transpose(1, 0, 2, 3)
        else:
            arranged = product.reshape(waves.count, 2, 8, 16).transpose(2, 0, 1, 3)
        add_up(waves, target, arranged.reshape(8, waves.count, 32), start(waves), integer=integer)

    return step
