"""A value's layout with its picture and its words, ready for any format."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..ttgir.lowered import element_bits
from . import layout_words as words
from .layout_picture import LdsPicture, RegisterPicture, lds_picture, register_picture
from .layout_values import LaidOutValue, dims_of


class Drawn(Struct, frozen=True):
    """One picture.

    Args:
        value: whose layout it shows.
        others: how many more values it is the picture of.
        title: `%a_13  64x64xf16`.
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


def drawn(values: Sequence[LaidOutValue], banks: int | None) -> Drawn:
    """Values that look alike, as they are drawn.

    Args:
        values: one at least; their layouts and shapes are the same.
        banks: of the target's LDS; None where the target is not known.
    """
    value, others = values[0], len(values) - 1
    origin = f"{value.op.name}  {value.place}".rstrip()
    whole = value.type.layout_shape
    part = "" if whole == value.type.shape else f"  part of {words.extent(whole)}, which is drawn"
    more = f", and {others} more like it" if others else ""
    return Drawn(
        value,
        others,
        f"{value.name}  {value.shape_text}{part}",
        f"{origin}  (TTGIR line {value.op.line}{more})",
        words.alias_of(value.layout),
        tuple(words.described(value.layout)),
        _picture(value, banks),
    )


def _picture(value: LaidOutValue, banks: int | None) -> RegisterPicture | LdsPicture | None:
    if value.type.kind == "tensor":
        return register_picture(value.layout, value.type.shape)
    bits = element_bits(value.type.element)
    if bits is None or bits % 8:
        return None
    return lds_picture(value.layout, value.type.layout_shape, dims_of(value), bits, banks)
