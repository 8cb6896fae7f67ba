"""The inverse of linear layouts: from an element's coordinates to its registers and lanes.

The inverse of a linear map is linear too: every coordinate bit adds (by exclusive or) one hardware
index. Where several places hold an element, the inverse yields that of the lowest wave and lane;
the others differ from it by `copies`, the same for every element.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from msgspec import Struct

from .linear import LinearLayout, log2, solve


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
