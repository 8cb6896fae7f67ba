"""Operations that move tiles between memory, LDS and registers: the width of their accesses, and
the limits that each fact sets.

Widths follow the rules by which Triton lowers such operations. For global memory: the elements that
a lane holds side by side along its layout's fastest dimension, that are adjacent in memory, that
the alignment allows and that share a mask bit, up to 128 bits. For LDS: the elements of a lane
that lie side by side in the buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from msgspec import Struct

from ...model import Layout, TtgirOp, TtgirType
from ..layouts import to_linear
from ..linear import LinearLayout, echelon_basis, in_echelon
from ..lowered import element_bits, pointee
from ..matrix import order_of
from ..shared_buffers import shared_offset
from .analysis import Axes
from .facts import AxisFacts

WIDEST_BITS = 128


class WidthLimits(Struct, frozen=True):
    """The limits of the facts, in elements, along the dimension in which accesses are widened.

    Attributes:
        dim: that dimension; the fastest of the layout, or of the LDS buffer.
        per_thread: neighbours that a lane holds.
        thread_elements: elements that a lane holds in total.
        bits: bits of an element.
        lanes: lanes of the workgroup.
        share: neighbours of each lane, were the tile's different addresses spread evenly over all.
        shared: neighbours that are known to have the same address.
        distinct: different addresses along the dimension, at most.
        across: the dimension along which neighbouring lanes lie.
        contiguity: neighbours in memory.
        divisibility: bytes that divide the first address.
        mask: neighbours that share a mask bit; None without a mask.
        elements: elements per access.
    """

    dim: int
    per_thread: int
    thread_elements: int
    bits: int
    lanes: int = 1
    share: int = WIDEST_BITS
    shared: int = 1
    distinct: int | None = None
    across: int | None = None
    contiguity: int | None = None
    divisibility: int | None = None
    mask: int | None = None
    elements: int = 1

    @property
    def width(self) -> int:
        """Bits per access."""
        return self.elements * self.bits

    @property
    def widest(self) -> int:
        """Elements that one access could move in any layout of the tile."""
        return max(self.elements, min(WIDEST_BITS // self.bits, self.share))

    @property
    def aligned(self) -> int | None:
        """Elements that the alignment allows."""
        if self.divisibility is None:
            return None
        return max(1, self.divisibility // max(1, self.bits // 8))


class Layouts:
    """Linear layouts of the tiles of one file, each computed once."""

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[tuple[str, tuple[int, ...]], LinearLayout | None] = {}

    def of(self, layout: Layout | None, shape: tuple[int, ...]) -> LinearLayout | None:
        """The linear layout of a tensor; None where it has none."""
        if layout is None:
            return None
        key = (layout.text, shape)
        if key not in self._cache:
            self._cache[key] = to_linear(layout, shape)
        return self._cache[key]


def limits_of(tile: Tile, axes: Axes | None, layouts: Layouts) -> WidthLimits | None:
    """The limits on the width of a tile's accesses; None where the layout is not known.

    `axes`: the facts of its addresses and mask; an access of LDS needs none; `layouts`: the layouts
    of the file's tiles.
    """
    linear = layouts.of(tile.tensor_type.layout, tile.tensor_type.shape)
    bits = element_bits(tile.element)
    if linear is None or bits is None:
        return None
    bits = max(8, bits)
    if tile.buffer is not None:
        return _lds_limits(tile, tile.buffer, linear, bits)
    if axes is None:
        return None
    return _global_limits(tile, axes, linear, bits)


def _global_limits(tile: Tile, axes: Axes, linear: LinearLayout, bits: int) -> WidthLimits:
    """The limits on accesses of global memory."""
    rank = len(tile.tensor_type.shape)
    across = _first_step(linear.lane)
    dim = fastest(linear)
    facts = axes.of(tile.addresses or "", rank)
    size = bits // 8

    def bytes_along(dim: int) -> int:
        """Bytes that divide the first address of a run along a dimension."""
        if tile.offsets is None:
            return facts.divisibility[dim]
        base = axes.of(tile.pointer or "").divisibility[0]
        return min(facts.divisibility[dim] * size, base)  # offsets count elements

    if across is not None and (
        own_run(linear, dim) == 1  # no neighbours in a lane: those in the next lane matter
        # Lanes along memory, where wide accesses are not allowed: Triton had no reason to turn it.
        or (facts.contiguity[dim] == 1 < facts.contiguity[across] and bytes_along(across) <= size)
    ):
        dim = across
    divisibility = bytes_along(dim)
    mask = None if tile.mask is None else axes.of(tile.mask, rank).constancy[dim]
    run = own_run(linear, dim)
    contiguity = facts.contiguity[dim]
    elements = min(WIDEST_BITS // bits, run, contiguity, max(1, divisibility // size))
    hint = tile.op.attributes.get("contiguity")
    if isinstance(hint, int):  # from before the compiler changed the addresses' form
        elements = max(elements, hint)
        contiguity = max(contiguity, hint)
        divisibility = max(divisibility, hint * size)
    if mask is not None:
        elements = min(elements, mask)
    lanes = 1 << (len(linear.lane) + len(linear.warp))
    distinct = distinct_addresses(facts, linear.shape)
    return WidthLimits(
        dim=dim,
        per_thread=run,
        thread_elements=linear.distinct_elements_per_thread,
        bits=bits,
        lanes=lanes,
        share=max(1, min(prod(distinct) // lanes, distinct[dim])),
        shared=min(facts.constancy[dim], linear.shape[dim]),
        distinct=distinct[dim],
        across=across,
        contiguity=contiguity,
        divisibility=divisibility,
        mask=mask,
        elements=max(1, elements),
    )


def distinct_addresses(facts: AxisFacts, shape: Sequence[int]) -> tuple[int, ...]:
    """The most different addresses along each dimension of a tile."""
    return tuple(
        max(1, size // max(1, constancy))
        for size, constancy in zip(shape, facts.constancy, strict=False)
    )


def fastest(linear: LinearLayout) -> int:
    """The dimension that a lane's registers step along first; the last if they step along none."""
    first_dim = _first_step(linear.register)
    return len(linear.shape) - 1 if first_dim is None else first_dim


