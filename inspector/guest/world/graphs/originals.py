"""Restores torch's own functions and classes while its compiler works.

The compiler recognises functions by identity.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._device

_MISSING = object()


class Originals:
    """The contents of torch's namespaces before the world is installed; call `settle` after."""

    def __init__(self) -> None:
        self._namespaces = [(owner, dict(vars(owner))) for owner in _owners()]
        self._changes: list[tuple[Any, str, Any, Any]] = []
        self._depth = 0

    def settle(self) -> None:
        """Determines the changes made since this object was created."""
        for owner, names_before in self._namespaces:
            for name, value in vars(owner).items():
                original = names_before.get(name, _MISSING)
                if original is value or (name.startswith("__") and owner is not _CONTEXT):
                    continue
                # Functions of torch.cuda stay replaced: only classes such as Stream are restored.
                if owner is not torch.cuda or isinstance(value, type):
                    self._changes.append((owner, name, original, value))
        self._namespaces = []

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Puts torch's own functions and classes back in their places."""
        self._depth += 1
        if self._depth == 1:
            for owner, name, original, _ in self._changes:
                if original is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                for owner, name, _, value in self._changes:
                    setattr(owner, name, value)


_CONTEXT = torch.utils._device.DeviceContext


def _owners() -> list[Any]:
    """The modules and classes of torch that the world changes."""
    owners = [torch, torch.Tensor, torch.nn.Module, torch.nn.functional, _CONTEXT, torch.cuda]
    owners += [torch.compiler, torch.jit, torch.profiler, torch.autograd.profiler]
    attention = getattr(torch.nn, "attention", None)
    return owners if attention is None else [*owners, attention]
