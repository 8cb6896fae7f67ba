"""How often code waits for memory in sequence, and how often its values' dependencies ask for it.

A wait for a load that was issued after the wait before it costs one more return trip to memory.
Loads whose addresses and conditions do not come from each other can be under way at the same time,
so the trips that are needed are those of the longest chain of loads. A compiler keeps the order of
the source where a store stands between two loads that may be of the same place, or where a load
stands under a condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..isa.mnemonics import access_bits
from ..model import Instruction, LoopReport, Machine, Metric, MetricSpec, Scalar
from .exposed_latency import LATENCY
from .load_paths import LOADS, code_of, load_paths, turns_to_others
from .subject import Subject, source_line, wait_counts
from .written_tensors import WRITES, unwritten

if TYPE_CHECKING:
    from .chains import Code

TRIPS: Final = "memory_trips"
TILES: Final = "tile_trips"

SPECS = (
    MetricSpec(
        TRIPS,
        "mapping",
        "derived",
        "both",
        "Return trips to memory that one wave waits for in sequence, in a kernel without loops or "
        "in an iteration of a hot loop, on the path with most loads: `trips`, those `needed` by "
        "loads whose address or condition comes from another load, those `avoidable` besides: for "
        "loads behind a store or under another condition than those before; `loads` and the "
        "`bytes` that they deliver to a lane, whether an "
        "iteration's loads need those of the one before (`is_carried`) and by what (`carried_by`: "
        "`address`, or `condition` where loaded values decide which lanes go on, or `memory` where "
        "a store or an atomic stands between them), the load `at` which line "
        "is the first that is issued after a wait that it does not need, instructions of the "
        "`path`, the `latency` assumed for a trip; `narrow_chosen`: loads of less than 32 bits "
        "from global memory that loaded values choose, or the lanes that make them, "
        "`wasted_chosen` the cache lines that such loads and stores of any width touch beyond what "
        "their bytes need, as far as their lines are known; None for Triton's code, and where "
        "functions are called or code was not read",
    ),
    MetricSpec(
        TILES,
        "mapping",
        "derived",
        "kernel",
        "The same of a Triton kernel without loops in its source, where barriers, which Triton "
        "makes for LDS, keep no load from being issued before: `trips`, `needed`, `avoidable`, "
        "`at`, `path` and `latency`",
    ),
)

_GLOBAL: Final = frozenset(("global_load", "global_store"))
_STORES: Final = frozenset(("global_store", "scratch_store"))
_COUNTED: Final = LOADS | {"scratch_load", "atomic"}
_ORDERED: Final = frozenset(("barrier", "atomic"))
"""Classes behind which loads have to stay: other waves' stores may be visible there alone."""
_COUNTERS: Final = frozenset(("vmcnt", "loadcnt"))
_VOLATILE: Final = re.compile(r"\b(?:glc|sc1|scope:SCOPE_(?:DEV|SYS))\b")
"""Cache modifiers of volatile and atomic loads."""
_OFFSET: Final = re.compile(r",\s*(0x[0-9a-f]{1,8}|\d{1,9})\s*$")
"""The constant offset of a scalar load."""
_PAIR: Final = " :: "
"""Between two operations that issue at once (v_dual_...)."""
_MOST_INSTRUCTIONS: Final = 5_000


_Operands = tuple[tuple[int, int], ...]
"""First row and row after the last of each register operand."""


class _Pending(Struct, frozen=True):
    """An operation that is under way.

    Args:
        is_load: whether it is a load; else another operation of the same counter.
        trip: trips that were waited for when it was issued.
    """

    is_load: bool
    trip: int


