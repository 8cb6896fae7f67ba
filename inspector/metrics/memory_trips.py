"""How often code waits for memory in sequence, and how often its values' dependencies ask for it.

A wait for a load that was issued after the wait before it costs one more return trip to memory.
Loads whose addresses and conditions do not come from each other can be under way at the same time,
so the trips that are needed are those of the longest chain of loads. A compiler keeps the order of
the source where a store stands between two loads that may be of the same place, or where a load
stands under a condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..isa.mnemonics import access_bits
from ..model import Function, Instruction, LoopReport, Metric, MetricSpec, Scalar
from .chains import Code
from .exposed_latency import LATENCY
from .subject import Subject, source_line, wait_counts
from .written_tensors import WRITES, unwritten

TRIPS: Final = "memory_trips"

SPECS = (
    MetricSpec(
        TRIPS,
        "mapping",
        "derived",
        "both",
        "Return trips to memory that one wave waits for in sequence, in a kernel without loops or "
        "in an iteration of a hot loop, on the path with most loads: `trips`, those `needed` by "
        "loads whose address or condition comes from another load, `loads` and the `bytes` that "
        "they deliver to a lane, `stores` that stand between them, the load `at` which line is the "
        "first that is issued after a wait that it does not need, instructions of the `path`, the "
        "`latency` assumed for a trip; None where functions are called or code was not read",
    ),
)

_LOADS: Final = frozenset(("global_load", "lds_direct"))
_STORES: Final = frozenset(("global_store", "scratch_store"))
_COUNTED: Final = _LOADS | {"scratch_load", "atomic"}
_ORDERED: Final = frozenset(("barrier", "atomic"))
"""Classes behind which loads have to stay: other waves' stores may be visible there alone."""
_COUNTERS: Final = frozenset(("vmcnt", "loadcnt"))
_VOLATILE: Final = re.compile(r"\b(?:glc|sc1|scope:SCOPE_(?:DEV|SYS))\b")
"""Cache modifiers of volatile and atomic loads."""
_MOST_INSTRUCTIONS: Final = 5_000


class _Load(Struct, frozen=True):
    """A load that is under way.

    Args:
        inst: its instruction; None of another operation of the same counter.
        trip: trips that were waited for when it was issued.
    """

    inst: Instruction | None
    trip: int


class _Dependencies:
    """The loads, one behind the other, that registers' values come from."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._rows: dict[int, int] = {}
        self._lanes = 0
        """The loads that the active lanes depend on."""
        self._lds = self._least = self._condition = self.most = 0

    def read(self, inst: Instruction) -> int:
        """Loads behind which an instruction's operands are."""
        reads, _ = self._code.registers(inst.index)
        return max(
            (self._rows.get(row, 0) for first, stop in reads for row in range(first, stop)),
            default=0,
        )

    def conditioned(self, depth: int) -> None:
        """The condition of a branch under which what comes next is executed."""
        self._condition = depth

    def execute(self, inst: Instruction, *, ordered: bool) -> int:
        """Loads that have to be waited for before a load can be issued, or 0 of no load.

        Args:
            inst: the instruction.
            ordered: whether a load has to stay behind all that come before it.
        """
        depth = self.read(inst)
        _, writes = self._code.registers(inst.index)
        issued = 0
        if inst.cls in _LOADS:
            if ordered:
                self._least = self.most
            issued = max(depth, self._lanes, self._condition, self._least)
            depth = issued + 1
            self.most = max(self.most, depth)
        elif inst.cls == "lds_write":
            self._lds = max(self._lds, depth)
        elif inst.cls == "lds_read":
            depth = max(depth, self._lds)
        elif inst.cls in _ORDERED:
            self._least = self.most
            depth = max(depth, self._least)
        if "saveexec" in inst.op.name:
            before, self._lanes = self._lanes, max(self._lanes, depth)
            depth = before
        elif inst.operands.startswith("exec") or inst.op.name.startswith("v_cmpx"):
            # A restored mask is that of before the condition.
            restored = inst.op.name.startswith(("s_or_b", "s_mov_b"))
            self._lanes = depth if restored else max(self._lanes, depth)
        for first, stop in writes:
            for row in range(first, stop):
                self._rows[row] = depth
        return issued


def kernel_metric(subject: Subject) -> Metric:
    """The metric of a kernel without loops."""
    if subject.function.loops:
        return Metric(TRIPS, None, "mapping", "derived", "the kernel has loops")
    return _metric(subject, _path(subject.function, 0, None))


def loop_metric(subject: Subject, loop_id: str) -> Metric:
    """The metric of an iteration of one loop."""
    (loop,) = (loop for loop in subject.function.loops if loop.id == loop_id)
    if any(other.parent == loop_id for other in subject.function.loops):
        return Metric(TRIPS, None, "mapping", "derived", "the loop has loops of its own")
    return _metric(
        subject, _path(subject.function, loop.header, frozenset(loop.blocks)), twice=True
    )


def _metric(subject: Subject, path: Sequence[int], *, twice: bool = False) -> Metric:
    function, machine = subject.function, subject.machine
    if machine is None or function.calls or function.unread:
        return Metric(TRIPS, None, "mapping", "derived", "not all of the code is known")
    code = [
        inst
        for number in path
        for inst in function.instructions[
            function.blocks[number].start : function.blocks[number].stop
        ]
    ]
    if len(code) > _MOST_INSTRUCTIONS:
        note = f"not looked for in more than {_MOST_INSTRUCTIONS:,} instructions"
        return Metric(TRIPS, None, "mapping", "derived", note)
    value: dict[str, Scalar] = {
        **_followed(subject, path, twice=twice),
        "path": len(code),
        "latency": LATENCY,
    }
    return Metric(TRIPS, value, "mapping", "derived")


