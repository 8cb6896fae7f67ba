"""Offsets of elements in LDS, by shared-memory layouts.

Swizzled and rotating layouts exchange groups of `vec` elements within a row by exclusive or with
the row's phase; padded ones insert gaps. The results equal Triton 3.9's: see the tests.
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
