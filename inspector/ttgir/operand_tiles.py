"""Which workgroups of a launch load the same tile, by the program ids that its address depends
on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from .attrs import undense
from .axes.widths import tile_of
from .conversions import tile_bytes
from .executions import MOST_WORKGROUPS, Numbers, computed, constant, in_range, program_number
from .flow import UNKNOWN, DataFlow, flow_of
from .queries import LOADS
from .result_types import FUNCTIONS

_MIXING: Final = frozenset(
    ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.andi", "arith.shrui",
     "arith.shrsi", "arith.minsi", "arith.maxsi", "arith.select", "arith.cmpi", "arith.xori")
)  # fmt: skip
"""Operations that may give several workgroups the same value from different ones."""
_ADDS: Final = frozenset(
    ("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci",
     "arith.index_cast", "tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims",
     "tt.make_range", "tt.make_tensor_descriptor", "tt.bitcast", "arith.constant",
     "ttg.convert_layout")
)  # fmt: skip
_LINEAR: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "tt.addptr": np.add,
}
_SAME: Final = _ADDS - {"tt.make_tensor_descriptor", "tt.bitcast"}
"""Operations of one operand that have its value."""
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_Draws = np.ndarray[Any, np.dtype[np.uint64]]
"""A number for each workgroup, or one for all of them, modulo 2^64."""
_Place = tuple[int, tuple[int, ...]]
"""A value, and which dimensions of the load's tile its own dimensions are."""


class OperandTile(Struct, frozen=True):
    """The tiles that one load of global memory brings to the workgroups of a launch.

    Args:
        size: bytes of a tile.
        number: by workgroup, the number of its tile: equal for those that load the same one, and
            for other loads that bring it.
        in_loop: whether the load is in a loop.
    """

    op: TtgirOp
    size: int
    number: Numbers
    in_loop: bool


def operand_tiles(
    module: TtgirModule, arguments: Mapping[str, int], grid: tuple[int, ...]
) -> Iterator[tuple[TtgirOp, OperandTile | None]]:
    """Yields each load of a tensor with its tiles; None where they are not known.

    `arguments`: name -> value of the known arguments; `grid`: workgroups along each dimension.
    """
    columns, rows, layers = (*grid, 1, 1, 1)[:3]
    count = columns * rows * layers
    if len(module.functions) != 1 or not 0 < count <= MOST_WORKGROUPS:
        return
    values = _Values(flow_of(module), arguments, (columns, rows, layers))
    for op in module.ops:
        values.add(op)
        if op.name in LOADS:
            yield op, values.tile(op, count)


