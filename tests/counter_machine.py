"""A machine with memory counters, run step by step over every path: the oracle of the wait tests.

It shares nothing with kinspect but the parsed program: it has its own table of who counts where and
its own reading of registers, and it knows no ages and no joins. A state is the list of operations
under way in the order of issue; all states that a program can reach are visited one by one.

`explore` keeps for each operation whether it *may* be under way. `explore_completions` lets every
single operation end at any moment that its order allows, and is there to check `explore`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kinspect.inspector.model import Function, Instruction

_REGISTERS = re.compile(r"(?<![\w.])([vsa])(?:(\d+)|\[(\d+):(\d+)\])(?![\w\[])")
LIMITS = {
    "gfx9": {"vmcnt": 63, "lgkmcnt": 15},
    "gfx11": {"vmcnt": 63, "lgkmcnt": 63, "vscnt": 63},
    "gfx12": {"loadcnt": 63, "storecnt": 63, "dscnt": 63, "kmcnt": 31},
}
_NAMES = {
    "gfx9": {"load": "vmcnt", "store": "vmcnt", "lds": "lgkmcnt", "scalar": "lgkmcnt"},
    "gfx11": {"load": "vmcnt", "store": "vscnt", "lds": "lgkmcnt", "scalar": "lgkmcnt"},
    "gfx12": {"load": "loadcnt", "store": "storecnt", "lds": "dscnt", "scalar": "kmcnt"},
}


def generation(arch: str) -> str:
    return "gfx9" if arch.startswith("gfx9") else arch[:5]


@dataclass(frozen=True)
class Operation:
    """Something under way: who issued it, which counter it holds up, what it will write."""

    producer: int
    counter: str
    ordered: bool
    queue: str
    writes: frozenset[str]
    reads: bool = False  # what it writes, since it writes but half of it


def registers(text: str) -> frozenset[str]:
    found = set()
    for kind, single, low, high in _REGISTERS.findall(text):
        span = [int(single)] if single else range(int(low), int(high) + 1)
        found.update(f"{kind}{n}" for n in span)
    for name in ("vcc_lo", "vcc_hi", "vcc"):
        if re.search(rf"(?<![\w.]){name}(?!\w)", text):
            found.update({"vcc": ("vcc_lo", "vcc_hi")}.get(name, (name,)))
    return frozenset(found)


def issued(inst: Instruction, gen: str) -> Operation | None:
    """What the machine starts for an instruction; the families that Triton's code has."""
    name, names = inst.mnemonic, _NAMES[gen]
    first = registers(inst.operands.split(",")[0])
    none: frozenset[str] = frozenset()
    if name.startswith(("s_load", "s_buffer_load", "s_memtime", "s_memrealtime")):
        return Operation(inst.index, names["scalar"], False, "scalar", first)
    if name.startswith("s_sendmsg"):
        return Operation(inst.index, names["scalar"], False, "scalar", none)
    if name.startswith("ds_") and "nop" not in name:
        silent = re.match(r"ds_(write|store|add_[uf]|max_[iuf]|min_[iuf]|or_b|and_b|pk_add)", name)
        answers = not silent or "_rtn" in name
        half = gen == "gfx9" and "_d16" in name
        return Operation(inst.index, names["lds"], True, "lds", first if answers else none, half)
    if not name.startswith(("global_", "buffer_", "scratch_")):
        return None
    kind = name.split("_", 1)[1]
    if kind.startswith("load"):
        to_lds = "lds" in name or re.search(r"\blds\b", inst.operands)
        half = gen == "gfx9" and "_d16" in name
        return Operation(inst.index, names["load"], True, "memory", none if to_lds else first, half)
    if kind.startswith("store"):
        return Operation(inst.index, names["store"], True, "memory", none)
    if kind.startswith("atomic"):
        answers = re.search(r"\b(glc|sc0)\b|_RETURN", inst.operands)
        counter = names["load" if answers else "store"]
        return Operation(inst.index, counter, True, "memory", first if answers else none)
    if kind.startswith("wb"):
        return Operation(inst.index, names["store"], True, "memory", none)
    if name == "global_inv":
        return Operation(inst.index, names["load"], True, "memory", none)
    return None