def _first_step(bases: Sequence[Sequence[int]]) -> int | None:
    """The dimension of the first basis vector that is not zero."""
    return next((dim for basis in bases for dim, step in enumerate(basis) if step), None)


def own_run(linear: LinearLayout, dim: int) -> int:
    """Neighbours along a dimension in the first registers of each lane."""
    run = 1
    for basis in linear.register:
        if any(step != (run if d == dim else 0) for d, step in enumerate(basis)):
            break
        run *= 2
    return run


def _lds_limits(
    tile: Tile, buffer: TtgirType, linear: LinearLayout, bits: int
) -> WidthLimits | None:
    """The largest aligned run of buffer offsets that a lane holds.

    Offsets of an unpadded buffer are linear in the coordinates over GF(2), so a lane holds a run
    of 2^n if its register steps span the offsets 1, 2, ... 2^(n-1). Padding lies between runs.
    A swizzle exchanges groups of `vec` differently in each row, so no access spans two groups.
    """
    steps = [_offset(buffer, basis) for basis in linear.register if any(basis)]
    if any(step is None for step in steps):
        return None
    span = echelon_basis([step for step in steps if step is not None])
    params = buffer.layout.params if buffer.layout is not None else {}
    vec, phases = params.get("vec"), params.get("maxPhase")
    max_elements = WIDEST_BITS // bits
    if isinstance(vec, int) and isinstance(phases, int) and phases > 1:
        max_elements = min(max_elements, vec)
    run = 1
    while run < max_elements and in_echelon(run, span):
        run *= 2
    dim = (
        order_of(buffer.layout, len(tile.tensor_type.shape))[0] if buffer.layout is not None else 0
    )
    return WidthLimits(dim, run, linear.distinct_elements_per_thread, bits, elements=run)


def _offset(buffer: TtgirType, coordinates: Sequence[int]) -> int | None:
    return shared_offset(buffer.layout, buffer.shape, coordinates)


