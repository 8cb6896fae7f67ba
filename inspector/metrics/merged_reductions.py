"""Reductions over lanes whose results a loop only sums up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..model import Instruction, Scalar, TtgirOp
from .entries import of_loops
from .source_trips import most_iterations
from .subject import LineName, Place, Subject, source_line

if TYPE_CHECKING:
    from ..ttgir.flow import DataFlow

MERGED = of_loops(
    {
        "reductions.merged": "Reductions in a hot loop over elements of several lanes whose "
        "results the loop only adds to (or compares with) what it carries, by the reduction's own "
        "operation: the loop may carry the tile instead and reduce it once: how many "
        "`reductions`, the first `at` which line, 32-bit registers of a lane that the tiles would "
        "take (`registers`), and in the code of the loop at these lines the instructions that "
        "pass values between lanes or waves (`exchanges`, barriers included); `iterations` of the "
        "workgroup with most, by the launch or constant bounds",
    }
)

_REGISTER_BITS: Final = 32
_MERGES: Final = frozenset(
    ("arith.addf", "arith.addi", "arith.maxnumf", "arith.maximumf", "arith.minnumf",
     "arith.minimumf", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.ori",
     "arith.andi", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans",
     "ttg.convert_layout")
)  # fmt: skip
_BETWEEN_LANES: Final = frozenset(("cross_lane", "lds_read", "lds_write", "barrier"))


def is_merged(flow: DataFlow, reduction: TtgirOp) -> bool:
    """Whether the loop uses a reduction's result for nothing but a sum (or extreme) it carries.

    Then it may carry the parts instead, and reduce them once, after its end.
    """
    values = set(flow.results[reduction.index])
    loop = flow.loop[reduction.index]
    for op in flow.module.ops[reduction.index + 1 :]:
        if values.isdisjoint(flow.operands[op.index]):
            continue
        if op.name == "scf.yield" and op.parent == loop:
            continue
        if flow.loop[op.index] != loop or op.name not in _MERGES:
            return False
        values.update(flow.results[op.index])
    return True


def merged(
    subject: Subject,
    flow: DataFlow,
    ops: Sequence[TtgirOp],
    at: Mapping[Place, Sequence[Instruction]],
) -> dict[str, Scalar]:
    """Reductions over lanes that the loop sums up.

    `ops`: the loop's reductions; `at`: position -> the loop's instructions there.
    """
    from ..ttgir.layouts import type_to_linear
    from ..ttgir.lowered import element_bits

    summed: list[TtgirOp] = []
    bits = 0
    for op in ops:
        axis = op.attributes.get("axis")
        if not isinstance(axis, int) or len(op.operand_types) != 1:
            continue
        source = op.operand_types[0]
        linear = type_to_linear(source)
        if linear is None or not _is_carried(flow, op):
            continue
        if any(basis[axis] for basis in (*linear.lane, *linear.warp)):
            summed.append(op)
            # Of elements of unknown size each counts as a register.
            bits += (element_bits(source.element) or _REGISTER_BITS) << len(linear.register)
    lines = {source_line(op.loc) for op in summed} - {None}
    # What combines two lanes' values stands in a function that the line calls.
    exchanges = sum(
        inst.cls in _BETWEEN_LANES
        or "_dpp" in inst.mnemonic
        or "row_" in inst.operands
        or inst.mnemonic.startswith("v_permlane")
        for instructions in at.values()
        for inst in instructions
        if lines and source_line(inst.loc) in lines
    )
    return {
        "reductions": len(summed),
        "at": LineName.of(summed),
        "registers": -(-bits // _REGISTER_BITS),
        "exchanges": exchanges,
        "iterations": _most_iterations(subject, flow, summed),
    }


def _most_iterations(subject: Subject, flow: DataFlow, ops: Sequence[TtgirOp]) -> int | None:
    """How often the workgroup with most work goes round the loops of some operations."""
    if not ops:
        return None
    runs = most_iterations(subject)
    known = [runs.get(loop) for op in ops if (loop := flow.loop[op.index]) is not None]
    return None if None in known else max((count for count in known if count), default=0)


def _is_carried(flow: DataFlow, reduction: TtgirOp) -> bool:
    """Whether the loop only merges the results by the reduction's own operation."""
    loop = flow.loop[reduction.index]
    combined = [
        op.name
        for op in flow.module.ops
        if op.parent == reduction.index and op.name != "tt.reduce.return"
    ]
    if loop is None or len(combined) != 1 or not is_merged(flow, reduction):
        return False
    values = set(flow.results[reduction.index])
    arguments = set(flow.arguments.get(loop, ()))
    sums = set[int]()  # what the loop carries and these operations merge with
    merges = set[int]()
    for op in flow.module.ops[reduction.index + 1 :]:
        operands = flow.operands[op.index]
        if values.isdisjoint(operands) or op.name == "scf.yield":
            continue
        if op.name.startswith("arith.") and op.name != combined[0]:
            return False
        merges.add(op.index)
        sums |= arguments.intersection(operands)
        values.update(flow.results[op.index])
    # A running sum that an iteration reads has to be reduced in each.
    return bool(sums) and all(
        op.index in merges or sums.isdisjoint(flow.operands[op.index]) for op in flow.module.ops
    )