def touched(inst: Instruction, started: Operation | None) -> tuple[frozenset[str], frozenset[str]]:
    """Registers that are read (or written at once), and those that `started` writes later."""
    everything = registers(inst.operands)
    if inst.mnemonic.startswith(("s_cbranch_vcc", "v_div_fmas")):
        everything |= {"vcc_lo", "vcc_hi"}
    if started is None or not started.writes or started.reads:
        return everything, frozenset() if started is None else started.writes
    return registers(inst.operands.partition(",")[2]), started.writes


State = tuple[int, tuple[Operation, ...]]
"""The instruction that is about to run, and what is under way."""


def explore(
    function: Function,
    arch: str,
    waits: Mapping[int, Mapping[str, int]],
    limits: Mapping[str, int] | None = None,
    most: int = 200_000,
) -> set[tuple[int, int]]:
    """All (instruction, producer) where a register is touched before it must have arrived.

    Args:
        function: the code.
        arch: the target.
        waits: instruction's index -> counter -> n; waits that are not in here do nothing.
        limits: counter -> largest value; None: those of the target.
        most: states to visit.
    """
    return Machine(function, arch, limits, most).run(waits, [(0, ())], set())


class Machine:
    """Runs one program, with these waits or others."""

    def __init__(
        self,
        function: Function,
        arch: str,
        limits: Mapping[str, int] | None = None,
        most: int = 200_000,
    ) -> None:
        gen = generation(arch)
        self._function = function
        self._limits = LIMITS[gen] if limits is None else limits
        self._most = most
        self._issued = [issued(inst, gen) for inst in function.instructions]
        self._after = _successors(function)

    def after(self, place: int) -> list[int]:
        """Where control goes from an instruction."""
        return self._after[place]

    def run(
        self, waits: Mapping[int, Mapping[str, int]], start: Iterable[State], seen: set[State]
    ) -> set[tuple[int, int]]:
        """What is touched too early from `start` on; all states on the way are added to `seen`."""
        early: set[tuple[int, int]] = set()
        todo = list(start)
        before = len(seen)
        while todo:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            if len(seen) - before > self._most:
                raise TooManyStatesError
            under_way = self._step(state, waits, early)
            todo.extend((successor, under_way) for successor in self._after[state[0]])
        return early

    def _step(
        self, state: State, waits: Mapping[int, Mapping[str, int]], early: set[tuple[int, int]]
    ) -> tuple[Operation, ...]:
        place, under_way = state
        inst = self._function.instructions[place]
        if place in waits:
            return tuple(_left(list(under_way), waits[place]))
        operation = self._issued[place]
        hit = _hit(inst, operation, under_way)
        early.update((inst.index, o.producer) for o in hit)
        under_way = _told(under_way, hit)
        if operation is not None:
            # The counter cannot go beyond its limit: issue stalls until one is done.
            under_way = tuple(_left([*under_way, operation], self._limits))
            under_way = _without_twins(under_way)
        return under_way


class TooManyStatesError(Exception):
    """The program is too large for brute force."""


class Explored:
    """All states of a program with all its waits; then what a single looser wait adds to them.

    A looser wait only leaves more under way. So each state that a changed program can come to is
    one of those known, or follows from one of those at the changed wait; and as long as nothing is
    touched too early in the program as it stands, only the new states can touch anything early.
    """

    def __init__(
        self,
        function: Function,
        arch: str,
        waits: Mapping[int, Mapping[str, int]],
        limits: Mapping[str, int] | None = None,
        most: int = 200_000,
    ) -> None:
        self._machine = Machine(function, arch, limits, most)
        self._waits = waits
        self._seen: set[State] = set()
        self.early = self._machine.run(waits, [(0, ())], self._seen)
        self.at: dict[int, list[State]] = {index: [] for index in waits}
        for state in self._seen:
            if state[0] in self.at:
                self.at[state[0]].append(state)

    def looser(self, index: int, counter: str, n: int | None) -> set[tuple[int, int]]:
        """What is touched too early with one counter of one wait at n, or not waited for at all."""
        assert not self.early
        changed = {k: v for k, v in self._waits[index].items() if k != counter}
        if n is not None:
            changed[counter] = n
        waits = {**self._waits, index: changed}
        starts: list[State] = []
        for _, under_way in self.at[index]:
            left = tuple(_left(list(under_way), changed))
            starts += [(successor, left) for successor in self._machine.after(index)]
        new = _Overlay(self._seen)
        return self._machine.run(waits, starts, new)


