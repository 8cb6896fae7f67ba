"""The places in scratch memory where values are parked, and where they are stored and reloaded.

LLVM says of an access that it is a spill in a comment (`4-byte Folded Spill`, `Folded Reload`), of
several in one clause at its `s_clause`. Where a text has no comments, as a disassembly, every
access of scratch memory counts, unless the file states that nothing was spilled. Accesses that
overlap are one slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kinspect.inspector.isa.mnemonics import access_bits
from kinspect.inspector.metrics.subject import Subject, innermost_loops
from kinspect.inspector.model import (
    Function,
    Instruction,
    Loop,
    Metric,
    MetricSpec,
    SourceLoc,
    SpillSlot,
)

_SLOTS, _HOT = "spills.slots", "spills.hot_slots"
SPECS = (
    MetricSpec(_SLOTS, "slots", "derived", "kernel", "Places in scratch memory that hold spills"),
    MetricSpec(
        _HOT, "slots", "derived", "kernel", "Those that are stored or reloaded in a hot loop"
    ),
)

_CLASSES = ("scratch_load", "scratch_store")
_FOLDED = "Folded"
_CLAUSE, _CLAUSE_BITS = "s_clause", 0x3F
_OFFSET = re.compile(r"\boffset:(-?(?:0x[0-9A-Fa-f]+|\d+))")
_BUFFER_BASE = re.compile(r"s\[\d+:\d+\],\s*(\w+)")  # the scalar operand behind the resource


@dataclass(frozen=True, slots=True)
class _Access:
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
    accesses = [_access(inst) for inst in _spills(function)]
    if not accesses:
        return ()
    owner = _owners(function, [one.inst.index for one in accesses])
    found = []
    for group in _groups(accesses):
        slot = _slot(group, owner)
        busy = sum(
            1 for one in group if (loop := owner.get(one.inst.index)) is not None and loop.id in hot
        )
        found.append((-busy, group[0].base, group[0].offset, slot))
    found.sort(key=lambda item: item[:3])
    return tuple(item[3] for item in found)


def kernel_metrics(subject: Subject, slots: Sequence[SpillSlot], hot: Set[str]) -> Iterator[Metric]:
    """The counts, from the slots."""
    if not subject.function.instructions:
        for name in (_SLOTS, _HOT):
            yield Metric(name, None, "slots", "derived", "no code was read")
        return
    yield Metric(_SLOTS, len(slots), "slots", "derived")
    in_hot = sum(not hot.isdisjoint(slot.loops) for slot in slots)
    yield Metric(_HOT, in_hot, "slots", "derived")


def _spills(function: Function) -> list[Instruction]:
    scratch: list[Instruction] = []
    marked: list[Instruction] = []
    clause_end = 0
    for inst in function.instructions:
        folded = _FOLDED in inst.comment
        if folded and inst.op.name == _CLAUSE:
            clause_end = inst.index + 2 + _clause_length(inst)
        elif inst.cls in _CLASSES:
            scratch.append(inst)
            if folded or inst.index < clause_end:
                marked.append(inst)
    if marked or function.resources.vgpr_spill_count == 0:
        return marked
    return scratch


def _clause_length(inst: Instruction) -> int:
    """What `s_clause N` says (RDNA3 ISA: bits 5:0): N + 1 instructions follow."""
    try:
        return int(inst.operands.strip(), 0) & _CLAUSE_BITS
    except ValueError:
        return 0


def _access(inst: Instruction) -> _Access:
    found = _OFFSET.search(inst.operands)
    offset = int(found[1], 0) if found is not None else 0
    bits = access_bits(inst.op, inst.operands)
    return _Access(inst, _base(inst), offset, (bits or 32) // 8)


def _base(inst: Instruction) -> str:
    """The register that says where the slot is, besides the stated offset; empty for none."""
    operands = inst.operands
    if "buffer" in inst.op.traits:
        behind = _BUFFER_BASE.search(operands)
        scalar = behind[1] if behind is not None and behind[1].startswith("s") else ""
        lane = operands.split(",")[1].strip() if "offen" in operands else ""
        return f"{lane}{scalar}"
    parts = [part.split()[0] for part in operands.split(",") if part.strip()]  # no modifiers
    # scratch_load DATA, VADDR, SADDR; scratch_store VADDR, DATA, SADDR
    address = parts[1:] if inst.cls == "scratch_load" else [parts[0], *parts[2:]]
    return "".join(part for part in address if part != "off")


def _groups(accesses: Iterable[_Access]) -> Iterator[list[_Access]]:
    """Accesses that overlap, lowest offset first."""
    ordered = sorted(accesses, key=lambda one: (one.base, one.offset, -one.size))
    group: list[_Access] = []
    end = 0
    for one in ordered:
        if group and (one.base != group[0].base or one.offset >= end):
            yield group
            group = []
        end = max(end, one.offset + one.size) if group else one.offset + one.size
        group.append(one)
    if group:
        yield group


def _slot(group: Sequence[_Access], owner: Mapping[int, Loop]) -> SpillSlot:
    ordered = sorted(group, key=lambda one: one.inst.index)
    stores = [one.inst for one in ordered if one.inst.cls == "scratch_store"]
    reloads = [one.inst for one in ordered if one.inst.cls == "scratch_load"]
    loops = {loop.id: loop for one in ordered if (loop := owner.get(one.inst.index)) is not None}
    first = group[0]
    end = max(one.offset + one.size for one in group)
    return SpillSlot(
        offset=None if first.base else first.offset,
        size=end - first.offset,
        stores=tuple(inst.line for inst in stores),
        reloads=tuple(inst.line for inst in reloads),
        loops=tuple(loop.id for loop in sorted(loops.values(), key=lambda one: -one.depth)),
        source=tuple(_user_line(inst.loc) for inst in (*stores, *reloads) if inst.loc is not None),
    )


def _user_line(loc: SourceLoc) -> SourceLoc:
    user = loc.in_user_code
    return SourceLoc(user.file, user.line)


def _owners(function: Function, indices: Sequence[int]) -> dict[int, Loop]:
    """Instruction's index -> the innermost loop around it, for those that are in one."""
    owner = innermost_loops(function)
    wanted = set(indices)
    found: dict[int, Loop] = {}
    for block in function.blocks:
        loop = owner.get(block.index)
        if loop is not None:
            found.update((i, loop) for i in range(block.start, block.stop) if i in wanted)
    return found
