"""The places in scratch memory where values are parked, and where they are stored and reloaded.

Which accesses of scratch memory are spills `scratch_use.py` tells; those that may be count as such.
Accesses that overlap are one slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct

from ..model import Function, Instruction, Loop, Metric, MetricSpec, SourceLoc, SpillSlot
from .scratch_use import Use, place, scratch_accesses
from .subject import Subject, innermost_loops

_SLOTS, _HOT = "spills.slots", "spills.hot_slots"
SPECS = (
    MetricSpec(_SLOTS, "slots", "derived", "kernel", "Places in scratch memory that hold spills"),
    MetricSpec(
        _HOT, "slots", "derived", "kernel", "Those that are stored or reloaded in a hot loop"
    ),
)


class _Access(Struct, frozen=True):
    inst: Instruction
    base: str  # the register that the offset is added to; empty where there is none
    offset: int
    size: int


def spill_slots(function: Function, hot: Set[str] = frozenset()) -> tuple[SpillSlot, ...]:
    """The slots of a kernel: those of hot loops first, those with most accesses there in front.

    Args:
        function: the kernel.
        hot: ids of its hot loops.
    """
    accesses = [_access(inst) for inst, use in scratch_accesses(function) if use is not Use.PRIVATE]
    if not accesses:
        return ()
    owner = _owners(function, [access.inst.index for access in accesses])
    ranked = []
    for group in _groups(accesses):
        slot = _slot(group, owner)
        busy = sum(
            1
            for access in group
            if (loop := owner.get(access.inst.index)) is not None and loop.id in hot
        )
        ranked.append((-busy, group[0].base, group[0].offset, slot))
    ranked.sort(key=lambda item: item[:3])
    return tuple(item[3] for item in ranked)


def kernel_metrics(subject: Subject, slots: Sequence[SpillSlot], hot: Set[str]) -> Iterator[Metric]:
    """The counts, from the slots."""
    if not subject.function.instructions:
        for name in (_SLOTS, _HOT):
            yield Metric(name, None, "slots", "derived", "no code was read")
        return
    yield Metric(_SLOTS, len(slots), "slots", "derived")
    in_hot = sum(not hot.isdisjoint(slot.loops) for slot in slots)
    yield Metric(_HOT, in_hot, "slots", "derived")


def _access(inst: Instruction) -> _Access:
    return _Access(inst, *place(inst))


def _groups(accesses: Iterable[_Access]) -> Iterator[list[_Access]]:
    """Accesses that overlap, lowest offset first."""
    ordered = sorted(accesses, key=lambda access: (access.base, access.offset, -access.size))
    group: list[_Access] = []
    end = 0
    for access in ordered:
        if group and (access.base != group[0].base or access.offset >= end):
            yield group
            group = []
        end = max(end, access.offset + access.size) if group else access.offset + access.size
        group.append(access)
    if group:
        yield group


def _slot(group: Sequence[_Access], owner: Mapping[int, Loop]) -> SpillSlot:
    ordered = sorted(group, key=lambda access: access.inst.index)
    stores = [access.inst for access in ordered if access.inst.cls == "scratch_store"]
    reloads = [access.inst for access in ordered if access.inst.cls == "scratch_load"]
    loops = {
        loop.id: loop for access in ordered if (loop := owner.get(access.inst.index)) is not None
    }
    first = group[0]
    end = max(access.offset + access.size for access in group)
    return SpillSlot(
        offset=None if first.base else first.offset,
        size=end - first.offset,
        stores=tuple(inst.line for inst in stores),
        reloads=tuple(inst.line for inst in reloads),
        loops=tuple(loop.id for loop in sorted(loops.values(), key=lambda loop: -loop.depth)),
        source=tuple(_user_line(inst.loc) for inst in (*stores, *reloads) if inst.loc is not None),
    )


def _user_line(loc: SourceLoc) -> SourceLoc:
    user = loc.in_user_code
    return SourceLoc(user.file, user.line)


def _owners(function: Function, indices: Sequence[int]) -> dict[int, Loop]:
    """Instruction's index -> the innermost loop around it, for those that are in one."""
    owner = innermost_loops(function)
    index_set = set(indices)
    loop_at: dict[int, Loop] = {}
    for block in function.blocks:
        loop = owner.get(block.index)
        if loop is not None:
            loop_at.update((i, loop) for i in range(block.start, block.stop) if i in index_set)
    return loop_at
