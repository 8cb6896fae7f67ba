"""How often code waits for memory in sequence, and how often its values' dependencies ask for it.

A wait for a load that was issued after the wait before it costs one more return trip to memory.
Loads whose addresses and conditions do not come from each other can be under way at the same time,
so the trips that are needed are those of the longest chain of loads. A compiler keeps the order of
the source where a store stands between two loads that may be of the same place, or where a load
stands under a condition.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..isa.mnemonics import access_bits
from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Function, Instruction, LoopReport, Metric, MetricSpec, Scalar
from .exposed_latency import LATENCY
from .subject import Subject, source_line, wait_counts
from .written_tensors import WRITES, unwritten

if TYPE_CHECKING:
    from .chains import Code

TRIPS: Final = "memory_trips"

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
        "`bytes` that they deliver to a lane, `stores` that stand between them, whether an "
        "iteration's loads need those of the one before (`is_carried`), the load `at` which line "
        "is the first that is issued after a wait that it does not need, instructions of the "
        "`path`, the `latency` assumed for a trip; None for Triton's code, and where functions are "
        "called or code was not read",
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
_OFFSET: Final = re.compile(r",\s*(0x[0-9a-f]+|\d+)\s*$")
"""The constant offset of a scalar load."""
_MOST_INSTRUCTIONS: Final = 5_000


_Operands = tuple[tuple[int, int], ...]
"""First row and row after the last of each register operand."""


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

    def __init__(self, code: Code, registers: Callable[[int], tuple[_Operands, _Operands]]) -> None:
        from .chains import SCALARS  # as late as what imports NumPy

        self._code = code
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
        reads, _ = self._registers(inst.index)
        return max(
            (self._rows.get(row, 0) for first, stop in reads for row in range(first, stop)),
            default=0,
        )

    def conditioned(self, depth: int) -> None:
        """The condition of a branch under which what comes next is executed."""
        self._condition = depth

    def execute(self, inst: Instruction, subject: Subject) -> int:
        """Loads that have to be waited for before a load can be issued, or 0 of no load."""
        reads, writes = self._registers(inst.index)
        depth = self.read(inst)
        pointers = self._pointers_in(reads)
        issued = 0
        if inst.cls in _LOADS:
            if _VOLATILE.search(inst.operands):
                self._least = self.most
            elif not self._is_of_others(subject, inst, pointers):
                self._least = max(self._least, self._stored_at)
            issued = max(depth, self._lanes, self._condition, self._least)
            depth, pointers = issued + 1, frozenset()
            self.most = max(self.most, depth)
        elif inst.cls in WRITES:
            self._stored.append((inst, pointers))
            self._stored_at = self.most
        elif inst.cls == "lds_write":
            self._lds = max(self._lds, depth)
        elif inst.cls == "lds_read":
            depth = max(depth, self._lds)
        if inst.cls in _ORDERED:
            self._least = self.most
            depth = max(depth, self._least)
        name = inst.op.name
        if "and_saveexec" in name:
            self._outside.append(self._lanes)
            self._lanes = max(self._lanes, depth)
        elif _is_otherwise(inst):
            self._lanes = max(self._outside[-1] if self._outside else 0, depth)
        elif name.startswith("s_or_b") and inst.operands.startswith("exec") and self._outside:
            self._lanes = self._outside.pop()
        elif inst.operands.startswith("exec") or name.startswith("v_cmpx"):
            self._lanes = max(self._lanes, depth)
        for first, stop in writes:
            for row in range(first, stop):
                self._rows[row] = depth
                self._pointers[row] = pointers
        if inst.cls == "smem_load":
            self._read_arguments(inst, reads, writes)
        return issued

    def _pointers_in(self, rows: Sequence[tuple[int, int]]) -> frozenset[int]:
        return frozenset().union(
            *(
                self._pointers.get(row, frozenset())
                for first, stop in rows
                for row in range(first, stop)
            )
        )

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
    return _metric(subject, loop.header, frozenset(loop.blocks))


def _metric(subject: Subject, start: int, within: Set[int] | None) -> Metric:
    """The metric of the code from a block on, to the kernel's or the loop's end."""
    function = subject.function
    if subject.ttgir is not None:
        # Triton moves loads ahead itself, and its source orders tiles, not instructions.
        return Metric(TRIPS, None, "mapping", "derived", "not looked for in Triton's code")
    if subject.machine is None or function.calls or function.unread:
        return Metric(TRIPS, None, "mapping", "derived", "not all of the code is known")
    if not subject.facts.analyse_lanes:
        return Metric(TRIPS, None, "mapping", "derived", "not looked for")
    if importlib.util.find_spec("numpy") is None:
        return Metric(TRIPS, None, "mapping", "derived", "needs numpy")
    blocks = range(len(function.blocks)) if within is None else within
    code = [inst for number in blocks for inst in _code(function, number)]
    if not any(inst.cls in _LOADS for inst in code):
        return Metric(TRIPS, None, "mapping", "derived", "it loads nothing")
    if len(code) > _MOST_INSTRUCTIONS:
        note = f"not looked for in more than {_MOST_INSTRUCTIONS:,} instructions"
        return Metric(TRIPS, None, "mapping", "derived", note)
    ways = [_Way(function, start, within, arm="then")]
    if any(map(_is_otherwise, code)):
        ways.append(_Way(function, start, within, arm="else"))
    followed = [_followed(subject, way.blocks(), twice=within is not None) for way in ways]
    # Of the two arms of a condition the better one counts, unless it does little.
    most = max(figures.loads for figures in followed)
    best = min((f for f in followed if 2 * f.loads >= most), key=lambda f: f.avoidable)
    value: dict[str, Scalar] = {**asdict(best), "latency": LATENCY}
    return Metric(TRIPS, value, "mapping", "derived")


def _code(function: Function, number: int) -> Sequence[Instruction]:
    block = function.blocks[number]
    return function.instructions[block.start : block.stop]


def _is_otherwise(inst: Instruction) -> bool:
    """Whether an instruction turns to the lanes for which a condition does not hold."""
    return inst.op.name.startswith(("s_andn2_saveexec", "s_and_not1_saveexec", "s_or_saveexec"))


class _Figures(Struct, frozen=True):
    """The figures of one path; as in `SPECS`."""

    trips: int
    needed: int
    avoidable: int
    loads: int
    bytes: int
    stores: int
    is_carried: bool
    at: str | None
    path: int


def _followed(subject: Subject, path: Sequence[int], *, twice: bool) -> _Figures:
    """The figures of a path; of an iteration that follows another one, if it runs `twice`."""
    function, machine = subject.function, subject.machine
    assert machine is not None
    counted = _COUNTED
    if not {"vscnt", "storecnt"} & machine.counters.keys():
        counted |= _STORES
    from .chains import Code

    code = Code.of(function, machine)
    registers = cache(code.registers)
    pending: list[_Load] = []
    trips = 0
    chain = _Dependencies(code, registers)  # of both iterations
    for _ in range(2 if twice else 1):
        dependencies = _Dependencies(code, registers)
        begun, loads, size, stores, at = trips, 0, 0, 0, None
        rounds_begun = trips
        waiting_stores = apart = 0
        separated = False
        joins: list[tuple[int, int]] = []
        for place, number in enumerate(path):
            while joins and joins[-1][0] == number:
                joins.pop()
            dependencies.conditioned(max((depth for _, depth in joins), default=0))
            separated = True
            block = function.blocks[number]
            for inst in _code(function, number):
                issued = dependencies.execute(inst, subject)
                chain.execute(inst, subject)
                if inst.cls in _LOADS:
                    loads += 1
                    # The first after a wait, where the source keeps it from those before.
                    apart += separated and rounds_begun < trips
                    separated, rounds_begun = False, trips
                    size += (access_bits(inst.op, inst.operands) or 0) // 8
                    stores, waiting_stores = stores + waiting_stores, 0
                    if at is None and trips - begun > issued:
                        at = inst
                elif inst.cls in WRITES:
                    waiting_stores += bool(loads)
                    separated = True
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
    return _Figures(
        trips=trips - begun,
        needed=dependencies.most,
        avoidable=max(0, min(trips - begun - dependencies.most, apart)),
        loads=loads,
        bytes=size,
        stores=stores,
        is_carried=chain.most > dependencies.most,
        at=source_line(at.loc) if at is not None else None,
        path=sum(len(_code(function, number)) for number in path),
    )


def _allowed(subject: Subject, inst: Instruction) -> int | None:
    """Loads that a wait lets be outstanding; None of what does not wait for them."""
    if inst.cls != "wait":
        return None
    counts = wait_counts(inst, subject.machine)
    return min((n for name, n in counts.items() if name in _COUNTERS), default=None)


class _Flags:
    """The scalar registers that hold all ones or zero on a way, as far as it has come."""

    def __init__(self) -> None:
        self._values: dict[int, bool] = {}

    def copy(self) -> _Flags:
        """The same registers, for a way of its own."""
        other = _Flags()
        other._values = dict(self._values)
        return other

    def jumps(self, block: Sequence[Instruction]) -> bool | None:
        """Whether the branch at a block's end jumps; None where that is not known.

        Blocks are passed in the order of their execution.
        """
        for inst in block:
            value = self._value(inst)
            for register in written_registers(inst):
                self._values.pop(register, None)
            if value is not None:
                to, _ = split_destination(inst.operands)
                self._values.update(dict.fromkeys(named(to), value))
        last = block[-1].op.name if block else ""
        if last not in ("s_cbranch_vccz", "s_cbranch_vccnz"):
            return None
        is_set = self._values.get(named("vcc")[0])
        return None if is_set is None else is_set == (last == "s_cbranch_vccnz")

    def _value(self, inst: Instruction) -> bool | None:
        """Whether an instruction writes all lanes' bits, or none; None of what is neither."""
        name, operands = inst.op.name, [text.strip() for text in inst.operands.split(",")]
        if name.startswith("s_mov_b") and operands[-1] in ("0", "-1"):
            return operands[-1] == "-1"
        if len(operands) != 3 or not operands[1].startswith("exec"):
            return None
        value = self._values.get(next(iter(named(operands[2])), -1))
        if value is None or not name.startswith(("s_and_b", "s_andn2_b", "s_and_not1_b")):
            return None
        return value == name.startswith("s_and_b")


