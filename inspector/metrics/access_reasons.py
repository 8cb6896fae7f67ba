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
    """Why an access is narrow: `limited_by` as in `Access`, a sentence, and what to change.

    `fix` is empty where the access is what the kernel is about and nothing is to be changed.
    """

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
    if limits.width >= WIDEST_BITS:
        return None
    if limits.elements >= limits.most:
        return _small(tile, limits)
    need = limits.most
    contiguity, aligned = limits.contiguity or 1, limits.aligned or 1
    facts = min(contiguity, aligned, need if limits.mask is None else limits.mask)
    if facts > limits.per_thread or facts >= need:
        return short_run(tile, limits, need)
    if contiguity == facts:
        other = _contiguous_dim(tile, axes, limits.dim)
        if other is not None:
            return _wrong_order(limits, other)
        return _not_contiguous(tile, limits, axes, need)
    if aligned == facts:
        found = _not_aligned(tile, limits, axes, need)
        return _with_mask(found, tile, limits, axes, need) if limits.mask == facts else found
    return _masked(tile, limits, axes, need)


# --------------------------------------------------------------------------- layout, order, tile


def _small(tile: Tile, limits: Limits) -> Reason:
    """The tile has no more elements for as many lanes, or not in this dimension."""
    shape, size = "×".join(map(str, tile.of.shape)), count(limits.share)
    share = f"{size} of {limits.bits} bits"
    if limits.share == tile.of.shape[limits.dim]:
        text = f"the {shape} tile has only {share} along dim {limits.dim}"
    else:
        text = f"spread over {limits.lanes} lanes, the {shape} tile gives each only {share}"
    return Reason(
        "dtype" if limits.share * 32 >= WIDEST_BITS else "tile",
        f"{text}; {WIDEST_BITS} bits are {WIDEST_BITS // limits.bits} elements of this type",
        "Use a larger block along the contiguous dimension or fewer waves (num_warps), so that each"
        f" lane gets {WIDEST_BITS // limits.bits} elements.",
    )


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


def _wrong_order(limits: Limits, other: int) -> Reason:
    dim = limits.dim
    if limits.across == other:
        return Reason(
            "layout",
            f"memory is contiguous along dim {other}, where neighbouring lanes lie, but a lane's"
            f" own elements lie side by side along dim {dim}: each moves one element",
            "A product or another access fixes this layout. In a loop, convert the tile once"
            " before the store, or swap the operands of the product.",
        )
    return Reason(
        "order",
        f"memory is contiguous along dim {other}, but neighbouring lanes and the elements of a lane"
        f" lie along dim {dim}",
        f"Make dim {other} the fastest of the tile: swap the block's dimensions, or transpose the"
        " tile before the access (tl.trans).",
    )


# --------------------------------------------------------------------------- contiguity


