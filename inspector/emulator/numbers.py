"""Number formats that numpy does not compute in, as float32 and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
F32 = np.float32
U32 = np.uint32

_F16: Final = np.arange(65536, dtype=np.uint16).view(np.float16).astype(F32)


def from_f16(bits: Array) -> Array:
    """uint16 -> float32, exactly."""
    return _F16[bits]


def to_f16(values: Array) -> Array:
    """float32 or float64 -> uint16, rounded to nearest even."""
    return values.astype(np.float16).view(np.uint16)


def from_bf16(bits: Array) -> Array:
    """uint16 -> float32, exactly."""
    return (bits.astype(U32) << U32(16)).view(F32)


def to_bf16(values: Array) -> Array:
    """float32 -> uint16, rounded to nearest even; NaNs stay NaNs and become quiet."""
    bits = values.astype(F32).view(U32)
    rounded = (bits + U32(0x7FFF) + ((bits >> U32(16)) & U32(1))) >> U32(16)
    quiet = (bits >> U32(16)) | U32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
