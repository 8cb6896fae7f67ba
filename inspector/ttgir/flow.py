"""The origins of the values of a TTGIR module: definitions, and values carried by loops.

Names are resolved in file order, because MLIR lets sibling regions repeat names: the last
definition before a use is the visible one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from ..base.recent_results import kept_for_recent
from ..model import SourceLoc, TtgirModule, TtgirOp
from .queries import DOTS, LOADS, LOOPS
from .result_types import FUNCTIONS

UNKNOWN = -1
"""The value of a name that no operation before its use defines."""
_STAGES = "tt.num_stages"
_KEEPS_DISTINCT = frozenset(
    (
        "amdg.extract_slice",
        "arith.addi",
        "arith.extsi",
        "arith.extui",
        "arith.index_cast",
        "arith.muli",
        "arith.subi",
        "arith.trunci",
        "tt.addptr",
        "tt.broadcast",
        "tt.expand_dims",
        "tt.get_program_id",
        "tt.splat",
        "ttg.convert_layout",
    )
)


class DataFlow(Struct, frozen=True):
    """The values of a module, numbered, and their connections.

    Attributes:
        module: the module; operations are named by their index in `module.ops`.
        operands: per operation the values it uses, `UNKNOWN` where the text does not define them.
        results: per operation the values it defines.
        maker: per value the operation that defines it; the owner of the region for its arguments.
        carried: per value that control flow passes on (a loop's or branch's results, a loop's
            region arguments) the values it may be.
        arguments: per function or loop the values that its first region begins with.
        loop: per operation the innermost loop around it, None outside of loops.
        dot_loops: the loops that are the innermost one of a dot, not counting copies of an inner
            loop's dot that pipelining peels off into an outer one.
    """

    module: TtgirModule
    operands: Sequence[tuple[int, ...]]
    results: Sequence[tuple[int, ...]]
    maker: Sequence[int]
    carried: Mapping[int, Sequence[int]]
    arguments: Mapping[int, tuple[int, ...]]
    loop: Sequence[int | None]
    dot_loops: frozenset[int]

    def op(self, value: int) -> TtgirOp | None:
        """The operation that makes a value; None for region arguments and unknown values."""
        if value == UNKNOWN:
            return None
        maker = self.maker[value]
        return self.module.ops[maker] if value in self.results[maker] else None

    def named_arguments(self, function: TtgirOp) -> dict[str, int]:
        """Name of a function's argument -> its value."""
        names = (name[1:] for name in function.attributes["block_args"][0])
        return dict(zip(names, self.arguments.get(function.index, ()), strict=False))

    def argument_name(self, value: int) -> str:
        """The name of a function's argument."""
        named = self.named_arguments(self.module.ops[self.maker[value]])
        return next(name for name, argument in named.items() if argument == value)

    def in_dot_loop(self, op: TtgirOp) -> bool:
        """Whether an operation's innermost loop is that of a dot."""
        return self.loop[op.index] in self.dot_loops

    def loop_stages(self, op: TtgirOp) -> int | None:
        """The pipeline stages that an operation's loop states itself (`tl.range`)."""
        loop = self.loop[op.index]
        stages = None if loop is None else self.module.ops[loop].attributes.get(_STAGES)
        return stages if isinstance(stages, int) else None


@kept_for_recent
def users_of(flow: DataFlow) -> Mapping[int, Sequence[TtgirOp]]:
    """Value -> the operations that use it, in file order."""
    users: dict[int, list[TtgirOp]] = {}
    for op in flow.module.ops:
        for value in flow.operands[op.index]:
            users.setdefault(value, []).append(op)
    return users


@kept_for_recent
def receivers_of(flow: DataFlow) -> Mapping[int, Sequence[int]]:
    """Value -> those that control flow passes it on to."""
    receivers: dict[int, list[int]] = {}
    for receiver, sources in flow.carried.items():
        for source in sources:
            receivers.setdefault(source, []).append(receiver)
    return receivers


