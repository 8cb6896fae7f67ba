"""Why an access is narrow: what is said of it, and the words that all reasons share."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..model import SourceLoc
from ..ttgir.axes.blame import is_argument
from ..ttgir.axes.cause import Blame
from ..ttgir.axes.flow import Axes
from ..ttgir.axes.names import argument_name, words
from ..ttgir.axes.tiles import Tile

ALIGNED = 16
"""Triton notes of an argument whether it is divisible by this; 16 bytes are the widest access."""


class Reason(Struct, frozen=True):
    """Why an access is narrow: `limited_by` as in `Access`, a sentence, and what to change.

    `fix` is empty where the access is what the kernel is about and nothing is to be changed.
    `widest` is what one access could move after the fix, in bits; None where what the tile's shape
    allows (`Limits.widest`) is right. `is_bounded` is false where no bound is known at all.
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
    """Whether an access writes memory: what widens loads does nothing for it."""
    return tile.cls == "global_store"


def name_of(axes: Axes, blame: Blame, at: SourceLoc | None) -> str:
    """What is to blame, in the words of the source."""
    return words(axes, blame.value, at)


class Noted(Struct, frozen=True):
    """What is known of an argument because Triton would have noted it at the launch.

    Attributes:
        hidden_one: what keeps Triton from noting that it is 1; empty where nothing does: the
            launch passed another number.
        hidden_multiple: the same of its being divisible by `ALIGNED`.
        value: that the first launch passed; None where it is not known.
    """

    hidden_one: str
    hidden_multiple: str
    value: int | None


def noted(axes: Axes, value: str) -> Noted | None:
    """What Triton would have noted of a value; None where it is no argument of a seen launch."""
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
}
_HIDES_MULTIPLE: Mapping[str, str] = {
    "do_not_specialize": "do_not_specialize",
    "do_not_specialize_on_alignment": "do_not_specialize_on_alignment",
}


def line_of(blame: Blame) -> str:
    """The line of what is to blame, in brackets; empty where it has none."""
    loc = blame.op.loc if blame.op is not None else None
    return f" (line {loc.in_user_code.line})" if loc is not None else ""
