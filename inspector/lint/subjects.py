"""The subjects of instruction and wait rules: a kernel's memory accesses and waits.

A loop may hold hundreds of accesses, of few kinds. Those of which nothing tells one from another
are judged once, for all rules: that keeps the cost of a rule at the number of kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct

from ..model import Access, KernelReport, LoopReport, MemoryOp, MetricValue, SourceLoc, WaitOp
from .catalogue import Scope

_LAST = float("inf")
_ORDER_OF_VERDICTS = ("missing", "over-strict")


class Place(Struct, frozen=True):
    """A line of the assembly, what stands there, and where the compiler says it comes from."""

    line: int
    text: str
    source: SourceLoc | None


class Alike(Struct, frozen=True):
    """Accesses or waits of one loop that no rule can tell apart, in the order of their lines.

    Args:
        rank: sorts the worst first: the narrowest access; missing waits, then over-strict ones,
            then those with the least slack.
    """

    values: Mapping[str, MetricValue]
    rank: tuple[float, ...]
    places: tuple[Place, ...]


class LoopSubjects(Struct, frozen=True):
    """The subjects in one loop, the worst first; `loop` is None for those outside all loops."""

    ordinal: int  # of the loop among the kernel's, -1 for none
    loop: LoopReport | None
    alike: tuple[Alike, ...]


class Subjects:
    """The accesses and waits of one kernel, grouped when a rule first needs them."""

    def __init__(self, kernel: KernelReport) -> None:
        self._kernel = kernel
        self._loops = {loop.id: (i, loop) for i, loop in enumerate(kernel.loops)}
        self._hot = frozenset(loop.id for loop in kernel.loops if loop.hot)
        self._groups: dict[tuple[Scope, bool], Sequence[LoopSubjects]] = {}

    def groups(self, scope: Scope, hot_only: bool) -> Sequence[LoopSubjects]:
        """The groups that a rule of scope `instruction` or `wait` looks at, by loop."""
        key = (scope, hot_only)
        if key not in self._groups:
            loops = self._hot if hot_only and not self._is_hot_all_over() else None
            make = self._waits if scope == "wait" else self._instructions
            self._groups[key] = make(loops)
        return self._groups[key]

    def _instructions(self, loops: frozenset[str] | None) -> list[LoopSubjects]:
        """Returns the memory accesses by loop: of the named loops, or of the whole code if None."""
        accesses = self._accesses()
        spilled = {line for s in self._kernel.spills for line in (*s.stores, *s.reloads)}
        by_kind: dict[Any, tuple[MemoryOp, Access | None, bool, list[Place]]] = {}
        for op in self._kernel.memory_ops:
            if loops is not None and op.loop not in loops:
                continue
            access = accesses.get((op.line, op.cls)) or accesses.get((op.line, None))
            spill = op.line in spilled
            source = access.source if access is not None and access.source else op.source
            place = Place(op.line, op.mnemonic, source)
            side_by_side = _lie_side_by_side(op)
            key = (
                *(op.loop, op.mnemonic, op.cls, op.bits, op.depth, spill),
                *(side_by_side, op.joint_bits, id(access)),
            )
            if key in by_kind:
                by_kind[key][3].append(place)
            else:
                by_kind[key] = (op, access, spill, [place])
        return self._grouped(
            (
                op.loop,
                Alike(
                    self._op_values(op, access, spill),
                    (_LAST if op.bits is None else op.bits, places[0].line),
                    tuple(places),
                ),
            )
            for op, access, spill, places in by_kind.values()
        )

    def _accesses(self) -> dict[tuple[int, str | None], Access]:
        """By line and class of the instruction, and by line alone for one of another class."""
        by_line: dict[tuple[int, str | None], Access] = {}
        for access in self._kernel.accesses:
            for line in access.lines:
                by_line.setdefault((line, access.cls), access)
                by_line.setdefault((line, None), access)
        return by_line

    def _waits(self, loops: frozenset[str] | None) -> list[LoopSubjects]:
        """Returns the waits by loop: of the named loops, or of the whole code if None."""
        by_kind: dict[Any, tuple[WaitOp, list[Place]]] = {}
        for wait in self._kernel.waits:
            if loops is not None and wait.loop not in loops:
                continue
            place = Place(wait.line, f"{wait.counter}({wait.n})", wait.source)
            key = (
                *(wait.loop, wait.counter, wait.n, wait.verdict, wait.read_at),
                *(wait.could_be, wait.slack, wait.slack_cycles),
            )
            if key in by_kind:
                by_kind[key][1].append(place)
            else:
                by_kind[key] = (wait, [place])
        return self._grouped(
            (wait.loop, Alike(self._wait_values(wait), _wait_rank(wait), tuple(places)))
            for wait, places in by_kind.values()
        )

    def _grouped(self, items: Iterator[tuple[str | None, Alike]]) -> list[LoopSubjects]:
        by_loop: dict[str | None, list[Alike]] = {}
        for loop, alike in items:
            by_loop.setdefault(loop, []).append(alike)
        groups = []
        for name, subjects in by_loop.items():
            ordinal, loop_report = self._loops.get(name or "", (-1, None))
            worst_first = tuple(sorted(subjects, key=lambda a: a.rank))
            groups.append(LoopSubjects(ordinal, loop_report, worst_first))
        return sorted(groups, key=lambda g: g.ordinal)

    def _op_values(
        self, op: MemoryOp, access: Access | None, spill: bool
    ) -> dict[str, MetricValue]:
        values: dict[str, MetricValue] = {
            "op.mnemonic": op.mnemonic,
            "op.kind": op.cls,
            "op.bits": op.bits,
            "op.depth": op.depth,
            "op.hot": self._is_hot(op.loop),
            "op.spill": spill,
            "op.side_by_side": _lie_side_by_side(op),
            "op.joint_bits": op.joint_bits,
        }
        if access is None:
            return values
        narrow_stores = self._narrow_stores(access)
        return values | _access_values(access) | {"access.narrow_stores": narrow_stores}

    def _narrow_stores(self, access: Access) -> int:
        """Stores of tiles like an access's, in the same loop, that nothing makes wider."""
        return sum(
            store.cls == "global_store"
            and (store.shape, store.loop) == (access.shape, access.loop)
            and store.limited_by is not None
            and not store.fix
            and store.bits is not None
            and store.bits < (store.widest or 0)
            for store in self._kernel.accesses
        )

    def _wait_values(self, wait: WaitOp) -> dict[str, MetricValue]:
        _, loop = self._loops.get(wait.loop or "", (-1, None))
        return {
            "wait.counter": wait.counter,
            "wait.verdict": wait.verdict,
            "wait.n": wait.n,
            "wait.could_be": wait.could_be,
            "wait.without": _without(wait),
            "wait.slack": wait.slack,
            "wait.slack_cycles": wait.slack_cycles,
            "wait.full": wait.n == 0,
            "wait.hot": self._is_hot(wait.loop),
            "wait.depth": loop.depth if loop else 0 if wait.loop is None else None,
        }

    def _is_hot_all_over(self) -> bool:
        """Tells whether there is no loop: then all of the code counts as hot."""
        return not self._kernel.loops and not self._kernel.unread

    def _is_hot(self, loop: str | None) -> bool | None:
        if loop is None:
            return None if self._kernel.unread else not self._kernel.loops
        return self._loops[loop][1].hot if loop in self._loops else None


