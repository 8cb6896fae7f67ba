"""How many of a workgroup's lanes take part in its accesses of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..model import Scalar
from .entries import NOT_IN_TRITON, Unknown, of_both
from .lanes import LDS_ACCESSES
from .subject import LANE_EXCHANGES, LineName, Subject, Tally

if TYPE_CHECKING:
    from ..lanes.address_sweep import Places


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
