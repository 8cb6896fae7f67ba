"""What the reasons of narrow accesses are made of: names of the source, arguments of the launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ..model import SourceLoc
from ..ttgir.axes.analysis import Axes, is_argument
from ..ttgir.axes.blamed import Blame
from ..ttgir.axes.variables import argument_name, spelled, spelled_division
from ..ttgir.axes.widths import Tile

ALIGNED = 16
"""Triton notes whether an argument is divisible by this; 16 bytes are the widest access."""


_PART_OF_ARGUMENT = "."
"""In the names of what Triton makes of tuples and descriptors, of which it notes little."""
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


class Cause(NamedTuple):
    """A cause that limits an access, in words, and the change that helps; empty without one."""

    text: str
    fix: str = ""


class Reason(Struct, frozen=True):
    """The reason that an access is narrow.

    Args:
        limited_by: as in `Access`.
        text: a sentence.
        fix: the change that helps; empty where there is none.
        widest: bits of one access after the fix; None where the tile's shape decides
            (`WidthLimits.widest`).
        is_bounded: false where no bound is known at all.
    """

    limited_by: str
    text: str
    fix: str
    widest: int | None = None
    is_bounded: bool = True

    def limited_as_well(self, what: str, text: str, fix: str) -> Reason:
        """The reason with a second cause of `what`; without a fix of both none helps.

        Args:
            text: continues the sentence.
        """
        fixes = f"{self.fix} For the {what}: {fix}" if self.fix and fix else ""
        return replace(self, text=f"{self.text}; the {text}", fix=fixes)


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
    division = spelled_division(axes, blame.value, access_loc)
    return "" if division == name_of(axes, blame, access_loc) else division


class LaunchedArgument(Struct, frozen=True):
    """An argument of a captured launch, of which Triton notes some facts.

    Attributes:
        hides_one: what keeps Triton from noting that the argument is 1: `do_not_specialize`; empty
            where nothing does, so that the launch passed another number.
        hides_multiple: the same of its divisibility by `ALIGNED`.
        value: what the largest launch passed; None where that is not known.
    """

    hides_one: str
    hides_multiple: str
    value: int | None


def launched_argument(axes: Axes, value: str) -> LaunchedArgument | None:
    """The argument that a value is; None where it is none, or no launch was captured."""
    if axes.graph.unspecialised is None or not is_argument(axes, value):
        return None
    name = argument_name(value)
    if _PART_OF_ARGUMENT in name:
        return None
    cause = axes.graph.unspecialised.get(name, "")
    passed = (axes.graph.values or {}).get(name)
    return LaunchedArgument(_HIDES_ONE.get(cause, ""), _HIDES_MULTIPLE.get(cause, ""), passed)


def line_of(blame: Blame) -> str:
    """The line of the operation at fault, in brackets; empty without one."""
    loc = blame.op.loc if blame.op is not None else None
    return f" (line {loc.in_user_code.line})" if loc is not None else ""
