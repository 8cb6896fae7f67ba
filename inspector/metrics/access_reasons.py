"""What made an access of global memory narrow, in words, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kinspect.inspector.model import SourceLoc
from kinspect.inspector.ttgir.axes.blame import (
    Blame,
    Kind,
    not_constant,
    not_contiguous,
    not_divisible,
)
from kinspect.inspector.ttgir.axes.flow import Axes
from kinspect.inspector.ttgir.axes.names import words
from kinspect.inspector.ttgir.axes.tiles import WIDEST_BITS, Limits, Tile

ALIGNED = 16
"""Triton notes of an argument whether it is divisible by this; 16 bytes are the widest access."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an access is narrow: `limited_by` as in `Access`, a sentence, and what to change."""

    limited_by: str
    text: str
    fix: str


def count(n: int, what: str = "element") -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def explain_global(tile: Tile, limits: Limits, axes: Axes) -> Reason | None:
    """Why an access of global memory moves fewer than 128 bits; None where it could.

    Args:
        tile: the operation.
        limits: what each fact allows it.
        axes: the facts.
    """
    need = WIDEST_BITS // limits.bits
    contiguity, aligned = limits.contiguity or 1, limits.aligned or 1
    facts = min(contiguity, aligned, need if limits.mask is None else limits.mask)
    if limits.elements >= need:
        return None
    if facts > limits.per_thread or facts >= need:
        return short_run(tile, limits, need)
    if contiguity == facts:
        other = _contiguous_dim(tile, axes, limits.dim)
        if other is not None:
            return _wrong_order(limits.dim, other)
        return _not_contiguous(tile, limits, axes, need)
    if aligned == facts:
        found = _not_aligned(tile, limits, axes)
        also = "; the mask allows no more" if limits.mask == facts else ""
        return replace(found, text=found.text + also)
    return _masked(tile, limits, axes, need)


# --------------------------------------------------------------------------- layout, order, tile


def short_run(tile: Tile, limits: Limits, need: int) -> Reason:
    """The addresses would allow more than a thread holds."""
    shape = "×".join(map(str, tile.of.shape))
    if limits.held < need:
        text = (
            f"a thread holds only {count(limits.held)} of {limits.bits} bits"
            f" of the {shape} tile: {limits.held * limits.bits} bits"
        )
        small = limits.held * 32 >= WIDEST_BITS
        return Reason(
            "dtype" if small else "tile",
            text + (f"; 128 bits are {need} elements of this type" if small else ""),
            "Use a larger block along the contiguous dimension or fewer waves (num_warps),"
            f" so that each thread gets {need} elements.",
        )
    layout = tile.of.layout
    if layout is not None and layout.kind in ("amd_mfma", "amd_wmma"):
        return Reason(
            "layout",
            f"the matrix instruction leaves each lane {count(limits.per_thread, 'neighbour')} along"
            f" dim {limits.dim}, and the tile is accessed in that layout",
            "Outside of a loop this costs little; in a loop, keep the accumulator in registers and"
            " store it once, after the loop.",
        )
    return Reason(
        "layout",
        f"the layout gives a thread {count(limits.per_thread, 'neighbour')} along dim {limits.dim}"
        f" where memory would allow {need}",
        "Another access or a product fixes this layout: make the block larger along the contiguous"
        " dimension, use fewer waves, or load the tile by itself.",
    )


def _contiguous_dim(tile: Tile, axes: Axes, dim: int) -> int | None:
    """Another dimension along which the addresses are contiguous."""
    facts = axes.of(tile.addresses or "", len(tile.of.shape))
    if facts.contiguity[dim] > 1:
        return None
    best = max(range(len(facts.contiguity)), key=lambda d: facts.contiguity[d])
    return best if facts.contiguity[best] > 1 else None


def _wrong_order(dim: int, other: int) -> Reason:
    return Reason(
        "order",
        f"memory is contiguous along dim {other}, but a thread's elements lie side by side along"
        f" dim {dim}",
        f"Make dim {other} the fastest of the tile: swap the block's dimensions, or transpose the"
        " tile before the access (tl.trans).",
    )


# --------------------------------------------------------------------------- contiguity


