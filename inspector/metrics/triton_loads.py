"""Loads that a loop waits for in the iteration that issues them, the reasons, and whether atomics
order what workgroups see of each other.

Triton 3.9's pass for AMD (`TritonAMDGPUTransforms/ScheduleLoops.cpp`) handles `scf.for` alone, and
operations directly in its body, and on CDNA 1 to 3 leaves loads of fewer than 32 bits per lane in
place. An address that comes from another load does not prevent it: with two stages or more such
loads were issued ahead on gfx942, gfx950 and gfx1100, over one and two loads in a row.

Triton's pass for AMD issues those loads of a loop ahead that a dot's operands are made of
(`TritonAMDGPUTransforms/ScheduleLoops.cpp`; Triton's `getIndexedLoads`); in a loop that states
`num_stages` itself (`tl.range`) all of them. A scale that multiplies the product, or what is added
to it, stays in the iteration that uses it. So does, with two stages, an index that the address of a
load ahead is made of: it is loaded an iteration ahead with it, right before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from ..ttgir.attrs import undense
from ..ttgir.axes.analysis import analyze
from ..ttgir.axes.graph import functions
from ..ttgir.axes.widths import Layouts, limits_of, needed_values, tile_of
from ..ttgir.conversions import CONVERSIONS
from ..ttgir.flow import DataFlow, flow_of, reached, users_of
from ..ttgir.plain_accesses import ANY, PASSES_ON, loops_around, maker_of, tensors_of
from ..ttgir.queries import (
    ATOMIC_EXCHANGES,
    ATOMIC_RMW,
    DOTS,
    INDEXED_VIEWS,
    LOADS,
    LOADS_TO_LDS,
    LOCAL_LOAD,
    LOCAL_STORE,
    LOOPS,
    POINTER_LOADS,
    REGISTER_LOADS,
    STORES,
    VIEWS,
    address_operands,
    in_dialects,
)

LEAST_BITS = 32
KEEPS_NARROW = frozenset(("gfx908", "gfx90a", "gfx942"))
"""Targets on which narrow loads are not issued ahead (ScheduleLoops.cpp, filterSmallVectors)."""


class Cause(Enum):
    """The reason that a load stays in the iteration of its dot."""

    WHILE = "while"
    CONDITIONAL = "conditional"
    NARROW = "narrow"


def cause(flow: DataFlow, load: TtgirOp, dots: Sequence[TtgirOp], arch: str) -> Cause | None:
    """The first known reason that applies to a load; None if none does.

    `load`: a load in a loop with dots; `dots`: the dots that it reaches; `arch`: gfx name of the
    target.
    """
    loop = flow.loop[load.index]
    if loop is None:
        return None
    if flow.module.ops[loop].name == "scf.while":
        return Cause.WHILE
    if load.parent != loop or (dots and all(dot.parent != loop for dot in dots)):
        return Cause.CONDITIONAL
    if arch in KEEPS_NARROW and (_width(flow.module, load) or LEAST_BITS) < LEAST_BITS:
        return Cause.NARROW
    return None


def _width(module: TtgirModule, load: TtgirOp) -> int | None:
    """Bits per lane that one access of a load moves; None where that cannot be told."""
    for graph in functions(module):
        for op in graph.ops:
            tile = tile_of(op) if op.index == load.index else None
            if tile is not None:
                axes = analyze(graph, needed_values([tile]))
                limits = limits_of(tile, axes, Layouts())
                return None if limits is None else limits.width
    return None


def same_iteration(flow: DataFlow) -> set[int]:
    """Loads in loops with dots whose value reaches a dot of the same iteration.

    Carried values are left out, and so are loops around others with dots, which Triton does not
    pipeline. A buffer in LDS counts where the same part of it was written earlier in the loop's
    body.
    """
    outer: set[int | None] = {None}
    for index in flow.dot_loops:
        enclosing = flow.loop[index]
        while enclosing is not None:
            outer.add(enclosing)
            enclosing = flow.loop[enclosing]
    loads: dict[int, frozenset[int]] = {}  # value -> loads whose value it holds or is made of
    stored_loads: dict[_Location, frozenset[int]] = {}
    reaching: set[int] = set()
    for op in flow.module.ops:
        if not flow.in_dot_loop(op) or flow.loop[op.index] in outer:
            continue
        operands, results = flow.operands[op.index], flow.results[op.index]
        if op.name in DOTS:  # the accumulator is left out
            reaching |= _union(loads, (*operands[:2], *operands[3:]))
            continue
        sources = _union(loads, operands)
        if op.name in LOADS_TO_LDS:
            for value, operand_type in zip(operands, op.operand_types, strict=True):
                if operand_type.kind == "memdesc":
                    stored_loads[_location(flow, value)] = frozenset((op.index,))
        elif op.name in LOCAL_STORE and len(operands) > 1:
            stored_loads[_location(flow, operands[1])] = _union(loads, operands[:1])
        elif op.name in LOCAL_LOAD:
            stored = stored_loads.get(_location(flow, operands[0]), frozenset())
            sources = _union(loads, operands[:1]) | stored
        elif op.name in REGISTER_LOADS:
            sources = frozenset((op.index,))
        if sources:
            loads.update(dict.fromkeys(results, sources))
    return reaching


_Location = tuple[int, ...]
"""The value that a buffer is, and the indices of the views that select a part of it."""


def _location(flow: DataFlow, value: int) -> _Location:
    """The part of a buffer that a value is."""
    op = flow.op(value)
    if op is None or op.name not in VIEWS:
        return (value,)
    inner = _location(flow, flow.operands[op.index][0])
    return (*inner, *flow.operands[op.index][1:]) if op.name in INDEXED_VIEWS else inner


def _union(loads: Mapping[int, frozenset[int]], values: Sequence[int]) -> frozenset[int]:
    """The loads of several values."""
    return frozenset().union(*(loads.get(value, ()) for value in values))


_UNCHANGED = (
    CONVERSIONS
    | in_dialects("in_thread_transpose")
    | {"tt.trans", "tt.reshape", "arith.extf", "arith.truncf", "tt.fp_to_fp"}
)
"""Operations that leave a value the same, for a use in the next iteration."""


class Use(Enum):
    """What an iteration uses a value for that it has loaded."""

    ADDRESS = "address"
    VALUE = "value"
    DOT = "dot"


class LoopLoad(Struct, frozen=True):
    """A load of global memory in a loop.

    Attributes:
        loop: the innermost loop around it, by its index.
        uses: of its value, in the same iteration; none where it is loaded for a later one.
        waits_for: loads of the same iteration that deliver the indices of its address or mask.
    """

    op: TtgirOp
    loop: int
    uses: frozenset[Use]
    waits_for: tuple[TtgirOp, ...]


def loop_loads(flow: DataFlow) -> tuple[LoopLoad, ...]:
    """The loads that stand directly in a loop's body, in file order."""
    in_loops = []
    for op in flow.module.ops:
        loop = flow.loop[op.index]
        if loop is not None and op.parent == loop and op.name in LOADS:
            uses = frozenset[Use]() if op.name in LOADS_TO_LDS else _uses(flow, op)
            in_loops.append(LoopLoad(op, loop, uses, tuple(_loads_behind(flow, op, loop))))
    return tuple(in_loops)


