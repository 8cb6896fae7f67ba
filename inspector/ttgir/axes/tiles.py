"""Operations that move tiles between memory, LDS and registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...model import TtgirOp, TtgirType
from ..lowered import pointee


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
