"""Instructions that work on each lane by itself: read the sources, compute, write the result.

The mode and the modifiers that hold for all of them are applied here: denormals that are flushed,
the output scale and clamp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from ..isa.dataflow.effects import KEEPS_HALF
from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import Decoded, Operand
from . import crosslane
from .registry import BuildContext, Builder, NotCoveredError, Step, builds
from .vector_operands import DTYPES, FLOATS, Read, Write, result_destination, source, then_apply
from .waves import F32, Array, Waves

Compute = Callable[..., Array]
"""Arrays of the sources, as their kinds have them (`vector_operands`) -> the result's."""


class ResultStep:
    """A step in two parts, so that VOPD can read both halves before it writes either."""

    __slots__ = ("store", "value")

    def __init__(self, value: Read, store: Write) -> None:
        self.value = value
        self.store = store

    def __call__(self, waves: Waves) -> None:
        self.store(waves, self.value(waves))


def elementwise(
    result: str, kinds: str, compute: Compute, *, reads_result: bool = False
) -> Builder:
    """Returns a builder for an operation that works on each lane by itself.

    `kinds`: kinds of the sources, separated by blanks. `reads_result`: the destination is the last
    source as well (v_fmac).
    """
    names = kinds.split()

    def build(decoded: Decoded, context: BuildContext) -> Step:
        operands = decoded.operands[1:]
        if reads_result:
            operands = (*operands, decoded.operands[0])
        if len(operands) != len(names):
            raise NotCoveredError(f"{decoded.text}: {len(operands)} sources")
        return assemble(decoded, context, result, names, operands, compute)

    return build


def define(
    names: str,
    result: str,
    kinds: str,
    compute: Compute,
    *,
    accumulates: bool = False,
    saturates: bool = False,
) -> None:
    """Registers an elementwise operation.

    `names`: its mnemonics, separated by blanks. `kinds`: kinds of the sources, separated by blanks.
    `compute`: from the sources' arrays to the result's. `accumulates`: the destination is the last
    source as well. `saturates`: with clamp an integer result is limited to its range.
    """
    plain = elementwise(result, kinds, compute, reads_result=accumulates)
    if not saturates:
        builds(*names.split())(plain)
        return
    limited = elementwise(result, kinds, saturated(compute, result), reads_result=accumulates)

    def build(decoded: Decoded, context: BuildContext) -> Step:
        if "clamp" not in decoded.modifiers:
            return plain(decoded, context)
        bare = {name: text for name, text in decoded.modifiers.items() if name != "clamp"}
        return limited(replace(decoded, modifiers=bare), context)

    builds(*names.split())(build)


def define_each(kinds: str, names: str, count: int, compute: Compute, **options: bool) -> None:
    """Registers an operation on `count` sources for each kind, which `{}` stands for in names."""
    for kind in kinds.split():
        define(names.replace("{}", kind), kind, " ".join([kind] * count), compute, **options)


def define_by_target(
    names: str, result: str, kinds: str, choose: Callable[[ExecutionTarget], Compute]
) -> None:
    """Registers an elementwise operation that computes by the target and its mode; see `define`."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        return elementwise(result, kinds, choose(context.target))(decoded, context)

    builds(*names.split())(build)


def saturated(compute: Compute, kind: str) -> Compute:
    """Returns an operation limited to the range of a kind of integer; it is computed in 64 bits."""
    dtype = DTYPES[kind]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def limited(*arrays: Array) -> Array:
        wide = compute(*(np.asarray(array).astype(np.int64) for array in arrays))
        return np.clip(wide, low, high).astype(dtype)

    return limited


def assemble(
    decoded: Decoded,
    context: BuildContext,
    result: str,
    kinds: Sequence[str],
    operands: Sequence[Operand],
    compute: Compute,
) -> Step:
    """Returns the step of an elementwise instruction with its modifiers."""
    halves = decoded.numbers("op_sel", ())
    reads = []
    for index, (operand, kind) in enumerate(zip(operands, kinds, strict=True)):
        half = halves[index] if index < len(halves) else 0
        before = crosslane.source_change(decoded, operand, index, context.target)
        read = source(operand, kind, half=half, before=before)
        reads.append(then_apply(read, flush) if (flush := flushing(kind, context.target)) else read)
    half = halves[len(operands)] if len(halves) > len(operands) else 0
    keeps_half = decoded.name in KEEPS_HALF
    write = result_destination(decoded, result, context.target, half=half, keep_half=keeps_half)
    changes = after_result(decoded, result, context.target)
    if not changes:
        return _assignment(reads, compute, write)

    def finished(*arrays: Array) -> Array:
        value = compute(*arrays)
        for change in changes:
            value = change(value)
        return value

    return _assignment(reads, finished, write)


def _assignment(reads: Sequence[Read], compute: Compute, write: Write) -> Step:
    """Returns a step that computes from the sources; one lambda per arity avoids unpacking."""
    if len(reads) == 1:
        (first,) = reads
        return ResultStep(lambda waves: compute(first(waves)), write)
    if len(reads) == 2:
        first, second = reads
        return ResultStep(lambda waves: compute(first(waves), second(waves)), write)
    if len(reads) == 3:
        first, second, third = reads
        return ResultStep(lambda waves: compute(first(waves), second(waves), third(waves)), write)
    return ResultStep(lambda waves: compute(*(read(waves) for read in reads)), write)


_SMALLEST_NORMAL: Final = {"f16": F32(2.0**-14), "f32": F32(2.0**-126), "f64": 2.0**-1022}


def flushing(kind: str, target: ExecutionTarget) -> Callable[[Array], Array] | None:
    """Returns what flushes denormals to zeros of their sign; None if the mode keeps them."""
    if not (target.flush32 if kind == "f32" else target.flush16 and kind in ("f16", "f64")):
        return None
    smallest = _SMALLEST_NORMAL[kind]
    return lambda value: np.asarray(value * (np.abs(value) >= smallest))


def after_result(
    decoded: Decoded, kind: str, target: ExecutionTarget
) -> list[Callable[[Array], Array]]:
    """Returns the changes to a result before it is written: output scale, flushing, clamp.

    The output scale is ignored where the mode keeps denormals of the kind or has IEEE rules
    (CDNA4 ISA, 6.2.2 "Instruction Outputs"; RDNA3 ISA, 7.2.3).
    """
    changes: list[Callable[[Array], Array]] = []
    flush = flushing(kind, target)
    scale = output_scale(decoded)
    if scale is not None and flush is not None and not target.ieee:
        # A result of -0 becomes +0.
        changes.append(lambda value: value * value.dtype.type(scale) + value.dtype.type(0))
    if flush is not None:
        changes.append(flush)
    if decoded.flag("clamp"):
        if kind not in FLOATS:
            raise NotCoveredError(f"{decoded.text}: clamp of an integer result")
        changes.append(lambda value: clamped(value, target))
    return changes


def output_scale(decoded: Decoded) -> float | None:
    """The output modifier: `mul:2`, `mul:4`, `div:2`."""
    if "mul" in decoded.modifiers:
        return float(decoded.number("mul"))
    if "div" in decoded.modifiers:
        return 1.0 / decoded.number("div")
    return None


def clamped(value: Array, target: ExecutionTarget) -> Array:
    """Returns a float limited to +0 .. 1; NaN becomes 0 where DX10_CLAMP is set."""
    zero = value.dtype.type(0)
    limited = np.minimum(np.maximum(value, zero), value.dtype.type(1)) + zero
    return np.where(np.isnan(value), zero, limited) if target.dx10_clamp else limited
