"""How often code waits for memory in sequence, and how often its values' dependencies ask for it.

A wait for a load that was issued after the wait before it costs one more return trip to memory.
Loads whose addresses and conditions do not come from each other can be under way at the same time,
so the trips that are needed are those of the longest chain of loads. A compiler keeps the order of
the source where a store stands between two loads that may be of the same place, or where a load
stands under a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Final

from ..isa.dataflow.value_graph import Operation, operations
from ..isa.mnemonics import access_bits
from ..model import Instruction, Loop, LoopReport, Machine, Metric, Scalar
from .access_spans import WRITES, unwritten
from .argument_words import pointers_read
from .entries import of_both, of_kernels
from .exposed_latency import LATENCY
from .load_paths import LOADS, code_of, load_paths, turns_to_others
from .subject import LineName, Subject, wait_counts

TRIPS: Final = "memory_trips"
CHOSEN: Final = "chosen_accesses"
TILES: Final = "tile_trips"

SPECS = (
    *of_both(
        {
            TRIPS: "Return trips to memory that one wave waits for in sequence, in a kernel "
            "without loops or in an iteration of a hot loop, on the path with most loads: "
            "`trips`, those `avoidable`, for loads behind a store or under another condition than "
            "those before whose address and condition come from no load; `loads` and the `bytes` "
            "that they deliver to a lane, by what an iteration's loads need those of the one "
            "before (`carried_by`: `address`, or `condition` where loaded values decide which "
            "lanes go on, or `memory` where a store or an atomic stands between them), the load "
            "`at` which line is the first that is issued after a wait that it does not need, "
            "instructions of the `path`, the `latency` assumed for a trip; None for Triton's "
            "code, and where functions are called or code was not read",
            CHOSEN: "Accesses of global memory on the path of memory_trips that loaded values "
            "choose, or the lanes that make them: `narrow`, loads of less than 32 bits among "
            "them; `wasted`, the cache lines that they touch beyond what their bytes need, as far "
            "as their lines are known",
        }
    ),
    *of_kernels(
        {
            TILES: "As memory_trips, of a Triton kernel without loops in its source, where "
            "barriers, which Triton makes for LDS, keep no load from being issued before: "
            "`trips`, `avoidable`, `at`, `path` and `latency`",
        }
    ),
)

_GLOBAL: Final = frozenset(("global_load", "global_store"))
_STORES: Final = frozenset(("global_store", "scratch_store"))
_COUNTED: Final = LOADS | {"scratch_load", "atomic"}
_COUNTERS: Final = frozenset(("vmcnt", "loadcnt"))
_VOLATILE: Final = frozenset(("glc", "sc1"))
"""Cache modifiers of volatile and atomic loads; from gfx12 on a scope says it."""
_SCOPES: Final = frozenset(("SCOPE_DEV", "SCOPE_SYS"))
_OF_TILES: Final = ("trips", "avoidable", "at", "path", "latency")
_MOST_INSTRUCTIONS: Final = 5_000


class _Waits:
    """The loads that are under way, and the return trips that were waited for so far."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        has_store_counter = bool({"vscnt", "storecnt"} & machine.counters.keys())
        self._counted = _COUNTED if has_store_counter else _COUNTED | _STORES
        self._pending: list[int | None] = []
        """Trips that were waited for when each load was issued; None for another operation."""
        self.trips = 0

    def execute(self, inst: Instruction) -> None:
        """Counts an instruction that is issued, or what it waits for."""
        if inst.cls in self._counted:
            self._pending.append(self.trips if inst.cls in LOADS else None)
        elif inst.cls == "wait":
            counts = wait_counts(inst, self._machine)
            allowed = min((counts[name] for name in _COUNTERS & counts.keys()), default=None)
            if allowed is not None and len(self._pending) > allowed:
                ended = self._pending[: len(self._pending) - allowed]
                del self._pending[: len(ended)]
                self.trips += self.trips in ended