class _Values:
    """The scalars of a function that are known, by the number that `DataFlow` gives each value."""

    def __init__(
        self, flow: DataFlow, arguments: Mapping[str, int], extents: tuple[int, int, int]
    ) -> None:
        self._flow = flow
        self._arguments = arguments
        self._extents = extents
        self._known: dict[int, Numbers] = {}
        self._drawn: dict[int, _Draws] = {}
        """The function's arguments: the same for all workgroups."""
        self._initial: dict[int, int] = {}
        """Argument of a loop's body -> the value that it has in the first iteration."""

    def add(self, op: TtgirOp) -> None:
        """Takes an operation's result, or the arguments of its region, where they are known."""
        if op.name in FUNCTIONS:
            for name, value in self._flow.named_arguments(op).items():
                argument = self._arguments.get(name)
                if argument is not None and in_range(argument):
                    self._known[value] = np.full(1, argument, np.int64)
                self._drawn[value] = _draw(value)
            return
        arguments = self._flow.arguments.get(op.index, ())
        operands = self._flow.operands[op.index]
        if op.name == "scf.for":
            initial = (operands[0], *operands[3:]) if len(operands) >= 3 else ()
            self._initial.update(zip(arguments, initial, strict=False))
        elif op.name == "scf.while":
            self._initial.update(zip(arguments, operands, strict=False))
        for argument in arguments:
            known = self._known.get(self._initial.get(argument, UNKNOWN))
            if known is not None:
                self._known[argument] = known
        if arguments or len(op.results) != 1 or not op.result_types:
            return
        if op.result_types[0].kind == "scalar":
            result = self._result(op, operands)
            if result is not None and in_range(result):
                self._known[self._flow.results[op.index][0]] = result

    def _result(self, op: TtgirOp, operands: tuple[int, ...]) -> Numbers | None:
        if not operands:
            return (
                constant(op) if op.name == "arith.constant" else program_number(op, self._extents)
            )
        values = [self._known.get(value) for value in operands]
        known = [value for value in values if value is not None]
        return computed(op, known) if len(known) == len(values) else None

    def tile(self, op: TtgirOp, count: int) -> OperandTile | None:
        """The tiles of a load for `count` workgroups; None where they are not known."""
        size = _loaded_bytes(self._flow, op)
        if size is None:
            return None
        moved, parts = tile_of(op), list[_Draws]()
        for value, name, kind in zip(
            self._flow.operands[op.index], op.operands, op.operand_types, strict=False
        ):
            if kind.kind == "memdesc" or kind.element == "i1":
                continue  # where a copy goes, or a mask
            if moved is not None and name not in (moved.pointer, moved.offsets):
                continue
            part = self._address((value, tuple(range(len(kind.shape)))))
            if part is None:
                return None
            parts.append(part)
        shape = moved and (moved.tensor_type.shape, moved.element)
        address = sum(parts, np.zeros(1, np.uint64)) if moved else _mixed("descriptor", parts)
        number = np.broadcast_to(_mixed((size, shape), [address]), count).view(np.int64)
        return OperandTile(op, size, number, self._flow.loop[op.index] is not None)

    def _address(self, root: _Place) -> _Draws | None:
        """What an address amounts to in each workgroup; None where that is not known."""
        drawn: dict[_Place, _Draws | None] = {}
        work: list[tuple[_Place, bool]] = [(root, False)]
        while work:
            place, is_ready = work.pop()
            if place in drawn and not is_ready:
                continue
            value, dims = place
            known, op = self._known.get(value), self._flow.op(value)
            drawn[place] = self._drawn.get(value) if known is None else known.view(np.uint64)
            if drawn[place] is not None:
                continue
            if value in self._initial:
                sources = [(self._initial[value], dims)]
            elif op is None or not op.result_types or op.name not in _ADDS | _MIXING:
                return None
            else:
                dims = _source_dims(op, dims)
                sources = [(operand, dims) for operand in self._flow.operands[op.index]]
            if not is_ready:
                work += [(place, True), *((source, False) for source in sources)]
                continue
            parts = [part for source in sources if (part := drawn.get(source)) is not None]
            if len(parts) < len(sources) or (
                op is not None
                and op.name in _MIXING
                and op.result_types[0].kind == "scalar"
                and any(len(part) > 1 for part in parts)
            ):
                return None
            drawn[place] = parts[0] if op is None else _combined(op, parts, dims)
        return drawn[root]


def _source_dims(op: TtgirOp, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Which dimensions of the load's tile those of an operation's operands are."""
    if op.name == "tt.expand_dims":
        axis = op.attributes.get("axis")
        return tuple(dim for at, dim in enumerate(dims) if at != axis)
    return () if op.name == "tt.splat" else dims


def _combined(op: TtgirOp, parts: Sequence[_Draws], dims: tuple[int, ...]) -> _Draws:
    """What an operation makes of its operands."""
    if op.name in _LINEAR and len(parts) == 2:
        result: _Draws = _LINEAR[op.name](*parts)
        return result
    if op.name == "tt.make_range":
        return _integer(op.attributes.get("start")) + _draw("lane", dims)
    if op.name == "arith.constant":
        return _integer(undense(op.attributes.get("value")))
    if op.name in _SAME and parts:
        return parts[0]
    return _mixed((op.name, sorted(op.attributes.items())), parts)


def _integer(value: object) -> _Draws:
    return np.full(1, value % 2**64, np.uint64) if isinstance(value, int) else _draw(value)


def _mixed(what: object, parts: Sequence[_Draws]) -> _Draws:
    """A number for each list of parts, of which nothing else is known."""
    mixed = _draw(what)
    for part in parts:
        mixed = (mixed ^ part) * _ODD
        mixed = mixed ^ mixed >> np.uint64(29)
    return mixed


def _draw(*what: object) -> _Draws:
    """An odd number of 64 bits that stands for something unknown, the same in every run."""
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    drawn: _Draws = np.frombuffer(digest, np.uint64) | np.uint64(1)
    return drawn


def _loaded_bytes(flow: DataFlow, op: TtgirOp) -> int | None:
    """Bytes that a load brings to a workgroup; None for a scalar, or where that is not known."""
    types = [of_result for of_result in op.result_types if of_result.kind == "tensor"]
    if not types:  # into LDS: as much as the buffer that it fills
        makers = (flow.op(value) for value in flow.operands[op.index])
        types = [
            maker.result_types[0]
            for maker in makers
            if maker is not None and maker.result_types and maker.result_types[0].kind == "memdesc"
        ]
    return tile_bytes(types[0]) if types else None
