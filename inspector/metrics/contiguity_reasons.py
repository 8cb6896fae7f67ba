"""Reasons that neighbours of a tile are not adjacent in memory, in words, with fixes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..ttgir.axes.analysis import Axes, is_argument
from ..ttgir.axes.blame import not_contiguous
from ..ttgir.axes.blamed import Blame, Kind
from ..ttgir.axes.starts import shift_of
from ..ttgir.axes.widths import WIDEST_BITS, Tile, WidthLimits, distinct_addresses
from .alignment_reasons import loaded_start_width, with_alignment
from .mask_reasons import with_mask
from .narrow_reasons import (
    ALIGNED,
    LaunchedArgument,
    Reason,
    count,
    is_store,
    launched_argument,
    line_of,
    name_of,
    named_division,
)

_STRIDE_OF_DESCRIPTOR = ".stride."
"""In the names of the arguments that Triton makes of one."""
_BITWISE = frozenset(("arith.andi", "arith.ori", "arith.xori"))
_PAIR = 2
# Tried for loads: 8 loads of 16 bits became one of 128, in another kernel 10 loads became 3.
_TRANSPOSING_FIX = (
    "Store the tensor contiguous along this dimension, or, if another one is contiguous, use a"
    " longer block along that."
)


def explain_contiguity(tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> Reason:
    """The reason that fewer than `need` neighbours along the dimension are adjacent in memory."""
    blame = not_contiguous(axes, tile.addresses or "", limits.dim, need)
    if blame.kind == "factor" and blame.constant is None:
        limits, blame = _intended(tile, limits, axes, blame, need)
    loc = tile.op.loc
    if blame.kind in ("shared", "divided", "repeated"):
        reason = _broadcast(tile, limits, axes, blame)
    else:
        name = name_of(axes, blame, loc)
        explain = _CONTIGUITY.get(blame.kind, _unknown_step)
        if blame.kind == "factor" and blame.factor is not None:
            name = f"{name_of(axes, replace(blame, value=blame.factor), loc)} x {name}"
            explain = _far_apart
        if blame.kind == "factor" and blame.constant is None and _is_not_one(axes, blame.value):
            explain = _known_stride if blame.factor is None else _far_apart
        argument = launched_argument(axes, blame.value)
        if blame.kind == "factor" and argument is not None and argument.value == 0:
            return _expanded(name, limits)
        text, fix, widest = explain(_Cause(name, blame, tile, limits, need))
        division = named_division(axes, blame, loc) if blame.kind == "factor" else ""
        if division and text.startswith(f"{name} "):
            text = f"{name} = {division}{line_of(blame)}{text.removeprefix(name)}"
        elif division and blame.factor is None:
            text = f"{text}, which is {division}{line_of(blame)}"
        if explain is _factor and blame.constant is None and not is_argument(axes, blame.value):
            fix = _of_computed(name, fix)
        if explain is _factor and blame.constant is None and argument is not None:
            text, fix = _of_argument(name, argument, limits)
        if blame.kind == "factor" and blame.constant == _PAIR and widest is not None:
            # The pair that a tile of both would begin with: `offset - 2` is 8 bytes off 16.
            shift = shift_of(axes, tile.addresses or "") // _PAIR * _PAIR
            widest = min(widest, (shift & -shift) * limits.bits) if shift else widest
        bounded = blame.kind in _CONTIGUITY or widest is not None
        reason = Reason("contiguity", text, fix, widest, bounded)
    if reason.fix or blame.kind == "reversed":
        if blame.kind != "factor" or blame.constant is not None:
            # With another stride the start would be another one, which is not known.
            reason = with_alignment(reason, tile, limits, axes, need)
        elif (width := loaded_start_width(tile, limits, axes, need)) is not None:
            reason = replace(reason, widest=width)
        if tile.mask is not None and axes.of(tile.mask, limits.dim + 1).constancy[limits.dim] == 1:
            return with_mask(reason, tile, limits, axes, need)
    return reason


def _is_not_one(axes: Axes, value: str) -> bool:
    """Whether a factor is known to be a multiple of more than 1."""
    return axes.of(value).divisibility[0] > 1


def _intended(
    tile: Tile, limits: WidthLimits, axes: Axes, blame: Blame, need: int
) -> tuple[WidthLimits, Blame]:
    """The dimension that was meant to be contiguous, where none is known to be."""
    dims = [dim for dim, size in enumerate(tile.tensor_type.shape) if size > 1]
    causes = {dim: not_contiguous(axes, tile.addresses or "", dim, need) for dim in dims}
    for dim, cause in causes.items():
        is_shared = cause.kind == "shared" and cause.factor is None
        if is_shared and cause.constant == _address_sharers(tile, axes, dim):
            return replace(limits, dim=dim), cause
    nearest_first = sorted(dims, key=lambda dim: dim != limits.dim)
    hidden = next((dim for dim in nearest_first if _is_hidden_one(axes, causes[dim])), None)
    if hidden is not None:
        return replace(limits, dim=hidden), causes[hidden]
    # A descriptor's last stride is 1; elsewhere neighbouring lanes are to access neighbours.
    intended = dims[-1] if _STRIDE_OF_DESCRIPTOR in blame.value else limits.across
    if intended is not None and intended in causes and causes[intended].kind == "factor":
        return replace(limits, dim=intended), causes[intended]
    return limits, blame


def _is_hidden_one(axes: Axes, cause: Blame) -> bool:
    """Whether neighbours are adjacent, by an argument that is 1 without Triton's knowledge."""
    if cause.kind != "factor" or cause.constant is not None or cause.factor is not None:
        return False
    argument = launched_argument(axes, cause.value)
    return argument is not None and argument.value == 1 and bool(argument.hides_one)


