"""The argument or operation at which a value lost contiguity, divisibility or constancy."""

from __future__ import annotations

from . import constancy_causes, contiguity_causes, divisibility_causes
from .analysis import Axes, loaded_tile
from .blame_walk import BlameWalk, Rules
from .facts import Blame

_RULES = Rules(contiguity_causes.RULES, divisibility_causes.RULES, constancy_causes.RULES)


def not_contiguous(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that fewer than `need` neighbours along a dimension are adjacent in memory."""
    blame = BlameWalk(axes, _RULES).contiguity(value, dim, need)
    if blame.kind not in ("constant", "value"):
        return blame
    load = loaded_tile(axes, blame.value)
    return blame if load is None else Blame("loaded", load.results[0], load)


def not_divisible(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that the first of the neighbours is not known to be a multiple of `need`."""
    return BlameWalk(axes, _RULES).divisibility(value, dim, need)


def not_constant(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that fewer than `need` neighbours along a dimension are known to be equal."""
    return BlameWalk(axes, _RULES).constancy(value, dim, need)
