"""WMMA: the matrix instructions of RDNA and gfx1250, 16 rows and columns.

gfx11: lanes 0 to 15 hold the rows of A and the columns of B, all K of them; the other lanes must
hold copies, which are not looked at. A register of D holds a row in every 16 lanes: row L / 16 *
register + lane // 16 with L lanes in a wave. 16-bit results take the low or the high halves of as
many registers; op_sel[2] says which (AMD's matrix instruction calculator; RDNA3 ISA, 7.9).

gfx12: the groups of 16 lanes hold different K. D: row 8 * (lane // 16 % 2) + register with 32
lanes, row 8 * (lane // 16 % 2) + 4 * (lane // 32) + register with 64; 16-bit results two to a
register (RDNA4 ISA, 7.12).

gfx1250 is gfx12 with 32 lanes and larger K. Of its products of 8, 6 and 4 bits (f8f6f4 and f4) a
second set of 16 rows follows in the next registers (32x16x128). In f8f6f4 a lane holds runs of
16 (8 bits) or 32 (4 and 6 bits) elements, its group's turns alternating with the other's; scales:
byte K / 32 (or K / 16) of the row's lane (Triton's LinearLayoutConversions; ROCm's rocjitsu).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, Operand
from ..matrix_products import MatrixOperand, MatrixProduct
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import I32, U32, Array, Waves
from .matrix import (
    BITS,
    FORMATS,
    Addend,
    Finish,
    Take,
    accumulator,
    finish_into,
    in_k_order,
    only_modifiers,
    registers_of,
    take_operand,
)
from .mfma import multiply_scaled

ROWS: Final = 16
_FLOATS: Final = "f16|bf16|f32|fp8_fp8|fp8_bf8|bf8_fp8|bf8_bf8"
_WMMA: Final = re.compile(
    rf"v_wmma_(f32|f16|bf16|bf16f32|i32)_16x16x(\d{{1,9}})_({_FLOATS}|iu8|iu4)"
)
HINTS: Final = ("matrix_a_reuse", "matrix_b_reuse")
"""Modifiers that change no value."""


def result_order(lanes: int, generation: int) -> Callable[[Array], Array]:
    """[wave, row, column] -> a view [register, wave, ..., lane] of 32-bit results."""
    groups = lanes // ROWS
    if generation == 11:
        return lambda product: product.reshape(
            len(product), ROWS // groups, groups, ROWS
        ).transpose(1, 0, 2, 3)
    if groups == 2:
        return lambda product: product.reshape(len(product), 2, 8, ROWS).transpose(2, 0, 1, 3)
    return lambda product: product.reshape(len(product), 2, 2, 4, ROWS).transpose(3, 0, 2, 1, 4)


def result_registers(out: str, target: ExecutionTarget) -> int:
    """Registers of D: 16-bit results have one each on gfx11, behind that two share one."""
    shared = target.generation >= 12 and "16" in out
    return ROWS * ROWS // target.lanes // (2 if shared else 1)


def multiply(a: Array, b: Array) -> Array:
    """[wave, k, row] and [wave, k, column] -> [wave, row, column]."""
    product: Array = np.matmul(a.transpose(0, 2, 1), b)
    return product


def kinds_of(name: str, decoded: Decoded) -> tuple[str, str]:
    """Returns the kinds of A and B; neg_lo makes iu8 and iu4 signed."""
    if not name.startswith("iu"):
        first, _, second = name.partition("_")
        return first, second or first
    signed = decoded.numbers("neg_lo", (0, 0, 0))
    first, second = (("i" if bit else "u") + name[2:] for bit in signed[:2])
    return first, second


def source_of(
    operand: Operand, kind: str, depth: int, decoded: Decoded, context: BuildContext, which: int
) -> MatrixOperand:
    """A (0) or B (1) as [wave, k, row], from the lanes that count."""
    lane_depth = 32 * operand.count // BITS[kind]
    lanes = ROWS * depth // lane_depth
    if lanes > context.target.lanes or lanes * lane_depth != ROWS * depth:
        raise NotCoveredError(f"{decoded.text}: its shape")
    plain = take_operand(kind, ROWS, context.target)
    negated = _negated_elements(decoded, kind, which)

    def take(words: Array) -> Array:
        values = plain(words if lanes == words.shape[2] else words[:, :, :lanes])
        if negated is not None:
            values = values * negated[:, None]
        return values.reshape(len(values), depth, ROWS)

    sign = tuple(decoded.numbers(name, (0, 0, 0))[which] for name in ("neg_lo", "neg_hi"))
    return MatrixOperand(registers_of(operand, decoded.text), take, (kind, lanes, depth, sign))


def _negated_elements(decoded: Decoded, kind: str, which: int) -> Array | None:
    """neg_lo and neg_hi negate the low and the high 16-bit elements of A and B: their signs."""
    if kind[0] in "iu":
        return None
    bits = [decoded.numbers(name, (0, 0, 0))[which] for name in ("neg_lo", "neg_hi")]
    if not any(bits):
        return None
    if BITS[kind] != 16:
        raise NotCoveredError(f"{decoded.text}: signs")
    signs: Array = np.where(bits, np.float32(-1), np.float32(1))
    return np.tile(signs, 8)  # every register has both


def signs_fit(decoded: Decoded, kind: str) -> None:
    """Raises NotCoveredError for signs that mean nothing: of integers only neg_lo[0:1] do."""
    if kind == "i32" and (
        any(decoded.numbers("neg_hi", (0,))) or any(decoded.numbers("neg_lo", (0, 0, 0))[2:])
    ):
        raise NotCoveredError(f"{decoded.text}: signs")


@builds_matching(r"v_wmma_(f32|f16|bf16|bf16f32|i32)_\w+")
def wmma(decoded: Decoded, context: BuildContext) -> Step:
    """One product; f16 and bf16 results are rounded once, from the float32 sum with C."""
    match = _WMMA.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    only_modifiers(decoded, "neg_lo", "neg_hi", "clamp", "op_sel", *HINTS)
    out, depth, kinds = match[1], int(match[2]), match[3]
    signs_fit(decoded, out)
    target, a, b, c = decoded.operands[:4]
    a_kind, b_kind = kinds_of(kinds, decoded)
    lanes, generation = context.target.lanes, context.target.generation
    check_count(target, result_registers(out, context.target))
    return MatrixProduct(
        source_of(a, a_kind, depth, decoded, context, 0),
        source_of(b, b_kind, depth, decoded, context, 1),
        multiply,
        result_order(lanes, generation),
        ("wmma", lanes, generation, out),
        _finish(decoded, context, out),
        registers_of(target, decoded.text),
        accumulator(target, c, out, plain=not set(decoded.modifiers) - {"neg_lo", *HINTS}
                    and (out == "i32" or "neg_lo" not in decoded.modifiers)),
    )  # fmt: skip


def _finish(decoded: Decoded, context: BuildContext, out: str) -> Finish:
    """Returns the step that adds C and writes D, with op_sel, clamp and C's signs."""
    halves = decoded.numbers("op_sel", (0, 0, 0))
    if any(halves[:2]) or (any(halves) and (context.target.generation != 11 or "16" not in out)):
        raise NotCoveredError(f"{decoded.text}: op_sel")
    doubled = context.target.generation == 11 and out in ("f16", "bf16")
    floats = out != "i32"
    if decoded.flag("clamp") and floats:
        raise NotCoveredError(f"{decoded.text}: clamp")
    c = Addend(
        decoded.operands[3],
        "f32" if out == "bf16f32" else out,
        halves[2] if doubled else None,
        absolute=floats and bool(decoded.numbers("neg_hi", (0, 0, 0))[2]),
        negate=floats and bool(decoded.numbers("neg_lo", (0, 0, 0))[2]),
    )
    kind = "bf16" if out == "bf16f32" else out
    return finish_into(decoded.operands[0], c, kind, clamp=decoded.flag("clamp"))


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
