"""Autocast on the device: device tensors are the CPU's to torch's C++, so it is switched there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .dispatch import DEVICE_TYPES


def install() -> None:
    """Lets whatever switches autocast for the device switch it for the CPU too."""
    for name in ("set_autocast_enabled", "set_autocast_dtype"):
        if hasattr(torch, name):
            setattr(torch, name, _also_on_cpu(getattr(torch, name)))


def _also_on_cpu(switch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(switch)
    def switched(*args: Any) -> Any:
        if len(args) == 2 and args[0] in DEVICE_TYPES:
            switch("cpu", args[1])
        return switch(*args)

    return switched
