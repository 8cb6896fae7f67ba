"""Into which tensors of a kernel an access points, and which loops are around it."""

from __future__ import annotations

from typing import Final

from ..model import TtgirOp
from .flow import UNKNOWN, DataFlow
from .opforms import FUNCTIONS

PASSES_ON: Final = frozenset(
    ("amdg.extract_slice", "amdgpu.extract_slice", "tt.addptr", "tt.bitcast", "tt.broadcast",
     "tt.expand_dims", "tt.make_tensor_descriptor", "tt.reshape", "tt.splat", "tt.trans",
     "tt.unsplat", "ttg.convert_layout")
)  # fmt: skip
"""Operations whose result points into the tensor of their first operand."""
ANY: Final = -1
"""Stands for a tensor that nobody knows: a pointer from memory, a called function's argument."""


def tensors_of(flow: DataFlow, access: TtgirOp) -> frozenset[int]:
    """The kernel's arguments that an access may point into, `ANY` where others are possible."""
    tensors, ahead, visited = set[int](), [_pointer(flow, access)], set[int]()
    while ahead:
        value = ahead.pop()
        if value in visited:
            continue
        visited.add(value)
        carried = flow.carried.get(value)
        maker = maker_of(flow, value)
        if carried is not None:
            ahead += carried
        elif maker is None:
            is_argument = value != UNKNOWN and flow.module.ops[flow.maker[value]].name in FUNCTIONS
            tensors.add(value if is_argument else ANY)
        elif maker.name in PASSES_ON:
            ahead += flow.operands[maker.index][:1]
        elif maker.name == "arith.select":
            ahead += flow.operands[maker.index][1:]
        else:
            tensors.add(ANY)
    return frozenset(tensors)


def _pointer(flow: DataFlow, op: TtgirOp) -> int:
    """The pointer or descriptor of an access: the first operand that is one."""
    for value, kind in zip(flow.operands[op.index], op.operand_types, strict=False):
        if "ptr" in kind.text or "tensordesc" in kind.text:
            return value
    return UNKNOWN


def loops_around(flow: DataFlow, op: TtgirOp) -> frozenset[int]:
    """The indices of the loops around an operation."""
    loops = set[int]()
    loop = flow.loop[op.index]
    while loop is not None:
        loops.add(loop)
        loop = flow.loop[loop]
    return frozenset(loops)


def maker_of(flow: DataFlow, value: int) -> TtgirOp | None:
    """The operation that makes a value; None where there is none, or several."""
    return flow.op(value) if value != UNKNOWN and value not in flow.carried else None
