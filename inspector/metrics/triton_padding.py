"""Dots that multiply elements which are zero in every workgroup: padding to powers of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, Final

from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from ..ttgir.attrs import undense
from ..ttgir.axes.widths import tile_of
from ..ttgir.flow import DataFlow, flow_of
from ..ttgir.queries import (
    DOTS,
    INDEXED_VIEWS,
    LOADS_TO_LDS,
    LOCAL_ALLOCATIONS,
    LOCAL_LOAD,
    LOCAL_STORE,
    POINTER_LOADS,
    VIEWS,
    in_dialects,
    range_of,
)
from ..ttgir.redundant_work import dot_tile_shapes, dot_work
from ..ttgir.result_types import FUNCTIONS

_SMALLEST: Final = 16
"""Elements of the shortest side of a dot's tile, of 16-bit elements (triton.language.dot)."""
_RANGE, _COMPARE, _CONSTANT = "tt.make_range", "arith.cmpi", "arith.constant"
_COMPARED: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "slt": lt, "sle": le, "sgt": gt, "sge": ge, "ult": lt, "ule": le, "ugt": gt, "uge": ge,
}  # fmt: skip
_COMPUTED: Final[Mapping[str, Callable[[int, int], int]]] = {
    "arith.addi": add,
    "arith.muli": mul,
    "arith.subi": sub,
}
_SAME: Final = (
    in_dialects("convert_layout", "in_thread_transpose")
    | LOCAL_LOAD
    | {
        "arith.bitcast", "arith.extf", "arith.extsi", "arith.extui", "arith.negf",
        "arith.sitofp", "arith.truncf", "arith.trunci", "arith.uitofp", "tt.bitcast",
        "tt.fp_to_fp",
    }
)  # fmt: skip
"""Operations of one tile whose result is zero wherever the operand is."""
_EITHER: Final = frozenset(("arith.andi", "arith.mulf", "arith.muli"))
"""Operations whose result is zero where one of the operands is."""
_BOTH: Final = frozenset(
    (
        "arith.addf", "arith.addi", "arith.maximumf", "arith.maxnumf", "arith.ori", "arith.subf",
        "arith.subi",
    )
)  # fmt: skip
"""Operations whose result is zero where all operands are."""
_TRANSPOSED: Final = in_dialects("memdesc_trans") | {"tt.trans"}
_PASSES: Final = 3
"""Passes over a module: a tile that a loop carries, or that lies in a buffer of several stages, is
known once those that store it are."""
_Ends = tuple[int, ...]
"""Per dimension of a tile the first index from which on all elements are zero, or its extent."""


class Side(Struct, frozen=True):
    """A dimension of a dot.

    Args:
        name: `M`, `N` or `K`.
        extent: its elements.
        used: elements of it that are not padding.
        granule: the fewest elements that a tile can have there so that each wave has work.
    """

    name: str
    extent: int
    used: int
    granule: int


class PaddedDot(Struct, frozen=True):
    """A dot, and which part of it is padding.

    Args:
        sides: its dimensions M, N and K.
        in_loop: whether it stands in a loop of dots.
    """

    op: TtgirOp
    sides: tuple[Side, Side, Side]
    in_loop: bool

    @property
    def is_padded(self) -> bool:
        """Whether a part of it is known to be zero."""
        return any(side.used < side.extent for side in self.sides)


def padded_dots(module: TtgirModule, arguments: Mapping[str, int] | None = None) -> list[PaddedDot]:
    """All dots with known extents, if at least one of them has padding; else none.

    `arguments`: the whole numbers that a launch passes, by name.
    """
    names = {op.name for op in module.ops}
    if not names & DOTS or not {_RANGE, _COMPARE} <= names:
        return []
    flow = flow_of(module)
    masks = _fixed_masks(flow, arguments or {})
    if not masks:
        return []
    zeros = _Zeros(flow, masks)
    for _ in range(_PASSES):
        zeros.walk()
    dots = [dot for op in module.ops if op.name in DOTS and (dot := _dot(zeros, op)) is not None]
    return dots if any(dot.is_padded for dot in dots) else []


