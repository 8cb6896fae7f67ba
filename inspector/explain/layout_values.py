"""The values of a kernel's TTGIR that have a layout: the ones a user names, and their drawings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..base.errors import KinspectError
from ..model import Layout, SourceLoc, TtgirModule, TtgirOp, TtgirType
from ..ttgir.lowered import element_bits
from .layout_pictures import LdsPicture, RegisterPicture, lds_picture, register_picture
from .layout_view import alias_of, described, extent
from .view import place

_MOST_NAMED = 8
_LINE = re.compile(r"(?:(?P<file>[^:]+):)?(?P<line>\d+)\Z")


class LaidOutValue(Struct, frozen=True):
    """A tensor in registers or a buffer in LDS."""

    name: str
    op: TtgirOp
    type: TtgirType

    @property
    def layout(self) -> Layout:
        assert self.type.layout is not None
        return self.type.layout

    @property
    def source(self) -> SourceLoc | None:
        """The user's line; None where the TTGIR has no positions."""
        return self.op.loc.in_user_code if self.op.loc is not None else None

    @property
    def shape_text(self) -> str:
        """As the TTGIR has it: `64x64xf16`."""
        return "x".join([*map(str, self.type.shape), self.type.element])

    @property
    def place(self) -> str:
        """`gemm.py:14`; empty where it is unknown."""
        return place(self.source)


class LayoutDrawing(Struct, frozen=True):
    """The picture of a layout, with its titles.

    Args:
        others: how many more values it is the picture of.
        title: the value's name and type, `%a_13  64x64xf16`.
        alias: the layout's name in the TTGIR; empty where it has none.
        picture: None where the layout is not known.
    """

    value: LaidOutValue
    others: int
    title: str
    origin: str
    alias: str
    described: tuple[str, ...]
    picture: RegisterPicture | LdsPicture | None


def values_of(module: TtgirModule) -> tuple[LaidOutValue, ...]:
    """All values with a layout, in the order of the file."""
    return tuple(
        LaidOutValue(name, op, result_type)
        for op in module.ops
        for name, result_type in zip(op.results, op.result_types, strict=False)
        if result_type.layout is not None and result_type.kind in ("tensor", "memdesc")
    )


def alike(values: Iterable[LaidOutValue], *, in_pictures: bool = False) -> list[list[LaidOutValue]]:
    """Values grouped by shape, element and layout.

    In pictures of registers an element's type makes no difference.
    """
    groups: dict[tuple[tuple[int, ...], str, str], list[LaidOutValue]] = {}
    for value in values:
        element = "" if in_pictures and value.type.kind == "tensor" else value.type.element
        groups.setdefault((value.type.shape, element, value.layout.text), []).append(value)
    return list(groups.values())


def drawing_of(values: Sequence[LaidOutValue], banks: int | None) -> LayoutDrawing:
    """Draws values of one layout and shape; `banks`, of the LDS, are None for an unknown target."""
    value, others = values[0], len(values) - 1
    origin = f"{value.op.name}  {value.place}".rstrip()
    whole = value.type.layout_shape
    part = "" if whole == value.type.shape else f"  part of {extent(whole)}, which is drawn"
    more = f", and {others} more like it" if others else ""
    return LayoutDrawing(
        value,
        others,
        f"{value.name}  {value.shape_text}{part}",
        f"{origin}  (TTGIR line {value.op.line}{more})",
        alias_of(value.layout),
        tuple(described(value.layout)),
        _picture(value, banks),
    )


def _picture(value: LaidOutValue, banks: int | None) -> RegisterPicture | LdsPicture | None:
    if value.type.kind == "tensor":
        return register_picture(value.layout, value.type.shape)
    bits = element_bits(value.type.element)
    if bits is None or bits % 8:
        return None
    return lds_picture(value.layout, value.type.layout_shape, dims_of(value), bits, banks)


def dims_of(value: LaidOutValue) -> int:
    """Dimensions of a buffer's layout: leading ones of its shape count buffers of a loop."""
    params = value.layout.params
    for name in ("offset", "order"):
        listed = params.get(name)
        if isinstance(listed, tuple) and listed:
            return len(listed[0]) if name == "offset" else len(listed)
    return len(value.type.shape)


def selected(
    values: Sequence[LaidOutValue], wanted: str, *, ttgir_lines: bool
) -> tuple[LaidOutValue, ...]:
    """The values that a user names: `%a_13`, a layout (`#blocked1`), a line (`14`, `gemm.py:14`).

    Lines are those of the source or, with `ttgir_lines`, of the TTGIR.

    Raises:
        KinspectError: there is none.
    """
    line = _LINE.match(wanted)
    if line is not None:
        return _on_line(values, line["file"], int(line["line"]), ttgir_lines)
    if wanted.startswith("#"):
        chosen = tuple(v for v in values if alias_of(v.layout) == wanted)
        names = {alias_of(v.layout) for v in values}
    else:
        name = wanted if wanted.startswith("%") else f"%{wanted}"
        chosen = tuple(v for v in values if v.name in (name, f"{name}#0"))
        names = {v.name for v in values}
    if chosen:
        return chosen
    near = difflib.get_close_matches(wanted, sorted(names), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "leave it out to list all values"
    raise KinspectError(f"no value or layout named {wanted}", hint)


def _on_line(
    values: Sequence[LaidOutValue], file: str | None, line: int, ttgir_lines: bool
) -> tuple[LaidOutValue, ...]:
    def matches(value: LaidOutValue) -> bool:
        if ttgir_lines:
            return value.op.line == line
        source = value.source
        if source is None or source.line != line:
            return False
        return file is None or f"/{source.file}".endswith(f"/{file}")

    chosen = tuple(value for value in values if matches(value))
    if chosen:
        return chosen
    if ttgir_lines:
        known = sorted({value.op.line for value in values})
    else:
        known = sorted({v.source.line for v in values if v.source is not None})
    nearest = sorted(sorted(known, key=lambda other: abs(other - line))[:_MOST_NAMED])
    hint = f"the nearest with one: {', '.join(map(str, nearest))}" if nearest else ""
    raise KinspectError(f"no value with a layout on line {line}", hint)
