"""Linear layouts: which element of a tensor each register of each lane of each wave holds.

A distributed layout of power-of-two sizes is linear over GF(2): the element that hardware index
(register, lane, warp, block) holds is the exclusive or of one basis vector per set bit. All of
Triton's distributed layouts are special cases; `layouts.to_linear` converts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

Basis = tuple[int, ...]
Bases = tuple[Basis, ...]

IN_DIMS = ("register", "lane", "warp", "block")


class LinearLayout(Struct, frozen=True):
    """Basis vectors of each hardware dimension, lowest bit first, in elements of a tensor.

    A zero basis means that the bit does not matter: several indices hold the same element.

    Attributes:
        shape: the tensor's shape, in elements; powers of two.
        register, lane, warp, block: one vector of `len(shape)` coordinates per index bit.
    """

    shape: tuple[int, ...]
    register: Bases
    lane: Bases
    warp: Bases
    block: Bases = ()

    def apply(self, register: int, lane: int, warp: int, block: int = 0) -> tuple[int, ...]:
        """The coordinates of the element at a hardware index."""
        coordinates = [0] * len(self.shape)
        for index, bases in (
            (register, self.register),
            (lane, self.lane),
            (warp, self.warp),
            (block, self.block),
        ):
            for bit, basis in enumerate(bases):
                if index >> bit & 1:
                    for dim, step in enumerate(basis):
                        coordinates[dim] ^= step
        return tuple(coordinates)

    @property
    def elements_per_thread(self) -> int:
        """Elements that one lane holds, copies of one element included."""
        return 1 << len(self.register)

    @property
    def distinct_elements_per_thread(self) -> int:
        """Different elements that one lane holds."""
        return 1 << rank(self.register)

    def contiguous(self, dim: int) -> int:
        """Length of the aligned run of neighbours along `dim` that every lane holds.

        The run 0..n-1 belongs to lane 0 if the registers span the unit steps 1, 2, .. n/2 along
        `dim`; linearity makes the same true of every lane.
        """
        run = 1
        while run < self.shape[dim]:
            step = tuple(run if d == dim else 0 for d in range(len(self.shape)))
            if not in_span(step, self.register):
                break
            run *= 2
        return run


def is_power_of_two(value: int) -> bool:
    """Whether `value` is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def log2(value: int) -> int:
    """The exponent of a power of two."""
    return value.bit_length() - 1


def _pack(basis: Sequence[int]) -> int:
    # Coordinates side by side in one integer: exclusive or acts on all of them at once.
    packed = 0
    for step in basis:
        packed = packed << 32 | step
    return packed


def echelon_basis(vectors: Iterable[int]) -> list[int]:
    """An echelon basis of the span over GF(2) of vectors, whose bits are their coordinates."""
    echelon: list[int] = []
    for vector in vectors:
        for pivot in echelon:
            vector = min(vector, vector ^ pivot)
        if vector:
            echelon.append(vector)
    return echelon


def in_echelon(vector: int, echelon: Iterable[int]) -> bool:
    """Whether a vector is an exclusive or of some vectors of an echelon basis."""
    for pivot in echelon:
        vector = min(vector, vector ^ pivot)
    return vector == 0


def rank(bases: Iterable[Sequence[int]]) -> int:
    """Dimension of the span of basis vectors over GF(2)."""
    return len(echelon_basis(map(_pack, bases)))


def in_span(basis: Sequence[int], bases: Iterable[Sequence[int]]) -> bool:
    """Whether a vector is an exclusive or of some of `bases`."""
    return in_echelon(_pack(basis), echelon_basis(map(_pack, bases)))


def solve(basis: Sequence[int], bases: Sequence[Sequence[int]]) -> int | None:
    """The index whose bits select the `bases` that add up to a vector.

    Returns:
        The index, bit k for `bases[k]`; None if no selection gives the vector. Where several do,
        the one that leaves out bases that depend on earlier ones.
    """
    echelon: list[tuple[int, int]] = []
    for bit, candidate in enumerate(bases):
        vector, index = _pack(candidate), 1 << bit
        for pivot, pivot_index in echelon:
            if vector ^ pivot < vector:
                vector, index = vector ^ pivot, index ^ pivot_index
        if vector:
            echelon.append((vector, index))
    vector, result = _pack(basis), 0
    for pivot, pivot_index in echelon:
        if vector ^ pivot < vector:
            vector, result = vector ^ pivot, result ^ pivot_index
    return None if vector else result


class LayoutBuilder:
    """Builds a layout outwards from its innermost tile: each step covers what the tile does not
    yet.

    `size` is the tile's extent per dimension so far.
    """

    __slots__ = ("bases", "size")

    def __init__(self, dims: int) -> None:
        self.size = [1] * dims
        self.bases: dict[str, list[Basis]] = {name: [] for name in IN_DIMS}

    def extend(self, name: str, dim: int, count: int) -> None:
        """Let `count` indices of hardware dimension `name` step along `dim`."""
        for _ in range(log2(count)):
            self.put(name, dim, self.size[dim])
            self.size[dim] *= 2

    def cover(self, name: str, dim: int, extent: int) -> None:
        """Let a hardware dimension step along `dim` until the tile covers `extent`."""
        if self.size[dim] < extent:
            self.extend(name, dim, extent // self.size[dim])

    def put(self, name: str, dim: int, step: int) -> None:
        """Append one basis vector without growing the tile; step 0 is a copy."""
        self.bases[name].append(tuple(step if d == dim else 0 for d in range(len(self.size))))

    def repeat(self, name: str, count: int) -> None:
        """Let `count` indices of a hardware dimension hold the same elements."""
        for _ in range(log2(count)):
            self.put(name, 0, 0)

    def fit(
        self, shape: Sequence[int], order: Sequence[int], *, keep_copies: bool = False
    ) -> LinearLayout:
        """The layout of a full tensor.

        Registers repeat the tile where it is smaller than the tensor, fastest dimension of `order`
        first; where it is larger, the steps that leave the tensor become copies. Triton drops
        registers that would hold copies, unless `keep_copies`.
        """
        for dim in order:
            self.cover("register", dim, shape[dim])
        inside = {
            name: tuple(
                tuple(
                    step if step < extent else 0 for step, extent in zip(basis, shape, strict=True)
                )
                for basis in bases
            )
            for name, bases in self.bases.items()
        }
        if not keep_copies:
            inside["register"] = tuple(
                fitted
                for fitted, basis in zip(inside["register"], self.bases["register"], strict=True)
                if any(fitted) or not any(basis)
            )
        return LinearLayout(tuple(shape), **inside)