_Stop = TypeVar("_Stop", bound=Hashable)


def reached(
    starts: Iterable[_Stop], onwards: Callable[[_Stop], Iterable[_Stop]]
) -> Iterator[_Stop]:
    """Yields each stop of a walk once: where it starts, and what lies `onwards` of a stop.

    Values that are `UNKNOWN` are no stops. What lies onwards is asked for behind the yield.
    """
    ahead, visited = list(starts), set[_Stop]()
    while ahead:
        stop = ahead.pop()
        if stop not in visited and stop != UNKNOWN:
            visited.add(stop)
            yield stop
            ahead += onwards(stop)


def rests_on_loads(flow: DataFlow, op: TtgirOp) -> bool:
    """Whether the operands of an operation are computed from loaded values."""
    makers = (maker for _, maker in values_behind(flow, flow.operands[op.index]))
    return any(maker is not None and maker.name in LOADS for maker in makers)


def values_behind(
    flow: DataFlow, values: Iterable[int], ends: Container[str] = ()
) -> Iterator[tuple[int, TtgirOp | None]]:
    """Yields what values are computed from, themselves first and the nearest before the others.

    Args:
        flow: of their module.
        values: where to begin.
        ends: names of operations whose operands are not followed.

    Yields:
        Each value once, with the operation that makes it: None for `UNKNOWN`, for a region's
        arguments and for what control flow passes on.
    """
    ahead, visited = deque(values), set[int]()
    while ahead:
        value = ahead.popleft()
        if value in visited:
            continue
        visited.add(value)
        carried = flow.carried.get(value)
        maker = flow.op(value) if carried is None else None
        yield value, maker
        ahead += carried or ()
        if maker is not None and maker.name not in ends:
            ahead += flow.operands[maker.index]


def program_axes(module: TtgirModule) -> frozenset[str]:
    """The axes of the grid (`x`, `y`, `z`) along which a module reads its program's index."""
    return frozenset(axis for op in module.ops if (axis := _program_axis(op)) is not None)


def distinct_program_axes(flow: DataFlow, values: Sequence[int]) -> frozenset[str]:
    """Axes of the grid along which all programs have different values.

    Sums and products keep programs distinct; a quotient, a remainder, a comparison or anything else
    may give several of them the same value.

    `values`: the values in question, such as addresses.
    """
    distinct, merged = set[str](), set[str]()

    def sources(stop: tuple[int, bool]) -> Iterator[tuple[int, bool]]:
        value, is_distinct = stop
        maker = flow.op(value) if value not in flow.carried else None
        is_kept = maker is None or maker.name in _KEEPS_DISTINCT
        behind = flow.carried.get(value, ()) if maker is None else flow.operands[maker.index]
        return ((source, is_distinct and is_kept) for source in behind)

    for value, is_distinct in reached([(value, True) for value in values], sources):
        maker = flow.op(value) if value not in flow.carried else None
        axis = _program_axis(maker) if maker is not None else None
        if axis is not None:
            (distinct if is_distinct else merged).add(axis)
    return frozenset(distinct - merged)


def _program_axis(op: TtgirOp) -> str | None:
    return str(op.attributes.get("axis")) if op.name == "tt.get_program_id" else None


@kept_for_recent
def flow_of(module: TtgirModule) -> DataFlow:
    """Numbers the values of a module in one pass over its operations."""
    builder = _Builder(module)
    for op in module.ops:
        builder.add(op)
    return DataFlow(
        module,
        builder.operands,
        builder.results,
        builder.maker,
        builder.carried,
        {index: regions[0] for index, regions in builder.arguments.items()},
        builder.loop,
        _dot_loops(module, builder.loop),
    )


