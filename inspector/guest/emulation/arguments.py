"""A launch's arguments as the kernel takes them: one value for each of its parameters.

Triton's launcher drops constants, takes tuples apart and turns host-side tensor descriptors into
their base, shape and strides (triton/backends/driver.py, `decompose_descriptor`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^<>\[]*)\[([^\]]*)\]")


class ArgumentError(Exception):
    """An argument that no kernel parameter can be made of."""


def parameters(types: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Type and value of every parameter of the compiled kernel.

    Args:
        types: of the signature, `constexpr` for what is no parameter; tuples nest.
        values: the arguments, as many; constants at the end may be missing (the launchers of
            Triton 3 pass over them unread).

    Raises:
        ArgumentError: a descriptor of a type that is not known, too few arguments.
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
    """A scalar as JSON has it: what has a value (NumPy's scalars, tensors of one) gives it.

    Returns:
        The number; `nan`, `inf` or `-inf` for what JSON cannot write.
    """
    if kind.startswith(("fp", "bf", "f")):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    return int(value)


def _descriptor(kind: str, value: Any) -> Iterator[tuple[str, Any]]:
    match = _DESCRIPTOR.match(kind)
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
