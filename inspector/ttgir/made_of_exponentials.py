"""Dots whose operands are exponentials of whole tiles, which a replicated layout computes twice."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from ..model import SourceLoc, TtgirModule, TtgirOp
from .flow import DataFlow, flow_of, reached
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

    def maker_of(current: int) -> TtgirOp | None:
        maker = flow.op(current) if current not in flow.carried else None
        return maker if maker is not None and maker.result_types else None

    def sources(current: int) -> Sequence[int]:
        maker = maker_of(current)
        if maker is None or maker.name in _EXPONENTIALS:
            return ()
        is_passed = maker.name in _PASSED or maker.name.startswith(("arith.", "math."))
        return flow.operands[maker.index] if is_passed else ()

    makers = map(maker_of, reached([value], sources))
    return any(
        maker is not None
        and maker.name in _EXPONENTIALS
        and prod(maker.result_types[0].shape) == elements
        for maker in makers
    )
