"""How small a tile has to be for its kernel to find room in the registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..model import TtgirModule

_SHARE: Final = 64
"""Registers of the largest tensor that a lane can hold beside others like it: a quarter of 256.
(_fwd_kernel_token_att2_int8v of ModelTC/lightllm on gfx1100, 512 at BLOCK_N=512: 335 scratch
accesses in the loop; 179, 31 and none with a half, a quarter and an eighth.)"""
_PARTS: Final = {2: "half", 4: "a quarter", 8: "an eighth", 16: "a sixteenth"}
_SMALLEST_PART: Final = max(_PARTS)


def smaller_tile(
    module: TtgirModule, constexprs: Mapping[str, object], sizes: Sequence[str]
) -> str:
    """The remedy for spills of a kernel with loops and without products.

    `constexprs`: their values by name; `sizes`: the names of its block sizes.
    """
    held = _largest_share(module)
    part = 2
    while part < _SMALLEST_PART and held > part * _SHARE:
        part *= 2
    text = f"{_PARTS[part]} of {' or '.join(sizes)}"
    whole = [name for name in sizes if _is_reduced_whole(module, constexprs.get(name))]
    if whole:
        text += f", with an inner loop over the parts of {' and '.join(whole)}"
    return text


def _largest_share(module: TtgirModule) -> int:
    """Registers that a lane holds of the largest tensor of a loop."""
    # Only Triton kernels need them.
    from ..ttgir import queries
    from ..ttgir.layouts import elements_per_thread
    from ..ttgir.lowered import element_bits

    most = 0
    for op in module.ops:
        if queries.loop_above(op, module) is None:
            continue
        for kind in op.result_types:
            bits = element_bits(kind.element) if kind.kind == "tensor" else None
            count = elements_per_thread(kind.layout, kind.shape) if bits else None
            if bits and count:
                most = max(most, count * bits // 32)
    return most


def _is_reduced_whole(module: TtgirModule, extent: object) -> bool:
    """Whether a loop reduces a tensor along a block of some size, by which no loop goes on."""
    from ..ttgir import queries

    constants = queries.integer_constants(module)
    steps = {
        constants.get(op.operands[2])
        for op in module.ops
        if op.name == "scf.for" and len(op.operands) > 2
    }
    return extent not in steps and any(
        op.name == "tt.reduce"
        and isinstance(axis := op.attributes.get("axis"), int)
        and op.operand_types[0].shape[axis] == extent
        and queries.loop_above(op, module) is not None
        for op in module.ops
    )
