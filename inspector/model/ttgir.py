"""TTIR and TTGIR as they were read: operations, types and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from .source import SourceLoc


class Layout(Struct, frozen=True):
    """A layout attribute, structured. `kind` drops the dialect: `blocked`, `linear`, `slice`,
    `dot_op`, `amd_mfma`, `amd_wmma`, `swizzled_shared`, `padded_shared`, `amd_rotating_shared`,
    ... `parent` is set for slice and dot_op. Unknown kinds keep their text and parsed params.
    """

    kind: str
    params: Mapping[str, Any]
    text: str
    alias: str | None = None
    parent: Layout | None = None


class TtgirType(Struct, frozen=True):
    """A type. `kind` is tensor, memdesc, ptr, scalar, token, tensordesc, function or unknown.

    `alloc_shape` is that of the allocation which a memdesc is a part of; () where it is all of it.
    """

    text: str
    kind: str
    element: str
    shape: tuple[int, ...] = ()
    layout: Layout | None = None
    alloc_shape: tuple[int, ...] = ()

    @property
    def layout_shape(self) -> tuple[int, ...]:
        """The shape that the layout lays out: of a part that of its allocation."""
        return self.alloc_shape[-len(self.shape) :] if self.alloc_shape else self.shape


class TtgirOp(Struct, frozen=True):
    """One operation. `depth` counts enclosing regions; `parent` is the index of the op that owns
    the enclosing region, in `TtgirModule.ops`.
    """

    index: int
    line: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    attributes: Mapping[str, Any]
    operand_types: tuple[TtgirType, ...]
    result_types: tuple[TtgirType, ...]
    loc: SourceLoc | None
    depth: int
    parent: int | None


class TtgirModule(Struct, frozen=True):
    """A TTIR or TTGIR file: module attributes with the dialect prefix dropped (`num-warps`)."""

    attributes: Mapping[str, Any]
    layouts: Mapping[str, Layout]
    functions: tuple[str, ...]
    ops: tuple[TtgirOp, ...]
    notes: tuple[str, ...] = ()
