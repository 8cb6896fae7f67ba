"""Drawings of layouts, ready for any format: a value's picture with its titles."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..ttgir.lowered import element_bits
from . import layout_view
from .layout_values import LaidOutValue, dims_of
from .lds_picture import LdsPicture, lds_picture
from .register_picture import RegisterPicture, register_picture


class LayoutDrawing(Struct, frozen=True):
    """The picture of a layout, with its titles.

    Args:
        value: whose layout it shows.
        others: how many more values it is the picture of.
        title: the value's name and type, `%a_13  64x64xf16`.
        origin: the operation and its line.
        alias: the layout's name in the TTGIR; empty where it has none.
        described: its kind and parameters.
        picture: None where the layout is not known.
    """

    value: LaidOutValue
    others: int
    title: str
    origin: str
    alias: str
    described: tuple[str, ...]
    picture: RegisterPicture | LdsPicture | None


def drawing_of(values: Sequence[LaidOutValue], banks: int | None) -> LayoutDrawing:
    """Draws values that look alike.

    Args:
        values: one at least; their layouts and shapes are the same.
        banks: of the target's LDS; None where the target is not known.
    """
    value, others = values[0], len(values) - 1
    origin = f"{value.op.name}  {value.place}".rstrip()
    whole = value.type.layout_shape
    part = (
        ""
        if whole == value.type.shape
        else f"  part of {layout_view.extent(whole)}, which is drawn"
    )
    more = f", and {others} more like it" if others else ""
    return LayoutDrawing(
        value,
        others,
        f"{value.name}  {value.shape_text}{part}",
        f"{origin}  (TTGIR line {value.op.line}{more})",
        layout_view.alias_of(value.layout),
        tuple(layout_view.described(value.layout)),
        _picture(value, banks),
    )


def _picture(value: LaidOutValue, banks: int | None) -> RegisterPicture | LdsPicture | None:
    if value.type.kind == "tensor":
        return register_picture(value.layout, value.type.shape)
    bits = element_bits(value.type.element)
    if bits is None or bits % 8:
        return None
    return lds_picture(value.layout, value.type.layout_shape, dims_of(value), bits, banks)
