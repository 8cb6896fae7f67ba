"""Products whose A has two of every four K: SMFMAC of CDNA, SWMMAC of RDNA4.

A holds two elements of each four; two bits for each element say which of the four K it is. These
indices lie in the lane that holds the elements, in the same order, in one of several sets of a
register. D is C as well.

A lane's elements meet the same lane's elements of B, four K for each pair. SMFMAC of gfx950 with
twice the K: a lane of A holds two runs of K one behind the other, whereas in B the groups take
turns, first with their first halves (ROCm's rocjitsu; the number of sets: LLVM's verifier and the
CDNA4 ISA).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.operands import Decoded, Operand
from ..registry import BuildContext, NotCoveredError, Step, builds_matching
from ..vector_operands import check_count
from ..waves import U32, Array, Waves
from . import wmma
from .matrix import (
    BITS,
    Addend,
    Take,
    finish_into,
    in_k_order,
    only_modifiers,
    registers_of,
    take_operand,
)
from .mfma import result_order

_EIGHT: Final = "fp8_fp8|fp8_bf8|bf8_fp8|bf8_bf8"
_SMFMAC: Final = re.compile(rf"v_smfmac_(f32|i32)_(16|32)x\2x(\d{{1,9}})_(f16|bf16|i8|{_EIGHT})")
_SWMMAC: Final = re.compile(rf"v_swmmac_(f32|f16|bf16|i32)_16x16x32_(f16|bf16|iu8|{_EIGHT})")

Indices = Callable[[Waves], Array]
"""Which of its four K each element of A is: [wave, group, element of the lane, row]."""


def indices_of(operand: Operand, count: int, chosen: int, size: int, text: str) -> Indices:
    """The indices of `count` elements in each lane, from set number `chosen`."""
    bits = 2 * count
    if operand.kind != "vgpr" or operand.count != 1 or (chosen + 1) * bits > 32:
        raise NotCoveredError(f"{text}: its index register")
    shifts = (np.arange(count, dtype=U32) * U32(2) + U32(chosen * bits))[:, None]
    register = operand.first

    def read(waves: Waves) -> Array:
        words = waves.u32[register].reshape(waves.count, -1, 1, size)
        return ((words >> shifts) & U32(3)).astype(np.int64)

    return read


def multiply(a: Array, indices: Array, b: Array) -> Array:
    """The product of A's elements with the rows of B that their indices name.

    Rows of B that no index names play no part, so that their infinities do no harm.

    `a`: the elements that A has, [wave, element, row], in the order of K. `indices`: each element's
    place among its four K, 0 to 3, of the same shape. `b`: B, [wave, k, column]. Returns float32
    [wave, row, column].
    """
    fours = np.arange(a.shape[1])[:, None] // 2 * 4
    depth = (fours + indices).transpose(0, 2, 1)  # [wave, row, element]
    named = b[np.arange(len(b))[:, None, None], depth]  # [wave, row, element, column]
    product: Array = np.matmul(a.transpose(0, 2, 1)[:, :, None, :], named)[:, :, 0]
    return product


def _sparse_step(
    decoded: Decoded,
    takes: tuple[Take, Take],
    order: Callable[[Array], Array],
    indices: Indices,
    arrange: Callable[[Array], Array],
    out: str,
) -> Step:
    """Returns a step; `takes` give [wave, group, element, row], `order` B as [wave, k, column]."""
    target, a, b = decoded.operands[:3]
    a_rows, b_rows = registers_of(a, decoded.text), registers_of(b, decoded.text)
    finish = finish_into(target, Addend(target, out), out, clamp=decoded.flag("clamp"))

    def step(waves: Waves) -> None:
        a_values, b_values = takes[0](waves.u32[a_rows]), takes[1](waves.u32[b_rows])
        flat = (waves.count, -1, a_values.shape[3])
        product = multiply(a_values.reshape(flat), indices(waves).reshape(flat), order(b_values))
        finish(waves, arrange(product))

    return step


@builds_matching(r"v_smfmac_\w+")
def smfmac(decoded: Decoded, context: BuildContext) -> Step:
    """With cbsz 0, abid chooses the set of indices; otherwise the first counts (CDNA3 ISA, 7.4)."""
    match = _SMFMAC.fullmatch(decoded.name)
    if match is None or len(decoded.operands) != 4:
        raise NotCoveredError(decoded.text)
    only_modifiers(decoded, "cbsz", "abid")
    out, size, depth, kinds = match[1], int(match[2]), int(match[3]), match[4]
    a_kind, b_kind = kinds.split("_") if "_" in kinds else (kinds, kinds)
    _, a, b, index = decoded.operands
    held_a, held_b = 32 * a.count // BITS[a_kind], 32 * b.count // BITS[b_kind]
    groups = 64 // size
    if groups * held_b != depth or held_b != 2 * held_a or a.count not in (2, 4):
        raise NotCoveredError(f"{decoded.text}: its shape")
    check_count(decoded.operands[0], size * size // 64)
    chunk = held_b if a.count == 2 else held_b // 2
    chosen = 0 if decoded.number("cbsz") else decoded.number("abid")
    if 2 * held_a == 32:
        chosen = 0  # one set, no choice
    arrange = result_order(size, 1)
    return _sparse_step(
        decoded,
        (take_operand(a_kind, size, context.target), take_operand(b_kind, size, context.target)),
        lambda values: in_k_order(values, chunk),
        indices_of(index, held_a, chosen, size, decoded.text),
        lambda product: arrange(product[:, None]),
        out,
    )


@builds_matching(r"v_swmmac_\w+")
def swmmac(decoded: Decoded, context: BuildContext) -> Step:
    """RDNA4; index_key chooses the set. The indices of iu4 are not documented well enough."""
    match = _SWMMAC.fullmatch(decoded.name)
    if match is None or context.target.arch not in ("gfx1200", "gfx1201"):
        raise NotCoveredError(decoded.text)
    only_modifiers(decoded, "index_key", "neg_lo", "clamp")
    out, kinds = match[1], match[2]
    wmma.signs_fit(decoded, out)
    if out != "i32" and set(decoded.modifiers) & {"neg_lo", "clamp"}:
        raise NotCoveredError(f"{decoded.text}: signs or clamp")
    a_kind, b_kind = wmma.kinds_of(kinds, decoded)
    _, a, b, index = decoded.operands
    held_a, held_b = 32 * a.count // BITS[a_kind], 32 * b.count // BITS[b_kind]
    lanes = context.target.lanes
    check_count(decoded.operands[0], wmma.result_registers(out, context.target))
    if lanes // wmma.ROWS * held_b != 32 or held_b != 2 * held_a:
        raise NotCoveredError(f"{decoded.text}: its shape")
    return _sparse_step(
        decoded,
        (
            take_operand(a_kind, wmma.ROWS, context.target),
            take_operand(b_kind, wmma.ROWS, context.target),
        ),
        lambda values: in_k_order(values, held_b),
        indices_of(index, held_a, decoded.number("index_key"), wmma.ROWS, decoded.text),
        wmma.result_order(lanes, 12),
        out,
    )
