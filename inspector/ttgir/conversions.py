"""The tiles that change their layout in loops with dots, and on their way from a dot to a store.

Most changes are `convert_layout` operations; of dots' operands Triton makes a `local_alloc` and a
`local_load`.

The movement of data by a `convert_layout`: between registers, between lanes, or through LDS.

Source: Triton 3.9, lib/Analysis/Utility.cpp (`minimalCvtLayout`, `cvtReordersRegisters`,
`cvtNeedsWarpShuffle`, `cvtNeedsSharedMemory`), which the AMD backend's allocation of LDS uses. A
conversion uses shuffles if it stays within the wave and exchanges at most one register bit for a
lane bit. The tests compare the outcome with the LDS that Triton allocates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..base.recent_results import kept_for_recent
from ..model import Layout, TtgirOp, TtgirType
from .flow import DataFlow, users_of
from .layouts import type_to_linear
from .linear import Basis, LinearLayout, rank, solve
from .lowered import element_bits
from .queries import DOTS, LOADS, LOCAL_ALLOCATIONS, LOOPS, STORES

_ATOMICS = frozenset(("tt.atomic_rmw", "amdg.buffer_atomic_rmw", "amdgpu.buffer_atomic_rmw"))
_LOCAL_LOADS = frozenset(("ttg.local_load", "triton_gpu.local_load"))
_SHAPES = frozenset(("tt.expand_dims", "tt.reshape", "tt.trans"))
_CASTS = frozenset(("arith.extf", "arith.sitofp", "arith.truncf", "arith.uitofp", "tt.fp_to_fp"))


class Conversion(Struct, frozen=True):
    """A tile that changes its layout.

    Attributes:
        op: the `convert_layout`, or the `local_alloc` that replaces one whose result is an operand
            of a dot.
        source, target: types before and after.
        movement: the movement of its data; None where a layout is not understood.
    """

    op: TtgirOp
    source: TtgirType
    target: TtgirType
    movement: Movement | None


def in_dot_loops(flow: DataFlow, moves: Movements) -> tuple[Conversion, ...]:
    """The changes of layout in the innermost loops of dots, in file order.

    They are `convert_layout` operations, and the `local_alloc` and `local_load` by which Triton
    replaces one whose result is an operand of a dot.
    """
    converted = [
        Conversion(op, op.operand_types[0], op.result_types[0], moves[op.index])
        for op in _in_dot_loops(flow)
    ]
    return tuple(
        sorted((*converted, *_exchanged(flow)), key=lambda conversion: conversion.op.index)
    )


def _exchanged(flow: DataFlow) -> list[Conversion]:
    """Tiles computed from a dot that reach another dot of the same loop through an LDS buffer."""
    readers: dict[int, list[TtgirOp]] = {}
    for op in flow.module.ops:
        if op.name in _LOCAL_LOADS and flow.operands[op.index]:
            readers.setdefault(flow.operands[op.index][0], []).append(op)
    exchanged: list[Conversion] = []
    for op in flow.module.ops:
        if op.name not in LOCAL_ALLOCATIONS or not op.operand_types or not flow.in_dot_loop(op):
            continue
        reads = readers.get(flow.results[op.index][0], ())
        source, operands = op.operand_types[0], flow.operands[op.index]
        if source.kind == "tensor" and reads and follows_dot(flow, operands):
            exchanged.append(Conversion(op, source, reads[0].result_types[0], "lds"))
    return exchanged


def _in_dot_loops(flow: DataFlow) -> tuple[TtgirOp, ...]:
    """The `convert_layout` operations whose innermost loop is that of a dot."""
    candidates = (op for op in flow.module.ops if op.name in CONVERSIONS and flow.in_dot_loop(op))
    return tuple(op for op in candidates if not (_stages_operand(flow, op) or _is_stored(flow, op)))


def _stages_operand(flow: DataFlow, op: TtgirOp) -> bool:
    """Whether a conversion's result is only multiplied, reshaped or cast, and is no product."""
    ahead = [flow.results[op.index][0]]
    while ahead:
        value = ahead.pop()
        for user in users_of(flow).get(value, ()):
            operands = flow.operands[user.index]
            if user.name in _SHAPES or user.name in _CASTS:
                ahead += flow.results[user.index]
            elif user.name not in DOTS or value in operands[2:]:
                return False
    return not follows_dot(flow, flow.operands[op.index])