def _uses(flow: DataFlow, load: TtgirOp) -> frozenset[Use]:
    """What the iteration of a load uses its value for."""
    ahead = [(value, False) for value in flow.results[load.index]]  # value, computed from it
    visited, uses = set[tuple[int, bool]](), set[Use]()
    while ahead:
        value, computed = ahead.pop()
        if (value, computed) in visited:
            continue
        visited.add((value, computed))
        for user in users_of(flow).get(value, ()):
            results = flow.results[user.index]
            if user.name in LOADS:
                uses.add(Use.ADDRESS)
            elif user.name in DOTS and value not in flow.operands[user.index][2:3]:
                uses.add(Use.DOT)
            elif user.name == "scf.yield":
                if computed:
                    uses.add(Use.VALUE)
            elif user.name in LOCAL_STORE:
                continue
            elif user.name in LOOPS or not results:
                uses.add(Use.VALUE)
            else:
                ahead += [(result, computed or user.name not in _UNCHANGED) for result in results]
    return frozenset(uses)


def _loads_behind(flow: DataFlow, load: TtgirOp, loop: int) -> Iterator[TtgirOp]:
    """The loads of an iteration that deliver indices for a load; none of earlier iterations."""

    def maker_of(value: int) -> TtgirOp | None:
        maker = flow.op(value)
        if maker is None or flow.loop[maker.index] != loop or maker.name in LOOPS:
            return None
        return None if maker.result_types[0].element.startswith(("f", "bf")) else maker

    def sources(value: int) -> Sequence[int]:
        maker = maker_of(value)
        if maker is None or maker.name in POINTER_LOADS:
            return ()
        return (*flow.operands[maker.index], *flow.carried.get(value, ()))  # branches of an `if`

    makers = map(maker_of, reached(flow.operands[load.index], sources))
    return (maker for maker in makers if maker is not None and maker.name in POINTER_LOADS)