class _Waits:
    """The loads that are under way, and the return trips that were waited for so far."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        has_store_counter = bool({"vscnt", "storecnt"} & machine.counters.keys())
        self._counted = _COUNTED if has_store_counter else _COUNTED | _STORES
        self._pending: list[_Pending] = []
        self.trips = 0

    def execute(self, inst: Instruction) -> None:
        """Counts an instruction that is issued, or what it waits for."""
        if inst.cls in self._counted:
            self._pending.append(_Pending(inst.cls in LOADS, self.trips))
        if inst.cls != "wait":
            return
        counts = wait_counts(inst, self._machine)
        allowed = min((n for name, n in counts.items() if name in _COUNTERS), default=None)
        if allowed is None or len(self._pending) <= allowed:
            return
        ended = self._pending[: len(self._pending) - allowed]
        del self._pending[: len(ended)]
        self.trips += any(item.is_load and item.trip == self.trips for item in ended)


class _Dependencies:
    """The loads, one behind the other, that registers' values come from."""

    def __init__(
        self,
        code: Code,
        registers: Callable[[int], tuple[_Operands, _Operands]],
        *,
        by_lanes: bool = True,
        by_memory: bool = True,
        by_barriers: bool = True,
    ) -> None:
        """Prepares for code of which nothing was executed."""
        from .chains import SCALARS  # as late as what imports NumPy

        self._code = code
        self._by_lanes, self._by_memory = by_lanes, by_memory
        self._ordered = _ORDERED if by_barriers else _ORDERED - {"barrier"}
        self._first_scalar = SCALARS
        self._registers = registers
        self._rows: dict[int, int] = {}
        self._pointers: dict[int, frozenset[int]] = {}
        """Row -> offsets of the pointer arguments that its value is computed from."""
        self._stored: list[tuple[Instruction, frozenset[int]]] = []
        self._stored_at = 0
        """Loads behind which the last store stands."""
        self._lanes = 0
        """The loads that the active lanes depend on."""
        self._outside: list[int] = []
        """The same of those outside of the conditions that hold, outermost first."""
        self._lds = self._least = self._condition = self.most = 0

    def read(self, inst: Instruction) -> int:
        """Loads behind which an instruction's operands are."""
        return self._deepest(self._registers(inst.index)[0])

    def _deepest(self, reads: _Operands) -> int:
        """Loads behind which the values of some rows are."""
        rows = self._rows
        deepest = 0
        for first, stop in reads:
            for row in range(first, stop):
                depth = rows.get(row, 0)
                if depth > deepest:
                    deepest = depth
        return deepest

    @property
    def is_chosen(self) -> bool:
        """Whether loaded values decide if, or by which lanes, what comes next is executed."""
        return max(self._lanes, self._condition) > 0

    def conditioned(self, depth: int) -> None:
        """The condition of a branch under which what comes next is executed."""
        self._condition = depth

    def execute(self, inst: Instruction, subject: Subject) -> int:
        """Loads that have to be waited for before a load can be issued, or 0 of no load."""
        reads, writes = self._registers(inst.index)
        depth = self._deepest(reads)
        pointers = self._pointers_in(reads)
        issued = 0
        if inst.cls in LOADS:
            if not self._by_memory:
                pass
            elif _VOLATILE.search(inst.operands):
                self._least = self.most
            elif not self._is_of_others(subject, inst, pointers):
                self._least = max(self._least, self._stored_at)
            lanes = self._lanes if self._by_lanes else 0
            issued = max(depth, lanes, self._condition, self._least)
            depth, pointers = issued + 1, frozenset()
            self.most = max(self.most, depth)
        elif inst.cls in WRITES:
            self._stored.append((inst, pointers))
            self._stored_at = self.most
        elif inst.cls == "lds_write":
            self._lds = max(self._lds, depth)
        elif inst.cls == "lds_read":
            depth = max(depth, self._lds)
        if inst.cls in self._ordered and self._by_memory:
            self._least = self.most
            depth = max(depth, self._least)
        name = inst.op.name
        if "and_saveexec" in name or name.startswith("v_cmpx"):  # LLVM has saved EXEC before that
            self._outside.append(self._lanes)
            self._lanes = max(self._lanes, depth)
        elif turns_to_others(inst):
            self._lanes = max(self._outside[-1] if self._outside else 0, depth)
        elif name.startswith("s_or_b") and inst.operands.startswith("exec") and self._outside:
            self._lanes = self._outside.pop()
        elif inst.operands.startswith("exec"):
            self._lanes = max(self._lanes, depth)
        if _PAIR in inst.operands:
            self._write_pair(inst)
            return issued
        for first, stop in writes:
            for row in range(first, stop):
                self._rows[row] = depth
                self._pointers[row] = pointers
        if inst.cls == "smem_load":
            self._read_arguments(inst, reads, writes)
        return issued

    def _write_pair(self, inst: Instruction) -> None:
        """Notes the results of two operations that issue at once, of each those of its operands."""
        halves = self._code.pair(inst.index)
        results = [(self._deepest(reads), self._pointers_in(reads)) for reads, _ in halves]
        for (depth, pointers), (_, writes) in zip(results, halves, strict=True):
            for first, stop in writes:
                for row in range(first, stop):
                    self._rows[row] = depth
                    self._pointers[row] = pointers

    def _pointers_in(self, rows: Sequence[tuple[int, int]]) -> frozenset[int]:
        pointers: frozenset[int] = frozenset()
        for first, stop in rows:
            for row in range(first, stop):
                of_row = self._pointers.get(row)
                if of_row:
                    pointers = pointers | of_row if pointers else of_row
        return pointers

    def _read_arguments(
        self,
        inst: Instruction,
        reads: Sequence[tuple[int, int]],
        writes: Sequence[tuple[int, int]],
    ) -> None:
        """Notes the pointers that a load of the kernel's arguments delivers."""
        resources = self._code.function.resources
        start, offset = resources.wave_start, _OFFSET.search(inst.operands)
        is_arguments = (
            start is not None
            and start.kernarg_ptr is not None
            and reads
            and reads[0][0] == self._first_scalar + start.kernarg_ptr
        )
        for first, stop in writes:
            for row in range(first, stop):
                at = int(offset[1], 0) + 4 * (row - first) if offset and is_arguments else -1
                self._pointers[row] = frozenset(
                    pointer for pointer in resources.pointers or () if at in (pointer, pointer + 4)
                )

    def _is_of_others(self, subject: Subject, load: Instruction, pointers: frozenset[int]) -> bool:
        """Whether a load is known to be of tensors that were not stored before.

        Pointers that are different arguments count as different tensors.
        """
        if not self._stored:
            return True
        if pointers and all(other and other.isdisjoint(pointers) for _, other in self._stored):
            return True
        stores = [inst for inst, _ in self._stored]
        return load.index in subject.places and bool(unwritten(subject, [load], stores))


