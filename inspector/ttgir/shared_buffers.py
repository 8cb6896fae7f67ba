"""What a module keeps in LDS: each buffer, its size, and where in the code it is alive.

Triton gives an address to every `ttg.local_alloc` and a passing buffer to every conversion of
layouts that goes through LDS, and lets buffers share addresses that are never alive together
(Triton 3.9, lib/Analysis/Allocation.cpp). The TTGIR that it keeps has no addresses yet: what is
alive at the same place adds up to at least what the kernel is given, but for padding and for the
small exchanges of reductions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..model import TtgirOp, TtgirType
from .conversions import movements, tile_bytes
from .flow import Flow

ALLOCATIONS = frozenset(("ttg.local_alloc", "triton_gpu.local_alloc"))
_FREES = frozenset(("ttg.local_dealloc", "triton_gpu.local_dealloc"))
Kind = Literal["pipelined", "operand", "exchange"]


class SharedBuffer(Struct, frozen=True):
    """A buffer in LDS.

    Args:
        op: the allocation, or the conversion that needs it.
        kind: `pipelined` for one that a loop's stages take turns in, `operand` for a tile that is
            put there as a whole, `exchange` for the passage of a conversion of layouts.
        copies: of the tile that it holds, one for each stage that is under way.
        tile: shape of one copy, in elements.
        element: element type.
        size: bytes of all copies, without padding; None where the element type is odd.
        first: index of the operation from which it is alive.
        last: index of the last operation at which it is.
        in_loop: whether it is made anew in each iteration of a loop.
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


def shared_buffers(flow: Flow) -> tuple[SharedBuffer, ...]:
    """Every buffer of a module, in file order."""
    users = _users(flow)
    last_in_loop = _last_in_loop(flow)
    through_lds = movements(flow)
    buffers = []
    for op in flow.module.ops:
        in_loop = flow.loop[op.index] is not None
        if op.name in ALLOCATIONS and op.result_types:
            result_type = op.result_types[0]
            mutable = not flow.operands[op.index]
            copies, tile = _copies(result_type) if mutable else (1, result_type.shape)
            last = _last_use(flow, op, users, last_in_loop)
            kind: Kind = "pipelined" if mutable else "operand"
            buffers.append(
                SharedBuffer(
                    op,
                    kind,
                    copies,
                    tile,
                    result_type.element,
                    tile_bytes(result_type),
                    op.index,
                    last,
                    in_loop,
                )
            )
        elif through_lds.get(op.index) == "lds":
            result_type = op.result_types[0]
            buffers.append(
                SharedBuffer(
                    *(
                        op,
                        "exchange",
                        1,
                        result_type.shape,
                        result_type.element,
                        tile_bytes(result_type),
                    ),
                    *(op.index, op.index, in_loop),
                )
            )
    return tuple(buffers)


def at_the_peak(buffers: Sequence[SharedBuffer], total: int | None) -> tuple[SharedBuffer, ...]:
    """Those that are alive where most bytes are, the largest first.

    A tile that is exchanged may pass in parts, so that its size is no more than a bound. Where
    buffers without an exchange make up the kernel's LDS to the byte, it is they.

    Args:
        buffers: all of the module.
        total: the kernel's LDS in bytes, if known.
    """
    starts = {buffer.first for buffer in buffers}
    alive = [
        [buffer for buffer in buffers if buffer.first <= index <= buffer.last]
        for index in sorted(starts)
    ]
    whole = [
        group
        for group in alive
        if _bytes(group) == total and all(b.kind != "exchange" for b in group)
    ]
    most = max(whole or alive, key=_bytes, default=[])
    return tuple(sorted(most, key=lambda buffer: (-(buffer.size or 0), buffer.first)))


def _bytes(buffers: Iterable[SharedBuffer]) -> int:
    return sum(buffer.size or 0 for buffer in buffers)


def _copies(memdesc: TtgirType) -> tuple[int, tuple[int, ...]]:
    """How many tiles an allocation without a value holds, and the shape of one."""
    rank = len(memdesc.layout.params.get("order", ())) if memdesc.layout is not None else 0
    if rank and len(memdesc.shape) == rank + 1:
        return memdesc.shape[0], memdesc.shape[1:]
    return (memdesc.shape[0], memdesc.shape[1:]) if len(memdesc.shape) > 2 else (1, memdesc.shape)


def _users(flow: Flow) -> dict[int, list[int]]:
    """Value -> indices of the operations that use it."""
    users: dict[int, list[int]] = {}
    for op in flow.module.ops:
        for value in flow.operands[op.index]:
            users.setdefault(value, []).append(op.index)
    return users


def _last_in_loop(flow: Flow) -> dict[int, int]:
    """Loop -> index of the last operation in it."""
    last: dict[int, int] = {}
    for op in flow.module.ops:
        around = flow.loop[op.index]
        while around is not None:
            last[around] = op.index
            around = flow.loop[around]
    return last


def _last_use(
    flow: Flow,
    allocation: TtgirOp,
    users: Mapping[int, Sequence[int]],
    last_in_loop: Mapping[int, int],
) -> int:
    """The last operation that uses a buffer or a view of it; a loop that uses it, to its end."""
    last = allocation.index
    for index in _uses(flow, flow.results[allocation.index][0], users):
        if flow.module.ops[index].name in _FREES:
            return index
        last = max(last, _end(flow, allocation, index, last_in_loop))
    return last


def _uses(flow: Flow, buffer: int, users: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """Operations that use a buffer, or a view of it that other operations made."""
    handed_to: dict[int, list[int]] = {}
    for to, sources in flow.carried.items():
        for source in sources:
            handed_to.setdefault(source, []).append(to)
    ahead, visited = [buffer], set[int]()
    while ahead:
        value = ahead.pop()
        if value in visited or value < 0:
            continue
        visited.add(value)
        ahead += handed_to.get(value, ())
        for index in users.get(value, ()):
            yield index
            op = flow.module.ops[index]
            views = zip(flow.results[index], op.result_types, strict=False)
            ahead += [result for result, result_type in views if result_type.kind == "memdesc"]


def _end(flow: Flow, allocation: TtgirOp, index: int, last_in_loop: Mapping[int, int]) -> int:
    """The use itself, or the end of the outermost loop around it that is not around the buffer."""
    end = index
    own = flow.loop[allocation.index]
    around = flow.loop[index]
    while around is not None and around != own:
        end = max(end, last_in_loop.get(around, end))
        around = flow.loop[around]
    return end