def issued_ahead(loads: Sequence[LoopLoad], loop: int) -> bool:
    """Whether Triton pipelines a loop: one of its loads at least is for a later iteration."""
    return any(load.loop == loop and not load.uses for load in loads)


_EXTREMES: Final = frozenset(("max", "min", "umax", "umin", "fmax", "fmin"))


class _Access(Struct, frozen=True):
    """An access of global memory.

    Args:
        tensors: the values of pointers that it may go through, `ANY` among them.
        reads: whether it brings a value that is used.
        writes: whether it changes memory.
    """

    op: TtgirOp
    tensors: frozenset[int]
    reads: bool
    writes: bool
    loops: frozenset[int]

    def may_precede(self, other: _Access) -> bool:
        """Whether it may be carried out before another access."""
        return self.op.index < other.op.index or not self.loops.isdisjoint(other.loops)


class AtomicOrder:
    """What comes before and behind the atomics of a module.

    Attributes:
        is_needed: whether some tensor is written before an atomic and read behind one, or an atomic
            waits for what somebody else has written.
    """

    def __init__(self, module: TtgirModule) -> None:
        """Follows the pointers of all accesses."""
        flow = flow_of(module)
        self._accesses = list(_accesses(flow))
        self._atomics = {
            access.op.index: access
            for access in self._accesses
            if access.op.name in ATOMIC_RMW | ATOMIC_EXCHANGES
        }
        written, loaded, returned = set[int](), set[int](), set[int]()
        for atomic in self._atomics.values():
            for access in self._accesses:
                if access.op.index == atomic.op.index:
                    continue
                if access.writes and access.may_precede(atomic):
                    written |= access.tensors
                if access.reads and atomic.may_precede(access):
                    into = returned if access.op.index in self._atomics else loaded
                    into |= access.tensors
        # Of one tensor that atomics alone touch each element is in order by itself.
        self.is_needed = (
            _meet(written, loaded)
            or len(written & returned) > 1
            or any(_only_reads(flow, access) for access in self._atomics.values())
            or any(op.name == "tt.call" for op in module.ops)  # arguments of the function called
        )

    def may_signal(self, atomic: TtgirOp) -> bool:
        """Whether an atomic may tell another kernel that what is before it has been written."""
        own = self._atomics[atomic.index]
        result = atomic.result_types[0] if atomic.result_types else None
        counts = atomic.attributes.get("atomic_rmw_op") not in _EXTREMES
        if result is None or result.shape or own.reads or not counts:
            return False
        if result.text.startswith(("f", "bf")):
            return False
        return any(
            access.writes and access.op.index != atomic.index and access.may_precede(own)
            for access in self._accesses
        )


def _only_reads(flow: DataFlow, access: _Access) -> bool:
    """Whether an atomic adds nothing: it asks for a signal, which another kernel may give."""
    if not access.reads:
        return False
    atomic = access.op
    place = address_operands(atomic)
    for value in flow.operands[atomic.index][place : place + 1]:
        maker = maker_of(flow, value)
        while maker is not None and maker.name in PASSES_ON and flow.operands[maker.index]:
            maker = maker_of(flow, flow.operands[maker.index][0])
        if maker is not None and maker.name == "arith.constant":
            return undense(maker.attributes.get("value")) in (None, 0)
    return False


def _meet(written: set[int], read: set[int]) -> bool:
    if ANY in written or ANY in read:
        return bool(written) and bool(read)
    return not written.isdisjoint(read)


def _accesses(flow: DataFlow) -> Iterator[_Access]:
    used = {value for operands in flow.operands for value in operands}
    for op in flow.module.ops:
        is_atomic = op.name in ATOMIC_RMW or op.name in ATOMIC_EXCHANGES
        is_store = op.name in STORES
        if not (is_atomic or is_store or op.name in LOADS):
            continue
        yield _Access(
            op,
            tensors_of(flow, op),
            not is_store and (not is_atomic or not used.isdisjoint(flow.results[op.index])),
            is_atomic or is_store,
            loops_around(flow, op),
        )
