"""Triton's distributed layouts as linear layouts, and the inverse of these: from an element's
coordinates to its registers and lanes.

The results equal those of Triton 3.9 for the same attribute and shape; the tests compare thousands
of random cases. A form that could not be compared gives None.

The inverse of a linear map is linear too: every coordinate bit adds (by exclusive or) one hardware
index. Where several places hold an element, the inverse yields that of the lowest wave and lane;
the others differ from it by `copies`, the same for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final

from msgspec import Struct

from ..model import Layout, TtgirType
from .linear import IN_DIMS, Basis, LayoutBuilder, LinearLayout, is_power_of_two, log2, solve
from .matrix import (
    cluster_bases,
    k_dim,
    mfma_operand_to_linear,
    mfma_to_linear,
    order_of,
    share_of_workgroup,
    sizes_of,
    wmma_operand_to_linear,
    wmma_to_linear,
)

_Converter = Callable[[Layout, tuple[int, ...]], "LinearLayout | None"]


def to_linear(layout: Layout | None, shape: Sequence[int]) -> LinearLayout | None:
    """The linear layout of a tensor.

    Args:
        layout: a distributed layout: blocked, linear, slice, dot_op, amd_mfma or amd_wmma.
        shape: the tensor's shape, in elements.

    Returns:
        None for shared, unknown and unsupported layouts (NVIDIA's mma, clusters as Triton before
        3.6 spells them) and for shapes that are not powers of two.
    """
    if layout is None:
        return None
    key = id(layout), tuple(shape)
    known = _RECENT.get(key)
    if known is not None:
        return known[1]
    linear = _to_linear(layout, shape)
    if len(_RECENT) >= _MOST_RECENT:
        _RECENT.clear()
    _RECENT[key] = layout, linear
    return linear


_RECENT: Final[dict[tuple[int, tuple[int, ...]], tuple[Layout, LinearLayout | None]]] = {}
"""By identity, which holds as long as the layout is kept: tensors of a module share theirs."""
_MOST_RECENT: Final = 256


def _to_linear(layout: Layout, shape: Sequence[int]) -> LinearLayout | None:
    """What `to_linear` returns, not cached."""
    if not shape or not all(is_power_of_two(size) for size in shape):
        return None
    convert = _CONVERTERS.get(layout.kind)
    if convert is None:
        return None
    try:
        cluster = cluster_bases(layout, len(shape))
        if not cluster:
            return convert(layout, tuple(shape))
        linear = convert(layout, share_of_workgroup(shape, cluster))
        return None if linear is None else _over_cluster(linear, shape, cluster)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # parameters that no Triton prints, e.g. of an edited file


def type_to_linear(tensor_type: TtgirType) -> LinearLayout | None:
    """The linear layout of a tensor type, None where it has none."""
    return (
        to_linear(tensor_type.layout, tensor_type.shape) if tensor_type.kind == "tensor" else None
    )


def elements_per_thread(layout: Layout | None, shape: Sequence[int]) -> int | None:
    """Elements that one lane holds of a tensor, copies included; None for unknown layouts."""
    linear = to_linear(layout, shape)
    return None if linear is None else linear.elements_per_thread


def contig_per_thread(
    layout: Layout | None, shape: Sequence[int], dim: int | None = None
) -> int | None:
    """Neighbouring elements along one dimension that each lane holds.

    Args:
        layout: a distributed layout.
        shape: the tensor's shape, in elements.
        dim: the dimension; by default the one with the longest run, the fastest of a layout that
            is meant for coalesced access.

    Returns:
        Length of the run in elements (at least 1), None for unknown layouts. It bounds the width
        of an access; the addresses may be less contiguous than the layout.
    """
    linear = to_linear(layout, shape)
    if linear is None:
        return None
    if dim is not None:
        return linear.contiguous(dim)
    return max(linear.contiguous(d) for d in range(len(linear.shape)))


def _over_cluster(
    linear: LinearLayout, shape: Sequence[int], cluster: Sequence[Basis]
) -> LinearLayout:
    """The layout of a tensor whose equal parts lie in the workgroups of a cluster."""
    block = tuple(
        tuple(
            step * extent if step * extent < size else 0
            for step, extent, size in zip(basis, linear.shape, shape, strict=True)
        )
        for basis in cluster
    )
    return LinearLayout(tuple(shape), linear.register, linear.lane, linear.warp, block)


def _blocked(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """The linear layout of `blocked`: registers, lanes, waves, then the tile repeated."""
    dims = len(shape)
    order = order_of(layout, dims)
    builder = LayoutBuilder(dims)
    for name, param in (
        ("register", "sizePerThread"),
        ("lane", "threadsPerWarp"),
        ("warp", "warpsPerCTA"),
    ):
        sizes = sizes_of(layout, param, dims)
        for dim in order:
            builder.extend(name, dim, sizes[dim])
    return builder.fit(shape, order)


def _linear(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    builder = LayoutBuilder(len(shape))
    for name in IN_DIMS:
        for basis in layout.params[name]:
            if len(basis) != len(shape):
                raise ValueError(name)
            builder.bases[name].append(tuple(basis))
            for dim, step in enumerate(basis):
                while builder.size[dim] <= step:
                    builder.size[dim] *= 2
    return builder.fit(shape, _order_of_bases(builder))


def _order_of_bases(builder: LayoutBuilder) -> tuple[int, ...]:
    """The dimensions in the order in which the register bases step along them."""
    order: dict[int, None] = {}
    for basis in builder.bases["register"]:
        for dim, step in enumerate(basis):
            if step:
                order.setdefault(dim)
    for dim in reversed(range(len(builder.size))):
        order.setdefault(dim)
    return tuple(order)


def _slice(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """The linear layout of `slice`: its parent's without one dimension."""
    dim = layout.params["dim"]
    if layout.parent is None or not 0 <= dim <= len(shape):
        return None
    parent = to_linear(layout.parent, (*shape[:dim], 1, *shape[dim:]))
    if parent is None:
        return None

    def without(bases: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        return tuple((*basis[:dim], *basis[dim + 1 :]) for basis in bases)

    # Registers that differ in the removed dimension alone are one register.
    register = tuple(basis for basis in without(parent.register) if any(basis))
    return LinearLayout(
        shape, register, without(parent.lane), without(parent.warp), without(parent.block)
    )


def _dot_operand(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    parent = layout.parent
    if parent is None or layout.params["opIdx"] not in (0, 1):
        return None
    convert = _OPERANDS.get(parent.kind)
    return None if convert is None else convert(layout, shape)


def _blocked_operand(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """The linear layout of a dot operand without a matrix unit."""
    # Each lane multiplies its block, so it holds the full K extent of it.
    parent = layout.parent
    if parent is None:
        return None
    dims = len(shape)
    k = k_dim(layout, dims)
    order = order_of(parent, dims)
    builder = LayoutBuilder(dims)
    sizes = sizes_of(parent, "sizePerThread", dims)
    for dim in order:
        builder.extend("register", dim, shape[k] if dim == k else sizes[dim])
    for name, param in (("lane", "threadsPerWarp"), ("warp", "warpsPerCTA")):
        sizes = sizes_of(parent, param, dims)
        for dim in order:
            if dim == k:
                builder.repeat(name, sizes[dim])
            else:
                builder.extend(name, dim, sizes[dim])
    return builder.fit(shape, order, keep_copies=True)


_CONVERTERS: Mapping[str, _Converter] = {
    "amd_mfma": mfma_to_linear,
    "amd_wmma": wmma_to_linear,
    "blocked": _blocked,
    "dot_op": _dot_operand,
    "linear": _linear,
    "slice": _slice,
}
_OPERANDS: Mapping[str, _Converter] = {
    "amd_mfma": mfma_operand_to_linear,
    "amd_wmma": wmma_operand_to_linear,
    "blocked": _blocked_operand,
}


class Holder(Struct, frozen=True, order=True):
    """A place in the registers of a workgroup (of a cluster).

    Args:
        block: the workgroup's number in its cluster; 0 without one.
        warp: the wave's number.
        lane: the lane's number in the wave.
        register: the element's number among those of the lane; several elements narrower than 32
            bits share a VGPR.
    """

    block: int
    warp: int
    lane: int
    register: int

    def __xor__(self, other: Holder) -> Holder:
        return Holder(
            self.block ^ other.block,
            self.warp ^ other.warp,
            self.lane ^ other.lane,
            self.register ^ other.register,
        )


FIRST = Holder(0, 0, 0, 0)


class Holders(Struct, frozen=True):
    """A layout from elements to their holders.

    Args:
        shape: the tensor's shape, in elements.
        steps: per dimension, the holder that each bit of the coordinate, lowest first, adds.
        copies: the holders that index bits without effect on the element add; all sums of them hold
            it too.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[Holder, ...], ...]
    copies: tuple[Holder, ...]

    def at(self, coordinates: Sequence[int]) -> Holder:
        """The holder of an element."""
        holder = FIRST
        for coordinate, steps in zip(coordinates, self.steps, strict=True):
            for bit, step in enumerate(steps):
                if coordinate >> bit & 1:
                    holder ^= step
        return holder

    def all_at(self, coordinates: Sequence[int]) -> list[Holder]:
        """All holders of an element, in order."""
        holders = [self.at(coordinates)]
        for copy in self.copies:
            holders += [holder ^ copy for holder in holders]
        return sorted(holders)

    @property
    def times(self) -> int:
        """The number of holders of each element."""
        return 1 << len(self.copies)


def holders_of(layout: LinearLayout) -> Holders | None:
    """The layout from elements to their holders; None where some elements have none."""
    # Lower registers, then lanes, then waves are preferred: bases that depend on earlier ones make
    # copies.
    hardware_bases = (layout.register, layout.lane, layout.warp, layout.block)
    bases = [basis for dimension_bases in hardware_bases for basis in dimension_bases]
    steps = []
    for dim, size in enumerate(layout.shape):
        dim_steps = []
        for bit in range(log2(size)):
            unit = tuple(1 << bit if d == dim else 0 for d in range(len(layout.shape)))
            index = solve(unit, bases)
            if index is None:
                return None
            dim_steps.append(_holder(index, hardware_bases))
        steps.append(tuple(dim_steps))
    copies = []
    for position, basis in enumerate(bases):
        index = solve(basis, bases[:position])
        if index is not None:
            copies.append(_holder(index | 1 << position, hardware_bases))
    return Holders(layout.shape, tuple(steps), tuple(copies))


def _holder(index: int, hardware_bases: Sequence[Sequence[object]]) -> Holder:
    """The holder of an index over all bases."""
    numbers = []
    for dimension_bases in hardware_bases:
        numbers.append(index & ((1 << len(dimension_bases)) - 1))
        index >>= len(dimension_bases)
    register, lane, warp, block = numbers
    return Holder(block, warp, lane, register)


def elements(shape: Sequence[int]) -> product[tuple[int, ...]]:
    """All coordinates of a tensor, the last dimension fastest."""
    return product(*(range(size) for size in shape))
