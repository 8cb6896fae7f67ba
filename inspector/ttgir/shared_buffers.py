"""The buffers of a module in LDS: their sizes, where in the code each is alive, and the offsets of
their elements.

Triton gives an address to every `ttg.local_alloc` and a temporary buffer to every conversion of
layouts that goes through LDS, and lets buffers share addresses that are never alive together
(Triton 3.9, lib/Analysis/Allocation.cpp). The TTGIR has no addresses yet: the buffers alive at one
point add up to at least the kernel's LDS, but for padding and for the small exchanges of
reductions.

Swizzled and rotating layouts exchange groups of `vec` elements within a row by exclusive or with
the row's phase; padded ones insert gaps. The results equal Triton 3.9's: see the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..model import Layout, TtgirOp, TtgirType
from .conversions import movements, tile_bytes
from .flow import DataFlow, reached, receivers_of, users_of
from .linear import solve
from .matrix import cluster_bases, order_of, share_of_workgroup
from .queries import LOCAL_ALLOCATIONS

_FREES = frozenset(("ttg.local_dealloc", "triton_gpu.local_dealloc"))
Kind = Literal["pipelined", "operand", "exchange"]


class LdsAllocation(Struct, frozen=True):
    """A buffer in LDS.

    Args:
        op: the allocation, or the conversion that needs it.
        kind: `pipelined` for one that the stages of a loop share, `operand` for a tile that is
            stored at once, `exchange` for a conversion of layouts.
        copies: copies of the tile that it holds, one for each stage in flight.
        tile: shape of one copy, in elements.
        element: element type.
        size: bytes of all copies, without padding; None where the element type is unknown.
        first: index of the operation from which on it is alive.
        last: index of the last operation at which it is alive.
        in_loop: whether it is allocated in each iteration of a loop.
    """

    op: TtgirOp
    kind: Kind
    copies: int
    tile: tuple[int, ...]
    element: str
    size: int | None
    first: int
    last: int
    in_loop: bool


def shared_buffers(flow: DataFlow) -> tuple[LdsAllocation, ...]:
    """Every buffer of a module, in file order."""
    last_in_loop = _last_in_loop(flow)
    through_lds = movements(flow)
    buffers = []
    for op in flow.module.ops:
        is_exchange = through_lds.get(op.index) == "lds"
        if not (is_exchange or op.name in LOCAL_ALLOCATIONS) or not op.result_types:
            continue
        result_type = op.result_types[0]
        kind: Kind = "exchange" if is_exchange else "operand"
        copies, tile, last = 1, result_type.shape, op.index
        if not is_exchange:
            last = _last_use(flow, op, last_in_loop)
            if not flow.operands[op.index]:  # mutable: allocated without a value
                kind = "pipelined"
                copies, tile = _copies(result_type)
        buffers.append(
            LdsAllocation(
                op=op,
                kind=kind,
                copies=copies,
                tile=tile,
                element=result_type.element,
                size=tile_bytes(result_type),
                first=op.index,
                last=last,
                in_loop=flow.loop[op.index] is not None,
            )
        )
    return tuple(buffers)


def padded_bytes(memdesc: TtgirType) -> int | None:
    """Bytes of all copies of a buffer with their padding; None where its element type is unknown.

    There is no gap behind the last element (Triton 3.9, `PaddedSharedEncodingAttr`).
    """
    size = tile_bytes(memdesc)
    if size is None or memdesc.layout is None:
        return size
    elements = math.prod(memdesc.shape)
    gaps = sum((elements - 1) // interval * gap for interval, gap in gaps_of(memdesc.layout))
    return size + gaps * size // elements if elements else size


def at_the_peak(buffers: Sequence[LdsAllocation], total: int | None) -> tuple[LdsAllocation, ...]:
    """The buffers alive at the point where most bytes are, the largest first.

    A tile that is exchanged may pass in parts, so that its size is only a bound. Where buffers
    without an exchange make up the kernel's LDS to the byte, those are returned.

    Args:
        buffers: all buffers of the module.
        total: the kernel's LDS in bytes, if known.
    """
    starts = {buffer.first for buffer in buffers}
    alive = [
        [buffer for buffer in buffers if buffer.first <= index <= buffer.last]
        for index in sorted(starts)
    ]
    exact = [
        group
        for group in alive
        if _bytes(group) == total and all(b.kind != "exchange" for b in group)
    ]
    peak = max(exact or alive, key=_bytes, default=[])
    return tuple(sorted(peak, key=lambda buffer: (-(buffer.size or 0), buffer.first)))


def _bytes(buffers: Iterable[LdsAllocation]) -> int:
    return sum(buffer.size or 0 for buffer in buffers)


def _copies(memdesc: TtgirType) -> tuple[int, tuple[int, ...]]:
    """The number of tiles that an allocation without a value holds, and the shape of one."""
    rank = len(memdesc.layout.params.get("order", ())) if memdesc.layout is not None else 0
    if rank and len(memdesc.shape) == rank + 1:
        return memdesc.shape[0], memdesc.shape[1:]
    return (memdesc.shape[0], memdesc.shape[1:]) if len(memdesc.shape) > 2 else (1, memdesc.shape)


def _last_in_loop(flow: DataFlow) -> dict[int, int]:
    """Loop -> index of the last operation in it."""
    last: dict[int, int] = {}
    for op in flow.module.ops:
        enclosing = flow.loop[op.index]
        while enclosing is not None:
            last[enclosing] = op.index
            enclosing = flow.loop[enclosing]
    return last


def _last_use(flow: DataFlow, allocation: TtgirOp, last_in_loop: Mapping[int, int]) -> int:
    """The last operation that uses a buffer or a view of it; the end of a loop that uses it."""
    last = allocation.index
    for index in _uses(flow, flow.results[allocation.index][0]):
        if flow.module.ops[index].name in _FREES:
            return index
        last = max(last, _end(flow, allocation, index, last_in_loop))
    return last


def _uses(flow: DataFlow, buffer: int) -> Iterator[int]:
    """The operations that use a buffer, or a view of it."""
    users, receivers = users_of(flow), receivers_of(flow)

    def views(value: int) -> Iterator[int]:
        yield from receivers.get(value, ())
        for op in users.get(value, ()):
            results = zip(flow.results[op.index], op.result_types, strict=False)
            yield from (result for result, kind in results if kind.kind == "memdesc")

    return (op.index for value in reached([buffer], views) for op in users.get(value, ()))


def _end(flow: DataFlow, allocation: TtgirOp, index: int, last_in_loop: Mapping[int, int]) -> int:
    """The last operation of the outermost loop around a use but not around the buffer;
    or the use.
    """
    end = index
    buffer_loop = flow.loop[allocation.index]
    enclosing = flow.loop[index]
    while enclosing is not None and enclosing != buffer_loop:
        end = max(end, last_in_loop.get(enclosing, end))
        enclosing = flow.loop[enclosing]
    return end


_Offset = Callable[[Layout, tuple[int, ...], tuple[int, ...]], "int | None"]


def shared_offset(
    layout: Layout | None, shape: Sequence[int], coordinates: Sequence[int]
) -> int | None:
    """Offset of an element from the start of its buffer.

    Args:
        layout: swizzled_shared, amd_rotating_shared, padded_shared or shared_linear.
        shape: the buffer's shape, in elements; leading dimensions that the layout does not have
            (the buffers of a pipelined loop) are ignored.
        coordinates: the element's coordinates, one per dimension of the layout.

    Returns:
        The offset in elements, padding included, in the LDS of the workgroup (of a cluster) that
        holds the element; None for other layouts, for coordinates outside the shape, and where the
        parameters do not fit the shape.
    """
    offset = unpadded_offset(layout, shape, coordinates)
    if layout is None or offset is None:
        return None
    try:
        return offset + sum(offset // interval * padding for interval, padding in gaps_of(layout))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def gaps_of(layout: Layout) -> tuple[tuple[int, int], ...]:
    """(interval, padding) of a padded layout, in elements: gaps after each interval; ()
    for others.
    """
    return tuple(layout.params["intervals"]) if layout.kind == "padded_shared" else ()


def unpadded_offset(
    layout: Layout | None, shape: Sequence[int], coordinates: Sequence[int]
) -> int | None:
    """The offset without padding; arguments and None as for `shared_offset`.

    Where all sizes are powers of two it is linear: the exclusive or of the offsets of the
    coordinates' bits.
    """
    if layout is None:
        return None
    offset_of = _OFFSETS.get(layout.kind)
    position = tuple(coordinates)
    inner = tuple(shape[len(shape) - len(position) :])
    if offset_of is None or len(inner) != len(position) or not position:
        return None
    if any(not 0 <= coordinate < size for coordinate, size in zip(position, inner, strict=True)):
        return None
    try:
        inner = share_of_workgroup(inner, cluster_bases(layout, len(inner)))
        return offset_of(
            layout,
            inner,
            tuple(coordinate % size for coordinate, size in zip(position, inner, strict=True)),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None  # parameters that no Triton prints, e.g. of an edited file


def _strided(order: Sequence[int], shape: Sequence[int], position: Sequence[int]) -> int:
    offset, stride = 0, 1
    for dim in order:
        offset += position[dim] * stride
        stride *= shape[dim]
    return offset


def _swizzled(layout: Layout, shape: tuple[int, ...], position: tuple[int, ...]) -> int | None:
    if layout.params.get("hasLeadingOffset") or layout.params.get("transposed"):
        return None  # NVIDIA's tensor-core form of older dialects
    return _phased(layout, shape, position, rotating=False)


def _rotating(layout: Layout, shape: tuple[int, ...], position: tuple[int, ...]) -> int | None:
    return _phased(layout, shape, position, rotating=True)


def _phased(
    layout: Layout, shape: tuple[int, ...], position: tuple[int, ...], *, rotating: bool
) -> int | None:
    """The offset under a swizzle; a rotating one changes the phase with each block of rows."""
    order = order_of(layout, len(shape))
    if len(shape) == 1:
        return position[0]
    params = layout.params
    vec, per_phase, max_phase = params["vec"], params["perPhase"], params["maxPhase"]
    column, row = order[0], order[1]
    phase = position[row] // per_phase % max_phase
    if rotating:  # each block of max_phase rows starts with another phase
        phase ^= position[row] // (per_phase * max_phase) % max_phase
    swizzled = list(position)
    swizzled[column] ^= vec * phase % shape[column]
    return _strided(order, shape, swizzled)


def _linear(layout: Layout, shape: tuple[int, ...], position: tuple[int, ...]) -> int | None:
    offsets = layout.params["offset"]
    bases = (*offsets, *layout.params.get("block", ()))
    if any(len(basis) != len(position) for basis in bases):
        return None
    index = solve(position, bases)
    return None if index is None else index & ((1 << len(offsets)) - 1)


def _padded(layout: Layout, shape: tuple[int, ...], position: tuple[int, ...]) -> int | None:
    if "offset" in layout.params:
        return _linear(layout, shape, position)
    return _strided(order_of(layout, len(shape)), shape, position)


_OFFSETS: Mapping[str, _Offset] = {
    "amd_rotating_shared": _rotating,
    "padded_shared": _padded,
    "shared_linear": _linear,
    "swizzled_shared": _swizzled,
}