def _not_contiguous(tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    blame = not_contiguous(axes, tile.addresses or "", limits.dim, need)
    at = tile.op.loc
    name = _name(axes, blame, at)
    text, fix = _CONTIGUITY.get(blame.kind, _other_contiguity)(name, blame, limits, need)
    return Reason("contiguity", text, fix)


_Words = Callable[[str, Blame, Limits, int], tuple[str, str]]


def _factor(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    apart = f"neighbouring elements along dim {limits.dim} lie {name} apart"
    if blame.constant is not None:
        return (
            apart,
            "Make the dimension that is contiguous in memory the tile's fastest, or store the"
            " tensor the other way round.",
        )
    return (
        f"{name} is not known to be 1: {apart}",
        f"Pass {name} as tl.constexpr 1, or a tensor that is contiguous along this dimension"
        " (Triton notes of an argument that it is 1); where neighbours do lie side by side, say so"
        " with tl.max_contiguous.",
    )


def _loaded(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    return (
        f"the addresses along dim {limits.dim} rest on values loaded from memory"
        f"{_line(blame)}: whether neighbours lie side by side is not known",
        f"Where they do, say so: tl.max_contiguous(tl.multiple_of(offsets, {need}), {need});"
        " else load whole rows along a dimension that is contiguous.",
    )


def _repeated(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    return (
        f"all elements along dim {limits.dim} have the same address",
        "Load it once, as a scalar or a smaller tile, and let tl.broadcast_to spread it.",
    )


def _wrap(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    sign = "//" if blame.op is not None and "div" in blame.op.name else "%"
    return (
        f"the offsets are taken {sign} {name}, which is not known to be divisible by {need}: they"
        f" may jump between neighbours along dim {limits.dim}",
        f"Pad {name} to a multiple of {ALIGNED}, or say that no run is cut:"
        f" tl.max_contiguous(tl.multiple_of(offsets, {need}), {need}).",
    )


def _other_contiguity(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    return (
        f"{name} is not known to step by one from element to element along dim {limits.dim}"
        f"{_line(blame)}",
        f"Where it does, say so: tl.max_contiguous(tl.multiple_of(offsets, {need}), {need}).",
    )


_CONTIGUITY: Mapping[Kind, _Words] = {
    "factor": _factor,
    "loaded": _loaded,
    "repeated": _repeated,
    "wrap": _wrap,
}


# --------------------------------------------------------------------------- alignment


def _not_aligned(tile: Tile, limits: Limits, axes: Axes) -> Reason:
    size = limits.bits // 8
    gives = f"the address is known to be aligned to {count(limits.divisibility or 1, 'byte')} only"
    if tile.offsets is not None:
        base = axes.of(tile.pointer or "").divisibility[0]
        if base <= (limits.divisibility or 1):
            return _pointer(axes, tile.pointer or "", gives)
        blame = not_divisible(axes, tile.offsets, limits.dim, WIDEST_BITS // limits.bits)
    else:
        blame = not_divisible(axes, tile.pointer or "", limits.dim, ALIGNED)
        if blame.kind == "argument" and _is_pointer(axes, blame):
            return _pointer(axes, blame.value, gives)
    text, fix = _indivisible(axes, blame, tile.op.loc, WIDEST_BITS // 8 // size)
    return Reason("divisibility", f"{text}: {gives}", fix)


def _is_pointer(axes: Axes, blame: Blame) -> bool:
    return any(
        of.kind == "ptr"
        for op in axes.graph.ops
        for name, of in zip(op.operands, op.operand_types, strict=False)
        if name == blame.value
    )


def _pointer(axes: Axes, value: str, gives: str) -> Reason:
    name = words(axes, value, None)
    return Reason(
        "divisibility",
        f"{name} is not known to be aligned to {ALIGNED} bytes: {gives}",
        f"Pass a tensor that begins at a multiple of {ALIGNED} bytes (a view may begin anywhere);"
        " Triton notes of each pointer argument whether it does.",
    )


def _indivisible(axes: Axes, blame: Blame, at: SourceLoc | None, need: int) -> tuple[str, str]:
    name = _name(axes, blame, at)
    if blame.kind == "argument":
        return (
            f"{name} is not known to be divisible by {need}",
            f"Pad it to a multiple of {ALIGNED}, which Triton then notes of the argument; where it"
            f" always is one, compute with {name} // {ALIGNED} * {ALIGNED} (tl.multiple_of of an"
            " argument is lost).",
        )
    if blame.kind == "constant":
        return f"{name} is not divisible by {need}", f"Use a multiple of {need}."
    if blame.kind == "loaded":
        return (
            f"a value loaded from memory{_line(blame)} is not known to be divisible by {need}",
            f"Where it always is, compute with x // {need} * {need}.",
        )
    return (
        f"{name} is not known to be divisible by {need}{_line(blame)}",
        f"Where it always is, compute with {name} // {need} * {need}.",
    )


# --------------------------------------------------------------------------- mask


def _masked(tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    mask = tile.mask or ""
    shared = limits.mask or 1
    blame = not_constant(axes, mask, limits.dim, need)
    every = "from element to element" if shared == 1 else f"after every {shared} elements"
    said = words(axes, mask, tile.op.loc)
    what = f"the mask {said}" if said != "…" else "the mask"
    cause, fix = _mask_cause(axes, blame, tile.op.loc, need)
    return Reason("mask", f"{what} may change {every} along dim {limits.dim}: {cause}", fix)


_UNMASKED = (
    "or load without a mask where none is needed (a tl.constexpr that says the size is even, the"
    " last iteration apart)."
)


def _mask_cause(axes: Axes, blame: Blame, at: SourceLoc | None, need: int) -> tuple[str, str]:
    name = _name(axes, blame, at)
    if blame.kind == "argument":
        return (
            f"{name} is not known to be divisible by {need}",
            f"Pad {name} to a multiple of {ALIGNED}, which Triton then notes of the argument,"
            f" {_UNMASKED}",
        )
    if blame.kind == "constant":
        return f"{name} is not divisible by {need}", f"Use a multiple of {need}, {_UNMASKED}"
    if blame.kind == "loaded":
        return (
            f"it rests on a value loaded from memory{_line(blame)}",
            f"Where that is always a multiple of {need}, compute with x // {need} * {need},"
            f" {_UNMASKED}",
        )
    return (
        f"{name} is not known to be divisible by {need}{_line(blame)}",
        f"Where it always is, compute with {name} // {need} * {need}, {_UNMASKED}",
    )


def _name(axes: Axes, blame: Blame, at: SourceLoc | None) -> str:
    return words(axes, blame.value, at)


def _line(blame: Blame) -> str:
    loc = blame.op.loc if blame.op is not None else None
    return f" (line {loc.in_user_code.line})" if loc is not None else ""
