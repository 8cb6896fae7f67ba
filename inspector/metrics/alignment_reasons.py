"""Effects of unknown alignment on the width of an access, in words, with fixes."""

from __future__ import annotations

from math import gcd

from ..ttgir.axes.analysis import Axes
from ..ttgir.axes.blame import not_divisible
from ..ttgir.axes.blamed import Blame
from ..ttgir.axes.starts import unaligned_start
from ..ttgir.axes.variables import spelled
from ..ttgir.axes.widths import Tile, WidthLimits
from .narrow_reasons import (
    ALIGNED,
    Cause,
    LaunchedArgument,
    Reason,
    count,
    launched_argument,
    line_of,
    name_of,
    named_division,
)

_SHORT_ROW = ALIGNED // 2
"""Up to so many elements a padded row would take twice the memory."""
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
    cause = _indivisible_address(axes, blame, tile, need)
    text = f"{cause.text}: {alignment_text}"
    argument = launched_argument(axes, blame.value) if blame.kind == "argument" else None
    if argument is not None and argument.value is not None and _bounds(axes, tile, blame.value):
        # Padded elements would pass the mask: only divisors of the value itself help.
        divisor = gcd(argument.value, need)
        name = name_of(axes, blame, tile.op.loc)
        fix = _sentence(_rounded(name, divisor)) if divisor > 1 else ""
        return Reason("divisibility", text, fix, divisor * limits.bits)
    return Reason("divisibility", text, cause.fix)


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
        text = f"{spelled(axes, blame.value, None)} is not known to be aligned"
        cause = Cause(text, _pointer(axes, blame.value, "").fix)
    else:
        cause = _indivisible_address(axes, blame, tile, need)
    return reason.limited_as_well("alignment", f"alignment limits as well: {cause.text}", cause.fix)


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
    argument = launched_argument(axes, value)
    if argument is not None and argument.hides_multiple:
        hides = argument.hides_multiple
        return Reason(
            "divisibility",
            f"{name} is not known to be aligned to {ALIGNED} bytes, which {hides} keeps Triton"
            f" from noting: {alignment_text}",
            f"Take it out of {hides}, and pass a tensor aligned to {ALIGNED} bytes.",
        )
    return Reason(
        "divisibility",
        f"{name} is not known to be aligned to {ALIGNED} bytes: {alignment_text}",
        f"Pass a tensor aligned to {ALIGNED} bytes (a view may begin anywhere).",
    )


def _indivisible_address(axes: Axes, blame: Blame, tile: Tile, need: int) -> Cause:
    """The cause of an address, or an offset, that is not known to be divisible."""
    name = name_of(axes, blame, tile.op.loc)
    if blame.kind == "constant" and blame.constant in (1, -1):
        # What counts by one goes through all numbers: no multiple can take its place.
        return Cause(f"they move by {name} from iteration to iteration{line_of(blame)}")
    if blame.kind == "loaded":
        return Cause(
            f"a value loaded from memory{line_of(blame)} is not known to be divisible by {need}"
        )
    if blame.op is not None and blame.op.name == "tt.int_to_ptr":
        multiples = [ALIGNED] * max(1, len(tile.tensor_type.shape))
        return Cause(
            f"{name} is a pointer made of a number, of which no alignment is known{line_of(blame)}",
            f"If it is always aligned to {ALIGNED} bytes, annotate the tensor of pointers:"
            f" tl.multiple_of(pointers, {multiples}).",
        )
    if blame.kind == "shift":
        return Cause(f"the addresses are shifted by {name}{line_of(blame)}")
    cause = indivisible(axes, blame, name, need, named_division(axes, blame, tile.op.loc))
    if blame.kind == "argument" and launched_argument(axes, blame.value) is None:
        fix = (
            f"Pad it to a multiple of {ALIGNED}. If it always is one, compute with"
            f" {name} // {ALIGNED} * {ALIGNED} (tl.multiple_of is lost)."
        )
        return cause._replace(fix=fix)
    return cause


def indivisible(axes: Axes, blame: Blame, name: str, need: int, division: str = "") -> Cause:
    """The cause of a value that is not known to be divisible.

    Args:
        name: the value, in the terms of the source.
        division: the division or remainder that makes it, where that is to be named too.
    """
    if blame.kind == "argument":
        argument = launched_argument(axes, blame.value)
        if argument is not None:
            return argument_indivisible(name, argument, need)
        return Cause(
            f"{name} is not known to be divisible by {need}",
            f"Pad {name} to a multiple of {ALIGNED}.",
        )
    if blame.kind == "constant":
        return Cause(f"{name} is not divisible by {need}", f"Use a multiple of {need}.")
    if blame.kind in ("shift", "program", "range"):
        # A constant, or a counter: to round it would make other elements of it.
        return Cause(f"{name} is not divisible by {need}{line_of(blame)}")
    equal = f" = {division}" if division else ""
    text = f"{name}{equal} is not known to be divisible by {need}{line_of(blame)}"
    if _differs(axes, blame):
        return Cause(text)
    return Cause(text, f"If it always is, compute with {name} // {need} * {need}.")


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


def argument_indivisible(name: str, argument: LaunchedArgument, need: int) -> Cause:
    """The cause of an argument of a captured launch that is not divisible."""
    if argument.hides_multiple:
        hides = argument.hides_multiple
        return Cause(
            f"{name} is not known to be divisible by {need}, which {hides} keeps Triton from"
            " noting",
            f"Take it out of {hides} and pass a multiple of {ALIGNED}; or, {_rounded(name, need)}",
        )
    value_text = "" if argument.value is None else f" ({argument.value})"
    text = f"{name} is not a multiple of {ALIGNED} in this launch{value_text}"
    if argument.value is not None and abs(argument.value) <= _SHORT_ROW:
        return Cause(text)
    if need < ALIGNED:
        text += f", so not known to be divisible by {need}"
    divisor = need if argument.value is None else gcd(argument.value, need)
    rounded = f"; or, {_rounded(name, divisor)}" if 1 < divisor < ALIGNED else "."
    return Cause(text, f"Pad it to a multiple of {ALIGNED}{rounded}")


def _rounded(name: str, divisor: int) -> str:
    return f"if it always is a multiple of {divisor}, compute with {name} // {divisor} * {divisor}."