def kernel_metric(subject: Subject) -> Metric:
    """The metric of a kernel without loops."""
    if subject.function.loops:
        return Metric(TRIPS, None, "mapping", "derived", "the kernel has loops")
    return _metric(subject, 0, None)


def loop_metric(subject: Subject, loop_id: str) -> Metric:
    """The metric of an iteration of one loop."""
    (loop,) = (loop for loop in subject.function.loops if loop.id == loop_id)
    if any(other.parent == loop_id for other in subject.function.loops):
        return Metric(TRIPS, None, "mapping", "derived", "the loop has loops of its own")
    if loop.irreducible:
        return Metric(TRIPS, None, "mapping", "derived", "the loop has several entries")
    return _metric(subject, loop.header, frozenset(loop.blocks))


def _metric(subject: Subject, start: int, within: Set[int] | None) -> Metric:
    """The metric of the code from a block on, to the kernel's or the loop's end."""
    if subject.ttgir is not None:
        # Triton moves loads ahead itself, and its source orders tiles, not instructions.
        return Metric(TRIPS, None, "mapping", "derived", "not looked for in Triton's code")
    return _trips(subject, start, within)


def _trips(subject: Subject, start: int, within: Set[int] | None) -> Metric:
    """The metric of any code."""
    function = subject.function
    if subject.machine is None or function.calls or function.unread:
        return Metric(TRIPS, None, "mapping", "derived", "not all of the code is known")
    if not subject.facts.analyse_lanes:
        return Metric(TRIPS, None, "mapping", "derived", "not looked for")
    blocks = range(len(function.blocks)) if within is None else within
    code = [inst for number in blocks for inst in code_of(function, number)]
    if not any(inst.cls in LOADS for inst in code):
        return Metric(TRIPS, None, "mapping", "derived", "it loads nothing")
    if len(code) > _MOST_INSTRUCTIONS:
        note = f"not looked for in more than {_MOST_INSTRUCTIONS:,} instructions"
        return Metric(TRIPS, None, "mapping", "derived", note)
    paths = load_paths(function, start, within)
    followed = [_followed(subject, path, twice=within is not None) for path in paths]
    # Of the two arms of a condition the better one counts, unless it does little.
    most = max(figures.loads for figures in followed)
    best = min((f for f in followed if 2 * f.loads >= most), key=lambda f: f.avoidable)
    value: dict[str, Scalar] = {**asdict(best), "latency": LATENCY}
    return Metric(TRIPS, value, "mapping", "derived")


class _Figures(Struct, frozen=True):
    """The figures of one path; as in `SPECS`."""

    trips: int
    needed: int
    avoidable: int
    loads: int
    bytes: int
    is_carried: bool
    carried_by: str | None
    at: str | None
    path: int
    narrow_chosen: int
    wasted_chosen: float


