"""Selections by position in loops of dots: masks of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from .flow import DataFlow, flow_of, values_behind
from .matrix_work import DotTile, dot_tile_shapes
from .queries import DOTS, constant_trips, integer_constants

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
