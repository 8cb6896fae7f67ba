"""Which workgroups of a launch load the same tile, by the program ids that its address depends on.

The scalars that a load's address is made of are evaluated for all workgroups at once, in the first
iteration of the loops around it. Two workgroups for which all of them are equal load the same tile.
Nothing is said of a load whose address rests on values in memory, or on a quotient of what is not
known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from .conversions import tile_bytes
from .executions import MOST_WORKGROUPS, Numbers, computed, constant, in_range, program_number
from .flow import UNKNOWN, DataFlow, flow_of
from .opforms import FUNCTIONS
from .queries import LOADS

_MIXING: Final = frozenset(
    ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.andi", "arith.shrui",
     "arith.shrsi", "arith.minsi", "arith.maxsi", "arith.select", "arith.cmpi", "arith.xori")
)  # fmt: skip
"""Operations that may give several workgroups the same value from different ones."""
_ADDS: Final = frozenset(
    ("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci",
     "arith.index_cast", "tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims",
     "tt.make_range", "tt.make_tensor_descriptor", "tt.bitcast", "arith.constant",
     "ttg.convert_layout", "tt.get_num_programs")
)  # fmt: skip


class OperandTile(Struct, frozen=True):
    """The tiles that one load of global memory brings to the workgroups of a launch.

    Args:
        op: the load.
        size: bytes of a tile.
        number: by workgroup, the number of its tile: equal for those that load the same one.
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

    Args:
        module: a TTGIR with one function.
        arguments: name -> value of the known arguments.
        grid: workgroups along each dimension.
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
        self._initial: dict[int, int] = {}
        """Argument of a loop's body -> the value that it has in the first iteration."""
        self._of_launch: set[int] = set()
        """The function's arguments: the same for all workgroups."""

    def add(self, op: TtgirOp) -> None:
        """Takes an operation's result, or the arguments of its region, where they are known."""
        arguments = self._flow.arguments.get(op.index, ())
        if op.name in FUNCTIONS:
            self._of_launch.update(arguments)
            return
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
        values = []
        for value, name in zip(operands, op.operands, strict=False):
            known = self._known.get(value)
            if known is None and value in self._of_launch and name[1:] in self._arguments:
                argument = self._arguments[name[1:]]
                known = np.full(1, argument, np.int64) if in_range(argument) else None
            if known is None:
                return None
            values.append(known)
        return computed(op, values)

    def tile(self, op: TtgirOp, count: int) -> OperandTile | None:
        """The tiles of a load for `count` workgroups; None where they are not known."""
        size = _loaded_bytes(self._flow, op)
        keys: list[Numbers] = []
        if size is None or not self._collect(self._flow.operands[op.index], keys):
            return None
        number = np.zeros(count, np.int64)
        for key in keys:
            pairs = np.stack((number, np.broadcast_to(key, count)))
            number = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(count)
        return OperandTile(op, size, number, self._flow.loop[op.index] is not None)

    def _collect(self, addresses: tuple[int, ...], keys: list[Numbers]) -> bool:
        """Adds what differs between workgroups in some values; False where that is not known."""
        work = [(value, False) for value in addresses]
        visited: set[tuple[int, bool]] = set()
        while work:
            value, mixed = work.pop()
            if (value, mixed) in visited or value in self._of_launch:
                continue
            visited.add((value, mixed))
            known = self._known.get(value)
            if known is not None:
                if len(known) > 1 and mixed:
                    return False
                if len(known) > 1:
                    keys.append(known)
                continue
            if value in self._initial:
                work.append((self._initial[value], mixed))
                continue
            op = self._flow.op(value)
            if op is None or not op.result_types:
                return False
            of_result = op.result_types[0]
            if of_result.kind == "memdesc" or of_result.element == "i1":
                continue  # where a copy goes, or a mask
            is_scalar = of_result.kind == "scalar"
            if op.name not in _ADDS and not (op.name in _MIXING and len(op.results) == 1):
                return False
            mixed |= is_scalar and op.name in _MIXING
            work += [(operand, mixed) for operand in self._flow.operands[op.index]]
        return True


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
