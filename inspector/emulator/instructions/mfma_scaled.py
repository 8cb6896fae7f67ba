"""MFMA of 8, 6 and 4 bits: formats of different widths, and a scale for every 32 K.

A lane holds 32 elements. Those of 4 and 6 bits follow one another in K; those of 8 bits are two
runs of 16, so that registers 0 to 3 of all groups come before registers 4 to 7 (CDNA4 ISA, 7.1;
measured in ROCm's composable_kernel, test/mx_mfma_op). A scale holds for 32 consecutive K: that of
row r and K block g lies in lane g * M + r, whichever lanes hold the elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.operands import Decoded, Operand
from ..matrix_products import MatrixOperand, MatrixProduct
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import I32, U32, Array, Waves
from .matrix import BITS, FORMATS, Take, in_k_order, only_modifiers, registers_of, take_operand
from .matrix_results import Addend, accumulator, finish_into
from .mfma import multiply, result_order

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