class _Way:
    """One way through a kernel without loops, or through an iteration of a loop.

    What is skipped over where no lane is active counts as executed. Of two ways that exclude each
    other it takes the one with more loads; of the arms of a condition on lanes `arm`. A branch on a
    flag that the way itself has set goes as the flag says: LLVM joins the arms of a condition so.
    """

    def __init__(
        self,
        function: Function,
        start: int,
        within: Set[int] | None,
        *,
        arm: Literal["then", "else"],
    ) -> None:
        self._function = function
        self._start = start
        self._arm = arm
        self._ahead = self._all_ahead(within)

    def blocks(self) -> Sequence[int]:
        """Its blocks in the order of their execution."""
        return self._followed(self._start, _Flags(), is_tried=False)

    def _followed(self, start: int, flags: _Flags, *, is_tried: bool) -> Sequence[int]:
        """The blocks from one on.

        Args:
            start: the first.
            flags: in front of it.
            is_tried: whether ways that exclude each other are chosen by the code ahead of them
                alone: trying each out within another one takes too long.
        """
        path = [start]
        while True:
            jumps = flags.jumps(_code(self._function, path[-1]))
            ways = [
                n
                for n in dict.fromkeys(self._function.blocks[path[-1]].successors)
                if n in self._ahead and n != self._start
            ]
            if not ways:
                return path
            following = path[-1] + 1
            if len(ways) > 1 and jumps is not None and following in ways:
                ways = [n for n in ways if (n != following) == jumps]
            number = ways[0] if len(ways) == 1 else self._next(path[-1], ways[0], ways[1])
            if number is None and is_tried:
                number = max(ways, key=self._loads)
            elif number is None:
                tried = {n: self._followed(n, flags.copy(), is_tried=True) for n in ways}
                number = max(ways, key=lambda n: (self._loads_in(tried[n]), self._loads(n)))
            path.append(number)

    def _next(self, number: int, first: int, second: int) -> int | None:
        """The next block behind a branch to two; None where they exclude each other."""
        branch = _code(self._function, number)[-1].op.name
        if branch.startswith("s_cbranch_exec") and number + 1 in (first, second):
            target = second if first == number + 1 else first
            jumps_in = branch == "s_cbranch_execnz"
            inner, outer = (target, number + 1) if jumps_in else (number + 1, target)
        elif second in self._ahead[first]:
            inner, outer = first, second
        elif first in self._ahead[second]:
            inner, outer = second, first
        else:
            return None
        is_left_out = (
            self._begins_else(number) if self._arm == "then" else self._begins_then(number)
        )
        return outer if is_left_out else inner

    def _begins_else(self, number: int) -> bool:
        return any(map(_is_otherwise, _code(self._function, number)))

    def _begins_then(self, number: int) -> bool:
        """Whether a block turns to lanes beside which there are others, with code of their own."""
        code = _code(self._function, number)
        at = max(
            (place for place, inst in enumerate(code) if "and_saveexec" in inst.op.name), default=-1
        )
        return at >= 0 and any(
            inst.op.name.startswith("s_xor_b") and "exec" in inst.operands for inst in code[at:]
        )

    def _loads(self, number: int) -> int:
        return self._loads_in((number, *self._ahead[number]))

    def _loads_in(self, numbers: Iterable[int]) -> int:
        return sum(inst.cls in _LOADS for n in numbers for inst in _code(self._function, n))

    def _all_ahead(self, within: Set[int] | None) -> Mapping[int, Set[int]]:
        """Block -> all blocks that follow it before the loop starts anew."""
        ahead: dict[int, Set[int]] = {}
        stack = [(self._start, False)]
        entered: set[int] = set()
        while stack:
            number, is_done = stack.pop()
            successors = [
                n
                for n in self._function.blocks[number].successors
                if n != self._start and (within is None or n in within)
            ]
            if is_done:
                ahead[number] = frozenset(successors).union(
                    *(ahead.get(n, frozenset()) for n in successors)
                )
            elif number not in entered:
                entered.add(number)
                stack.append((number, True))
                stack += [(n, False) for n in successors if n not in entered]
        return ahead


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