class _Overlay(set[State]):
    """A set on top of another that stays as it is."""

    def __init__(self, below: set[State]) -> None:
        super().__init__()
        self._below = below

    def __contains__(self, state: object) -> bool:
        return super().__contains__(state) or state in self._below


def _left(under_way: list[Operation], waits: Mapping[str, int]) -> list[Operation]:
    """What a wait leaves under way: the n youngest of each queue."""
    left = []
    younger: dict[tuple[str, str], int] = {}
    for one in reversed(under_way):
        queue = (one.counter, one.queue)
        behind = younger.get(queue, 0)
        younger[queue] = behind + 1
        n = waits.get(one.counter)
        if n is None or (n > 0 and not (one.ordered and behind >= n)):
            left.append(one)
    return left[::-1]


def _hit(
    inst: Instruction, started: Operation | None, under_way: tuple[Operation, ...]
) -> list[Operation]:
    read, written = touched(inst, started)
    hit = []
    for one in under_way:
        behind = (
            started is not None
            and started.ordered
            and (started.counter, started.queue) == (one.counter, one.queue)
        )
        if one.writes & read or (one.writes & written and not behind):
            hit.append(one)
    return hit


def _told(under_way: tuple[Operation, ...], hit: list[Operation]) -> tuple[Operation, ...]:
    """What was reported is not reported again; it still counts."""
    return tuple(replace(o, writes=frozenset()) if o in hit else o for o in under_way)


def _without_twins(under_way: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """An unordered operation of a loop need not be listed once per iteration."""
    kept: list[Operation] = []
    for one in under_way:
        if one.ordered or one not in kept:
            kept.append(one)
    return tuple(kept)


def _successors(function: Function) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in function.instructions]
    for block in function.blocks:
        for place in range(block.start, block.stop - 1):
            after[place] = [place + 1]
        if block.stop > block.start:
            after[block.stop - 1] = [function.blocks[s].start for s in block.successors]
    return after


def explore_completions(
    function: Function, arch: str, waits: Mapping[int, Mapping[str, int]]
) -> set[tuple[int, int]]:
    """As `explore`, by letting every operation end, or not, at every moment."""
    gen = generation(arch)
    early: set[tuple[int, int]] = set()
    seen = set()
    todo: list[tuple[int, tuple[Operation, ...]]] = [(0, ())]
    after = _successors(function)
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        place, under_way = state
        # Whatever may end now, ends in one of the worlds.
        for number, one in enumerate(under_way):
            first = not any(
                (o.counter, o.queue) == (one.counter, one.queue) for o in under_way[:number]
            )
            if first or not one.ordered:
                todo.append((place, under_way[:number] + under_way[number + 1 :]))
        inst = function.instructions[place]
        counts: dict[str, int] = {}
        for one in under_way:
            counts[one.counter] = counts.get(one.counter, 0) + 1
        if any(counts.get(c, 0) > n for c, n in waits.get(inst.index, {}).items()):
            continue  # this world still waits
        operation = issued(inst, gen) if inst.index not in waits else None
        if inst.index not in waits:
            hit = _hit(inst, operation, under_way)
            early.update((inst.index, o.producer) for o in hit)
            under_way = _told(under_way, hit)
        if operation is not None:
            under_way = (*under_way, operation)
        todo.extend((successor, under_way) for successor in after[place])
    return early