def _is_stored(flow: DataFlow, op: TtgirOp) -> bool:
    """Whether a conversion's result is only reshaped, cast and written to memory."""
    ahead, is_written = [flow.results[op.index][0]], False
    while ahead:
        for user in users_of(flow).get(ahead.pop(), ()):
            if user.name in _SHAPES or user.name in _CASTS:
                ahead += flow.results[user.index]
            elif user.name in STORES or user.name in _ATOMICS:
                is_written = True
            else:
                return False
    return is_written


def follows_dot(flow: DataFlow, values: Sequence[int]) -> bool:
    """Whether values are computed from the result of a dot, in one iteration of its loop.

    Values that come out of an `if` are not followed, as Triton does not follow them where it looks
    for chains of dots. `axes.buffer_traffic.comes_from_dot` follows branches and all iterations.
    """
    return bool(_dots_behind(flow, values, {}))


def dots_behind(flow: DataFlow, values: Sequence[int]) -> tuple[TtgirOp, ...]:
    """The nearest dots whose results values are computed from, through `if`s as well."""
    return _dots_behind(flow, values, flow.carried)


def _dots_behind(
    flow: DataFlow, values: Sequence[int], carried: Mapping[int, Sequence[int]]
) -> tuple[TtgirOp, ...]:
    """The nearest dots behind values; `carried` has the values of control flow to follow."""
    ahead, visited = list(values), set[int]()
    dots_by_index: dict[int, TtgirOp] = {}
    while ahead:
        value = ahead.pop()
        maker = flow.op(value)
        if value in visited or maker is None or maker.name in LOADS or not flow.in_dot_loop(maker):
            continue
        visited.add(value)
        if maker.name in DOTS:
            dots_by_index[maker.index] = maker
        else:
            ahead += (*flow.operands[maker.index], *carried.get(value, ()))
    return tuple(dots_by_index.values())


class Outgoing(Struct, frozen=True):
    """A conversion between a dot and the store of its result.

    Attributes:
        stored: element type of the tile that is stored.
    """

    op: TtgirOp
    stored: str

    @property
    def wide(self) -> bool:
        """Whether more bits are converted than are stored."""
        moved_bits = element_bits(self.op.result_types[0].element)
        stored_bits = element_bits(self.stored)
        return moved_bits is not None and stored_bits is not None and moved_bits > stored_bits


def before_stores(flow: DataFlow) -> tuple[Outgoing, ...]:
    """Conversions of dots' results on their way to a store, outside of the dots' own loops.

    Only of tiles: rows' sums and maxima are small beside an accumulator.
    """
    outgoing: dict[int, Outgoing] = {}
    for store in flow.module.ops:
        data = _stored(store) if store.name in STORES else None
        if data is None:
            continue
        conversions, arrives = _back(flow, flow.operands[store.index][data])
        stored = store.operand_types[data].element
        for op in conversions if arrives else ():
            if sum(size > 1 for size in op.result_types[0].shape) > 1:
                outgoing.setdefault(op.index, Outgoing(op, stored))
    return tuple(outgoing[index] for index in sorted(outgoing))


def _stored(store: TtgirOp) -> int | None:
    """The position of the stored tensor among a store's operands; None where it is no tensor."""
    position = 1 if store.name == "tt.store" else 0
    if len(store.operand_types) <= position or store.operand_types[position].kind != "tensor":
        return None
    return position


def _back(flow: DataFlow, value: int) -> tuple[list[TtgirOp], bool]:
    """The conversions on the way back from a value, and whether a dot or its loop is reached."""
    conversions: list[TtgirOp] = []
    arrives = False
    visited: set[int] = set()
    ahead = [value]
    while ahead:
        source = ahead.pop()
        if source in visited or source < 0:
            continue
        visited.add(source)
        op = flow.op(source)
        if op is None:
            ahead += flow.carried.get(source, ())
        elif op.name in DOTS or op.index in flow.dot_loops:
            arrives = True
        elif op.name in LOOPS or source in flow.carried:
            ahead += flow.carried.get(source, ())
        elif op.result_types[0].kind == "tensor" and not flow.in_dot_loop(op):
            if op.name in CONVERSIONS:
                conversions.append(op)
            ahead += flow.operands[op.index]
    return conversions, arrives


