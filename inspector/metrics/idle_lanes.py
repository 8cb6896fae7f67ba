"""How many of a workgroup's lanes take part in its accesses of memory.

Kernels without loops in which each lane moves one small element of each array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..isa.mnemonics import access_bits
from ..model import Function, Instruction, LaneUse, Scalar
from .entries import NOT_IN_TRITON, Unknown, of_both, of_kernels
from .lanes import LDS_ACCESSES
from .subject import LANE_EXCHANGES, LineName, Subject, Tally

if TYPE_CHECKING:
    from ..lanes.addresses import Places


SPECS: Final = of_both(
    {
        "idle_lanes": "Lanes of a workgroup that take part in accesses of global memory and LDS, "
        "by the code's masks: the `most` in one of them, `of` how many, `at` which line that one "
        "is; how many are `loads`, how many `stores` or atomics, how many have `unknown` masks or "
        "addresses (with one the figures of lanes are None); masks that arguments or loaded "
        "values decide leave all lanes; `conditions` on lanes within the loop or kernel; None for "
        "Triton's code, and where the workgroup's size is not known",
    }
)

_STORES: Final = frozenset(("global_store", "atomic"))
_ACCESSES: Final = frozenset(("global_load", *_STORES, *LDS_ACCESSES))
_LEAST_DRAWS: Final = 2


def idle_lanes(subject: Subject, region: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is not None:
        return NOT_IN_TRITON
    if not subject.places or subject.demand.waves_from == "largest":
        return Unknown("the workgroup's size is not known")
    code = [subject.function.instructions[index] for index in region.indices]
    accesses = [
        inst
        for inst in code
        if inst.cls in _ACCESSES and not inst.op.name.startswith(LANE_EXCHANGES)
    ]
    waves, width = next(iter(subject.places.values()))[0].where.shape[1:]
    lanes = subject.facts.workgroup_size or waves * width
    most, unknown, at = 0, 0, None
    for inst in accesses:
        active = _taking_part(subject.places.get(inst.index), lanes)
        if active is None:
            unknown += 1
            continue
        if active > most:
            most, at = active, LineName.of([inst])
    if unknown:
        most, at = 0, None
    return {
        "most": most or None,
        "of": lanes,
        "loads": sum(inst.cls == "global_load" for inst in accesses),
        "stores": sum(inst.cls in _STORES for inst in accesses),
        "unknown": unknown,
        "conditions": sum(
            "saveexec" in inst.op.name or inst.op.name.startswith("v_cmpx") for inst in code
        ),
        "at": at,
    }


def _taking_part(places: Sequence[Places] | None, lanes: int) -> int | None:
    """Lanes of the workgroup that take part in an access; None where workgroups differ in that."""
    if places is None or any(part.scattered for part in places):
        return None
    active = places[0].active
    if active is None:
        return lanes
    # A draw in which no lane takes part is one of a workgroup behind the data's end.
    counts: list[int] = [count for count in active.sum((1, 2)).tolist() if count]
    if len(counts) < _LEAST_DRAWS or len(set(counts)) > 1:
        return None
    return min(int(counts[0]), lanes)


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

_SINGLE_ELEMENTS_ACCESSES: Final = frozenset(("global_load", "global_store"))
_OTHERS: Final = frozenset(("lds_write", "lds_atomic", "lds_direct", "atomic", "unknown"))
_MOST_BITS: Final = 64


def single_elements(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `ELEMENT_SPECS`."""
    function = subject.function
    if subject.ttgir is not None or function.loops or function.calls or function.unread:
        return Unknown("HIP code without loops is looked at")
    accesses = [inst for inst in function.instructions if inst.cls in _SINGLE_ELEMENTS_ACCESSES]
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
