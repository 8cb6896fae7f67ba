"""Effects of masks on the width of an access, in words, with fixes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ..model import TtgirOp
from ..ttgir.axes.analysis import Axes, loaded_tile
from ..ttgir.axes.blame import not_constant
from ..ttgir.axes.blamed import Blame, Kind
from ..ttgir.axes.variables import spelled
from ..ttgir.axes.widths import Tile, WidthLimits
from .alignment_reasons import indivisible
from .narrow_reasons import ALIGNED, Cause, Reason, line_of, name_of

_SIZE_OF_DESCRIPTOR = ".shape."
"""In the names of the arguments that Triton makes of one."""
_TRANSPARENT = ("arith.andi", "tt.broadcast", "ttg.convert_layout")
"""Operations whose result splits accesses because one of their operands does."""
_NO_STEPS: Mapping[Kind, str] = {
    "divided": "are not known to count up by one",
    "factor": "are not known to count up by one",
    "repeated": "do not count up by one",
    "reversed": "fall by one from element to element",
    "shared": "do not count up by one",
}
"""Causes that the compared elements do not count up by one: divisibility does not help there."""


def with_mask(reason: Reason, tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> Reason:
    """The reason, extended by the mask, which limits as well."""
    blame = not_constant(axes, tile.mask or "", limits.dim, need)
    cause = _mask_cause(axes, blame, tile, need)
    if cause.text in reason.text:  # the same cause, and so the same fix
        return replace(reason, text=f"{reason.text}; the mask allows no more")
    return reason.limited_as_well("mask", f"mask allows no more: {cause.text}", cause.fix)


def masked(tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> Reason:
    """The reason of a mask that alone splits the accesses."""
    mask = tile.mask or ""
    shared = limits.mask or 1
    blame = not_constant(axes, mask, limits.dim, need)
    every = "from element to element" if shared == 1 else f"after every {shared} elements"
    varying = spelled(axes, _varying(axes, mask, limits.dim, need), tile.op.loc)
    mask_name = "the mask" if varying in ("…", "mask") else f"the mask {varying}"
    cause = _mask_cause(axes, blame, tile, need)
    text = f"{mask_name} may change {every} along dim {limits.dim}: {cause.text}"
    return Reason("mask", text, cause.fix)


def _varying(axes: Axes, mask: str, dim: int, need: int) -> str:
    """The part of a mask that splits accesses; pipelining adds parts uniform over a tile."""
    op = axes.graph.producers.get(mask)
    while op is not None and op.name in _TRANSPARENT:
        varying = [name for name in op.operands if axes.of(name, dim + 1).constancy[dim] < need]
        if len(varying) != 1:
            break
        mask = varying[0]
        op = axes.graph.producers.get(mask)
    return mask


def _mask_cause(axes: Axes, blame: Blame, tile: Tile, need: int) -> Cause:
    """The cause that a mask splits accesses."""
    compared = blame.op.operands if blame.kind == "predicate" and blame.op is not None else ()
    names = (blame.value, *compared)
    load = next(filter(None, (loaded_tile(axes, name) for name in names)), None)
    if load is not None:
        line = line_of(replace(blame, op=load))
        return Cause(f"it is loaded from memory{line}, element by element")
    if blame.kind == "predicate" and blame.op is not None:
        return _at_any_element(blame.op, need)
    if blame.kind in _NO_STEPS:
        return Cause(f"the elements that it compares {_NO_STEPS[blame.kind]}{line_of(blame)}")
    return _bound_cause(axes, blame, tile, need)


def _bound_cause(axes: Axes, blame: Blame, tile: Tile, need: int) -> Cause:
    """The cause of a bound of the mask, or of a compared value, that is not divisible."""
    name = name_of(axes, blame, tile.op.loc)
    # The same for loads and stores of a tile: it is one change of the source.
    unmasked = "or drop the mask for whole tiles (by a tl.constexpr)."
    if blame.kind == "argument" and _SIZE_OF_DESCRIPTOR in name:
        return Cause(
            f"{name} is not known to be divisible by {need}: of a descriptor that the host passes"
            " Triton notes no divisibility",
            "Make the descriptor in the kernel, with a size that is a tl.constexpr or a multiple of"
            f" {ALIGNED}, {unmasked}",
        )
    if blame.kind == "constant" and blame.constant in (1, -1):
        return Cause(f"its bound moves by {name} from iteration to iteration{line_of(blame)}")
    if blame.kind == "loaded":
        return Cause(
            f"it depends on a value loaded from memory{line_of(blame)}",
            f"If it always is a multiple of {need}, use x // {need} * {need}, {unmasked}",
        )
    cause = indivisible(axes, blame, name, need)
    return cause._replace(fix=f"{cause.fix.removesuffix('.')}, {unmasked}" if cause.fix else "")


def _at_any_element(comparison: TtgirOp, need: int) -> Cause:
    """The cause of a comparison that no divisibility helps."""
    predicate = str(comparison.attributes.get("predicate"))
    if predicate in ("eq", "ne"):
        return Cause(f"it asks for single elements{line_of(Blame('predicate', '', comparison))}")
    return Cause(
        "it changes after the bound, not before it",
        f"If the bound + 1 is a multiple of {need}, compare with < (offs < n, not offs <= n - 1).",
    )