def _followed(subject: Subject, path: Sequence[int], *, twice: bool) -> _Figures:
    """The figures of a path; of an iteration that follows another one, if it runs `twice`."""
    function, machine = subject.function, subject.machine
    assert machine is not None
    from .chains import Code

    code = Code.of(function, machine)
    registers = cache(code.registers)
    waits = _Waits(machine)
    chain = None  # of both iterations
    if twice:
        chain = _Dependencies(code, registers)
        for number in path:
            for inst in code_of(function, number):
                chain.execute(inst, subject)
                waits.execute(inst)
    is_triton = subject.ttgir is not None
    dependencies = _Dependencies(code, registers, by_barriers=not is_triton)
    begun, loads, size, at = waits.trips, 0, 0, None
    rounds_begun = begun
    apart = narrow_chosen = 0
    wasted_chosen = 0.0
    separated = False
    joins: list[tuple[int, int]] = []
    for place, number in enumerate(path):
        while joins and joins[-1][0] == number:
            joins.pop()
        dependencies.conditioned(max((depth for _, depth in joins), default=0))
        separated = True
        block = function.blocks[number]
        for inst in code_of(function, number):
            if inst.cls in _GLOBAL and dependencies.is_chosen:
                is_narrow = (access_bits(inst.op, inst.operands) or 32) < 32
                narrow_chosen += inst.cls == "global_load" and is_narrow
                use = subject.uses.get(inst.index)
                if use is not None and use.lines is not None and use.lines_ideal is not None:
                    wasted_chosen += use.lines - use.lines_ideal
            issued = dependencies.execute(inst, subject)
            if chain is not None:
                chain.execute(inst, subject)
            if inst.cls in LOADS:
                loads += 1
                # The first after a wait, where the source keeps it from those before.
                apart += separated and rounds_begun < waits.trips
                separated, rounds_begun = False, waits.trips
                size += (access_bits(inst.op, inst.operands) or 0) // 8
                if at is None and waits.trips - begun > issued:
                    at = inst
            elif inst.cls in WRITES or (inst.cls == "barrier" and is_triton):
                separated = True
            waits.execute(inst)
        last = function.instructions[block.stop - 1] if block.stop > block.start else None
        if last is not None and len(block.successors) == 2 and place + 1 < len(path):
            other = [n for n in block.successors if n != path[place + 1]]
            depth = dependencies.read(last)
            if other and depth:
                joins.append((other[0], depth))
    trips = waits.trips - begun
    is_carried = chain is not None and chain.most > dependencies.most
    return _Figures(
        trips=trips,
        needed=dependencies.most,
        avoidable=max(0, min(trips - dependencies.most, apart)),
        loads=loads,
        bytes=size,
        is_carried=is_carried,
        carried_by=_carried_by(subject, path, code, registers) if is_carried else None,
        at=source_line(at.loc) if at is not None else None,
        path=sum(len(code_of(function, number)) for number in path),
        narrow_chosen=narrow_chosen,
        wasted_chosen=round(wasted_chosen, 2),
    )


def _carried_by(
    subject: Subject,
    path: Sequence[int],
    code: Code,
    registers: Callable[[int], tuple[_Operands, _Operands]],
) -> str:
    """What an iteration's loads have of those of the one before, which they are known to need."""
    for kind, by_lanes in (("address", False), ("condition", True)):
        chain = _Dependencies(code, registers, by_lanes=by_lanes, by_memory=False)
        longest: list[int] = []
        for _ in range(2):
            for number in path:
                for inst in code_of(subject.function, number):
                    chain.execute(inst, subject)
            longest.append(chain.most)
        if longest[1] > longest[0]:
            return kind
    return "memory"


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of the kernel."""
    yield kernel_metric(subject)
    yield _tile_metric(subject)


def _tile_metric(subject: Subject) -> Metric:
    """The metric of a Triton kernel without loops, nor such as the compiler has unrolled."""
    from ..ttgir.queries import LOOPS  # only Triton kernels need it

    module = subject.ttgir
    if module is None or subject.function.loops or any(op.name in LOOPS for op in module.ops):
        return Metric(TILES, None, "mapping", "derived", "Triton's code without loops is looked at")
    metric = _trips(subject, 0, None)
    if not isinstance(metric.value, Mapping):
        return replace(metric, name=TILES)
    value = {key: metric.value[key] for key in _OF_TILES}
    return Metric(TILES, value, metric.unit, metric.origin, metric.note)


_OF_TILES: Final = ("trips", "needed", "avoidable", "at", "path", "latency")


def loop_metrics(subject: Subject, loops: Sequence[LoopReport]) -> dict[str, dict[str, Metric]]:
    """Hot loop -> its metric."""
    return {loop.id: {TRIPS: loop_metric(subject, loop.id)} for loop in loops if loop.hot}