class _Chains:
    """The loads, one behind the other, that values come from.

    Args:
        pointers: operation -> the pointer arguments that what it reads comes from.
        by_lanes: whether loads need those that decide which lanes are active.
        by_memory: whether loads need those before a store or an atomic, as far as those may be of
            the same place; and those before a barrier, but in Triton's code.
    """

    def __init__(
        self,
        subject: Subject,
        pointers: Mapping[Operation, Set[int]],
        *,
        by_lanes: bool = True,
        by_memory: bool = True,
    ) -> None:
        self._subject, self._pointers = subject, pointers
        self._by_lanes, self._by_memory = by_lanes, by_memory
        # Other waves' stores may be visible behind these alone.
        self._ordered = ("atomic",) if subject.ttgir is not None else ("atomic", "barrier")
        self._results: dict[Operation | None, int] = {}
        """Operation -> loads behind which its result is."""
        self._stored: list[Operation] = []
        self._stored_at = 0
        """Loads behind which the last store stands."""
        self._lanes = 0
        """The loads that the active lanes depend on."""
        self._outside: list[int] = []
        """The same of those outside of the conditions that hold, outermost first."""
        self._lds = self._least = self.most = 0
        self.condition = 0
        """Loads behind which the condition is under which what comes next is executed."""

    def behind(self, operation: Operation) -> int:
        """Loads behind which what an operation reads is."""
        return max((self._results.get(maker, 0) for maker in operation.all_makers), default=0)

    @property
    def is_chosen(self) -> bool:
        """Whether loaded values decide if, or by which lanes, what comes next is executed."""
        return max(self._lanes, self.condition) > 0

    def follow(self, code: Iterable[Operation]) -> int:
        """Executes operations; the most loads that stand one behind the other so far."""
        for operation in code:
            self.execute(operation)
        return self.most

    def execute(self, operation: Operation) -> int:
        """Loads that have to be waited for before a load can be issued, or 0 of no load."""
        inst, depth, issued = operation.inst, self.behind(operation), 0
        if inst.cls in LOADS:
            modifiers = operation.parts.modifiers
            if not self._by_memory:
                pass
            elif _VOLATILE & modifiers.keys() or modifiers.get("scope") in _SCOPES:
                self._least = self.most
            elif not self._is_of_others(operation):
                self._least = max(self._least, self._stored_at)
            lanes = self._lanes if self._by_lanes else 0
            issued = max(depth, lanes, self.condition, self._least)
            depth = issued + 1
            self.most = max(self.most, depth)
        elif inst.cls in WRITES:
            self._stored.append(operation)
            self._stored_at = self.most
        elif inst.cls == "lds_write":
            self._lds = max(self._lds, depth)
        elif inst.cls == "lds_read":
            depth = max(depth, self._lds)
        if inst.cls in self._ordered and self._by_memory:
            self._least = self.most
            depth = max(depth, self._least)
        self._activate(operation, depth)
        self._results[operation] = depth
        return issued

    def _activate(self, operation: Operation, depth: int) -> None:
        """Notes behind which loads the lanes are that an operation makes active."""
        inst, is_written = operation.inst, any(r.letter == "e" for r in operation.results)
        name = inst.op.name
        if "and_saveexec" in name or name.startswith("v_cmpx"):  # LLVM has saved EXEC before that
            self._outside.append(self._lanes)
            self._lanes = max(self._lanes, depth)
        elif turns_to_others(inst):
            self._lanes = max(self._outside[-1] if self._outside else 0, depth)
        elif name.startswith("s_or_b") and is_written and self._outside:
            self._lanes = self._outside.pop()
        elif is_written:
            self._lanes = max(self._lanes, depth)

    def _is_of_others(self, load: Operation) -> bool:
        """Whether a load is known to be of tensors that were not stored before."""
        own, others = self._pointers[load], [self._pointers[store] for store in self._stored]
        if not others or (own and all(other and other.isdisjoint(own) for other in others)):
            return True
        stores = [store.inst for store in self._stored]
        is_placed = load.inst.index in self._subject.places
        return is_placed and bool(unwritten(self._subject, [load.inst], stores))


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of a kernel."""
    yield from region_metrics(subject, None)
    from ..ttgir.queries import LOOPS  # only Triton kernels need it

    module = subject.ttgir
    if module is None or subject.function.loops or any(op.name in LOOPS for op in module.ops):
        note = "Triton's code without loops is looked at"
    elif not (note := _unknown(subject, None)):
        trips, _ = _of_best_path(subject, None)
        value = {key: trips[key] for key in _OF_TILES}
        yield Metric(TILES, value, "mapping", "derived")
        return
    yield Metric(TILES, None, "mapping", "derived", note)


def loop_metrics(subject: Subject, loops: Sequence[LoopReport]) -> dict[str, dict[str, Metric]]:
    """Hot loop -> its metrics."""
    hot = {loop.id for loop in loops if loop.hot}
    return {
        loop.id: {metric.name: metric for metric in region_metrics(subject, loop)}
        for loop in subject.function.loops
        if loop.id in hot
    }


def region_metrics(subject: Subject, loop: Loop | None) -> list[Metric]:
    """The metrics of a kernel without loops, or of an iteration of a loop."""
    loops = subject.function.loops
    note = ""
    if loop is None and loops:
        note = "the kernel has loops"
    elif loop is not None and any(other.parent == loop.id for other in loops):
        note = "the loop has loops of its own"
    elif loop is not None and loop.irreducible:
        note = "the loop has several entries"
    elif subject.ttgir is not None:
        # Triton moves loads ahead itself, and its source orders tiles, not instructions.
        note = "not looked for in Triton's code"
    if note := note or _unknown(subject, loop):
        return [Metric(name, None, "mapping", "derived", note) for name in (TRIPS, CHOSEN)]
    values = _of_best_path(subject, loop)
    return [
        Metric(name, value, "mapping", "derived")
        for name, value in zip((TRIPS, CHOSEN), values, strict=True)
    ]


def _unknown(subject: Subject, loop: Loop | None) -> str:
    """Why some code is not followed; empty where it is."""
    function = subject.function
    if subject.machine is None or function.calls or function.unread:
        return "not all of the code is known"
    if not subject.facts.analyse_lanes:
        return "not looked for"
    code = function.instructions if loop is None else code_of(function, *loop.blocks)
    if not any(inst.cls in LOADS for inst in code):
        return "it loads nothing"
    if len(code) > _MOST_INSTRUCTIONS:
        return f"not looked for in more than {_MOST_INSTRUCTIONS:,} instructions"
    return ""


_Values = tuple[dict[str, Scalar], dict[str, Scalar]]
"""Of a path's trips, and of its accesses that loaded values choose."""


