"""MLIR literals as Python values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_NUMBER_RE = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)(\.\d*(?:[eE][+-]?\d+)?)?\Z")
_ESCAPE_RE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_ESCAPES: Mapping[str, str] = {"n": "\n", "t": "\t"}


class Word(Struct, frozen=True):
    """A bare keyword in an attribute, e.g. `mutable`, as opposed to a quoted string."""

    text: str


def plain(value: Any) -> Any:
    """A parsed value for the model: keywords become strings."""
    return value.text if isinstance(value, Word) else value


class Dense(Struct, frozen=True):
    """The elements of `dense<...>`: one number for a splat, else nested tuples."""

    value: Any


def undense(value: Any) -> Any:
    """The elements of a `dense<...>` value (one number for a splat), else the value itself."""
    return value.value if isinstance(value, Dense) else value


_FLOAT_BITS: Mapping[str, tuple[int, int]] = {
    # element -> (exponent bits, mantissa bits) of the IEEE formats MLIR prints as hex
    "f64": (11, 52),
    "f32": (8, 23),
    "f16": (5, 10),
    "bf16": (8, 7),
}


def float_bits(value: Any, element: str) -> Any:
    """A float that MLIR printed as its bits (infinities and NaNs: `0xFF800000 : f32`)."""
    form = _FLOAT_BITS.get(element)
    if form is None or not isinstance(value, int) or isinstance(value, bool):
        return value
    exponent_bits, mantissa_bits = form
    mantissa = value & ((1 << mantissa_bits) - 1)
    exponent = (value >> mantissa_bits) & ((1 << exponent_bits) - 1)
    negative = bool((value >> (exponent_bits + mantissa_bits)) & 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        magnitude = float("nan") if mantissa else float("inf")
    elif exponent == 0:
        magnitude = mantissa * 2.0 ** (1 - bias - mantissa_bits)
    else:
        magnitude = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
    return -magnitude if negative else magnitude


def unquote(token: str) -> str:
    """The value of a string token, escapes resolved (`\\0A` is a byte in hex)."""

    def unescape(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code, 16)) if len(code) == 2 else _ESCAPES.get(code, code)

    return _ESCAPE_RE.sub(unescape, token[1:-1]) if "\\" in token else token[1:-1]


def number(token: str) -> int | float | None:
    """The value of a number token, None for any other token."""
    match = _NUMBER_RE.match(token)
    if match is None:
        return None
    if match.group(1) is not None:
        return float(token)
    if "x" in token:
        return int(token, 16)
    try:
        return int(token)
    except ValueError:  # more digits than Python converts; no real attribute has thousands
        return None
