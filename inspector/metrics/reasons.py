"""The reason that an access is narrow, and the words that all reasons share."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..model import SourceLoc
from ..ttgir.axes.analysis import Axes, is_argument
from ..ttgir.axes.cause import Blame
from ..ttgir.axes.spelling import argument_name, spelled, spelled_division
from ..ttgir.axes.tiles import Tile

ALIGNED = 16
"""Triton notes whether an argument is divisible by this; 16 bytes are the widest access."""


class Reason(Struct, frozen=True):
    """The reason that an access is narrow.

    Args:
        limited_by: as in `Access`.
        text: a sentence.
        fix: the change that helps; empty where there is none.
        widest: bits of one access after the fix; None where the tile's shape decides
            (`Limits.widest`).
        is_bounded: false where no bound is known at all.
    """

    limited_by: str
    text: str
    fix: str
    widest: int | None = None
    is_bounded: bool = True


def count(n: int, noun: str = "element", plural: str = "s") -> str:
    """A number with what it counts: `1 element`, `2 elements`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{plural}"


def is_store(tile: Tile) -> bool:
    """Whether an access writes memory, for which remedies of loads do not apply."""
    return tile.cls == "global_store"


def name_of(axes: Axes, blame: Blame, access_loc: SourceLoc | None) -> str:
    """The value at fault, in the terms of the source."""
    return spelled(axes, blame.value, access_loc)


def named_division(axes: Axes, blame: Blame, access_loc: SourceLoc | None) -> str:
    """The division or remainder that makes the value at fault; empty without one, or a name."""
    made = spelled_division(axes, blame.value, access_loc)
    return "" if made == name_of(axes, blame, access_loc) else made


class Noted(Struct, frozen=True):
    """Facts about an argument that Triton would have noted at the launch.

    Attributes:
        hidden_one: the reason that Triton does not note that it is 1; empty without one: the launch
            passed another number.
        hidden_multiple: the same for its divisibility by `ALIGNED`.
        value: the value that the first launch passed; None where it is not known.
    """

    hidden_one: str
    hidden_multiple: str
    value: int | None


def noted(axes: Axes, value: str) -> Noted | None:
    """The facts about a value; None where it is no argument of a captured launch."""
    if axes.graph.unspecialised is None or not is_argument(axes, value):
        return None
    name = argument_name(value)
    if _PART in name:  # Triton takes tuples and descriptors apart, and notes little of the parts
        return None
    cause = axes.graph.unspecialised.get(name, "")
    passed = (axes.graph.values or {}).get(name)
    return Noted(_HIDES_ONE.get(cause, ""), _HIDES_MULTIPLE.get(cause, ""), passed)


_PART = "."
_HIDES_ONE: Mapping[str, str] = {
    "annotation": "its annotation",
    "do_not_specialize": "do_not_specialize",
    "do_not_specialize and annotation": "do_not_specialize and its annotation",
}
_HIDES_MULTIPLE: Mapping[str, str] = {
    "do_not_specialize": "do_not_specialize",
    "do_not_specialize and annotation": "do_not_specialize",
    "do_not_specialize_on_alignment": "do_not_specialize_on_alignment",
}


def line_of(blame: Blame) -> str:
    """The line of the operation at fault, in brackets; empty without one."""
    loc = blame.op.loc if blame.op is not None else None
    return f" (line {loc.in_user_code.line})" if loc is not None else ""
