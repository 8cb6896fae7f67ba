"""Selections by position in loops of dots: masks of scores.

Iterations of a loop whose tile a mask of positions replaces as a whole, in a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from ..ttgir.axes.graph import SPREADS, ValueGraph, functions
from ..ttgir.evaluation import Evaluation
from ..ttgir.flow import DataFlow, flow_of, values_behind
from ..ttgir.queries import DOTS, constant_trips, integer_constants
from ..ttgir.redundant_work import DotTile, dot_tile_shapes

_COMPARE, _SELECT, _RANGE = "arith.cmpi", "arith.select", "tt.make_range"
_ORDERED: Final = frozenset(("slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))
_PASSES_ON: Final = frozenset(
    ("arith.andi", "arith.ori", "arith.xori", "tt.broadcast", "tt.expand_dims", "tt.reshape",
     "tt.splat", "tt.trans", "ttg.convert_layout")
)  # fmt: skip
"""Operations between a comparison and the selection by it."""
_INTEGER: Final = (
    "arith.addi", "arith.ceildivsi", "arith.constant", "arith.divsi", "arith.divui", "arith.extsi",
    "arith.extui", "arith.index_cast", "arith.maxsi", "arith.minsi", "arith.muli", "arith.remsi",
    "arith.remui", "arith.subi", "arith.trunci", "tt.broadcast", "tt.expand_dims",
    "tt.get_num_programs", "tt.get_program_id", "tt.make_range", "tt.splat", "ttg.convert_layout",
)  # fmt: skip
_FEW: Final = 2
"""Iterations of which one is likely to need the mask."""


class MaskedTile(Struct, frozen=True):
    """A selection by position in a loop of dots.

    Attributes:
        loop: the loop, by index.
        comparisons: the comparisons in the loop that it selects by.
        is_split: whether another loop multiplies tiles of the same shapes without such selections:
            that of the tiles that need none.
    """

    op: TtgirOp
    loop: int
    comparisons: tuple[TtgirOp, ...]
    is_split: bool


def masked_tiles(module: TtgirModule) -> list[MaskedTile]:
    """The selections by position in loops of dots, in file order.

    Loops that are known to have so few iterations that one of them needs the mask are left out.
    """
    names = {op.name for op in module.ops}
    if not names & DOTS or not {_COMPARE, _SELECT, _RANGE} <= names:
        return []
    flow = flow_of(module)
    selections = list(_selections(flow))
    if not selections:
        return []
    masked = {loop for _, loop, _ in selections}
    shapes = _dot_shapes(flow)
    plain = [shapes[loop] for loop in shapes if loop not in masked]
    constants = integer_constants(module)
    return [
        MaskedTile(op, loop, tuple(comparisons), any(shapes[loop] <= other for other in plain))
        for op, loop, comparisons in selections
        if (trips := constant_trips(module.ops[loop], constants)) is None or trips > _FEW
    ]


def _dot_shapes(flow: DataFlow) -> dict[int, frozenset[DotTile]]:
    """Loop of dots -> the shapes of these."""
    shapes: dict[int, frozenset[DotTile]] = {}
    for op in flow.module.ops:
        loop = flow.loop[op.index]
        if op.name in DOTS and loop is not None and loop in flow.dot_loops:
            tile = dot_tile_shapes(op)
            shapes[loop] = shapes.get(loop, frozenset()) | ({tile} if tile is not None else set())
    return shapes


def _selections(flow: DataFlow) -> Iterator[tuple[TtgirOp, int, list[TtgirOp]]]:
    """The selections, with their loops and comparisons."""
    for op in flow.module.ops:
        loop = flow.loop[op.index]
        if (
            op.name == _SELECT
            and loop is not None
            and loop in flow.dot_loops
            and op.result_types[0].kind == "tensor"
            and (op.result_types[0].element or "").startswith(("f", "bf"))
        ):
            comparisons = _comparisons(flow, loop, flow.operands[op.index][0])
            if comparisons:
                yield op, loop, [c for c in comparisons if flow.loop[c.index] == loop]


def _comparisons(flow: DataFlow, loop: int, condition: int) -> list[TtgirOp]:
    """The comparisons of positions that a condition is made of; none if of anything else."""
    comparisons: list[TtgirOp] = []
    moves = False
    ahead, visited = [condition], set[int]()
    while ahead:
        value = ahead.pop()
        if value in visited:
            continue
        visited.add(value)
        maker = flow.op(value)
        if value in flow.carried or maker is None:
            return []
        if maker.name in _PASSES_ON:
            ahead += flow.operands[maker.index]
        elif maker.name == "arith.constant":
            continue
        elif maker.name == _COMPARE and str(maker.attributes.get("predicate")) in _ORDERED:
            of_positions, of_loop = _positions(flow, loop, flow.operands[maker.index])
            if not of_positions:
                return []
            moves |= of_loop
            if maker.result_types[0].kind == "tensor":
                comparisons.append(maker)
        else:
            return []
    return comparisons if moves else []


def _positions(flow: DataFlow, loop: int, values: Sequence[int]) -> tuple[bool, bool]:
    """Whether values come from ranges and scalars alone, and whether the loop moves them."""
    is_range = moves = False
    arguments = flow.arguments.get(loop, ())
    for value, maker in values_behind(flow, values, ends=("tt.load",)):
        moves |= value in arguments
        if maker is None:
            continue
        if maker.name == _RANGE:
            is_range = True
        elif maker.name not in _INTEGER and (
            not maker.result_types or maker.result_types[0].kind == "tensor"
        ):
            return False, False
    return is_range, moves


if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MOST_PROGRAMS: Final = 8
_MOST_ITERATIONS: Final = 256
"""Of all these programs; of more, so many at equal distances are looked at."""
_LONGEST: Final = 1 << 20
_AT_ONCE: Final = 32
"""Iterations whose tiles are evaluated together."""
_SEEDS: Final = (5, 6)
"""What differs between them rests on values that are not known."""
_COPIES: Final = 8
"""How often a bound is evaluated with each seed: that unknown values agree by chance is no risk."""
_AXES: Final[Mapping[object, int]] = {"x": 0, "y": 1, "z": 2, 0: 0, 1: 1, 2: 2}


def wholly_masked(
    module: TtgirModule,
    tiles: Sequence[MaskedTile],
    arguments: Mapping[str, int],
    grid: Sequence[int],
) -> tuple[int, int] | None:
    """How many iterations have all their tiles masked, and of how many, of some programs.

    `tiles`: those of one loop; `grid`: workgroups along each dimension.

    Returns:
        None where the masks or the loop's bounds rest on more than positions and arguments.
    """
    indices = {tile.op.index for tile in tiles}
    for graph in functions(module):
        ops = {op.index: op for op in graph.ops}
        if indices <= ops.keys():
            launch = _Launch(graph, arguments, grid)
            return launch.masked(ops[tiles[0].loop], [ops[index] for index in indices])
    return None


class _Launch:
    """A function with its arguments and grid."""

    def __init__(
        self, graph: ValueGraph, arguments: Mapping[str, int], grid: Sequence[int]
    ) -> None:
        self._graph = graph
        self._arguments = {f"%{name}": value for name, value in arguments.items()}
        self._grid = (*grid, 1, 1, 1)[:3]

    def masked(self, loop: TtgirOp, selections: Sequence[TtgirOp]) -> tuple[int, int] | None:
        """See `wholly_masked`."""
        counter = self._counter(loop)
        masks = [self._mask(op) for op in selections]
        if counter is None or None in masks:
            return None
        iterations: list[tuple[int, int]] = []
        for program in self._programs():
            bounds = [self._known(name, [program] * _COPIES, {}) for name in loop.operands[:3]]
            if any(bound is None for bound in bounds):
                return None
            first, end, step = (int(bound.reshape(-1)[0]) for bound in bounds if bound is not None)
            count = max(0, -(-(end - first) // step)) if step > 0 else 0
            if not step or len(iterations) + count > _LONGEST:
                return None
            iterations += [(program, first + step * number) for number in range(count)]
        iterations = iterations[:: max(1, -(-len(iterations) // _MOST_ITERATIONS))]
        masked = 0
        for start in range(0, len(iterations), _AT_ONCE):
            part = iterations[start : start + _AT_ONCE]
            programs, at = [p for p, _ in part], {counter: [i for _, i in part]}
            idle = None
            for mask in masks:
                assert mask is not None
                condition = self._known(mask[0], programs, at)
                if condition is None:
                    return None
                rows = condition.reshape(len(condition), -1)
                own = (rows != 0 if mask[1] else rows == 0).all(1)
                idle = own if idle is None else idle & own
            if idle is not None:
                masked += int(idle.sum()) * (len(part) if len(idle) == 1 else 1)
        return (masked, len(iterations)) if iterations else None

    def _counter(self, loop: TtgirOp) -> str | None:
        """The value that counts a loop's iterations."""
        carried = self._graph.carried.items()
        return next(
            (name for name, each in carried if each.owner is loop and each.index == 0), None
        )

    def _mask(self, selection: TtgirOp) -> tuple[str, bool] | None:
        """The condition of a selection, and whether a constant is taken where it holds."""
        condition, taken, other = selection.operands
        constant = [self._is_constant(taken), self._is_constant(other)]
        return (condition, constant[0]) if sum(constant) == 1 else None

    def _is_constant(self, value: str) -> bool:
        op = self._graph.producers.get(value)
        while op is not None and op.name.rpartition(".")[2] in SPREADS:
            op = self._graph.producers.get(op.operands[0])
        return op is not None and op.name == "arith.constant"

    def _programs(self) -> Iterator[int]:
        """Programs all over the grid, as numbers with x counting fastest."""
        x, y, z = self._grid
        total = x * y * z
        count = min(total, MOST_PROGRAMS)
        yield from (dict.fromkeys(round(n * (total - 1) / max(1, count - 1)) for n in range(count)))

    def _known(
        self, name: str, programs: Sequence[int], at: Mapping[str, Sequence[int]]
    ) -> Array | None:
        """A value for each program, in each of some iterations; None where it is not known."""
        import numpy as np

        numbers = np.array(programs, np.int64)
        known = {
            key: np.full(len(numbers), each, np.int64) for key, each in self._arguments.items()
        }
        known |= {key: np.array(each, np.int64) for key, each in at.items()}
        x, y, _ = self._grid
        places = numbers % x, numbers // x % y, numbers // (x * y)
        for op in self._graph.ops:
            axis = _AXES.get(op.attributes.get("axis"))
            if axis is not None and op.name == "tt.get_program_id":
                known[op.results[0]] = places[axis]
            elif axis is not None and op.name == "tt.get_num_programs":
                known[op.results[0]] = np.full(len(numbers), self._grid[axis], np.int64)
        found = [Evaluation(self._graph, known, places[0], seed).value(name) for seed in _SEEDS]
        first = found[0]
        if first is None:
            return None
        is_same = all(other is not None and np.array_equal(first, other) for other in found)
        return first if is_same else None