def _followed(subject: Subject, path: Sequence[int], *, twice: bool) -> dict[str, Scalar]:
    """The figures of a path; of an iteration that follows another one, if it runs `twice`."""
    function, machine = subject.function, subject.machine
    assert machine is not None
    counted = _COUNTED
    if not {"vscnt", "storecnt"} & machine.counters.keys():
        counted |= _STORES
    code = Code.of(function, machine)
    pending: list[_Load] = []
    trips = 0
    for _ in range(2 if twice else 1):
        dependencies = _Dependencies(code)
        begun, loads, size, stores, at = trips, 0, 0, 0, None
        waiting_stores = 0
        stored: list[Instruction] = []
        joins: list[tuple[int, int]] = []
        for place, number in enumerate(path):
            while joins and joins[-1][0] == number:
                joins.pop()
            dependencies.conditioned(max((depth for _, depth in joins), default=0))
            block = function.blocks[number]
            for inst in function.instructions[block.start : block.stop]:
                issued = dependencies.execute(inst, ordered=_is_ordered(subject, inst, stored))
                if inst.cls in _LOADS:
                    loads += 1
                    size += (access_bits(inst.op, inst.operands) or 0) // 8
                    stores, waiting_stores = stores + waiting_stores, 0
                    if at is None and trips - begun > issued:
                        at = inst
                elif inst.cls in WRITES:
                    stored.append(inst)
                    waiting_stores += bool(loads)
                if inst.cls in counted:
                    pending.append(_Load(inst if inst.cls in _LOADS else None, trips))
                allowed = _allowed(subject, inst)
                if allowed is not None and len(pending) > allowed:
                    ended = pending[: len(pending) - allowed]
                    del pending[: len(pending) - allowed]
                    if any(load.inst is not None and load.trip == trips for load in ended):
                        trips += 1
            last = function.instructions[block.stop - 1] if block.stop > block.start else None
            if last is not None and len(block.successors) == 2 and place + 1 < len(path):
                other = [n for n in block.successors if n != path[place + 1]]
                depth = dependencies.read(last)
                if other and depth:
                    joins.append((other[0], depth))
    return {
        "trips": trips - begun,
        "needed": dependencies.most,
        "loads": loads,
        "bytes": size,
        "stores": stores,
        "at": source_line(at.loc) if at is not None else None,
    }


def _is_ordered(subject: Subject, inst: Instruction, stored: Sequence[Instruction]) -> bool:
    """Whether a load must stay behind earlier ones: it is volatile, or of a tensor stored before.

    Where that is not known it counts as such.
    """
    if inst.cls not in _LOADS:
        return False
    if _VOLATILE.search(inst.operands):
        return True
    if not stored:
        return False
    return inst.index not in subject.places or not unwritten(subject, [inst], stored)


def _allowed(subject: Subject, inst: Instruction) -> int | None:
    """Loads that a wait lets be outstanding; None of what does not wait for them."""
    if inst.cls != "wait":
        return None
    counts = wait_counts(inst, subject.machine)
    return min((n for name, n in counts.items() if name in _COUNTERS), default=None)


def _path(function: Function, start: int, within: Set[int] | None) -> Sequence[int]:
    """Blocks from one on, in the order of their execution: what is skipped over is executed.

    Of two ways that exclude each other it takes the one with more loads.

    Args:
        function: the kernel, or one whose loop is followed.
        start: the first block, a loop's header.
        within: the loop's blocks; None for a kernel without loops.
    """
    ahead = _ahead(function, start, within)
    path = [start]
    while True:
        ways = [n for n in function.blocks[path[-1]].successors if n in ahead and n != start]
        if not ways:
            return path
        first, *rest = dict.fromkeys(ways)
        for other in rest:
            if first in ahead[other] or (
                other not in ahead[first]
                and _loads(function, other, ahead) > _loads(function, first, ahead)
            ):
                first = other
        path.append(first)


def _ahead(function: Function, start: int, within: Set[int] | None) -> Mapping[int, Set[int]]:
    """Block -> all blocks that follow it before the loop starts anew."""
    ahead: dict[int, Set[int]] = {}
    stack = [(start, False)]
    entered = {start}
    while stack:
        number, done = stack.pop()
        successors = [
            n
            for n in function.blocks[number].successors
            if n != start and (within is None or n in within)
        ]
        if done:
            ahead[number] = frozenset(successors).union(
                *(ahead.get(n, frozenset()) for n in successors)
            )
            continue
        stack.append((number, True))
        for n in successors:
            if n not in entered:
                entered.add(n)
                stack.append((n, False))
    return ahead


def _loads(function: Function, number: int, ahead: Mapping[int, Set[int]]) -> int:
    return sum(
        inst.cls in _LOADS
        for n in (number, *ahead[number])
        for inst in function.instructions[function.blocks[n].start : function.blocks[n].stop]
    )


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of the kernel."""
    yield kernel_metric(subject)


def with_trips(subject: Subject, loops: Sequence[LoopReport]) -> tuple[LoopReport, ...]:
    """The loops, the hot ones with the metric."""
    return tuple(
        replace(loop, metrics={**loop.metrics, TRIPS: loop_metric(subject, loop.id)})
        if loop.hot
        else loop
        for loop in loops
    )
