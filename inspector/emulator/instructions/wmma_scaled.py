"""WMMA of 8, 6 and 4 bits on gfx1250: f8f6f4 and f4, with scales or without.

A second set of 16 rows follows in the next registers (32x16x128). In f8f6f4 a lane holds runs of
16 (8 bits) or 32 (4 and 6 bits) elements, its group's turns alternating with the other's; scales:
byte K / 32 (or K / 16) of the row's lane (Triton's LinearLayoutConversions; ROCm's rocjitsu).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.operands import Decoded, Operand
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import I32, U32, Array, Waves
from .matrix import BITS, FORMATS, Take, in_k_order, only_modifiers, registers_of, take_operand
from .matrix_results import Addend, finish_into
from .mfma_scaled import multiply_scaled
from .wmma import HINTS, ROWS, multiply

_MIXED: Final = re.compile(r"v_wmma_(?:(scale|scale16)_)?f32_(?:16x16x128_f8f6f4|(32)x16x128_f4)")


@builds("v_wmma_f32_16x16x128_f8f6f4", "v_wmma_f32_32x16x128_f4")
@builds_matching(r"v_wmma_scale(16)?_f32_\w+")
def mixed(decoded: Decoded, context: BuildContext) -> Step:
    """f8f6f4 and f4, with a power of two for every 32 (16) K, or without."""
    match = _MIXED.fullmatch(decoded.name)
    if match is None or context.target.lanes != 2 * ROWS:
        raise NotCoveredError(decoded.text)
    only_modifiers(
        decoded, "matrix_a_fmt", "matrix_b_fmt", "matrix_a_scale", "matrix_b_scale",
        "matrix_a_scale_fmt", "matrix_b_scale_fmt", "neg_lo", "neg_hi", *HINTS,
    )  # fmt: skip
    scaling, tall = match[1], match[2] is not None
    target, a, b, c = decoded.operands[:4]
    check_count(target, 16 if tall else 8)
    kinds = [_format(decoded, "a", tall), _format(decoded, "b", tall)]
    if scaling is None and (BITS[kinds[0]] == 8) != (BITS[kinds[1]] == 8):
        raise NotCoveredError(f"{decoded.text}: formats whose K orders are not documented")
    takes = [
        _take_ordered(operand, kind, sets, decoded, context)
        for operand, kind, sets in ((a, kinds[0], 2 if tall else 1), (b, kinds[1], 1))
    ]
    rows = [registers_of(operand, decoded.text) for operand in (a, b)]
    signs = [decoded.numbers(name, (0, 0, 0)) for name in ("neg_lo", "neg_hi")]
    if any(signs[0][:2]) or any(signs[1][:2]):
        raise NotCoveredError(f"{decoded.text}: signs")
    finish = finish_into(
        target, Addend(c, "f32", None, bool(signs[1][2]), bool(signs[0][2])), "f32"
    )
    scales = _scales(decoded, scaling, tall) if scaling else None

    def step(waves: Waves) -> None:
        a_values, b_values = (
            take(waves.u32[where]) for take, where in zip(takes, rows, strict=True)
        )
        if scales is None:
            product = multiply(a_values, b_values)
        else:
            a_scale, b_scale = (read(waves) for read in scales)
            product = multiply_scaled(a_values[:, None], b_values[:, None], a_scale, b_scale)
        sets = product.reshape(waves.count, -1, 2, 8, ROWS)
        finish(waves, sets.transpose(1, 3, 0, 2, 4))

    return step


def _format(decoded: Decoded, which: str, tall: bool) -> str:
    """Returns the format of A or B (`which`) that a modifier names; fp8 where none does."""
    if tall:
        return "fp4"
    name = decoded.modifiers.get(f"matrix_{which}_fmt", "MATRIX_FMT_FP8")
    kind = name.removeprefix("MATRIX_FMT_").lower()
    if kind not in FORMATS:
        raise NotCoveredError(f"{decoded.text}: {name}")
    return kind


def _take_ordered(
    operand: Operand, kind: str, sets: int, decoded: Decoded, context: BuildContext
) -> Take:
    """[wave, k, row], K in order, for one or two sets of 16 rows."""
    if operand.count * 32 != 64 * BITS[kind] * sets:
        raise NotCoveredError(f"{decoded.text}: registers that do not fit {kind}")
    plain = take_operand(kind, ROWS, context.target)
    each, chunk = operand.count // sets, 16 if BITS[kind] == 8 else 32

    def take(words: Array) -> Array:
        parts = [
            in_k_order(plain(words[index * each : (index + 1) * each]), chunk)
            for index in range(sets)
        ]
        return parts[0] if sets == 1 else np.concatenate(parts, 2)

    return take


def _scales(
    decoded: Decoded, scaling: str, tall: bool
) -> tuple[Callable[[Waves], Array], Callable[[Waves], Array]]:
    """Returns the readers of A's and B's scales, int32 [wave, K block, row]."""
    readers = []
    registers = 2 if scaling == "scale16" else 1
    for which, operand in zip("ab", decoded.operands[4:6], strict=True):
        kind = decoded.modifiers.get(f"matrix_{which}_scale_fmt", "MATRIX_SCALE_FMT_E8")
        if kind != "MATRIX_SCALE_FMT_E8":
            raise NotCoveredError(f"{decoded.text}: {kind}")
        if operand.kind != "vgpr" or operand.count != registers:
            raise NotCoveredError(f"{decoded.text}: scales outside of VGPRs")
        half = decoded.modifiers.get(f"matrix_{which}_scale", "MATRIX_SCALE_ROW0")
        first = 16 * (half == "MATRIX_SCALE_ROW1")
        lanes = slice(0, 32) if tall and which == "a" else slice(first, first + ROWS)
        readers.append(_scale_bytes(slice(operand.first, operand.first + registers), lanes))
    return readers[0], readers[1]


def _scale_bytes(rows: slice, lanes: slice) -> Callable[[Waves], Array]:
    """[wave, K block, row]: byte by byte of the lane's registers."""
    shifts = np.arange(0, 32, 8, dtype=U32)[:, None, None]

    def read(waves: Waves) -> Array:
        words = waves.u32[rows, :, lanes]
        octets = (words[:, None] >> shifts) & U32(0xFF)
        return octets.reshape(-1, *words.shape[1:]).transpose(1, 0, 2).astype(I32)

    return read
