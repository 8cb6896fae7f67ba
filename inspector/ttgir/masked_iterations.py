"""Iterations of a loop whose tile a mask of positions replaces as a whole, in a launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..model import TtgirModule, TtgirOp
from .axes.graph import SPREADS, ValueGraph, functions
from .evaluation import Evaluation
from .position_masks import MaskedTile

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
