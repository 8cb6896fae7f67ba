"""Effects of unknown alignment and of masks on the width of an access, in words, with fixes.

The reason that an access is narrow, and the words that all reasons share.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from ..model import SourceLoc, TtgirOp
from ..ttgir.axes.analysis import Axes, is_argument, loaded_tile
from ..ttgir.axes.blame import not_constant, not_divisible
from ..ttgir.axes.facts import Blame, Kind
from ..ttgir.axes.starts import unaligned_start
from ..ttgir.axes.variables import argument_name, spelled, spelled_division
from ..ttgir.axes.widths import Tile, WidthLimits

ALIGNED = 16
"""Triton notes whether an argument is divisible by this; 16 bytes are the widest access."""


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


FEW = ALIGNED // 2
_REMAINDERS = frozenset(("arith.remsi", "arith.remui"))


def not_aligned(tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> Reason:
    """The reason that the first of the neighbours is not known to be aligned for `need` of them."""
    size = limits.bits // 8
    alignment_text = (
        f"the address is known to be aligned to {count(limits.divisibility or 1, 'byte')} only"
    )
    if tile.offsets is not None:
        base = axes.of(tile.pointer or "").divisibility[0]
        if base <= (limits.divisibility or 1):
            return _pointer(axes, tile.pointer or "", alignment_text)
        blame = not_divisible(axes, tile.offsets, limits.dim, need)
    else:
        blame = not_divisible(axes, tile.pointer or "", limits.dim, need * size)
        if blame.kind == "argument" and _is_pointer(axes, blame):
            return _pointer(axes, blame.value, alignment_text)
    text, fix = _indivisible(axes, blame, tile, need)
    argument = noted(axes, blame.value) if blame.kind == "argument" else None
    if argument is not None and argument.value is not None and _bounds(axes, tile, blame.value):
        # Padded elements would pass the mask: only divisors of the value itself help.
        divisor = gcd(argument.value, need)
        name = name_of(axes, blame, tile.op.loc)
        fix = _sentence(_rounded(name, divisor)) if divisor > 1 else ""
        return Reason("divisibility", f"{text}: {alignment_text}", fix, divisor * limits.bits)
    return Reason("divisibility", f"{text}: {alignment_text}", fix)


def _bounds(axes: Axes, tile: Tile, value: str) -> bool:
    """Whether the tile's mask is computed from a value."""
    visited: set[str] = set()
    work = [tile.mask] if tile.mask is not None else []
    while work:
        name = work.pop()
        if name == value:
            return True
        if name not in visited:
            visited.add(name)
            work.extend(axes.graph.sources(name))
    return False


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def with_alignment(
    reason: Reason, tile: Tile, limits: WidthLimits, axes: Axes, need: int
) -> Reason:
    """The reason, extended where the start of the run limits as well.

    Where neighbours are not contiguous, `WidthLimits.aligned` is about each element by itself.
    """
    size = limits.bits // 8
    text = fix = ""
    if tile.offsets is None:
        blame = unaligned_start(axes, tile.pointer or "", limits.dim, need * size)
    else:
        base = tile.pointer or ""
        if axes.of(base).divisibility[0] < need * size:
            blame = not_divisible(axes, base, 0, need * size)
        else:
            blame = unaligned_start(axes, tile.offsets, limits.dim, need)
    if blame is None:
        return reason
    if blame.kind == "argument" and _is_pointer(axes, blame):
        pointer = _pointer(axes, blame.value, "")
        text, fix = f"{spelled(axes, blame.value, None)} is not known to be aligned", pointer.fix
    else:
        text, fix = _indivisible(axes, blame, tile, need)
    return replace(
        reason,
        text=f"{reason.text}; the alignment limits as well: {text}",
        fix=reason.fix and fix and f"{reason.fix} For the alignment: {fix}",
    )


