"""Matrix instructions: MFMA of CDNA, WMMA of RDNA.

Layouts: AMD's matrix instruction calculator; CDNA3 ISA, 7.1; RDNA3 ISA, 7.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from .. import numbers
from ..access import NotCoveredError
from ..operands import Decoded, Operand
from ..registry import Context, Step, builds_matching
from ..waves import F32, U32, Array, Waves

_MFMA: Final = re.compile(r"v_mfma_f32_(\d+)x(\d+)x(\d+)_?(f16|bf16|f32)(?:_1k)?")


def f16_values(words: Array) -> Array:
    """uint32 [..., word] -> float32 [..., 2 * word]."""
    return numbers.from_f16(np.ascontiguousarray(words).view(np.uint16))


def bf16_values(words: Array) -> Array:
    return numbers.from_bf16(np.ascontiguousarray(words).view(np.uint16))


def f32_values(words: Array) -> Array:
    return np.ascontiguousarray(words).view(F32)


_VALUES: Final[dict[str, Callable[[Array], Array]]] = {
    "f16": f16_values, "bf16": bf16_values, "f32": f32_values,
}  # fmt: skip


@builds_matching(r"v_mfma_f32_(16x16|32x32)x\d+_?(f16|bf16|f32)(_1k)?")
def mfma(decoded: Decoded, context: Context) -> Step:
    """D = A * B + C, one block: a lane holds row (A) or column (B) `lane % M`, several K each."""
    match = _MFMA.fullmatch(decoded.name)
    assert match is not None
    size, depth, kind = int(match[1]), int(match[3]), match[4]
    if {"cbsz", "abid", "blgp", "neg"} & set(decoded.modifiers):
        raise NotCoveredError(f"{decoded.text}: modifiers")
    target, a, b, c = decoded.operands
    groups = 64 // size
    values = _VALUES[kind]
    if a.count * (1 if kind == "f32" else 2) * groups != depth:
        raise NotCoveredError(f"{decoded.text}: more than one block")

    def spread(waves: Waves, operand: Operand) -> Array:
        """[wave, k, row]."""
        words = waves.u32[operand.first : operand.first + operand.count]
        lanes = values(words.transpose(1, 2, 0)).reshape(waves.count, groups, size, -1)
        return lanes.transpose(0, 1, 3, 2).reshape(waves.count, depth, size)

    rows = slice(target.first, target.first + target.count)
    shape = (size // (4 * groups), 4)

    def step(waves: Waves) -> None:
        product = np.matmul(spread(waves, a).transpose(0, 2, 1), spread(waves, b))
        product = product.reshape(waves.count, size // (4 * groups), groups, 4, size)
        arranged = product.transpose(1, 3, 0, 2, 4)
        result = waves.f32[rows].reshape(*shape, waves.count, groups, size)
        if c.kind == "constant":
            np.add(arranged, F32(c.real if c.real is not None else c.integer or 0), out=result)
        else:
            start = waves.f32[c.first : c.first + c.count].reshape(result.shape)
            np.add(arranged, start, out=result)

    return step


__all__ = ["U32", "mfma"]
