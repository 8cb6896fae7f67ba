"""Barriers that could be removed: no access before them conflicts with one after them.

A barrier orders the accesses since the previous barriers, over all paths to it, before those up to
the next ones, over all paths from it. Where no access of one side writes what one of the other side
touches, no wave can see a difference without it. Memory counts as one location. So does LDS, unless
the caller knows which of its accesses meet: then it is needless by address.

An access happens at any time between its issue and the wait that completes it, so it counts at
both: a copy into LDS may still be in flight after a barrier that it was issued before.

All waves of a workgroup are assumed to reach the same barriers. Code that sets priorities (waves
that take turns), has a barrier that a branch jumps over, names its barriers or splits them across
blocks is not judged; a barrier jumped over is judged where the waves were followed and all pass it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from ..model import Block, Function, Instruction
from .mnemonics import FLOW_CLASSES, Flow, flow_of

_LDS_READ, _LDS_WRITE, _READ, _WRITE = 1, 2, 4, 8
_EVERYTHING = _LDS_READ | _LDS_WRITE | _READ | _WRITE
_SPACES = ((_LDS_READ, _LDS_WRITE), (_READ, _WRITE))
_KINDS = 4
"""Bits of the kinds of access; those of single LDS accesses lie above."""

_ACCESS: Mapping[str, int] = {
    "lds_read": _LDS_READ,
    "lds_write": _LDS_WRITE,
    "lds_atomic": _LDS_READ | _LDS_WRITE,
    "lds_direct": _READ | _LDS_WRITE,
    "lds_direct_store": _LDS_READ | _WRITE,
    "global_load": _READ,
    "global_store": _WRITE,
    "atomic": _READ | _WRITE,
    "smem_load": _READ,
    "smem_store": _WRITE,
    "image": _READ | _WRITE,
    "bvh": _READ | _LDS_READ | _LDS_WRITE,
    "gds": _EVERYTHING,
    "unknown": _EVERYTHING,
}
"""Scratch is missing: it is private to a lane."""
_GENERIC = {_READ: _LDS_READ, _WRITE: _LDS_WRITE}
"""A generic address may lie in LDS."""

_RELEVANT = frozenset(_ACCESS) | FLOW_CLASSES | {"barrier", "barrier_signal"}
"""Classes that matter here; instructions of others may only end accesses."""
_CALLS = (Flow.CALL, Flow.INDIRECT)
_WHOLE_WORKGROUP = frozenset({"-1", "0xffff", "65535", ""})
"""Operands of the one barrier that needs no name; `s_barrier` has none."""
_SET_PRIORITY = "s_setprio"

_PASS, _SIGNAL, _WAIT = range(3)
_Item = tuple[int, int]
"""(`_PASS`, bits of the accesses) or (`_SIGNAL` or `_WAIT`, number of the barrier)."""


def needless(
    function: Function,
    completions: Mapping[int, Collection[int]],
    *,
    single_wave: bool = False,
    meeting: Mapping[int, Collection[int]] | None = None,
    same_barriers: bool | None = None,
) -> frozenset[int] | None:
    """Indices of the barriers that could be removed, all of them together.

    Of two barriers with nothing between them the first is named. A split barrier is named by its
    wait.

    Args:
        function: the code.
        completions: wait's index -> indices of the accesses that may complete only there.
        single_wave: the workgroup is one wave, which waits for no other.
        meeting: index of every LDS access -> those by which another wave may touch the same bytes,
            one of the two writing. None where that is unknown: then all of LDS is one location.
        same_barriers: whether all waves pass the same ones. None where they were not followed:
            then code that may leave one out is not judged.

    Returns:
        None where the code cannot be judged.
    """
    barriers = [i for i in function.instructions if i.cls in ("barrier", "barrier_signal")]
    if not barriers:
        return frozenset()
    if has_special_barriers(function):
        return None
    sites = _LdsSites.of(function, meeting)
    code = _BarrierCode.from_function(function, completions, sites)
    if single_wave:
        return frozenset(code.indices)
    if any(name.startswith(_SET_PRIORITY) for name in {i.op.name for i in function.instructions}):
        return None
    if same_barriers is False or (same_barriers is None and _may_leave_one_out(function)):
        return None
    removed: set[int] = set()
    accesses_before, accesses_after = code.around(removed)
    for number in range(len(code.indices)):
        # Removing a barrier only adds accesses around the others: those judged stay as they are.
        if not sites.collide(accesses_before.get(number, 0), accesses_after.get(number, 0)):
            removed.add(number)
            accesses_before, accesses_after = code.around(removed)
    return frozenset(code.indices[number] for number in removed)


def has_special_barriers(function: Function) -> bool:
    """Whether a function has barriers that not all waves of the workgroup take part in."""
    for inst in function.instructions:
        if inst.cls == "control" and "barrier" in inst.op.traits:
            return True
        if inst.cls not in ("barrier", "barrier_signal"):
            continue
        if inst.op.name.endswith("_isfirst") or inst.operands.strip() not in _WHOLE_WORKGROUP:
            return True
    return False


def _may_leave_one_out(function: Function) -> bool:
    """Whether a branch jumps over a block with a barrier: some waves may, which then take turns."""
    for block in function.blocks:
        if len(block.successors) != 1 or len(block.predecessors) != 1:
            continue
        above = function.blocks[block.predecessors[0]]
        if block.successors[0] in above.successors and any(
            inst.cls in ("barrier", "barrier_signal")
            for inst in function.instructions[block.start : block.stop]
        ):
            return True
    return False


def _collide(accesses_before: int, accesses_after: int) -> bool:
    return any(
        (accesses_before & write and accesses_after & (read | write))
        or (accesses_before & read and accesses_after & write)
        for read, write in _SPACES
    )


class _LdsSites(Struct, frozen=True):
    """The LDS accesses whose bytes are known, each with a bit of its own.

    Args:
        bits: index of the instruction -> its bit.
        meeting: by the bit's number above `_KINDS`, the bits of the accesses that it meets.
    """

    bits: Mapping[int, int] = field(default_factory=dict)
    meeting: Sequence[int] = ()

    @classmethod
    def of(cls, function: Function, meeting: Mapping[int, Collection[int]] | None) -> _LdsSites:
        """The sites; none where `meeting` (as for `needless`) leaves an access of LDS out."""
        if meeting is None:
            return cls()
        for inst in function.instructions:
            if _accesses(inst) & (_LDS_READ | _LDS_WRITE) and inst.index not in meeting:
                return cls()
        bits = {index: 1 << (_KINDS + number) for number, index in enumerate(meeting)}
        return cls(bits, [sum(bits[other] for other in set(meeting[index])) for index in meeting])

    def accesses(self, inst: Instruction) -> int:
        """The accesses of an instruction, as bits: of LDS its own one where it has one."""
        accesses, own = _accesses(inst), self.bits.get(inst.index)
        return accesses if own is None else accesses & ~(_LDS_READ | _LDS_WRITE) | own

    def collide(self, accesses_before: int, accesses_after: int) -> bool:
        """Whether an access of one side writes what one of the other side touches."""
        if _collide(accesses_before, accesses_after):
            return True
        rest = accesses_before >> _KINDS
        while rest:
            lowest = rest & -rest
            if self.meeting[lowest.bit_length() - 1] & accesses_after:
                return True
            rest ^= lowest
        return False


def _merged(items: Sequence[_Item]) -> list[_Item]:
    merged: list[_Item] = []
    for action, value in items:
        if action == _PASS and merged and merged[-1][0] == _PASS:
            value |= merged.pop()[1]
        merged.append((action, value))
    return merged


def _accesses(inst: Instruction) -> int:
    """The accesses of an instruction that other waves can see, as bits."""
    if inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) in _CALLS:
        return _EVERYTHING
    accesses = _ACCESS.get(inst.cls, 0)
    if accesses and "flat" in inst.op.traits:
        for bit, lds in _GENERIC.items():
            accesses |= lds if accesses & bit else 0
    return accesses


class _BarrierCode(Struct, frozen=True):
    """A function as accesses and barriers, by block.

    Args:
        blocks: its control flow.
        items: by block.
        indices: by the barrier's number, the instruction that it is named by.
    """

    blocks: Sequence[Block]
    items: list[list[_Item]] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)

    @classmethod
    def from_function(
        cls, function: Function, completions: Mapping[int, Collection[int]], sites: _LdsSites
    ) -> _BarrierCode:
        """Reduces a function to items; `completions` as for `needless`."""
        code = cls(function.blocks)
        instructions = function.instructions
        for block in function.blocks:
            items: list[_Item] = []
            signalled: int | None = None  # where the signal of a split barrier would have to stand
            for inst in instructions[block.start : block.stop]:
                if inst.cls not in _RELEVANT and inst.index not in completions:
                    continue
                if inst.cls == "barrier_signal":
                    signalled = len(items)
                elif inst.cls == "barrier":
                    number = len(code.indices)
                    if inst.op.name == "s_barrier":
                        signalled = len(items)
                    if signalled is not None:
                        code.indices.append(inst.index)
                        items.insert(signalled, (_SIGNAL, number))
                        items.append((_WAIT, number))
                    signalled = None
                accesses = sites.accesses(inst)
                for producer in completions.get(inst.index, ()):
                    accesses |= sites.accesses(instructions[producer])
                if accesses:
                    items.append((_PASS, accesses))
            code.items.append(_merged(items))
        return code

    def around(self, removed: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
        """The accesses between each barrier and its neighbours.

        Args:
            removed: numbers of the barriers that are left out.

        Returns:
            Barrier's number -> accesses since the barriers before it; the same for those after it.
        """
        accesses_before = self._spread(_SIGNAL, removed, [b.predecessors for b in self.blocks], 1)
        accesses_after = self._spread(_WAIT, removed, [b.successors for b in self.blocks], -1)
        return accesses_before, accesses_after

    def _spread(
        self, boundary: int, removed: Collection[int], sources: Sequence[Sequence[int]], step: int
    ) -> dict[int, int]:
        """The accesses met before each `boundary` item, in the direction of `step` (1 or -1)."""
        accesses_at: dict[int, int] = {}
        leaving = [0] * len(self.items)
        changed = True
        while changed:
            changed = False
            for index in range(len(self.items))[::step]:
                accesses = 0
                for source in sources[index]:
                    accesses |= leaving[source]
                for action, value in self.items[index][::step]:
                    if action == _PASS:
                        accesses |= value
                    elif action == boundary and value not in removed:
                        accesses_at[value] = accesses
                        accesses = 0
                if accesses != leaving[index]:
                    leaving[index] = accesses
                    changed = True
        return accesses_at