def _of_best_path(subject: Subject, loop: Loop | None) -> _Values:
    """Of the two arms of a condition the better one counts, unless it does little."""
    paths, rounds = load_paths(subject.function, loop), 1 if loop is None else 2
    followed = [_followed(subject, path, rounds=rounds) for path in paths]
    most = max(int(trips["loads"] or 0) for trips, _ in followed)
    return min(
        (values for values in followed if 2 * int(values[0]["loads"] or 0) >= most),
        key=lambda values: int(values[0]["avoidable"] or 0),
    )


def _followed(subject: Subject, path: Sequence[int], *, rounds: int) -> _Values:
    """The figures of a path; of the last iteration of several."""
    function, machine = subject.function, subject.machine
    assert machine is not None
    made: dict[int, Operation] = {}
    executed = [
        [operations(function, code_of(function, number), made) for number in path]
        for _ in range(rounds)
    ]
    iterations = [list(chain.from_iterable(blocks)) for blocks in executed]
    pointers = pointers_read(function, chain.from_iterable(iterations))
    waits, chains = _Waits(machine), _Chains(subject, pointers)
    for operation in chain.from_iterable(iterations[:-1]):
        waits.execute(operation.inst)
    begun = rounds_begun = waits.trips
    loads = size = apart = narrow = 0
    wasted, late, with_them = 0.0, list[Instruction](), list[Instruction]()
    joins: list[tuple[int, int]] = []
    for place, (number, done) in enumerate(zip(path, executed[-1], strict=True)):
        while joins and joins[-1][0] == number:
            joins.pop()
        chains.condition = max((depth for _, depth in joins), default=0)
        separated = True
        for operation in done:
            inst = operation.inst
            bits = access_bits(inst.op, inst.operands)
            if inst.cls in _GLOBAL and chains.is_chosen:
                narrow += inst.cls == "global_load" and (bits or 32) < 32
                use = subject.uses.get(inst.index)
                if use is not None and use.lines is not None and use.lines_ideal is not None:
                    wasted += use.lines - use.lines_ideal
            issued = chains.execute(operation)
            if inst.cls in LOADS:
                loads += 1
                # The first after a wait, where the source keeps it from those before.
                apart += separated and rounds_begun < waits.trips
                separated, rounds_begun = False, waits.trips
                size += (bits or 0) // 8
                if waits.trips - begun > issued:
                    late.append(inst)
            elif inst.cls == "smem_load":  # the addresses of tensors are loaded where they are used
                if waits.trips - begun > chains.behind(operation):
                    with_them.append(inst)
            elif inst.cls in WRITES or (inst.cls == "barrier" and subject.ttgir is not None):
                separated = True
            waits.execute(inst)
        successors = function.blocks[number].successors
        other = [following for following in successors if following not in path[place + 1 :][:1]]
        if done and len(successors) == 2 and len(other) == 1 and (depth := chains.behind(done[-1])):
            joins.append((other[0], depth))
    trips = waits.trips - begun
    return {
        "trips": trips,
        "avoidable": max(0, min(trips - chains.most, apart)),
        "loads": loads,
        "bytes": size,
        "carried_by": _carried_by(subject, iterations, pointers, chains.most),
        "at": LineName.of(late[:1], [*late, *with_them]),
        "path": len(code_of(function, *path)),
        "latency": LATENCY,
    }, {"narrow": narrow, "wasted": round(wasted, 2)}


def _carried_by(
    subject: Subject,
    iterations: Sequence[Sequence[Operation]],
    pointers: Mapping[Operation, Set[int]],
    needed: int,
) -> str | None:
    """What an iteration's loads have of those of the one before; None where they need none."""
    if _Chains(subject, pointers).follow(chain.from_iterable(iterations)) <= needed:
        return None
    for kind, by_lanes in (("address", False), ("condition", True)):
        chains = _Chains(subject, pointers, by_lanes=by_lanes, by_memory=False)
        first, second = (chains.follow(iteration) for iteration in iterations)
        if second > first:
            return kind
    return "memory"