def tile_bytes(tensor_type: TtgirType) -> int | None:
    """Bytes of a tensor; None where the size of its element type is not known."""
    bits = element_bits(tensor_type.element)
    if bits is None:
        return None
    count = 1
    for size in tensor_type.shape:
        count *= size
    return count * bits // 8


def layout_name(layout: Layout | None) -> str:
    """The short name of a layout: its alias, else its kind with its parent's name."""
    if layout is None:
        return "?"
    if layout.alias is not None:
        return layout.alias
    inner = f"({layout_name(layout.parent)})" if layout.parent is not None else ""
    return f"{layout.kind}{inner}"


Movement = Literal["registers", "lanes", "lds"]
Movements = Mapping[int, Movement | None]
"""Index of each `convert_layout` -> the movement of its data."""
CONVERSIONS = frozenset(("ttg.convert_layout", "triton_gpu.convert_layout"))
_MOST_EXCHANGES = 1


@kept_for_recent
def movements(flow: DataFlow) -> Movements:
    """The movement of each `convert_layout` of a module."""
    return {op.index: movement(op) for op in flow.module.ops if op.name in CONVERSIONS}


def movement(op: TtgirOp) -> Movement | None:
    """The movement of a `convert_layout`; None where a layout is not understood."""
    source, target = op.operand_types[0], op.result_types[0]
    if source.layout == target.layout:
        return "registers"
    source_layout, target_layout = type_to_linear(source), type_to_linear(target)
    if source_layout is None or target_layout is None:
        return None
    return movement_between(source_layout, target_layout)


def movement_between(source: LinearLayout, target: LinearLayout) -> Movement:
    """The movement of data from one layout to another.

    Each index bit of the target layout adds a step to the element's coordinates; the registers and
    lanes of the source layout that add the same step hold the data. A bit whose step no registers
    and lanes of the same wave add needs LDS.
    """
    bases = (*source.register, *source.lane)
    registers = (1 << len(source.register)) - 1
    wave_sources = [solve(v, bases) for v in _differences(source.warp, target.warp)]
    block_sources = [solve(v, bases) for v in _differences(source.block, target.block)]
    register_sources = [solve(v, bases) for v in target.register]
    if source.lane == target.lane:
        lane_sources: list[int | None] = [(registers + 1) << bit for bit in range(len(target.lane))]
    else:
        lane_sources = [solve(v, bases) for v in target.lane]
    if None in (*wave_sources, *block_sources, *register_sources, *lane_sources):
        return "lds"
    lane_parts = [index & ~registers for index in register_sources if index is not None]
    register_parts = [index & registers for index in lane_sources if index is not None]
    if any(index & registers for index in (*wave_sources, *block_sources) if index is not None):
        return "lds"  # each wave would have to send another register
    lanes_stay = all(index == (registers + 1) << bit for bit, index in enumerate(lane_sources))
    if lanes_stay and not any(lane_parts) and not any((*wave_sources, *block_sources)):
        return "registers"
    exchanged = max(_rank(lane_parts), _rank(register_parts))
    return "lanes" if exchanged <= _MOST_EXCHANGES else "lds"


def _rank(indices: Sequence[int]) -> int:
    return rank([(index & 0xFFFFFFFF,) for index in indices])


def _differences(source_bases: Sequence[Basis], target_bases: Sequence[Basis]) -> tuple[Basis, ...]:
    """The exclusive or of the two layouts' basis vectors, bit by bit; missing ones are zero."""
    longest = max(len(source_bases), len(target_bases))
    zero = (0,) * len((*source_bases, *target_bases)[0]) if longest else ()
    left_bases = (*source_bases, *(zero,) * (longest - len(source_bases)))
    right_bases = (*target_bases, *(zero,) * (longest - len(target_bases)))
    return tuple(
        tuple(a ^ b for a, b in zip(left_basis, right_basis, strict=True))
        for left_basis, right_basis in zip(left_bases, right_bases, strict=True)
    )