def _not_contiguous(tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    blame = not_contiguous(axes, tile.addresses or "", limits.dim, need)
    if blame.kind == "factor" and blame.constant is None:
        limits, blame = _meant(tile, limits, axes, blame, need)
    at = tile.op.loc
    name = _name(axes, blame, at)
    text, fix = _CONTIGUITY.get(blame.kind, _other_contiguity)(name, blame, limits, need)
    found = Reason("contiguity", text, fix)
    if fix and tile.mask is not None and axes.of(tile.mask).constancy[limits.dim] == 1:
        return _with_mask(found, tile, limits, axes, need)
    return found


def _meant(tile: Tile, limits: Limits, axes: Axes, blame: Blame, need: int) -> tuple[Limits, Blame]:
    """Which dimension was meant to be contiguous, where none is known to be."""
    dims = [dim for dim, size in enumerate(tile.of.shape) if size > 1]
    causes = {dim: not_contiguous(axes, tile.addresses or "", dim, need) for dim in dims}
    for dim, cause in causes.items():
        if cause.kind == "shared" and limits.per_thread == 1:
            return replace(limits, dim=dim), cause
    # A descriptor's last stride is 1; elsewhere neighbouring lanes are to access neighbours.
    meant = dims[-1] if _STRIDE_OF_DESCRIPTOR in blame.value else limits.across
    if meant is not None and meant in causes and causes[meant].kind == "factor":
        return replace(limits, dim=meant), causes[meant]
    return limits, blame


_Words = Callable[[str, Blame, Limits, int], tuple[str, str]]


def _factor(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    apart = f"neighbouring elements along dim {limits.dim} lie {name} apart"
    if blame.constant is not None:
        return (
            apart,
            "Make the dimension that is contiguous in memory the tile's fastest (store the tensor"
            " the other way round), or load all of it and take it apart in registers (tl.split).",
        )
    if _STRIDE_OF_DESCRIPTOR in name:
        return (
            f"{name} is not known to be 1: this target has no tensor descriptors, and what Triton"
            " makes of one that the host passes forgets that its last stride is 1",
            "Make the descriptor in the kernel, with the last stride written as 1"
            " (tl.make_tensor_descriptor), or load through pointers.",
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
        "",
    )


def _shared(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    return (
        f"neighbours along dim {limits.dim} share an address, {blame.constant} at a time: the"
        f" offsets are taken // {blame.constant}",
        f"Load each element once, with a tile that is {blame.constant} times shorter along dim"
        f" {limits.dim}, and spread or unpack it in registers (tl.broadcast_to and tl.reshape;"
        " tl.join for packed values).",
    )


def _repeated(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    return (
        f"all elements along dim {limits.dim} have the same address",
        "Load it once, as a scalar or a smaller tile, and let tl.broadcast_to spread it.",
    )


def _wrap(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str]:
    sign = "//" if blame.op is not None and "div" in blame.op.name else "%"
    if blame.constant is not None:
        return (
            f"the offsets are taken {sign} {name}, which is not divisible by {need}: they jump"
            f" between neighbours along dim {limits.dim}",
            f"Use a multiple of {need}.",
        )
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
    "shared": _shared,
    "wrap": _wrap,
}
_STRIDE_OF_DESCRIPTOR = ".stride."


# --------------------------------------------------------------------------- alignment


def _not_aligned(tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    size = limits.bits // 8
    gives = f"the address is known to be aligned to {count(limits.divisibility or 1, 'byte')} only"
    if tile.offsets is not None:
        base = axes.of(tile.pointer or "").divisibility[0]
        if base <= (limits.divisibility or 1):
            return _pointer(axes, tile.pointer or "", gives)
        blame = not_divisible(axes, tile.offsets, limits.dim, need)
    else:
        blame = not_divisible(axes, tile.pointer or "", limits.dim, need * size)
        if blame.kind == "argument" and _is_pointer(axes, blame):
            return _pointer(axes, blame.value, gives)
    text, fix = _indivisible(axes, blame, tile.op.loc, need)
    return Reason("divisibility", f"{text}: {gives}", fix)


def _with_mask(found: Reason, tile: Tile, limits: Limits, axes: Axes, need: int) -> Reason:
    """The mask is in the way as well."""
    blame = not_constant(axes, tile.mask or "", limits.dim, need)
    cause, fix = _mask_cause(axes, blame, tile.op.loc, need)
    if cause in found.text:
        return replace(found, text=f"{found.text}; the mask allows no more")
    also = f"; the mask allows no more: {cause}"
    return replace(
        found, text=found.text + also, fix=found.fix and f"{found.fix} For the mask: {fix}"
    )


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
            "",
        )
    if blame.op is not None and blame.op.name == "tt.int_to_ptr":
        return (
            f"{name} is a pointer made of a number, of which no alignment is known{_line(blame)}",
            f"Where it always begins at a multiple of {ALIGNED} bytes, say so of the tensor of"
            f" pointers: tl.multiple_of(pointers, [{ALIGNED}, {ALIGNED}]).",
        )
    if blame.kind == "shift":
        return f"the addresses are shifted by {name}{_line(blame)}", ""
    if blame.kind in ("program", "range"):
        return f"{name} is not divisible by {need}{_line(blame)}", ""
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
    what = "the mask" if said in ("…", "mask") else f"the mask {said}"
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