class Tile(Struct, frozen=True):
    """An operation that moves a tile.

    Attributes:
        cls: class of the machine instructions that it becomes.
        tensor_type: type of the tile in registers, or of its addresses where it passes registers
            by.
        element: element type in memory.
        pointer: the scalar pointer or the tensor of pointers; None for LDS.
        offsets: tensor of offsets that is added to `pointer`.
        mask: tensor of mask bits.
        buffer: type of the LDS buffer, for an LDS access.
    """

    op: TtgirOp
    cls: str
    tensor_type: TtgirType
    element: str
    pointer: str | None = None
    offsets: str | None = None
    mask: str | None = None
    buffer: TtgirType | None = None

    @property
    def addresses(self) -> str | None:
        """The tensor of the tile's addresses or offsets."""
        return self.offsets or self.pointer


class _Form(Struct, frozen=True):
    """Operand positions of an operation that accesses global memory."""

    cls: str
    pointer: int
    offsets: int | None = None
    value: int | None = None  # None: the tile is the result


_GLOBAL: Mapping[str, _Form] = {
    "tt.load": _Form("global_load", 0),
    "tt.store": _Form("global_store", 0, value=1),
    "buffer_load": _Form("global_load", 0, offsets=1),
    "buffer_store": _Form("global_store", 1, offsets=2, value=0),
    "async_copy_global_to_local": _Form("lds_direct", 0, value=0),
    "buffer_load_to_local": _Form("lds_direct", 1, offsets=2, value=2),
}
_LDS = frozenset(("local_load", "local_store", "local_alloc"))


def tile_of(op: TtgirOp) -> Tile | None:
    """The tile that an operation moves; None if it moves none to or from registers or LDS."""
    dialect, _, short = op.name.partition(".")
    form = _GLOBAL.get(op.name) or (_GLOBAL.get(short) if dialect != "tt" else None)
    if form is not None:
        return _global_tile(op, form)
    return _lds_tile(op, short) if short in _LDS and dialect != "tt" else None


def _global_tile(op: TtgirOp, form: _Form) -> Tile | None:
    """The tile of an access of global memory; None for scalars and descriptors."""
    try:
        address_position = form.pointer if form.offsets is None else form.offsets
        tile_type = (
            op.operand_types[address_position]
            if form.cls == "lds_direct"
            else (op.result_types[0] if form.value is None else op.operand_types[form.value])
        )
        pointer = op.operand_types[form.pointer]
        addresses = op.operand_types[address_position]
    except IndexError:
        return None
    if addresses.kind != "tensor" or not addresses.shape:
        return None  # a scalar, or a descriptor
    positions = [form.pointer, form.offsets, form.value]
    mask_start = max(position for position in positions if position is not None) + 1
    mask = next(
        (
            name
            for name, operand_type in zip(
                op.operands[mask_start:], op.operand_types[mask_start:], strict=False
            )
            if operand_type.kind == "tensor" and operand_type.element == "i1"
        ),
        None,
    )
    offsets = None if form.offsets is None else op.operands[form.offsets]
    element = pointee(pointer) if form.cls == "lds_direct" else tile_type.element
    tile_type = TtgirType(tile_type.text, "tensor", element, addresses.shape, addresses.layout)
    return Tile(op, form.cls, tile_type, element, op.operands[form.pointer], offsets, mask)


def _lds_tile(op: TtgirOp, short: str) -> Tile | None:
    """The tile of an access of LDS."""
    if short == "local_load":
        pair = (op.result_types[:1], op.operand_types[:1], "lds_read")
    elif short == "local_store":
        pair = (op.operand_types[:1], op.operand_types[1:2], "lds_write")
    else:
        pair = (op.operand_types[:1], op.result_types[:1], "lds_write")
    tiles, buffers, cls = pair
    if not tiles or not buffers or tiles[0].kind != "tensor" or buffers[0].layout is None:
        return None
    return Tile(op, cls, tiles[0], tiles[0].element, buffer=buffers[0])


def needed_values(tiles: Sequence[Tile]) -> list[str]:
    """The values that the limits of some tiles depend on."""
    names = [name for tile in tiles for name in (tile.pointer, tile.offsets, tile.mask)]
    return [name for name in names if name is not None]
