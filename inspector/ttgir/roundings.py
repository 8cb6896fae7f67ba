"""Tensors that are rounded to bfloat16 between two operations that compute with them.

No vector instruction of CDNA, or RDNA up to gfx12, computes in bfloat16: the backend widens the
operands to float32, computes, and rounds the result. Where the next operation widens that again,
the rounding is work that float32 throughout would not have.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ..model import TtgirModule, TtgirOp, TtgirType
from .flow import DataFlow, flow_of, reached, users_of
from .layouts import type_to_linear

_BFLOAT16 = "bf16"
_FLOAT32 = "f32"
_CLAMP = "tt.clampf"
_ARITHMETIC = frozenset(
    ("arith.addf", "arith.divf", "arith.maximumf", "arith.maxnumf", "arith.minimumf",
     "arith.minnumf", "arith.mulf", "arith.subf", _CLAMP)
)  # fmt: skip
_NARROWING = frozenset(("arith.truncf", "tt.fp_to_fp"))
_WIDENING = frozenset(("arith.extf", "tt.fp_to_fp"))
_SAME_VALUES = frozenset(
    ("arith.select", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans")
)
"""Operations that would pass on float32 as they pass on bfloat16, at no more instructions."""


class Rounding(Struct, frozen=True):
    """An operation whose result need not be rounded to bfloat16.

    Attributes:
        elements: that a lane rounds there without need.
    """

    op: TtgirOp
    elements: int


def roundings(module: TtgirModule) -> list[Rounding]:
    """The operations whose rounded results only arithmetic uses, in file order.

    A clamp computes a maximum and then a minimum, and rounds in between.
    """
    if not any(_is_bfloat16(kind) for op in module.ops for kind in op.result_types):
        return []
    flow = flow_of(module)
    found = []
    for op in module.ops:
        if not _rounds(op):
            continue
        linear = type_to_linear(op.result_types[0])
        if linear is None:
            continue
        times = (op.name == _CLAMP) + _is_widened_again(flow, op)
        if times:
            found.append(Rounding(op, times * linear.distinct_elements_per_thread))
    return found


def _rounds(op: TtgirOp) -> bool:
    """Whether an operation rounds a tensor of float32 values to bfloat16."""
    if len(op.result_types) != 1 or not _is_bfloat16(op.result_types[0]):
        return False
    if op.name in _NARROWING:
        return bool(op.operand_types) and op.operand_types[0].element == _FLOAT32
    return op.name in _ARITHMETIC


def _is_widened_again(flow: DataFlow, op: TtgirOp) -> bool:
    """Whether nothing but arithmetic, which widens it, uses an operation's result."""
    users = users_of(flow)

    def passed_on(value: int) -> Iterator[int]:
        return (
            result
            for user in users.get(value, ())
            if user.name in _SAME_VALUES
            for result in flow.results[user.index]
        )

    values = reached(flow.results[op.index], passed_on)
    uses = [user for value in values for user in users.get(value, ())]
    last = [user for user in uses if user.name not in _SAME_VALUES]
    return bool(last) and all(map(_is_arithmetic, last))


def _is_arithmetic(user: TtgirOp) -> bool:
    is_widened = bool(user.result_types) and user.result_types[0].element == _FLOAT32
    return user.name in _ARITHMETIC or (user.name in _WIDENING and is_widened)


def _is_bfloat16(kind: TtgirType) -> bool:
    return kind.kind == "tensor" and kind.element == _BFLOAT16
