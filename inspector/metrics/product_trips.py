"""Ways of loaded values to the dots, and their trips through LDS.

A *trip* is a write to LDS and the read back: `local_alloc` or `local_store` with its `local_load`,
a copy from memory to LDS with its `local_load`, or a `convert_layout` that goes through LDS. One
trip is how an operand normally gets into the dot's layout. A loaded tile that is converted to the
layout of another one, to be combined with it, adds no trip of the operand: the other tile passes
LDS no more often for it. `conversions.py` covers those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..base.recent_results import kept_for_recent
from ..model import TtgirOp
from ..ttgir.conversions import CONVERSIONS, Movements, movements
from ..ttgir.flow import UNKNOWN, DataFlow
from ..ttgir.queries import (
    DOTS,
    LOADS_TO_LDS,
    LOCAL_ALLOCATIONS,
    LOCAL_LOAD,
    LOCAL_STORE,
    REGISTER_LOADS,
    VIEWS,
    in_dialects,
    is_tile,
)
from .triton_loads import same_iteration

_ELEMENTWISE = (
    "arith.",
    "math.",
    "tt.bitcast",
    "tt.clampf",
    "tt.extern_elementwise",
    "tt.fp_to_fp",
)
_UNCHANGED = CONVERSIONS | in_dialects("in_thread_transpose")
_SAME_ELEMENTS = _UNCHANGED | frozenset(
    (
        "arith.bitcast",
        "arith.extf",
        "arith.extsi",
        "arith.extui",
        "arith.sitofp",
        "arith.truncf",
        "arith.trunci",
        "arith.uitofp",
        "tt.bitcast",
        "tt.fp_to_fp",
        "tt.trans",
    )
)


class Way(Struct, frozen=True):
    """A way of a loaded value to a dot.

    Attributes:
        dot: the dot that multiplies it.
        trips: each trip's write and read; the same operation twice for a `convert_layout`.
    """

    load: TtgirOp
    dot: TtgirOp
    trips: tuple[tuple[TtgirOp, TtgirOp], ...]


class Staging(Struct, frozen=True):
    """The ways of operands to the dots in loops.

    Attributes:
        ways: for each load and dot the way with most trips.
        in_loop: loads in a loop with dots that reach a dot of that loop, in file order.
        unpipelined: those loads of `in_loop` that reach a dot of the same iteration.
        through_registers: those that are stored to LDS as they were loaded.
        computed: reads of LDS tiles in those loops that hold more than loaded elements in another
            type or order: unpacked integers, a product.
    """

    ways: tuple[Way, ...]
    in_loop: tuple[TtgirOp, ...]
    unpipelined: tuple[TtgirOp, ...]
    through_registers: tuple[TtgirOp, ...]
    computed: tuple[TtgirOp, ...]


_Steps = tuple[tuple[int, int], ...]
_State = Mapping[int, _Steps]
_NOTHING: _State = {}


@kept_for_recent
def staging(flow: DataFlow) -> Staging:
    """Follow every loaded value to the dots."""
    if not any(op.name in DOTS for op in flow.module.ops):
        return Staging((), (), (), (), ())
    walk = _TripWalk(flow, movements(flow))
    walk.run()
    walk.run()  # again, now that the values that loops carry are known
    ops = flow.module.ops
    ways = tuple(
        Way(ops[load], ops[dot], tuple((ops[w], ops[r]) for w, r in steps))
        for (load, dot), steps in walk.ways.items()
    )
    feeding = {
        way.load.index
        for way in ways
        if flow.in_dot_loop(way.load) and flow.loop[way.load.index] == flow.loop[way.dot.index]
    }

    def in_file_order(indices: Iterable[int]) -> tuple[TtgirOp, ...]:
        return tuple(ops[index] for index in sorted(indices))

    return Staging(
        ways,
        in_file_order(feeding),
        in_file_order(same_iteration(flow) & feeding),
        in_file_order(walk.stored_unchanged & feeding),
        in_file_order(index for index in walk.computed_reads if flow.in_dot_loop(ops[index])),
    )


class _TripWalk:
    """A pass over the operations that tracks for each value the loads it is computed from."""

    __slots__ = (
        "computed",
        "computed_reads",
        "fitted",
        "flow",
        "holds",
        "in_shape",
        "loaded",
        "movements",
        "products",
        "roots",
        "states",
        "stored_unchanged",
        "unchanged",
        "ways",
    )

    def __init__(self, flow: DataFlow, movements: Movements) -> None:
        count = len(flow.maker)
        self.flow = flow
        self.movements = movements
        self.products: set[int] = set()  # values that a dot's result went into
        self.states: list[_State] = [_NOTHING] * count
        self.roots: list[frozenset[int]] = [frozenset()] * count  # allocations behind a memdesc
        self.holds: dict[int, dict[int, _State]] = {}  # allocation -> writer -> what it wrote
        self.unchanged: dict[int, int] = {}  # value -> the load whose very value it is
        self.stored_unchanged: set[int] = set()
        self.loaded: set[int] = set()  # loaded elements, in whatever type and order
        self.computed: set[int] = set()  # allocations that hold something else
        self.computed_reads: set[int] = set()  # operations that read those
        self.in_shape: set[int] = set()  # loaded values that nothing but arithmetic has changed
        self.fitted: dict[int, int] = {}  # such a value -> the conversion that it came through
        self.ways: dict[tuple[int, int], _Steps] = {}

    def run(self) -> None:
        """Visits all operations in file order; loops need a second pass."""
        flow = self.flow
        self.computed.clear()
        self.computed_reads.clear()
        for value, sources in flow.carried.items():
            self._carry(value, sources)
        self._carry_shapes()
        for op in flow.module.ops:
            self._visit(op, flow.operands[op.index], flow.results[op.index])

    def _carry(self, value: int, sources: Sequence[int]) -> None:
        """Merges the sources of a value that control flow carries."""
        known_sources = [source for source in sources if source != UNKNOWN]
        self.states[value] = _merged([self.states[source] for source in known_sources])
        self.roots[value] = frozenset().union(*(self.roots[source] for source in known_sources))
        if not self.products.isdisjoint(known_sources):
            self.products.add(value)
        if not self.loaded.isdisjoint(known_sources):
            self.loaded.add(value)
        for source in known_sources:
            if source in self.unchanged:
                self.unchanged[value] = self.unchanged[source]

    def _carry_shapes(self) -> None:
        """Marks carried values that are loaded tiles; pipelined loops pass them on in turn."""
        known_sources = {
            value: [source for source in sources if source != UNKNOWN]
            for value, sources in self.flow.carried.items()
        }
        previous_size = -1
        while previous_size != len(self.in_shape):
            previous_size = len(self.in_shape)
            for value, sources in known_sources.items():
                if sources and self.in_shape.issuperset(sources):
                    self.in_shape.add(value)

    def _visit(self, op: TtgirOp, operands: Sequence[int], results: Sequence[int]) -> None:
        """Dispatches an operation by its effect on the tracked values."""
        name = op.name
        if name in DOTS:
            self._arrive(op, operands)
            self.products.update(results)
        elif name in LOADS_TO_LDS:
            for value, operand_type in zip(operands, op.operand_types, strict=True):
                if operand_type.kind == "memdesc":
                    self._write(op, value, {op.index: ()})
        elif name in LOCAL_STORE:
            if len(operands) > 1:
                self._write(op, operands[1], self._state(operands[0]))
                self._note_stored(operands[0], self._roots(operands[1]))
        elif not results:
            return
        elif name in REGISTER_LOADS:
            self.states[results[0]] = {op.index: ()}
            self.in_shape.add(results[0])
            self.loaded.add(results[0])
            self.unchanged[results[0]] = op.index
        elif name in LOCAL_ALLOCATIONS:
            self.roots[results[0]] = frozenset((op.index,))
            if operands:
                self.holds.setdefault(op.index, {})[op.index] = self._state(operands[0])
                self._note_stored(operands[0], self.roots[results[0]])
        elif name in VIEWS:
            self.roots[results[0]] = self._roots(operands[0])
        elif name in LOCAL_LOAD:
            self.states[results[0]] = self._read_lds(op, operands[0])
            if self.computed.isdisjoint(self._roots(operands[0])):
                self.loaded.add(results[0])
            else:
                self.computed_reads.add(op.index)
        elif results[0] in self.flow.carried:  # a loop's or branch's results
            for value in results:
                self._carry(value, self.flow.carried.get(value, ()))
        else:
            self._compute(op, operands, results)

    def _compute(self, op: TtgirOp, operands: Sequence[int], results: Sequence[int]) -> None:
        """Tracks the results of an operation that computes, converts or reshapes."""
        if op.result_types[0].kind != "tensor":
            return
        state = _merged(self._computed_with(op, operands, results))
        if not self.products.isdisjoint(operands):
            self.products.update(results)
            if len(operands) > 1:  # combined with a product it is no loaded tile any more
                state = dict.fromkeys(state, ())
        if state and self.movements.get(op.index) == "lds":
            step = (op.index, op.index)
            state = {load: (*steps, step) for load, steps in state.items()}
            if op.name in CONVERSIONS and operands[0] in self.in_shape:
                self.fitted[results[0]] = op.index
        for value in results:
            self.states[value] = state
        if op.name in _UNCHANGED and operands[0] in self.unchanged:
            self.unchanged[results[0]] = self.unchanged[operands[0]]
        if self._is_loaded(op, operands):
            self.loaded.add(results[0])

    def _is_loaded(self, op: TtgirOp, operands: Sequence[int]) -> bool:
        """Whether a result has the elements of a loaded tile, or of the default for masked ones."""
        if op.name == "arith.select":
            return not self.loaded.isdisjoint(operands[1:])
        return op.name in _SAME_ELEMENTS and operands[0] in self.loaded

    def _computed_with(
        self, op: TtgirOp, operands: Sequence[int], results: Sequence[int]
    ) -> list[_State]:
        """The operands' loads, without the conversion of one tile to the layout of another."""
        states = [self._state(value) for value in operands]
        if op.name not in CONVERSIONS and not op.name.startswith(_ELEMENTWISE):
            return states
        loaded = [k for k, state in enumerate(states) if state]
        if loaded and all(operands[k] in self.in_shape for k in loaded):
            self.in_shape.update(results)
        fitted = [k for k in loaded if operands[k] in self.fitted]
        unfitted = [k for k in loaded if k not in fitted and any(map(self._is_of_tile, states[k]))]
        for k in fitted:
            conversion = self.fitted[operands[k]]
            if any(states[k].keys() != states[operand_index].keys() for operand_index in unfitted):
                step = (conversion, conversion)
                states[k] = {
                    load: tuple(pair for pair in steps if pair != step)
                    for load, steps in states[k].items()
                }
            elif len(loaded) == 1:
                self.fitted.update(dict.fromkeys(results, conversion))
        return states

    def _is_of_tile(self, load: int) -> bool:
        op = self.flow.module.ops[load]
        return bool(op.result_types) and is_tile(op)

    def _arrive(self, op: TtgirOp, operands: Sequence[int]) -> None:
        """Records the ways that end at a dot."""
        for position, value in enumerate(operands):
            if position == 2:  # the accumulator
                continue
            for load, steps in self._state(value).items():
                key = (load, op.index)
                if len(steps) >= len(self.ways.get(key, ())):
                    self.ways[key] = steps

    def _write(self, op: TtgirOp, target: int, state: _State) -> None:
        for root in self._roots(target):
            self.holds.setdefault(root, {})[op.index] = state

    def _read_lds(self, op: TtgirOp, source: int) -> _State:
        states: list[_State] = []
        for root in self._roots(source):
            for writer, state in self.holds.get(root, {}).items():
                step = (writer, op.index)
                states.append({load: (*steps, step) for load, steps in state.items()})
        return _merged(states)

    def _note_stored(self, value: int, roots: frozenset[int]) -> None:
        if value in self.unchanged:
            self.stored_unchanged.add(self.unchanged[value])
        if value not in self.loaded:
            self.computed.update(roots)

    def _state(self, value: int) -> _State:
        return _NOTHING if value == UNKNOWN else self.states[value]

    def _roots(self, value: int) -> frozenset[int]:
        return frozenset() if value == UNKNOWN else self.roots[value]


def _merged(states: Sequence[_State]) -> _State:
    """The loads of several states, each with its longest way."""
    filled = [state for state in states if state]
    if len(filled) < 2:
        return filled[0] if filled else _NOTHING
    merged = dict(filled[0])
    for state in filled[1:]:
        for load, steps in state.items():
            if len(steps) >= len(merged.get(load, ())):
                merged[load] = steps
    return merged
