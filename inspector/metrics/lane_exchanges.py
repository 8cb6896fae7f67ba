"""Reductions over the lanes of a wave that go through the crossbar of the LDS.

HIP's `__shfl_xor` and `__shfl_down` are `ds_bpermute`: the number of the lane to read is computed
in a vector register, the value goes through the LDS unit, and the wave waits for it. A DPP operand
of a vector instruction reads another lane of the same row of 16 with neither (ISA documents, "Data
Parallel Processing"). LLVM does not replace one by the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..isa.waitflow.registers import named, split_destination
from ..model import Instruction, Metric, MetricSpec, Scalar
from .subject import Subject, own_instructions, source_line

if TYPE_CHECKING:
    from collections.abc import Mapping

EXCHANGES: Final = "lane_exchanges"

SPECS = (
    MetricSpec(
        EXCHANGES,
        "mapping",
        "derived",
        "kernel",
        "Values that lanes read from others through the crossbar of the LDS (ds_bpermute): how "
        "many (`count`), those that are a step of a reduction within 16 lanes (`steps`: lane ± or "
        "xor 1, 2, 4 or 8, added to the lane's own or compared with it), those of them that are "
        "in a loop, or in a kernel without one (`repeated`), how many `distances` these have, "
        "`at` the line of the first; 0 steps for Triton's code, where the "
        "compiler chooses; `one_lane`: those in which all lanes read the same lane, whose number "
        "rests on no lane's own, in a loop or in a kernel without one, the first `one_lane_at` "
        "which line (None for Triton's code), in the loop with most of them `one_lane_here` of "
        "how many `instructions`",
    ),
)

_EXCHANGE: Final = re.compile(r"ds_bpermute(?:_fi)?_b32$")
_COMBINES: Final = re.compile(
    r"v_(?:dual_)?(?:pk_)?(?:add|max|min|mul|fma|or|and|xor|lshl_add_u64)(?:_|$)"
)
_CANONICAL: Final = re.compile(r"v_(?:max(?:_num)?|mul)_(?:f16|f32)(?:_|$)")
"""Of a value with itself: what LLVM puts before a minimum or maximum to quiet NaNs."""
_ENDS: Final = frozenset(("s_branch", "s_endpgm", "s_setpc_b64"))
_IN_ROW: Final = (1, 2, 4, 8)
_ROW: Final = 16
_MOST_BEHIND: Final = 24
"""Instructions behind an exchange among which its value is used."""


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    code = subject.function.instructions
    if not code:
        yield Metric(EXCHANGES, None, "mapping", "derived", "its code is not known")
        return
    exchanges = [inst for inst in code if _EXCHANGE.match(inst.op.name)]
    steps: list[Instruction] = []
    repeated: list[Instruction] = []
    distances: set[int] = set()
    in_loops = {inst.index for loop in own_instructions(subject.function).values() for inst in loop}
    combined = (
        [inst for inst in exchanges if _is_combined(code, inst.index)]
        if subject.ttgir is None
        else []
    )
    if combined:
        sources = _sources(subject)
        if sources is None:
            note = "the lanes' numbers were not followed"
            yield Metric(EXCHANGES, None, "mapping", "derived", note)
            return
        for inst in combined:
            distance = _distance(sources.get(inst.index))
            if distance is not None:
                steps.append(inst)
                if not subject.function.loops or inst.index in in_loops:
                    repeated.append(inst)
                    distances.add(distance)
    value: dict[str, Scalar] = {
        **_of_one_lane(subject, exchanges),
        "count": len(exchanges),
        "steps": len(steps),
        "repeated": len(repeated),
        "distances": len(distances),
        "at": source_line((repeated or steps)[0].loc) if steps else None,
    }
    yield Metric(EXCHANGES, value, "mapping", "derived")


def _of_one_lane(subject: Subject, exchanges: Sequence[Instruction]) -> dict[str, Scalar]:
    """The exchanges in loops (or in a kernel without loops) that read one lane for all."""
    runs: list[Sequence[Instruction]] = list(own_instructions(subject.function).values())
    runs = runs or [subject.function.instructions]
    repeated = {inst.index for run in runs for inst in run}
    candidates = [inst.index for inst in exchanges if inst.index in repeated]
    same: frozenset[int] | None = frozenset()
    if subject.ttgir is not None:
        same = None
    elif candidates:
        same = _lane_independent(subject, candidates)
    if same is None:
        return dict.fromkeys(("one_lane", "one_lane_at", "one_lane_here", "instructions"))
    counted = [(sum(inst.index in same for inst in run), len(run)) for run in runs]
    here, instructions = max(counted, key=lambda pair: pair[0])
    first = min(same, default=None)
    return {
        "one_lane": len(same),
        "one_lane_at": (
            None if first is None else source_line(subject.function.instructions[first].loc)
        ),
        "one_lane_here": here,
        "instructions": instructions,
    }


def _lane_independent(subject: Subject, exchanges: Sequence[int]) -> frozenset[int] | None:
    """The exchanges whose lane to read rests on no lane's number; None where nobody may look."""
    if not subject.facts.analyse_lanes or subject.machine is None:
        return None
    from ..lanes.lane_dependence import lane_independent

    try:
        return lane_independent(subject.function, subject.machine, frozenset(exchanges))
    except Exception:
        return None