class _Cause(Struct, frozen=True):
    """What is at fault, by its name in the source, in an access that could move `need` elements."""

    name: str
    blame: Blame
    tile: Tile
    limits: WidthLimits
    need: int


_Words = tuple[str, str, int | None]
"""Text of a cause, its fix, and `Reason.widest`."""


def _factor(at: _Cause) -> _Words:
    """A factor between neighbours."""
    dim = at.limits.dim
    if at.blame.constant is not None:
        text = f"neighbouring elements along dim {dim} lie {at.blame.constant} apart"
        if at.blame.constant != _PAIR:
            return text, "", at.limits.width
        widest = min(WIDEST_BITS, _PAIR * at.need * at.limits.bits)
        if is_store(at.tile):
            return (
                text,
                "If the kernel stores the elements between too, interleave and store them at once:"
                " tl.store(pointers, tl.reshape(tl.join(lo, hi), (..., 2 * N))).",
                widest,
            )
        return (
            text,
            "Load the elements between too (if outside of the tensor, masked) in a tile twice as"
            " long, and split the pairs: tl.split(tl.reshape(both, (..., 2))).",
            widest,
        )
    return _unknown_factor(at.name, at.tile, dim)


def _unknown_factor(name: str, tile: Tile, dim: int) -> tuple[str, str, int | None]:
    """A factor that is not known to be 1."""
    if _STRIDE_OF_DESCRIPTOR in name:
        return (
            f"{name} is not known to be 1: this target has no tensor descriptors, and what Triton"
            " makes of one that the host passes forgets that its last stride is 1",
            "Make the descriptor in the kernel with a last stride of 1 (tl.make_tensor_descriptor),"
            f" or {'store' if is_store(tile) else 'load'} through pointers.",
            None,
        )
    return (
        f"{name} is not known to be 1: neighbouring elements along dim {dim} lie {name} apart",
        f"Pass {name} as tl.constexpr 1, or a tensor that is contiguous along this dimension"
        " (tl.max_contiguous of the product has no effect).",
        None,
    )


def _of_computed(name: str, fix: str) -> str:
    """The fix for a factor that the kernel computes, which no caller can pass."""
    if _STRIDE_OF_DESCRIPTOR in name:
        return fix
    return (
        f"If {name} is 1 in every launch, write 1 or compute it from tl.constexpr arguments only"
        " (tl.max_contiguous of the product has no effect)."
    )


def _expanded(name: str, limits: WidthLimits) -> Reason:
    """A stride of 0: the launch passed a tensor that repeats its elements."""
    return Reason(
        "broadcast",
        f"all elements along dim {limits.dim} have the same address: {name} is 0 in this launch, of"
        " a tensor that is expanded (the gradient of a sum is, say)",
        "Launch it with a realistic tensor, or make this one contiguous first.",
    )


def _of_argument(name: str, argument: LaunchedArgument, limits: WidthLimits) -> tuple[str, str]:
    """Text and fix for a factor that is an argument of a captured launch."""
    distance_text = f"neighbouring elements along dim {limits.dim} lie {name} apart"
    if not argument.hides_one:
        value = "not 1" if argument.value is None else argument.value
        return f"{distance_text}, and {name} is {value} in this launch", _TRANSPOSING_FIX
    keeps = "keep" if " and " in argument.hides_one else "keeps"
    drop = f"drop {argument.hides_one} or pass it as tl.constexpr"
    if argument.value == 1:
        return (
            f"{name} is 1 in this launch, which {argument.hides_one} {keeps} Triton from noting",
            f"D{drop[1:]}.",
        )
    if argument.value is not None:
        return f"{distance_text}, and {name} is {argument.value} in this launch", _TRANSPOSING_FIX
    return (
        f"{name} is not known to be 1, which {argument.hides_one} {keeps} Triton from noting:"
        f" {distance_text}",
        f"If {name} is 1 in every launch, {drop}."
        f" Otherwise {_TRANSPOSING_FIX[0].lower()}{_TRANSPOSING_FIX[1:]}",
    )