def _dot(zeros: _Zeros, op: TtgirOp) -> PaddedDot | None:
    tile = dot_tile_shapes(op)
    if tile is None:
        return None
    used_m, used_n, used_k = tile.m, tile.n, tile.k
    if op.name == "tt.dot":  # operands of scaled dots may be packed
        a, b = (zeros.ends_of(value) for value in zeros.flow.operands[op.index][:2])
        if a is not None:
            used_m, used_k = a[-2:]
        if b is not None:
            used_k, used_n = min(used_k, b[-2]), b[-1]
    work = dot_work(op)
    # A thin tile needs an instruction for each wave, by its other side.
    area = _SMALLEST**2 * (work.waves if work is not None else 1)
    depth = _SMALLEST
    if work is not None:
        depth = max(cover.instruction for cover in work.covers if cover.name == "K")
    return PaddedDot(
        op,
        (
            Side("M", tile.m, used_m, max(_SMALLEST, area // tile.n)),
            Side("N", tile.n, used_n, max(_SMALLEST, area // tile.m)),
            Side("K", tile.k, used_k, max(_SMALLEST, depth)),
        ),
        zeros.flow.in_dot_loop(op),
    )


def _fixed_masks(flow: DataFlow, arguments: Mapping[str, int]) -> dict[int, _Ends]:
    """The comparisons that are false from some index of their tile on, in every workgroup."""
    numbers: dict[int, tuple[int | None, Sequence[int]]] = {}  # value -> dimension, elements along
    masks: dict[int, _Ends] = {}
    for op in flow.module.ops:
        if op.name in FUNCTIONS:
            for name, value in flow.named_arguments(op).items():
                if name in arguments:
                    numbers[value] = None, (arguments[name],)
            continue
        if len(op.results) != 1:
            continue
        result, operands = flow.results[op.index][0], flow.operands[op.index]
        if op.name == _CONSTANT:
            constant = undense(op.attributes.get("value"))
            if isinstance(constant, int) and not isinstance(constant, bool):
                numbers[result] = None, (constant,)
        elif op.name == _RANGE:
            row = range_of(op)
            if row is not None:
                numbers[result] = 0, row
        elif not operands or any(value not in numbers for value in operands):
            continue
        elif op.name in _SAME or op.name in ("tt.broadcast", "tt.splat"):
            numbers[result] = numbers[operands[0]]
        elif op.name == "tt.expand_dims":
            dim, elements = numbers[operands[0]]
            axis = op.attributes.get("axis")
            if isinstance(axis, int):
                numbers[result] = None if dim is None else dim + (dim >= axis), elements
        elif op.name in _COMPUTED or op.name == _COMPARE:
            outcome = _combined(op, numbers[operands[0]], numbers[operands[1]])
            if outcome is None:
                continue
            if op.name != _COMPARE:
                numbers[result] = outcome
                continue
            dim, truths = outcome
            used = max((k + 1 for k, truth in enumerate(truths) if truth), default=0)
            shape = op.result_types[0].shape
            if dim is not None and dim < len(shape) and 0 < used < shape[dim] == len(truths):
                masks[result] = (*shape[:dim], used, *shape[dim + 1 :])
    return masks


def _combined(
    op: TtgirOp,
    left: tuple[int | None, Sequence[int]],
    right: tuple[int | None, Sequence[int]],
) -> tuple[int | None, Sequence[int]] | None:
    """Two rows of numbers, element by element; None where they lie along different dimensions."""
    compute: Callable[[int, int], Any] | None = _COMPUTED.get(op.name)
    (left_dim, left_row), (right_dim, right_row) = left, right
    if op.name == _COMPARE:
        predicate = str(op.attributes.get("predicate"))
        compute = _COMPARED.get(predicate)
        if predicate.startswith("u") and min(*left_row, *right_row) < 0:
            return None  # a large number, by its bits
    if compute is None or (
        left_dim is not None and right_dim is not None and left_dim != right_dim
    ):
        return None
    length = max(len(left_row), len(right_row))
    if {len(left_row), len(right_row)} - {1, length}:
        return None
    rows = (row if len(row) == length else [row[0]] * length for row in (left_row, right_row))
    dim = right_dim if left_dim is None else left_dim
    return dim, [compute(a, b) for a, b in zip(*rows, strict=True)]


class _Zeros:
    """The parts of a module's tiles that are zero."""

    __slots__ = ("ends", "flow", "masks", "stored")

    def __init__(self, flow: DataFlow, masks: Mapping[int, _Ends]) -> None:
        self.flow = flow
        self.masks = masks
        self.ends: dict[int, _Ends] = {}  # value -> its ends, where part of it is zero
        self.stored: dict[int, dict[int, _Ends | None]] = {}  # buffer -> store -> what it stores

    def walk(self) -> None:
        """Passes over the module once more, with what the passes before have shown."""
        flow = self.flow
        for value, sources in flow.carried.items():
            carried = [self.ends_of(source) for source in sources]
            self._learn(value, _all_zero(carried))
        for op in flow.module.ops:
            if op.name in LOADS_TO_LDS:
                for value, operand_type in zip(
                    flow.operands[op.index], op.operand_types, strict=False
                ):
                    if operand_type.kind == "memdesc":
                        self._store(value, op, self._loaded(op))
            elif op.name in LOCAL_STORE and len(op.operands) > 1:
                stored, buffer = flow.operands[op.index][:2]
                self._store(buffer, op, self.ends_of(stored))
            elif len(op.results) == 1 and op.result_types:
                self._learn(flow.results[op.index][0], self._result(op))

    def ends_of(self, value: int) -> _Ends | None:
        """The ends of a tile; None where no part is known to be zero."""
        return self.ends.get(value)

    def _learn(self, value: int, ends: _Ends | None) -> None:
        if ends is not None:
            self.ends[value] = ends

    def _store(self, buffer: int, op: TtgirOp, ends: _Ends | None) -> None:
        self.stored.setdefault(self._allocation(buffer), {})[op.index] = ends

    def _allocation(self, buffer: int) -> int:
        """The buffer of which a value is a part, or a later stage's view."""
        visited = set[int]()
        while buffer not in visited:
            visited.add(buffer)
            maker = self.flow.op(buffer)
            if buffer in self.flow.carried:
                buffer = self.flow.carried[buffer][0]
            elif maker is not None and maker.name in VIEWS:
                buffer = self.flow.operands[maker.index][0]
        return buffer

    def _loaded(self, op: TtgirOp) -> _Ends | None:
        """The ends of a loaded tile: what its mask leaves out is zero, or never looked at."""
        tile = tile_of(op)
        if tile is None or tile.mask is None:
            return None
        operands = self.flow.operands[op.index]
        position = op.operands.index(tile.mask)
        others = operands[position + 1 : position + 2]
        if others and op.operand_types[position + 1].kind == "tensor":
            constant = self.flow.op(others[0])
            if constant is None or not _is_zero(constant):
                return None
        return self.ends_of(operands[position])

    def _result(self, op: TtgirOp) -> _Ends | None:
        """The ends of an operation's result."""
        operands = self.flow.operands[op.index]
        result = self.flow.results[op.index][0]
        shape = op.result_types[0].shape
        if not shape:
            return None
        if op.name == _CONSTANT:
            return (0,) * len(shape) if _is_zero(op) else None
        if op.name == _COMPARE:
            return self.masks.get(result)
        if op.name in POINTER_LOADS:
            return self._loaded(op)
        if op.name in LOCAL_LOAD or op.name in VIEWS or op.name in LOCAL_ALLOCATIONS:
            return self._of_buffer(op, result, shape)
        inputs = [self.ends_of(value) for value in operands]
        if op.name in _SAME:
            return inputs[0] if inputs else None
        if op.name in _TRANSPOSED:
            return _transposed(op, inputs[0])
        if op.name == "tt.expand_dims" and inputs[0] is not None:
            axis = op.attributes.get("axis")
            return (*inputs[0][:axis], 1, *inputs[0][axis:]) if isinstance(axis, int) else None
        if op.name == "tt.broadcast" and inputs[0] is not None:
            before = op.operand_types[0].shape
            return tuple(
                end if old == new else new if end else 0
                for end, old, new in zip(inputs[0], before, shape, strict=True)
            )
        if op.name == "arith.select" and len(inputs) == 3:
            condition, chosen, other = inputs
            tensor_condition = op.operand_types[:1] and op.operand_types[0].kind == "tensor"
            either = _any_zero([condition if tensor_condition else None, chosen])
            return _all_zero([either, other])
        if op.name in _EITHER:
            return _any_zero(inputs)
        return _all_zero(inputs) if op.name in _BOTH else None

    def _of_buffer(self, op: TtgirOp, result: int, shape: Sequence[int]) -> _Ends | None:
        """The ends of a buffer in LDS, of a part of it, or of what is read from it."""
        operands = self.flow.operands[op.index]
        if op.name in LOCAL_ALLOCATIONS:
            if operands:
                return self.ends_of(operands[0])
            stored = list(self.stored.get(result, {}).values())
            ends = _all_zero(stored) if stored else None
            # One more dimension counts the stages.
            return ends if ends is None or len(ends) == len(shape) else (shape[0], *ends)
        ends = self.ends_of(operands[0])
        if ends is None or op.name in LOCAL_LOAD:
            return ends
        if op.name in _TRANSPOSED:
            return _transposed(op, ends)
        if op.name in INDEXED_VIEWS and len(ends) == len(shape) + 1:
            return ends[1:]
        return ends if tuple(op.operand_types[0].shape) == tuple(shape) else None


def _transposed(op: TtgirOp, ends: _Ends | None) -> _Ends | None:
    order = op.attributes.get("order")
    if ends is None or not isinstance(order, (tuple, list)) or len(order) != len(ends):
        return None
    return tuple(ends[dim] for dim in order)


def _is_zero(op: TtgirOp) -> bool:
    """Whether an operation is the constant zero."""
    constant = undense(op.attributes.get("value"))
    return op.name == _CONSTANT and isinstance(constant, (int, float)) and constant == 0


def _any_zero(inputs: Sequence[_Ends | None]) -> _Ends | None:
    """The ends of a tile that is zero where one of the inputs is."""
    known = [ends for ends in inputs if ends is not None]
    if not known or len({len(ends) for ends in known}) > 1:
        return None
    return tuple(min(sizes) for sizes in zip(*known, strict=True))


def _all_zero(inputs: Sequence[_Ends | None]) -> _Ends | None:
    """The ends of a tile that is zero where all inputs are."""
    known = [ends for ends in inputs if ends is not None]
    if not known or len(known) < len(inputs) or len({len(ends) for ends in known}) > 1:
        return None
    return tuple(max(sizes) for sizes in zip(*known, strict=True))