def _sources(subject: Subject) -> Mapping[int, Any] | None:
    """By instruction the lanes that are read; None where nobody may or can find out."""
    machine, demand = subject.machine, subject.demand
    if not subject.facts.analyse_lanes or machine is None:
        return None
    from ..lanes.addresses import exchanged_lanes

    wave = demand.wave_size
    lanes = wave or subject.function.resources.wave_size or machine.wave_sizes[0]
    size = subject.function.resources.max_workgroup_size or lanes
    try:
        # Two waves tell what is the same in all from what is not.
        return exchanged_lanes(subject.function, machine, min(2, max(1, size // lanes)))
    except Exception:
        return None


def _distance(sources: Sequence[int] | None) -> int | None:
    """How far off in its row of 16 each lane reads in a step of a reduction.

    Lanes whose source would lie outside may read themselves, as HIP's functions have it.
    """
    if sources is None:
        return None
    taking = [(index, int(lane)) for index, lane in enumerate(sources) if lane >= 0]
    if len(taking) < _ROW:
        return None
    for distance in _IN_ROW:
        if all(lane == index ^ distance for index, lane in taking):
            return distance
        is_shift = all(lane in (index, index + distance) for index, lane in taking)
        # The lanes whose sums a tree of such steps uses.
        if is_shift and all(
            lane != index for index, lane in taking if index % (2 * distance) < distance
        ):
            return distance
    return None


def _is_combined(code: Sequence[Instruction], index: int) -> bool:
    """Whether the value is added to (or compared with) what the lane itself sent."""
    result, sources = split_destination(code[index].operands)
    received = named(result)
    parts = sources.split(",")
    sent = named(parts[1]) if len(parts) > 1 else ()
    if not received or not sent or received == sent:
        return False
    received_in, sent_in = {received[0]}, {sent[0]}
    for inst in code[index + 1 : index + 1 + _MOST_BEHIND]:
        written, read = split_destination(inst.operands)
        reads = set(named(read))
        if not reads.isdisjoint(received_in) and not reads.isdisjoint(sent_in):
            return _COMBINES.match(inst.op.name) is not None
        results = named(written)[:1]
        held = next((held for held in (received_in, sent_in) if reads and reads <= held), None)
        if held is not None and len(reads) == 1 and _CANONICAL.match(inst.op.name):
            held.update(results)
            continue
        received_in.difference_update(results)
        if not received_in or not reads.isdisjoint(received_in) or inst.op.name in _ENDS:
            return False
    return False