def _lie_side_by_side(op: MemoryOp) -> bool | None:
    """Whether the lanes of a wave access different bytes that fill as few cache lines as possible.

    None where their addresses are not known, as where they come from memory, and in what remains at
    the edges of large sizes.
    """
    if op.use is None or op.bits is None or op.use.at_edge:
        return None
    return op.use.lies_side_by_side(op.bits)


def _access_values(access: Access) -> dict[str, MetricValue]:
    return {
        "access.op": access.op,
        "access.dtype": access.dtype,
        "access.layout": access.layout or None,
        "access.limited_by": access.limited_by,
        "access.reason": access.reason or None,
        "access.fix": access.fix or None,
        "access.bits": access.bits,
        "access.widest": access.widest,
        "access.per_thread": access.per_thread,
        "access.elements": prod(access.shape),
        "access.contiguity": access.contiguity,
        "access.mask": access.mask,
        "access.divisibility": access.divisibility,
        "access.instructions": len(access.lines),
    }


def _without(wait: WaitOp) -> str | None:
    if wait.verdict != "missing":
        return None
    if wait.read_at is None:
        return "a register is used while a memory operation that writes it may be outstanding"
    stores = ", ".join(map(str, wait.waits_for or ()))
    return (
        f"the store in line {stores} may be outstanding at a barrier, and another wave reads its"
        f" bytes in line {wait.read_at}"
    )


def _wait_rank(wait: WaitOp) -> tuple[float, ...]:
    graver = (_ORDER_OF_VERDICTS.index(wait.verdict) if wait.verdict in _ORDER_OF_VERDICTS else 2,)
    slack = _LAST if wait.slack is None else wait.slack
    cycles = _LAST if wait.slack_cycles is None else wait.slack_cycles
    strictest = wait.n if wait.verdict == "missing" else 0  # the one that does for all
    return (*graver, slack, cycles, strictest, wait.line)
