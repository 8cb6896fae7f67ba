"""Operations of MLIR text as the parser holds them, before they are numbered and frozen."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from ..model import TtgirType
from .locs import Loc


class OpRead(Struct):
    """A parsed operation; see `model.TtgirOp` for the fields."""

    line: int
    name: str
    depth: int
    parent: int | None
    results: list[str]
    operands: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    operand_types: tuple[TtgirType, ...] = ()
    result_types: tuple[TtgirType, ...] = ()
    loc: Loc = None


class OpDraft(OpRead):
    """An operation that is being parsed."""

    printed: list[TtgirType] = field(default_factory=list)
    arrow: list[TtgirType] | None = None
    inline: list[Any] = field(default_factory=list)
    arg_attrs: list[dict[str, Any]] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    block_args: list[tuple[str, TtgirType | None, str | None]] = field(default_factory=list)
    entries: list[tuple[str, ...]] = field(default_factory=list)  # arguments of each region
