"""What a mask does to the width of an access, in words, and what to change."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ..model import TtgirOp
from ..ttgir.axes.blame import loaded_tile, not_constant
from ..ttgir.axes.cause import Blame, Kind
from ..ttgir.axes.flow import Axes
from ..ttgir.axes.names import words
from ..ttgir.axes.tiles import Limits, Tile
from .alignment_reasons import argument_indivisible
from .reasons import ALIGNED, Reason, is_store, line_of, name_of, noted

_SIZE_OF_DESCRIPTOR = ".shape."  # as Triton names the arguments that it makes of one


def with_mask(reason: Reason, tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    """The mask is in the way as well."""
    blame = not_constant(axes, tile.mask or "", limits.dim, need)
    cause, fix = _mask_cause(axes, blame, tile, need)
    if cause in reason.text:
        return replace(reason, text=f"{reason.text}; the mask allows no more")
    also = f"; the mask allows no more: {cause}"
    return replace(
        reason,
        text=reason.text + also,
        fix=reason.fix and fix and f"{reason.fix} For the mask: {fix}",
    )


def masked(tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    """The mask alone splits the accesses."""
    mask = tile.mask or ""
    shared = limits.mask or 1
    blame = not_constant(axes, mask, limits.dim, need)
    every = "from element to element" if shared == 1 else f"after every {shared} elements"
    varying = words(axes, _varying(axes, mask, limits.dim, need), tile.op.loc)
    mask_name = "the mask" if varying in ("…", "mask") else f"the mask {varying}"
    cause, fix = _mask_cause(axes, blame, tile, need)
    return Reason("mask", f"{mask_name} may change {every} along dim {limits.dim}: {cause}", fix)


def _varying(axes: Axes, mask: str, dim: int, need: int) -> str:
    """The part of a mask that splits accesses; pipelining adds what holds for a whole tile."""
    op = axes.graph.made.get(mask)
    while op is not None and op.name in ("arith.andi", "tt.broadcast", "ttg.convert_layout"):
        parts = [name for name in op.operands if axes.of(name, dim + 1).constancy[dim] < need]
        if len(parts) != 1:
            break
        mask = parts[0]
        op = axes.graph.made.get(mask)
    return mask


# What keeps the compared elements from counting up by one: no divisibility helps there.
_NO_STEPS: Mapping[Kind, str] = {
    "divided": "are not known to count up by one",
    "factor": "are not known to count up by one",
    "repeated": "do not count up by one",
    "reversed": "fall by one from element to element",
    "shared": "do not count up by one",
}


def _mask_cause(axes: Axes, blame: Blame, tile: Tile, need: int) -> tuple[str, str]:
    compared = blame.op.operands if blame.kind == "predicate" and blame.op is not None else ()
    names = (blame.value, *compared)
    loaded = next(filter(None, (loaded_tile(axes, name) for name in names)), None)
    if loaded is not None:
        return (
            f"it is loaded from memory{line_of(replace(blame, op=loaded))}, element by element",
            "",
        )
    if blame.kind == "predicate" and blame.op is not None:
        return _at_any_element(blame.op, need)
    if blame.kind in _NO_STEPS:
        return f"the elements that it compares {_NO_STEPS[blame.kind]}{line_of(blame)}", ""
    name = name_of(axes, blame, tile.op.loc)
    unmasked = (
        f"or {'store' if is_store(tile) else 'load'} without a mask where none is needed (a"
        " tl.constexpr that says the size is even, the last iteration apart"
        f"{'' if is_store(tile) else '; what is read beyond the size must then do no harm'})."
    )
    argument = noted(axes, blame.value) if blame.kind == "argument" else None
    if argument is not None:
        text, fix = argument_indivisible(name, argument, need)
        return text, f"{fix.removesuffix('.')}, {unmasked}" if fix else ""
    if blame.kind == "argument" and _SIZE_OF_DESCRIPTOR in name:
        return (
            f"{name} is not known to be divisible by {need}: of a descriptor that the host passes"
            " Triton notes no divisibility",
            f"Make the descriptor in the kernel, with a size that is noted as a multiple of {need}"
            f" (a tl.constexpr, or an argument that is a multiple of {ALIGNED}), {unmasked}",
        )
    if blame.kind == "argument":
        return (
            f"{name} is not known to be divisible by {need}",
            f"Pad {name} to a multiple of {ALIGNED}, which Triton then notes of the argument,"
            f" {unmasked}",
        )
    if blame.kind == "constant":
        return f"{name} is not divisible by {need}", f"Use a multiple of {need}, {unmasked}"
    if blame.kind in ("shift", "program", "range"):
        # A number, or what counts by one: rounding it would let other elements through.
        return f"{name} is not divisible by {need}{line_of(blame)}", ""
    if blame.kind == "loaded":
        return (
            f"it rests on a value loaded from memory{line_of(blame)}",
            f"Where that is always a multiple of {need}, compute with x // {need} * {need},"
            f" {unmasked}",
        )
    return (
        f"{name} is not known to be divisible by {need}{line_of(blame)}",
        f"Where it always is, compute with {name} // {need} * {need}, {unmasked}",
    )


def _at_any_element(comparison: TtgirOp, need: int) -> tuple[str, str]:
    """A comparison for which no divisibility helps."""
    predicate = str(comparison.attributes.get("predicate"))
    if predicate in ("eq", "ne"):
        return f"it asks for single elements{line_of(Blame('predicate', '', comparison))}", ""
    return (
        "it changes after the bound, not before it",
        f"Where the bound + 1 is a multiple of {need}, compare with < (offs < n in place of"
        " offs <= n - 1; tried: 8 loads of 16 bits became one of 128).",
    )