def loaded_start_width(tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> int | None:
    """Bits of an access whose run begins where a value loaded from memory says.

    No stride makes it wider. None where the start does not rest on such a value.
    """
    in_bytes = tile.offsets is None
    value = tile.pointer if in_bytes else tile.offsets
    size = limits.bits // 8 if in_bytes else 1
    blame = unaligned_start(axes, value or "", limits.dim, need * size)
    if blame is None or blame.kind != "loaded":
        return None
    return gcd(axes.of(blame.value).divisibility[0], need) * limits.bits


def _is_pointer(axes: Axes, blame: Blame) -> bool:
    return any(
        operand_type.kind == "ptr"
        for op in axes.graph.ops
        for name, operand_type in zip(op.operands, op.operand_types, strict=False)
        if name == blame.value
    )


def _pointer(axes: Axes, value: str, alignment_text: str) -> Reason:
    """The reason of a pointer without a known alignment."""
    name = spelled(axes, value, None)
    argument = noted(axes, value)
    if argument is not None and argument.hidden_multiple:
        hidden = argument.hidden_multiple
        return Reason(
            "divisibility",
            f"{name} is not known to be aligned to {ALIGNED} bytes, which {hidden} keeps Triton"
            f" from noting: {alignment_text}",
            f"Take it out of {hidden}, and pass a tensor aligned to {ALIGNED} bytes.",
        )
    return Reason(
        "divisibility",
        f"{name} is not known to be aligned to {ALIGNED} bytes: {alignment_text}",
        f"Pass a tensor aligned to {ALIGNED} bytes (a view may begin anywhere).",
    )


def _indivisible(axes: Axes, blame: Blame, tile: Tile, need: int) -> tuple[str, str]:
    """Text and fix for a value that is not known to be divisible."""
    name = name_of(axes, blame, tile.op.loc)
    if blame.kind == "argument":
        argument = noted(axes, blame.value)
        if argument is not None:
            return argument_indivisible(name, argument, need)
        return (
            f"{name} is not known to be divisible by {need}",
            f"Pad it to a multiple of {ALIGNED}. If it always is one, compute with"
            f" {name} // {ALIGNED} * {ALIGNED} (tl.multiple_of is lost).",
        )
    if blame.kind == "constant" and blame.constant in (1, -1):
        # What counts by one goes through all numbers: no multiple can take its place.
        return f"they move by {name} from iteration to iteration{line_of(blame)}", ""
    if blame.kind == "constant":
        return f"{name} is not divisible by {need}", f"Use a multiple of {need}."
    if blame.kind == "loaded":
        return (
            f"a value loaded from memory{line_of(blame)} is not known to be divisible by {need}",
            "",
        )
    if blame.op is not None and blame.op.name == "tt.int_to_ptr":
        multiples = [ALIGNED] * max(1, len(tile.tensor_type.shape))
        return (
            f"{name} is a pointer made of a number, of which no alignment is known{line_of(blame)}",
            f"If it is always aligned to {ALIGNED} bytes, annotate the tensor of pointers:"
            f" tl.multiple_of(pointers, {multiples}).",
        )
    if blame.kind == "shift":
        return f"the addresses are shifted by {name}{line_of(blame)}", ""
    if blame.kind in ("program", "range"):
        return f"{name} is not divisible by {need}{line_of(blame)}", ""
    made = named_division(axes, blame, tile.op.loc)
    return (
        f"{name}{made and f' = {made}'} is not known to be divisible by {need}{line_of(blame)}",
        ""
        if _differs(axes, blame)
        else f"If it always is, compute with {name} // {need} * {need}.",
    )


def _differs(axes: Axes, blame: Blame) -> bool:
    """Whether rounding makes another position of a value."""
    if blame.op is not None and blame.op.name in _REMAINDERS:
        return True
    types = blame.op.result_types if blame.op is not None else ()
    if not types or not types[0].shape:
        return False
    shape = types[0].shape
    constancy = axes.of(blame.value, len(shape)).constancy
    return any(same < size for same, size in zip(constancy, shape, strict=False))


def argument_indivisible(name: str, argument: Noted, need: int) -> tuple[str, str]:
    """Text and fix for an argument of a captured launch that is not divisible."""
    if argument.hidden_multiple:
        hidden = argument.hidden_multiple
        return (
            f"{name} is not known to be divisible by {need}, which {hidden} keeps Triton from"
            " noting",
            f"Take it out of {hidden} and pass a multiple of {ALIGNED}; or, {_rounded(name, need)}",
        )
    value_text = "" if argument.value is None else f" ({argument.value})"
    if argument.value is not None and abs(argument.value) <= FEW:
        # Padding such short rows would double the memory.
        return f"{name} is not a multiple of {ALIGNED} in this launch{value_text}", ""
    divisor = need if argument.value is None else gcd(argument.value, need)
    return (
        f"{name} is not a multiple of {ALIGNED} in this launch{value_text}"
        + (f", so not known to be divisible by {need}" if need < ALIGNED else ""),
        f"Pad it to a multiple of {ALIGNED}"
        + (f"; or, {_rounded(name, divisor)}" if 1 < divisor < ALIGNED else "."),
    )


def _rounded(name: str, divisor: int) -> str:
    return f"if it always is a multiple of {divisor}, compute with {name} // {divisor} * {divisor}."


# --------------------------------------------------------------------------- masks

_SIZE_OF_DESCRIPTOR = ".shape."  # as Triton names the arguments that it makes of one


def with_mask(reason: Reason, tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> Reason:
    """The reason, extended by the mask, which limits as well."""
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


def masked(tile: Tile, limits: WidthLimits, axes: Axes, need: int) -> Reason:
    """The reason of a mask that alone splits the accesses."""
    mask = tile.mask or ""
    shared = limits.mask or 1
    blame = not_constant(axes, mask, limits.dim, need)
    every = "from element to element" if shared == 1 else f"after every {shared} elements"
    varying = spelled(axes, _varying(axes, mask, limits.dim, need), tile.op.loc)
    mask_name = "the mask" if varying in ("…", "mask") else f"the mask {varying}"
    cause, fix = _mask_cause(axes, blame, tile, need)
    return Reason("mask", f"{mask_name} may change {every} along dim {limits.dim}: {cause}", fix)


def _varying(axes: Axes, mask: str, dim: int, need: int) -> str:
    """The part of a mask that splits accesses; pipelining adds parts uniform over a tile."""
    op = axes.graph.producers.get(mask)
    while op is not None and op.name in ("arith.andi", "tt.broadcast", "ttg.convert_layout"):
        varying = [name for name in op.operands if axes.of(name, dim + 1).constancy[dim] < need]
        if len(varying) != 1:
            break
        mask = varying[0]
        op = axes.graph.producers.get(mask)
    return mask


# Causes that the compared elements do not count up by one: divisibility does not help there.
_NO_STEPS: Mapping[Kind, str] = {
    "divided": "are not known to count up by one",
    "factor": "are not known to count up by one",
    "repeated": "do not count up by one",
    "reversed": "fall by one from element to element",
    "shared": "do not count up by one",
}


def _mask_cause(axes: Axes, blame: Blame, tile: Tile, need: int) -> tuple[str, str]:
    """Text and fix for the cause that a mask splits accesses."""
    compared = blame.op.operands if blame.kind == "predicate" and blame.op is not None else ()
    names = (blame.value, *compared)
    load = next(filter(None, (loaded_tile(axes, name) for name in names)), None)
    if load is not None:
        return (
            f"it is loaded from memory{line_of(replace(blame, op=load))}, element by element",
            "",
        )
    if blame.kind == "predicate" and blame.op is not None:
        return _at_any_element(blame.op, need)
    if blame.kind in _NO_STEPS:
        return f"the elements that it compares {_NO_STEPS[blame.kind]}{line_of(blame)}", ""
    return _bound_cause(axes, blame, tile, need)


def _bound_cause(axes: Axes, blame: Blame, tile: Tile, need: int) -> tuple[str, str]:
    """Text and fix for a bound of the mask, or a compared value, that is not divisible."""
    name = name_of(axes, blame, tile.op.loc)
    # The same for loads and stores of a tile: it is one change of the source.
    unmasked = "or drop the mask for whole tiles (by a tl.constexpr)."
    argument = noted(axes, blame.value) if blame.kind == "argument" else None
    if argument is not None:
        text, fix = argument_indivisible(name, argument, need)
        return text, f"{fix.removesuffix('.')}, {unmasked}" if fix else ""
    if blame.kind == "argument" and _SIZE_OF_DESCRIPTOR in name:
        return (
            f"{name} is not known to be divisible by {need}: of a descriptor that the host passes"
            " Triton notes no divisibility",
            "Make the descriptor in the kernel, with a size that is a tl.constexpr or a multiple of"
            f" {ALIGNED}, {unmasked}",
        )
    if blame.kind == "argument":
        return (
            f"{name} is not known to be divisible by {need}",
            f"Pad {name} to a multiple of {ALIGNED}, {unmasked}",
        )
    if blame.kind == "constant" and blame.constant in (1, -1):
        return f"its bound moves by {name} from iteration to iteration{line_of(blame)}", ""
    if blame.kind == "constant":
        return f"{name} is not divisible by {need}", f"Use a multiple of {need}, {unmasked}"
    if blame.kind in ("shift", "program", "range"):
        # A constant, or a counter: rounding it would let other elements through.
        return f"{name} is not divisible by {need}{line_of(blame)}", ""
    if blame.kind == "loaded":
        return (
            f"it depends on a value loaded from memory{line_of(blame)}",
            f"If it always is a multiple of {need}, use x // {need} * {need}, {unmasked}",
        )
    return (
        f"{name} is not known to be divisible by {need}{line_of(blame)}",
        ""
        if _differs(axes, blame)
        else f"If it always is, compute with {name} // {need} * {need}, {unmasked}",
    )


def _at_any_element(comparison: TtgirOp, need: int) -> tuple[str, str]:
    """Text and fix for a comparison that no divisibility helps."""
    predicate = str(comparison.attributes.get("predicate"))
    if predicate in ("eq", "ne"):
        return f"it asks for single elements{line_of(Blame('predicate', '', comparison))}", ""
    return (
        "it changes after the bound, not before it",
        f"If the bound + 1 is a multiple of {need}, compare with < (offs < n, not offs <= n - 1).",
    )
