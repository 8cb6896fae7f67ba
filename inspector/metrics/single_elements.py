"""Kernels without loops in which each lane moves one small element of each array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..isa.mnemonics import access_bits
from ..model import Function, Instruction, LaneUse, Scalar
from .entries import Unknown, of_kernels
from .subject import LANE_EXCHANGES, LineName, Subject

ELEMENT_SPECS = of_kernels(
    {
        "single_elements": "Accesses of global memory in HIP code without loops, LDS and atomics "
        "whose lanes lie side by side, all of them of 64 bits at most and in one block: `loads`, "
        "`stores`, the `bytes` that a lane loads, `at` the line of the first load; none where an "
        "access is wider, lies elsewhere or where its lanes' addresses or the workgroup's shape "
        "are not known, and where no address rests on the workgroup's number, so that one "
        "workgroup does it all",
    }
)

_ACCESSES: Final = frozenset(("global_load", "global_store"))
_OTHERS: Final = frozenset(("lds_write", "lds_atomic", "lds_direct", "atomic", "unknown"))
_MOST_BITS: Final = 64


def single_elements(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `ELEMENT_SPECS`."""
    function = subject.function
    if subject.ttgir is not None or function.loops or function.calls or function.unread:
        return Unknown("HIP code without loops is looked at")
    accesses = [inst for inst in function.instructions if inst.cls in _ACCESSES]
    loads = [inst for inst in accesses if inst.cls == "global_load"]
    if (
        not loads
        or any(map(_is_of_lds, function.instructions))
        or not _stand_together(function, accesses)
        or not all(_is_single(inst, subject.uses.get(inst.index)) for inst in accesses)
    ):
        return Unknown("not all accesses are such")
    if _is_of_one_workgroup(subject, accesses):
        return Unknown("all workgroups access the same")
    return {
        "loads": len(loads),
        "stores": len(accesses) - len(loads),
        "bytes": sum(access_bits(inst.op, inst.operands) or 0 for inst in loads) // 8,
        "at": LineName.of(loads),
    }


def _is_of_one_workgroup(subject: Subject, accesses: Sequence[Instruction]) -> bool:
    """Whether no address rests on the workgroup's number: no grid of several would be launched."""
    if subject.machine is None:
        return False
    from ..lanes.lane_dependence import workgroup_independent

    indices = frozenset(inst.index for inst in accesses)
    try:
        return workgroup_independent(subject.function, subject.machine, indices) == indices
    except Exception:  # a bug in the emulator must not cost the report
        return False


def _is_of_lds(inst: Instruction) -> bool:
    """Whether an instruction is an atomic, or an access of LDS or of an unknown kind of memory."""
    if inst.cls == "lds_read":
        return not inst.op.name.startswith(LANE_EXCHANGES)
    return inst.cls in _OTHERS or "flat" in inst.op.traits


def _stand_together(function: Function, accesses: Sequence[Instruction]) -> bool:
    """Whether all accesses stand in one block, so that those of several elements can be joined."""
    first, last = accesses[0].index, accesses[-1].index
    return any(block.start <= first and last < block.stop for block in function.blocks)


def _is_single(inst: Instruction, use: LaneUse | None) -> bool:
    bits = access_bits(inst.op, inst.operands)
    if bits is None or bits > _MOST_BITS or use is None or use.wide_rows:
        return False
    return use.lies_side_by_side(bits) is True
