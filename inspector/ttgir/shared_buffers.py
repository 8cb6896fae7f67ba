"""The buffers of a module in LDS: their sizes, and where in the code each is alive.

Triton gives an address to every `ttg.local_alloc` and a temporary buffer to every conversion of
layouts that goes through LDS, and lets buffers share addresses that are never alive together
(Triton 3.9, lib/Analysis/Allocation.cpp). The TTGIR has no addresses yet: the buffers alive at one
point add up to at least the kernel's LDS, but for padding and for the small exchanges of
reductions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..model import TtgirOp, TtgirType
from .conversions import tile_bytes
from .flow import DataFlow, reached, receivers_of, users_of
from .movements import movements
from .queries import LOCAL_ALLOCATIONS
from .shared_layouts import gaps_of

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
