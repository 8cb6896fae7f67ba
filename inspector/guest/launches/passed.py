"""What a launch passes to its kernel: numbers, addresses, and the memory behind these.

Recorded for whoever is to execute the kernel: where tensors lie, how large they are, and what they
hold, where that is known and short. What decides where a kernel goes on are integers: indices,
lengths. Contents of floating-point tensors are not recorded.
"""

from __future__ import annotations

import base64
import ctypes
import math
import zlib
from collections.abc import Sequence
from typing import Any

from ..emulation.arguments import parameters

MOST_CONTENTS = 1 << 20
"""Bytes of one tensor's memory that are recorded."""
_FAST = 1


def passed(types: Sequence[Any], values: Sequence[Any]) -> dict[str, Any] | None:
    """A launch's arguments as plain values.

    Args:
        types: of the kernel's signature, `constexpr` for what is no parameter.
        values: the arguments, as many.

    Returns:
        `{"parameters": [[type, value]], "memories": [{"address", "size", "dtype", "contents"}]}`;
        a pointer's value is its address; contents are deflated, in base64. None where an argument
        is of a kind that is not known.
    """
    listed: list[list[Any]] = []
    memories: dict[int, dict[str, Any]] = {}
    try:
        for kind, value in parameters(types, values):
            if not kind.startswith("*") or value is None or isinstance(value, int):
                listed.append([kind, _number(value)])
                continue
            tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
            listed.append([kind, int(value.data_ptr())])
            storage = tensor.untyped_storage()
            address, size = int(storage.data_ptr()), int(storage.nbytes())
            if size and address not in memories:
                memories[address] = {
                    "address": address,
                    "size": size,
                    "dtype": str(tensor.dtype).rpartition(".")[2],
                    "contents": _contents(tensor, size),
                }
    except Exception:  # a tensor of the user's own making may refuse anything
        return None
    return {"parameters": listed, "memories": list(memories.values())}


def _number(value: Any) -> int | float | str:
    """A number as JSON has it: what is not finite as a text."""
    if value is None:
        return 0
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return int(value)


def _contents(tensor: Any, size: int) -> str | None:
    """What the memory under an integer tensor holds; None where nobody knows, or it is long."""
    memory, payload = getattr(tensor, "_memory", None), getattr(tensor, "_payload", None)
    if size > MOST_CONTENTS or tensor.is_floating_point() or tensor.is_complex():
        return None
    if memory is None or payload is None or payload.device.type != "cpu":
        return None
    if memory.unknown or memory.recipe is not None:
        return None
    real = payload.untyped_storage()
    available = min(size, int(real.nbytes()))
    raw = ctypes.string_at(int(real.data_ptr()), available)
    return base64.b64encode(zlib.compress(raw.ljust(size, b"\0"), _FAST)).decode()
