"""Where a shared-memory layout puts an element: offsets in LDS.

Swizzled and rotating layouts exchange groups of `vec` elements within a row by exclusive or with
the row's phase; padded ones insert gaps. Equal to what Triton 3.9 computes: see the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..model import Layout
from .linear import solve
from .matrix import cluster_bases, order_of, share_of_workgroup

_Offset = Callable[[Layout, tuple[int, ...], tuple[int, ...]], "int | None"]


def shared_offset(
    layout: Layout | None, shape: Sequence[int], coordinates: Sequence[int]
) -> int | None:
    """Offset of an element from the start of its buffer.

    Args:
        layout: swizzled_shared, amd_rotating_shared, padded_shared or shared_linear.
        shape: the buffer's shape, in elements; leading dimensions that the layout does not have
            (the buffers of a pipelined loop) are ignored.
        coordinates: the element's, one per dimension of the layout.

    Returns:
        The offset in elements, padding included, in the LDS of the workgroup (of a cluster) that
        holds the element; None for other layouts, for coordinates outside
        the shape, and where the parameters do not fit the shape.
    """
    offset = unpadded_offset(layout, shape, coordinates)
    if layout is None or offset is None:
        return None
    try:
        return offset + sum(offset // interval * padding for interval, padding in gaps_of(layout))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def gaps_of(layout: Layout) -> tuple[tuple[int, int], ...]:
    """What a padded layout inserts: (after each so many elements, so many); () for others."""
    return tuple(layout.params["intervals"]) if layout.kind == "padded_shared" else ()


def unpadded_offset(
    layout: Layout | None, shape: Sequence[int], coordinates: Sequence[int]
) -> int | None:
    """The offset without what padding inserts; arguments and None as for `shared_offset`.

    Where all sizes are powers of two it is linear: the exclusive or of those of the coordinates'
    bits.
    """
    if layout is None:
        return None
    place = _PLACES.get(layout.kind)
    where = tuple(coordinates)
    inner = tuple(shape[len(shape) - len(where) :])
    if place is None or len(inner) != len(where) or not where:
        return None
    if any(not 0 <= at < size for at, size in zip(where, inner, strict=True)):
        return None
    try:
        inner = share_of_workgroup(inner, cluster_bases(layout, len(inner)))
        return place(layout, inner, tuple(at % size for at, size in zip(where, inner, strict=True)))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None  # parameters that no Triton prints, e.g. of an edited file


def _strided(order: Sequence[int], shape: Sequence[int], where: Sequence[int]) -> int:
    offset, stride = 0, 1
    for dim in order:
        offset += where[dim] * stride
        stride *= shape[dim]
    return offset


def _swizzled(layout: Layout, shape: tuple[int, ...], where: tuple[int, ...]) -> int | None:
    if layout.params.get("hasLeadingOffset") or layout.params.get("transposed"):
        return None  # NVIDIA's tensor-core form of older dialects
    return _phased(layout, shape, where, rotating=False)


def _rotating(layout: Layout, shape: tuple[int, ...], where: tuple[int, ...]) -> int | None:
    return _phased(layout, shape, where, rotating=True)


def _phased(
    layout: Layout, shape: tuple[int, ...], where: tuple[int, ...], *, rotating: bool
) -> int | None:
    order = order_of(layout, len(shape))
    if len(shape) == 1:
        return where[0]
    params = layout.params
    vec, per_phase, max_phase = params["vec"], params["perPhase"], params["maxPhase"]
    column, row = order[0], order[1]
    phase = where[row] // per_phase % max_phase
    if rotating:  # each block of max_phase rows starts with another phase
        phase ^= where[row] // (per_phase * max_phase) % max_phase
    moved = list(where)
    moved[column] ^= vec * phase % shape[column]
    return _strided(order, shape, moved)


def _linear(layout: Layout, shape: tuple[int, ...], where: tuple[int, ...]) -> int | None:
    offsets = layout.params["offset"]
    bases = (*offsets, *layout.params.get("block", ()))
    if any(len(basis) != len(where) for basis in bases):
        return None
    index = solve(where, bases)
    return None if index is None else index & ((1 << len(offsets)) - 1)


def _padded(layout: Layout, shape: tuple[int, ...], where: tuple[int, ...]) -> int | None:
    if "offset" in layout.params:
        return _linear(layout, shape, where)
    return _strided(order_of(layout, len(shape)), shape, where)


_PLACES: Mapping[str, _Offset] = {
    "amd_rotating_shared": _rotating,
    "padded_shared": _padded,
    "shared_linear": _linear,
    "swizzled_shared": _swizzled,
}
