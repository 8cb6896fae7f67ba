"""Records the arguments of a launch: numbers, addresses, and the memory at these.

With them the kernel can be executed later. Recorded are addresses and sizes of tensors, and the
contents of short integer tensors where they are known: indices and lengths decide a kernel's
control flow. Contents of floating-point tensors are not recorded.
"""

from __future__ import annotations

import base64
import ctypes
import math
import zlib
from collections.abc import Sequence
from typing import Any

from ..emulation.arguments import parameters

MAX_CONTENTS_BYTES = 1 << 20
"""Bytes up to which the contents of a tensor are recorded."""
_COMPRESSION_LEVEL = 1


def recorded_arguments(types: Sequence[Any], values: Sequence[Any]) -> dict[str, Any] | None:
    """A launch's arguments as plain values.

    `types`: of the kernel's signature; `constexpr` for arguments that are no parameters.

    Returns:
        `{"parameters": [[type, value]], "memories": [{"address", "size", "dtype", "contents"}]}`;
        a pointer's value is its address; contents are deflated, in base64. None where the kind of
        an argument is unknown.
    """
    parameters_of_launch: list[list[Any]] = []
    memories: dict[int, dict[str, Any]] = {}
    try:
        for kind, value in parameters(types, values):
            if not kind.startswith("*") or value is None or isinstance(value, int):
                parameters_of_launch.append([kind, _number(value)])
                continue
            tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
            parameters_of_launch.append([kind, int(value.data_ptr())])
            storage = tensor.untyped_storage()
            address, size = int(storage.data_ptr()), int(storage.nbytes())
            if size and address not in memories:
                memories[address] = {
                    "address": address,
                    "size": size,
                    "dtype": str(tensor.dtype).rpartition(".")[2],
                    "contents": _contents(tensor, size),
                }
    except Exception:  # a user's own tensor class may raise anything
        return None
    return {"parameters": parameters_of_launch, "memories": list(memories.values())}


def _number(value: Any) -> int | float | str:
    """A number as JSON can hold it: infinities and NaN as text, None as 0."""
    if value is None:
        return 0
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return int(value)


def _contents(tensor: Any, size: int) -> str | None:
    memory, payload = getattr(tensor, "_memory", None), getattr(tensor, "_payload", None)
    if size > MAX_CONTENTS_BYTES or tensor.is_floating_point() or tensor.is_complex():
        return None
    if memory is None or payload is None or payload.device.type != "cpu":
        return None
    if memory.unknown or memory.recipe is not None:
        return None
    storage = payload.untyped_storage()
    available = min(size, int(storage.nbytes()))
    contents = ctypes.string_at(int(storage.data_ptr()), available)
    return base64.b64encode(zlib.compress(contents.ljust(size, b"\0"), _COMPRESSION_LEVEL)).decode()