def _dot_loops(module: TtgirModule, loop: Sequence[int | None]) -> frozenset[int]:
    """The loops that are the innermost one of a dot; see `DataFlow.dot_loops`."""
    inside: dict[int, set[SourceLoc | None]] = {}  # loop -> positions of its dots
    for op in module.ops:
        enclosing = loop[op.index]
        if op.name in DOTS and enclosing is not None:
            inside.setdefault(enclosing, set()).add(op.loc)
    inner: dict[int, set[SourceLoc | None]] = {}  # loop -> positions of the dots in its inner loops
    for index, places in inside.items():
        outer = loop[index]
        while outer is not None:
            inner.setdefault(outer, set()).update(places - {None})
            outer = loop[outer]
    return frozenset(index for index in inside if inside[index] - inner.get(index, set()))


class _Builder:
    """Numbers values and connects them, operation by operation."""

    __slots__ = (
        "arguments",
        "carried",
        "loop",
        "maker",
        "module",
        "names",
        "operands",
        "results",
    )

    def __init__(self, module: TtgirModule) -> None:
        self.module = module
        self.names: dict[str, int] = {}
        self.operands: list[tuple[int, ...]] = []
        self.results: list[tuple[int, ...]] = []
        self.maker: list[int] = []
        self.carried: dict[int, list[int]] = {}
        self.arguments: dict[int, list[tuple[int, ...]]] = {}  # per owner, per region
        self.loop: list[int | None] = []

    def add(self, op: TtgirOp) -> None:
        """Adds the next operation of the module."""
        get = self.names.get
        operands = tuple([get(name, UNKNOWN) for name in op.operands])
        self.operands.append(operands)
        enclosing = None
        if op.parent is not None:
            owner = self.module.ops[op.parent]
            enclosing = op.parent if owner.name in LOOPS else self.loop[op.parent]
        self.loop.append(enclosing)
        if op.name in FUNCTIONS:
            self.names.clear()
        self.results.append(self._define(op.results, op.index))
        if "block_args" in op.attributes:
            regions = op.attributes["block_args"]
            if op.name == "scf.while":  # the second region's arguments begin at its condition
                self.arguments[op.index] = [self._define(regions[0], op.index)]
                self._connect(self.arguments[op.index][0], operands)
            else:
                region_arguments = [self._define(names, op.index) for names in regions]
                self.arguments[op.index] = region_arguments
                if op.name == "scf.for":
                    self._enter_for(op, operands, region_arguments[0])
        elif op.name in ("scf.yield", "scf.condition") and op.parent is not None:
            self._leave(op, self.module.ops[op.parent], operands)

    def _define(self, names: Sequence[str], maker: int) -> tuple[int, ...]:
        start = len(self.maker)
        values = tuple(range(start, start + len(names)))
        self.maker.extend([maker] * len(names))
        self.names.update(zip(names, values, strict=True))
        return values

    def _connect(self, receivers: Sequence[int], values: Sequence[int]) -> None:
        for receiver, value in zip(receivers, values, strict=False):
            self.carried.setdefault(receiver, []).append(value)

    def _enter_for(
        self, op: TtgirOp, operands: tuple[int, ...], arguments: tuple[int, ...]
    ) -> None:
        """Connects the initial values of a loop to its arguments and results."""
        initial = operands[len(operands) - len(op.results) :] if op.results else ()
        self._connect(arguments[1:], initial)
        self._connect(self.results[op.index], initial)  # where the loop has no iteration

    def _leave(self, op: TtgirOp, owner: TtgirOp, values: tuple[int, ...]) -> None:
        """Connects the values at a region's end to the owner's results and next iteration."""
        results, arguments = self.results[owner.index], self.arguments.get(owner.index)
        if op.name == "scf.condition":
            self._connect(results, values[1:])
            regions = owner.attributes.get("block_args", ())
            if len(regions) > 1 and arguments is not None:
                arguments.append(self._define(regions[1], owner.index))
                self._connect(arguments[1], values[1:])
        elif owner.name == "scf.while":
            self._connect(arguments[0] if arguments else (), values)
        elif owner.name == "scf.for":
            self._connect(arguments[0][1:] if arguments else (), values)
            self._connect(results, values)
        elif owner.name == "scf.if":
            self._connect(results, values)
