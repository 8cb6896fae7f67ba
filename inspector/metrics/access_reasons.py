"""What made an access of global memory narrow, in words, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from kinspect.inspector.model import SourceLoc, TtgirOp
from kinspect.inspector.ttgir.axes.blame import (
    Blame,
    Kind,
    not_constant,
    not_contiguous,
    not_divisible,
)
from kinspect.inspector.ttgir.axes.flow import Axes
from kinspect.inspector.ttgir.axes.names import words
from kinspect.inspector.ttgir.axes.tiles import (
    WIDEST_BITS,
    Limits,
    Tile,
    distinct_addresses,
)

ALIGNED = 16
"""Triton notes of an argument whether it is divisible by this; 16 bytes are the widest access."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an access is narrow: `limited_by` as in `Access`, a sentence, and what to change.

    `fix` is empty where the access is what the kernel is about and nothing is to be changed.
    `widest` is what one access could move after the fix, in bits; None where what the tile's shape
    allows (`Limits.most`) is right. `is_bounded` is false where no bound is known at all.
    """

    limited_by: str
    text: str
    fix: str
    widest: int | None = None
    is_bounded: bool = True


def count(n: int, what: str = "element", plural: str = "s") -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}{plural}"


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
        return None if _shares_addresses(tile, limits) else _small(tile, limits)
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


def _shares_addresses(tile: Tile, limits: Limits) -> bool:
    """Whether lanes need fewer elements than they hold, because some have one address."""
    size = tile.of.shape[limits.dim]
    return limits.share < max(1, min(prod(tile.of.shape) // limits.lanes, size))


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
    if blame.kind in ("shared", "divided", "repeated"):
        found = _broadcast(tile, limits, axes, blame)
    else:
        name = _name(axes, blame, at)
        text, fix, widest = _CONTIGUITY.get(blame.kind, _other)(name, blame, limits, need)
        found = Reason("contiguity", text, fix, widest)
    if found.fix and tile.mask is not None and axes.of(tile.mask).constancy[limits.dim] == 1:
        return _with_mask(found, tile, limits, axes, need)
    return found


def _meant(tile: Tile, limits: Limits, axes: Axes, blame: Blame, need: int) -> tuple[Limits, Blame]:
    """Which dimension was meant to be contiguous, where none is known to be."""
    dims = [dim for dim, size in enumerate(tile.of.shape) if size > 1]
    causes = {dim: not_contiguous(axes, tile.addresses or "", dim, need) for dim in dims}
    for dim, cause in causes.items():
        if cause.kind == "shared" and cause.factor is None and limits.per_thread == 1:
            return replace(limits, dim=dim), cause
    # A descriptor's last stride is 1; elsewhere neighbouring lanes are to access neighbours.
    meant = dims[-1] if _STRIDE_OF_DESCRIPTOR in blame.value else limits.across
    if meant is not None and meant in causes and causes[meant].kind == "factor":
        return replace(limits, dim=meant), causes[meant]
    return limits, blame


_Words = Callable[[str, Blame, Limits, int], tuple[str, str, int | None]]
"""What is said of a cause, what to change, and `Reason.widest`."""


def _factor(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str, int | None]:
    dim = limits.dim
    if blame.constant is not None:
        text = f"neighbouring elements along dim {dim} lie {blame.constant} apart"
        if blame.constant != _PAIR:
            return text, "", limits.width
        return (
            text,
            "Load the elements between as well, with a tile that is twice as long, and take the"
            " pairs apart in registers: tl.split(tl.reshape(both, (..., 2))). They must be inside"
            " of the tensor, or masked. (Tried: a quarter of the loads, for one trip through LDS.)",
            min(WIDEST_BITS, _PAIR * need * limits.bits),
        )
    apart = f"neighbouring elements along dim {dim} lie {name} apart"
    if _STRIDE_OF_DESCRIPTOR in name:
        return (
            f"{name} is not known to be 1: this target has no tensor descriptors, and what Triton"
            " makes of one that the host passes forgets that its last stride is 1",
            "Make the descriptor in the kernel, with the last stride written as 1"
            " (tl.make_tensor_descriptor), or load through pointers.",
            None,
        )
    return (
        f"{name} is not known to be 1: {apart}",
        f"Pass {name} as tl.constexpr 1, or a tensor that is contiguous along this dimension"
        " (Triton notes of an argument that it is 1); where neighbours do lie side by side, say so"
        " with tl.max_contiguous.",
        None,
    )


def _loaded(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str, int | None]:
    return (
        f"the addresses along dim {limits.dim} rest on values loaded from memory"
        f"{_line(blame)}: whether neighbours lie side by side is not known",
        "",
        None,
    )


def _broadcast(tile: Tile, limits: Limits, axes: Axes, blame: Blame) -> Reason:
    """Neighbours share an address: how many there are, and how each is loaded once."""
    dim, shape = limits.dim, tile.of.shape
    size = shape[dim]
    if blame.kind == "repeated":
        text = f"all {size} elements along dim {dim} have the same address"
        return Reason("broadcast", text, "", limits.width)
    name = _name(axes, blame, tile.op.loc)
    if blame.kind == "divided":
        return Reason(
            "broadcast",
            f"the offsets along dim {dim} are taken // {name}, of which nothing is known: unless it"
            " is 1, neighbours share an address",
            f"Pass {name} as tl.constexpr: each address that a lane needs is then loaded once"
            " (tried: 16 loads became 8 for 2, 2 for 8 and more).",
            is_bounded=False,
        )
    distinct = distinct_addresses(axes.of(tile.addresses or "", len(shape)), shape)[dim]
    group, same = blame.constant, size // distinct
    if group is not None and same < group:  # the groups do not begin where the tile does
        distinct = min(distinct, (size + group - 2) // group + 1)
    exact = group == same and blame.factor is None
    text = (
        f"neighbours along dim {dim} share an address{f', {group} at a time' if group else ''}:"
        f" {'' if exact else 'at most '}{count(distinct, 'different address', 'es')} for {size}"
        " elements"
    )
    if not exact:
        return Reason("broadcast", text, "", limits.width)
    return Reason(
        "broadcast",
        text,
        f"Load each address once, with a tile that is {group} times shorter along dim {dim}, and"
        f" spread or unpack it in registers: tl.reshape(tl.broadcast_to(...)), or a shift by"
        " tl.arange for packed values. (Tried: 8 narrow loads became a wide one, for a trip"
        " through LDS.)",
    )


def _wrap(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str, int | None]:
    if blame.constant is not None:
        return (
            f"the offsets are taken % {name}, which is not divisible by {need}: they jump"
            f" between neighbours along dim {limits.dim}",
            "Where this only keeps the offsets inside of the tensor, mask them instead (not"
            f" tried); where the size may be changed, use a multiple of {need}.",
            None,
        )
    return (
        f"the offsets are taken % {name}, which is not known to be divisible by {need}: they"
        f" may jump between neighbours along dim {limits.dim}",
        f"Pad the tensor so that {name} is a multiple of {ALIGNED}, which Triton then notes of an"
        f" argument; where it always is a multiple of {need}, say that no run is cut:"
        f" tl.max_contiguous(tl.multiple_of(offsets, {need}), {need}).",
        None,
    )


def _other(name: str, blame: Blame, limits: Limits, need: int) -> tuple[str, str, int | None]:
    text = (
        f"{name} is not known to step by one from element to element along dim {limits.dim}"
        f"{_line(blame)}"
    )
    if blame.op is not None and blame.op.name in _BITWISE:
        return text, "", None  # a swizzle or a mask of bits hardly ever counts up
    hint = f"tl.max_contiguous(tl.multiple_of(offsets, {need}), {need})"
    return text, f"Where it does, say so: {hint}.", None


_CONTIGUITY: Mapping[Kind, _Words] = {
    "factor": _factor,
    "loaded": _loaded,
    "wrap": _wrap,
}
_STRIDE_OF_DESCRIPTOR = ".stride."
_BITWISE = frozenset(("arith.andi", "arith.ori", "arith.xori"))
_PAIR = 2


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
    said = words(axes, _varying(axes, mask, limits.dim, need), tile.op.loc)
    what = "the mask" if said in ("…", "mask") else f"the mask {said}"
    cause, fix = _mask_cause(axes, blame, tile.op.loc, need)
    return Reason("mask", f"{what} may change {every} along dim {limits.dim}: {cause}", fix)


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


_UNMASKED = (
    "or load without a mask where none is needed (a tl.constexpr that says the size is even, the"
    " last iteration apart)."
)


def _mask_cause(axes: Axes, blame: Blame, at: SourceLoc | None, need: int) -> tuple[str, str]:
    if blame.kind == "predicate" and blame.op is not None:
        return _at_any_element(blame.op, need)
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


def _at_any_element(comparison: TtgirOp, need: int) -> tuple[str, str]:
    """A comparison for which no divisibility helps."""
    predicate = str(comparison.attributes.get("predicate"))
    if predicate in ("eq", "ne"):
        return f"it asks for single elements{_line(Blame('predicate', '', comparison))}", ""
    return (
        "it changes after the bound, not before it",
        f"Compare with < (or >=) and a bound that is a multiple of {need}: offs < n for"
        f" offs <= n - 1, {_UNMASKED}",
    )


def _name(axes: Axes, blame: Blame, at: SourceLoc | None) -> str:
    return words(axes, blame.value, at)


def _line(blame: Blame) -> str:
    loc = blame.op.loc if blame.op is not None else None
    return f" (line {loc.in_user_code.line})" if loc is not None else ""
