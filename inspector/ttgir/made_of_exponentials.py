"""Dots whose operands are exponentials of whole tiles, which a replicated layout computes twice."""

from __future__ import annotations

from math import prod
from typing import Final

from ..model import SourceLoc, TtgirModule, TtgirOp
from .flow import UNKNOWN, DataFlow, flow_of
from .movements import CONVERSIONS
from .queries import DOTS, LOCAL_ALLOCATIONS, LOCAL_LOAD, VIEWS

_EXPONENTIALS: Final = frozenset(("math.exp", "math.exp2"))
_PASSED: Final = CONVERSIONS | LOCAL_ALLOCATIONS | LOCAL_LOAD | VIEWS | {"tt.trans", "tt.fp_to_fp"}
_COST: Final = 10
"""Vector instructions of an exponential with what is computed around it.

Tried on gfx1100: 32 of them for a second time, for 16x16x32 in float32, were 307 instructions.
"""


def exponentials_outweigh(module: TtgirModule, loc: SourceLoc | None) -> bool:
    """Whether computing a dot's exponentials once more takes as long as its products.

    `loc`: the dot's position.
    """
    flow = flow_of(module)
    for op in module.ops:
        if op.name not in DOTS or loc is None or op.loc != loc or len(op.operand_types) < 2:
            continue
        left, right = op.operand_types[0].shape, op.operand_types[1].shape
        if len(left) < 2 or len(right) < 2:
            return False
        products = prod(left) * right[-1]
        elements = sum(
            prod(operand_type.shape)
            for value, operand_type in zip(
                flow.operands[op.index][:2], op.operand_types, strict=False
            )
            if _is_exponential(flow, value, prod(operand_type.shape))
        )
        return _COST * elements >= products
    return False


def _is_exponential(flow: DataFlow, value: int, elements: int) -> bool:
    """Whether a tile is computed from an exponential of each of its elements."""
    ahead, visited = [value], set[int]()
    while ahead:
        current = ahead.pop()
        if current in visited or current == UNKNOWN:
            continue
        visited.add(current)
        maker: TtgirOp | None = flow.op(current)
        if maker is None or current in flow.carried or not maker.result_types:
            continue
        if maker.name in _EXPONENTIALS:
            if prod(maker.result_types[0].shape) == elements:
                return True
        elif maker.name in _PASSED or maker.name.startswith(("arith.", "math.")):
            ahead += flow.operands[maker.index]
    return False
