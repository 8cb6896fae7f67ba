"""Minimum, maximum and median of floats: V_MIN, V_MAX, V_MED3 and what is made of them.

The ISAs' rules for zeros and NaNs, as functions of float32 or float64 arrays, which atomics and
scalar and packed instructions share; which rules hold depends on the target and its mode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...isa.dataflow.execution_target import ExecutionTarget
from ..elementwise import Compute, define_by_target
from ..waves import Array

Choice = Callable[[ExecutionTarget], Compute]
"""What an operation computes on a target, in its mode."""


def quieted(values: Array) -> Array:
    """Signalling NaNs made quiet."""
    nans = np.isnan(values)
    return np.where(nans, values + values.dtype.type(0), values) if nans.any() else values


def is_signalling(values: Array) -> Array:
    """Whether each is a signalling NaN."""
    bits = values.view(f"u{values.itemsize}")
    quiet = bits.dtype.type(1 << (22 if values.itemsize == 4 else 51))
    return np.asarray(np.isnan(values) & ((bits & quiet) == 0))


def smaller_number(a: Array, b: Array) -> Array:
    """The smaller one: -0 before +0, a number before a NaN (`minNum`); of two NaNs the first."""
    takes_b = (b < a) | ((b == a) & np.signbit(b)) | np.isnan(a)
    return np.where(takes_b & ~np.isnan(b), b, a)


def larger_number(a: Array, b: Array) -> Array:
    """The larger one: +0 before -0, a number before a NaN (`maxNum`); of two NaNs the first."""
    takes_b = (b > a) | ((b == a) & ~np.signbit(b)) | np.isnan(a)
    return np.where(takes_b & ~np.isnan(b), b, a)


def smallest(a: Array, b: Array) -> Array:
    """The smaller one, or a NaN where either is one (`minimum`)."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, smaller_number(a, b)))


def largest(a: Array, b: Array) -> Array:
    """The larger one, or a NaN where either is one (`maximum`)."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, larger_number(a, b)))


def smaller(a: Array, b: Array) -> Array:
    """The smaller one: a number before a NaN, -0 before +0."""
    result = np.minimum(a, b)
    return result if (np.abs(result) > 0).all() else smaller_number(*np.broadcast_arrays(a, b))


def larger(a: Array, b: Array) -> Array:
    """The larger one: a number before a NaN, +0 before -0."""
    result = np.maximum(a, b)
    return result if (np.abs(result) > 0).all() else larger_number(*np.broadcast_arrays(a, b))


def _signals(choose: Compute, target: ExecutionTarget) -> Compute:
    """Returns a choice that obeys IEEE rules up to gfx11: a signalling NaN is the result, quiet.

    CDNA3 ISA, V_MIN_F32; RDNA4 ISA, V_MIN_NUM_F32.
    """
    if target.generation >= 12 or not target.ieee:
        return choose

    def compute(a: Array, b: Array) -> Array:
        result = choose(a, b)
        if not (np.isnan(a).any() or np.isnan(b).any()):
            return result
        a, b = np.broadcast_arrays(a, b)
        result = np.where(is_signalling(b), quieted(b), result)
        return np.where(is_signalling(a), quieted(a), result)

    return compute


def least(target: ExecutionTarget) -> Compute:
    """V_MIN of a target."""
    return _signals(smaller, target)


def greatest(target: ExecutionTarget) -> Compute:
    """V_MAX of a target."""
    return _signals(larger, target)


def minimum(a: Array, b: Array) -> Array:
    """IEEE 754-2019's minimum: a NaN where either is one."""
    return quieted(smallest(*np.broadcast_arrays(a, b)))


def maximum(a: Array, b: Array) -> Array:
    """IEEE 754-2019's maximum."""
    return quieted(largest(*np.broadcast_arrays(a, b)))


def middle_of(target: ExecutionTarget) -> Compute:
    """V_MED3: the middle one; where one is a NaN, the smallest of the numbers (CDNA3 ISA)."""
    low = least(target)

    def compute(a: Array, b: Array, c: Array) -> Array:
        highest = larger(larger(a, b), c)
        picked = np.where(
            highest == a, larger(b, c), np.where(highest == b, larger(a, c), larger(a, b))
        )
        nans = np.isnan(a) | np.isnan(b) | np.isnan(c)
        return np.where(nans, low(low(a, b), c), picked) if nans.any() else picked

    return compute


def always(compute: Compute) -> Choice:
    """Returns the choice of one operation for all targets."""
    return lambda target: compute


def three(choose: Choice) -> Choice:
    """Returns the choice of an operation on three operands that applies one on two, twice."""

    def chosen(target: ExecutionTarget) -> Compute:
        pick = choose(target)
        return lambda a, b, c: pick(pick(a, b), c)

    return chosen


def then(first: Choice, second: Choice) -> Choice:
    """V_MAXMIN and its like: one operation on two operands, another on its result and the third."""

    def chosen(target: ExecutionTarget) -> Compute:
        inner, outer = first(target), second(target)
        return lambda a, b, c: outer(inner(a, b), c)

    return chosen


def _register(kind: str) -> None:
    """Registers minimum, maximum and what is made of them for a kind of float."""
    two, triple = f"{kind} {kind}", f"{kind} {kind} {kind}"
    numbers: dict[str, Choice] = {"min": least, "max": greatest}
    strict: dict[str, Choice] = {"minimum": always(minimum), "maximum": always(maximum)}
    for name, choose in numbers.items():
        define_by_target(f"v_{name}_{kind} v_{name}_num_{kind}", kind, two, choose)
        define_by_target(f"v_{name}3_{kind} v_{name}3_num_{kind}", kind, triple, three(choose))
    define_by_target(f"v_med3_{kind} v_med3_num_{kind}", kind, triple, middle_of)
    for name, choose in strict.items():
        define_by_target(f"v_{name}_{kind}", kind, two, choose)
        define_by_target(f"v_{name}3_{kind}", kind, triple, three(choose))
    for first, second in (("min", "max"), ("max", "min")):
        names = f"v_{first}{second}_{kind} v_{first}{second}_num_{kind}"
        define_by_target(names, kind, triple, then(numbers[first], numbers[second]))
        strict_first, strict_second = f"{first}imum", f"{second}imum"
        both = then(strict[strict_first], strict[strict_second])
        define_by_target(f"v_{strict_first}{strict_second}_{kind}", kind, triple, both)


for _kind in ("f16", "f32", "f64"):
    _register(_kind)
