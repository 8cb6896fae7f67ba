"""Turns a launch's arguments into the values of the compiled kernel's parameters.

Like Triton's launcher it drops constants, flattens tuples and replaces tensor descriptors by their
base, shape and strides (triton/backends/driver.py, `decompose_descriptor`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

_DESCRIPTOR_TYPE = re.compile(r"tensordesc(?:_im2col)?<([^<>\[]*)\[([^\]]*)\]")


class ArgumentError(Exception):
    """An argument that has no form as a kernel's parameter."""


def parameters(types: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Type and value of every parameter of the compiled kernel.

    Args:
        types: of the signature; `constexpr` for arguments that are no parameters; tuples nest.
        values: the arguments, one for each type; constants at the end may be missing (Triton 3's
            launchers do not read them).

    Raises:
        ArgumentError: a descriptor has an unknown type, or there are too few arguments.
    """
    if any(kind != "constexpr" for kind in types[len(values) :]):
        raise ArgumentError(f"{len(values)} arguments for a kernel that takes {len(types)}")
    for kind, value in zip(types, values):
        if isinstance(kind, (tuple, list)):
            yield from parameters(kind, value)
        elif kind == "constexpr":
            continue
        elif kind.startswith("tensordesc"):
            yield from _descriptor(kind, value)
        else:
            yield kind, value


def number_of(kind: str, value: Any) -> int | float | str:
    """A scalar as JSON can hold it, also from NumPy's scalars and tensors of one element.

    Returns:
        The number; "nan", "inf" or "-inf" for floats that JSON lacks.
    """
    if kind.startswith(("fp", "bf", "f")):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    return int(value)


def _descriptor(kind: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Type and value of the parameters that a tensor descriptor becomes."""
    match = _DESCRIPTOR_TYPE.match(kind)
    if match is None:
        raise ArgumentError(f"a tensor descriptor of type {kind}")
    shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
    yield "*" + match[1], value.base
    for number in (*shape, *strides):
        yield "i64", number
    yield "i1", getattr(value, "padding", "zero") == "nan"
    if hasattr(value, "round_f32_to_tf32"):  # Triton 3.6 on
        yield "i1", bool(value.round_f32_to_tf32)
    for number in shape:
        yield "i32", number
    for number in strides:
        yield "i64", number