def _known_stride(at: _Cause) -> _Words:
    """A factor that is known not to be 1: no hint can be right."""
    text = f"neighbouring elements along dim {at.limits.dim} lie {at.name} apart"
    return text, _TRANSPOSING_FIX, None


def _far_apart(at: _Cause) -> _Words:
    """A product of several factors: making one of them 1 would not suffice."""
    return (
        f"neighbouring elements along dim {at.limits.dim} lie {at.name} apart",
        "",
        at.limits.width,
    )


def _reversed(at: _Cause) -> _Words:
    """Elements that count down; tl.flip, which turns them around, made 232 instructions of 43."""
    if at.blame.factor is None:
        text = f"{at.name} falls by one from element to element along dim {at.limits.dim}"
    else:
        text = (
            f"{at.name}, which is multiplied, falls from element to element along dim"
            f" {at.limits.dim}"
        )
    return f"{text}{line_of(at.blame)}", "", at.limits.width


def _loaded(at: _Cause) -> _Words:
    return (
        f"the addresses along dim {at.limits.dim} depend on values loaded from memory"
        f"{line_of(at.blame)}: whether neighbours are adjacent is not known",
        "",
        None,
    )


def _broadcast(tile: Tile, limits: WidthLimits, axes: Axes, blame: Blame) -> Reason:
    """Neighbours that share an address: their number, and how to load each address once."""
    dim, shape = limits.dim, tile.tensor_type.shape
    size = shape[dim]
    if blame.kind == "repeated":
        text = f"all {size} elements along dim {dim} have the same address"
        return Reason("broadcast", text, "", limits.width)
    name = name_of(axes, blame, tile.op.loc)
    if blame.kind == "divided":
        return Reason(
            "broadcast",
            f"the offsets along dim {dim} are taken // {name}, of which nothing is known: unless it"
            " is 1, neighbours share addresses",
            ""
            if is_store(tile)
            else f"Pass {name} as tl.constexpr, so that each address is loaded once.",
            is_bounded=False,
        )
    group, sharers = blame.constant, _address_sharers(tile, axes, dim)
    distinct = size // sharers
    if group is not None and sharers < group:  # the groups do not begin where the tile does
        distinct = min(distinct, (size + group - 2) // group + 1)
    exact = group == sharers and blame.factor is None
    text = (
        f"neighbours along dim {dim} share an address{f', {group} at a time' if group else ''}:"
        f" {'' if exact else 'at most '}{count(distinct, 'different address', 'es')} for {size}"
        " elements"
    )
    if not exact or is_store(tile):
        return Reason("broadcast", text, "", limits.width)
    return Reason(
        "broadcast",
        text,
        f"Load each address once, in a tile {group} times shorter along dim {dim}, and spread it by"
        " tl.reshape(tl.broadcast_to(...)), or by shifts for packed values.",
    )


def _address_sharers(tile: Tile, axes: Axes, dim: int) -> int:
    """The number of neighbours that are known to have the same address."""
    shape = tile.tensor_type.shape
    return shape[dim] // distinct_addresses(axes.of(tile.addresses or "", len(shape)), shape)[dim]


def _wrap(at: _Cause) -> _Words:
    """A remainder that may wrap around between neighbours."""
    if at.blame.constant is not None:
        return (
            f"the offsets are taken % {at.name}, which is not divisible by {at.need}: they jump"
            f" between neighbours along dim {at.limits.dim}",
            "If this only keeps the offsets inside the tensor, mask them instead; otherwise use a"
            f" size that is a multiple of {at.need}.",
            None,
        )
    return (
        f"the offsets are taken % {at.name}, which is not known to be divisible by {at.need}: they"
        f" may jump between neighbours along dim {at.limits.dim}",
        f"Pad the tensor so that {at.name} is a multiple of {ALIGNED}. If it always is a multiple"
        f" of {at.need}, write tl.max_contiguous(tl.multiple_of(offsets, {at.need}), {at.need}).",
        None,
    )


def _unknown_step(at: _Cause) -> _Words:
    text = (
        f"{at.name} is not known to step by one from element to element along dim {at.limits.dim}"
        f"{line_of(at.blame)}"
    )
    if at.blame.op is not None and at.blame.op.name in _BITWISE:
        return text, "", at.limits.width  # a swizzle or a mask of bits hardly ever counts up
    hint = f"tl.max_contiguous(tl.multiple_of(offsets, {at.need}), {at.need})"
    return text, f"If it does, annotate the operation itself: {hint}.", None


_CONTIGUITY: Mapping[Kind, Callable[[_Cause], _Words]] = {
    "factor": _factor,
    "loaded": _loaded,
    "reversed": _reversed,
    "wrap": _wrap,
}
