"""MFMA: the matrix instructions of CDNA, on 64 lanes.

With M rows (and columns), `blocks` independent products and K / G elements of a row in each lane,
lane l holds row l % M of block l // M % blocks and the K of group l // (M * blocks); G = 64 / (M *
blocks). Result rows come in fours: four registers, then the next group of lanes, then the next
registers (AMD's matrix instruction calculator; CDNA3 ISA, 7.1).

Of the products of 8, 6 and 4 bits (formats of different widths, a scale for every 32 K) a lane
holds 32 elements. Those of 4 and 6 bits follow one another in K; those of 8 bits are two
runs of 16, so that registers 0 to 3 of all groups come before registers 4 to 7 (CDNA4 ISA, 7.1;
measured in ROCm's composable_kernel, test/mx_mfma_op). A scale holds for 32 consecutive K: that of
row r and K block g lies in lane g * M + r, whichever lanes hold the elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from ...isa.dataflow.operands import Decoded, Operand, constant_bits
from ..matrix_products import MatrixOperand, MatrixProduct
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import I32, U32, Array, Waves, paired
from .matrix import (
    BITS,
    FORMATS,
    Addend,
    Take,
    accumulator,
    finish_into,
    flushes,
    in_k_order,
    only_modifiers,
    registers_of,
    take_operand,
)

_LANES: Final = 64
_MFMA: Final = re.compile(
    r"v_mfma_(f32|i32)_(\d{1,9})x(\d{1,9})x(\d{1,9})(?:_(\d{1,9})b)?_?"
    r"(f32|xf32|f16|bf16|i8|fp8_fp8|fp8_bf8|bf8_fp8|bf8_bf8)(?:_1k)?"
)
_F64: Final = re.compile(r"v_mfma_f64_(\d{1,9})x\1x4(?:_4b_)?_?f64")
_B_LANES: Final = np.stack(
    [
        np.arange(_LANES),
        np.arange(_LANES) % 32,
        np.arange(_LANES) % 32 + 32,
        (np.arange(_LANES) + 16) % _LANES,
        *(np.arange(_LANES) % 16 + 16 * part for part in range(4)),
    ]
)
"""blgp -> the lane that each lane of B is taken from (CDNA3 ISA, 7.1: broadcasts, a rotation)."""


class Shape(Struct, frozen=True):
    """Rows (or columns), depth and number of products; `lane_depth`: K of a row in one lane."""

    rows: int
    depth: int
    blocks: int
    lane_depth: int

    @property
    def groups(self) -> int:
        return _LANES // (self.rows * self.blocks)


def shape_of(rows: int, depth: int, lane_depth: int, text: str, blocks: int | None = None) -> Shape:
    """The shape that fits the registers: mnemonics need not name their blocks."""
    groups = depth // lane_depth if lane_depth <= depth else 0
    fitting = _LANES // (rows * groups) if groups else 0
    shape = Shape(rows, depth, fitting, lane_depth)
    if not fitting or groups * lane_depth != depth or blocks not in (None, fitting):
        raise NotCoveredError(f"{text}: its shape")
    return shape


def result_order(rows: int, blocks: int) -> Callable[[Array], Array]:
    """[wave, block, row, column] -> a view [register, ..., wave, ..., lane] of 32-bit results.

    Blocks of 4x4 lie in lanes of their own; each larger block has registers of its own.
    """
    if rows == 4:
        return lambda product: product.transpose(2, 0, 1, 3)
    groups = _LANES // rows
    fours = rows // (4 * groups)

    def arrange(product: Array) -> Array:
        parted = product.reshape(len(product), blocks, fours, groups, 4, rows)
        return parted.transpose(1, 2, 4, 0, 3, 5)

    return arrange


def multiply(a: Array, b: Array) -> Array:
    """[wave, block, k, row] and [wave, block, k, column] -> [wave, block, row, column]."""
    product: Array = np.matmul(a.transpose(0, 1, 3, 2), b)
    return product


def _with_blocks(take: Take, shape: Shape) -> Take:
    """Returns a `Take` that gives [wave, block, k, row], all K of a row together."""
    if shape.blocks == 1:

        def one_block(words: Array) -> Array:
            values = take(words)
            return values.reshape(len(values), 1, shape.depth, shape.rows)

        return one_block

    def several_blocks(words: Array) -> Array:
        values = take(words)
        parted = values.reshape(
            len(values), shape.groups, shape.blocks, shape.lane_depth, shape.rows
        ).transpose(0, 2, 1, 3, 4)
        return parted.reshape(len(values), shape.blocks, shape.depth, shape.rows)

    return several_blocks


def _broadcast(take: Take, decoded: Decoded, shape: Shape) -> Take:
    """cbsz: of every 2^cbsz blocks of A, all take block number `abid` of them."""
    spread, chosen = 1 << decoded.number("cbsz"), decoded.number("abid")
    if spread == 1:
        return take
    if spread > shape.blocks or chosen >= spread:
        raise NotCoveredError(f"{decoded.text}: more blocks than it has")
    blocks = np.arange(shape.blocks) // spread * spread + chosen
    return lambda words: take(words).take(blocks, 1)


def _from_lanes(take: Take, blgp: int) -> Take:
    """Returns a `Take` of B whose lanes are permuted by `blgp`."""
    if not blgp:
        return take
    lanes = _B_LANES[blgp]
    return lambda words: take(words.take(lanes, 2))


@builds_matching(r"v_mfma_(f32|i32)_\w+")
def mfma(decoded: Decoded, context: BuildContext) -> Step:
    """f32 or i32 results of f32, xf32, f16, bf16, i8, fp8 and bf8; one product or several."""
    match = _MFMA.fullmatch(decoded.name)
    if match is None or match[2] != match[3]:
        raise NotCoveredError(decoded.text)
    only_modifiers(decoded, "cbsz", "abid", "blgp")
    out, rows, _, depth, blocks, kinds = match.groups()
    a_kind, b_kind = kinds.split("_") if "_" in kinds else (kinds, kinds)
    target, a, b, c = decoded.operands[:4]
    a_rows, b_rows = registers_of(a, decoded.text), registers_of(b, decoded.text)
    lane_depth = 32 * a.count // BITS[a_kind]
    shape = shape_of(
        int(rows), int(depth), lane_depth, decoded.text, None if blocks is None else int(blocks)
    )
    if 32 * b.count // BITS[b_kind] != lane_depth:
        raise NotCoveredError(f"{decoded.text}: its shape")
    check_count(target, shape.rows * shape.rows * shape.blocks // _LANES)
    blgp = decoded.number("blgp")
    if blgp and kinds not in ("f32", "f16", "bf16", "i8"):
        raise NotCoveredError(f"{decoded.text}: blgp of this type")
    take_a = _with_blocks(take_operand(a_kind, shape.rows, context.target), shape)
    take_a = _broadcast(take_a, decoded, shape)
    take_b = _with_blocks(take_operand(b_kind, shape.rows, context.target), shape)
    take_b = _from_lanes(take_b, blgp)
    flush = flushes(a_kind, context.target)
    cbsz = (decoded.number("cbsz"), decoded.number("abid"))
    return MatrixProduct(
        MatrixOperand(a_rows, take_a, (a_kind, shape, *cbsz, 0)),
        MatrixOperand(b_rows, take_b, (b_kind, shape, 0, 0, blgp)),
        multiply,
        result_order(shape.rows, shape.blocks),
        ("mfma", shape.rows, shape.blocks, out, flush),
        finish_into(target, Addend(c, out), out, flush=flush),
        registers_of(target, decoded.text),
        accumulator(target, c, out, flush=flush),
    )


@builds_matching(r"v_mfma_f64_\w+")
def mfma_f64(decoded: Decoded, context: BuildContext) -> Step:
    """16x16x4, and four blocks of 4x4x4; every element takes two registers.

    Results lie row after row: row 4 * (register pair) + group of 16x16; of 4x4x4, row l // 16 of
    block l // 4 % 4 in lane l. `neg`, or `blgp` on gfx90a, negates A, B and C (bits 0, 1, 2).
    """
    match = _F64.fullmatch(decoded.name)
    if match is None or match[1] not in ("4", "16"):
        raise NotCoveredError(decoded.text)
    only_modifiers(decoded, "neg", "blgp")
    rows = int(match[1])
    blocks = 1 if rows == 16 else 4
    signs = _signs(decoded)
    target, a, b, c = decoded.operands[:4]
    target_rows = registers_of(target, decoded.text)
    for operand, count in (
        (target, 2 * rows * rows * blocks // _LANES),
        (a, 2),
        (b, 2),
        (c, target.count),
    ):
        check_count(operand, count)
    read_a, read_b = (_pairs(registers_of(operand, decoded.text)) for operand in (a, b))
    start = _start_f64(c, decoded.text)

    def step(waves: Waves) -> None:
        # [pair, wave, lane] -> [wave, group, block, row]: the groups are the four K
        left, right = (
            read(waves).reshape(waves.count, 4, blocks, rows).transpose(0, 2, 1, 3)
            for read in (read_a, read_b)
        )
        product = np.matmul(signs[0] * left.transpose(0, 1, 3, 2), signs[1] * right)
        if rows == 16:
            arranged = product.reshape(waves.count, 4, _LANES).transpose(1, 0, 2)
        else:
            arranged = product.transpose(0, 2, 1, 3).reshape(1, waves.count, _LANES)
        total = arranged + signs[2] * start(waves)
        words = np.ascontiguousarray(total).view(U32).reshape(-1, waves.count, _LANES, 2)
        waves.u32[target_rows] = words.transpose(0, 3, 1, 2).reshape(-1, waves.count, _LANES)

    return step


def _signs(decoded: Decoded) -> tuple[int, int, int]:
    """Returns the factors 1 or -1 of A, B and C."""
    bits = decoded.numbers("neg", (0, 0, 0))
    if "blgp" in decoded.modifiers:
        mask = decoded.number("blgp")
        bits = (mask & 1, mask >> 1 & 1, mask >> 2 & 1)
    first, second, third = (-1 if bit else 1 for bit in bits)
    return first, second, third


def _pairs(rows: slice) -> Callable[[Waves], Array]:
    """Registers, two by two, as float64 [pair, wave, lane]."""

    def read(waves: Waves) -> Array:
        words = waves.u32[rows]
        return paired(words[0::2], words[1::2]).view(np.float64)

    return read


def _start_f64(c: Operand, text: str) -> Callable[[Waves], Array]:
    if c.kind == "constant":
        number = np.uint64(constant_bits(c, "f64")).view(np.float64)
        constant = np.asarray(number)
        return lambda waves: constant
    return _pairs(registers_of(c, text))


_MIXED: Final = re.compile(r"v_mfma_(scale_)?f32_(16x16x128|32x32x64)_f8f6f4")
SCALED_K: Final = 32
"""Consecutive K that have one scale."""
_NAN_SCALE: Final = 0xFF


@builds("v_mfma_f32_16x16x128_f8f6f4", "v_mfma_f32_32x32x64_f8f6f4")
def mixed(decoded: Decoded, context: BuildContext) -> Step:
    """v_mfma_f32_*_f8f6f4: cbsz and blgp name the formats of A and B."""
    only_modifiers(decoded, "cbsz", "blgp")
    target, a, b, c = decoded.operands[:4]
    a_source, b_source = _mixed_sources(decoded, context, a, b)
    rows = _mixed_rows(decoded)
    return MatrixProduct(
        a_source,
        b_source,
        multiply,
        result_order(rows, 1),
        ("mfma", rows, 1, "f32", False),
        finish_into(target, Addend(c, "f32"), "f32"),
        registers_of(target, decoded.text),
        accumulator(target, c, "f32"),
    )


def _mixed_rows(decoded: Decoded) -> int:
    match = _MIXED.fullmatch(decoded.name)
    if match is None or max(decoded.number("cbsz"), decoded.number("blgp")) >= len(FORMATS):
        raise NotCoveredError(decoded.text)
    return int(match[2].split("x")[0])


def _mixed_sources(
    decoded: Decoded, context: BuildContext, a: Operand, b: Operand
) -> list[MatrixOperand]:
    rows = _mixed_rows(decoded)
    check_count(decoded.operands[0], rows * rows // 64)
    sources = []
    for operand, modifier in ((a, "cbsz"), (b, "blgp")):
        kind = FORMATS[decoded.number(modifier)]
        if operand.count * 32 != SCALED_K * BITS[kind]:
            raise NotCoveredError(f"{decoded.text}: registers that do not fit {kind}")
        take = _in_k_order(take_operand(kind, rows, context.target), 16 if BITS[kind] == 8 else 32)
        sources.append(
            MatrixOperand(registers_of(operand, decoded.text), take, (kind, rows, "k order"))
        )
    return sources


def _in_k_order(take: Take, chunk: int) -> Take:
    return lambda words: in_k_order(take(words), chunk)[:, None]


@builds_matching(r"v_mfma_scale_f32_\w+")
def scaled(decoded: Decoded, context: BuildContext) -> Step:
    """A and B with a power of two for every 32 K of every row and column (E8M0, bias 127).

    The products of one K block are summed before they are scaled, the blocks' sums then added in
    the order of K. op_sel and op_sel_hi choose the byte of the scales' registers.
    """
    only_modifiers(decoded, "cbsz", "blgp", "op_sel", "op_sel_hi")
    target, a, b, c, a_scale, b_scale = decoded.operands[:6]
    rows = _mixed_rows(decoded)
    a_source, b_source = _mixed_sources(decoded, context, a, b)
    low, high = decoded.numbers("op_sel", (0, 0, 0)), decoded.numbers("op_sel_hi", (0, 0, 0))
    a_exponents = scales_of(a_scale, low[0] + 2 * high[0], rows, decoded.text)
    b_exponents = scales_of(b_scale, low[1] + 2 * high[1], rows, decoded.text)
    arrange = result_order(rows, 1)
    finish = finish_into(target, Addend(c, "f32"), "f32")

    def step(waves: Waves) -> None:
        left = a_source.take(waves.u32[a_source.rows])
        right = b_source.take(waves.u32[b_source.rows])
        product = multiply_scaled(left, right, a_exponents(waves), b_exponents(waves))
        finish(waves, arrange(product[:, None]))

    return step


def scales_of(scale: Operand, byte: int, rows: int, text: str) -> Callable[[Waves], Array]:
    """E8M0 bytes [wave, K block, row] of one byte of a register."""
    if scale.kind != "vgpr":
        raise NotCoveredError(f"{text}: scales outside of VGPRs")
    check_count(scale, 1)
    register, shift = scale.first, U32(8 * byte)

    def read(waves: Waves) -> Array:
        octets = (waves.u32[register] >> shift) & U32(0xFF)
        return octets.reshape(waves.count, -1, rows).astype(I32)

    return read


def multiply_scaled(a: Array, b: Array, a_scale: Array, b_scale: Array) -> Array:
    """[wave, 1, k, row], [wave, 1, k, column] and scales [wave, K block, row] -> the product.

    Returns float32 [wave, row, column].
    """
    waves, blocks, rows = a_scale.shape
    lane_depth = a.shape[2] // blocks
    parts = np.matmul(
        a.reshape(waves, blocks, lane_depth, rows).transpose(0, 1, 3, 2),
        b.reshape(waves, blocks, lane_depth, -1),
    )
    exponents = a_scale[..., :, None] + b_scale[..., None, :] - 254
    parts = np.ldexp(parts, exponents)
    broken = (a_scale == _NAN_SCALE)[..., :, None] | (b_scale == _NAN_SCALE)[..., None, :]
    if broken.any():
        parts[broken] = np.nan
    total: Array = parts[:, 0]
    for block in range(1, blocks):
        total = total + parts[:, block]
    return total
