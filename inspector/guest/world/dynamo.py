"""Keeps `torch._dynamo` from being imported until the script itself wants something of it.

Many of torch's own functions import it on their first call, only to tell it to leave them alone.
The import takes longer than most scripts, and nothing here is ever traced.
"""

from __future__ import annotations

import importlib
import sys
import threading
from types import ModuleType
from typing import Any

import torch

NAME = "torch._dynamo"


class LazyDynamo(ModuleType):
    """Answers what torch asks of it on the way; becomes the real module for anything else."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._lock = threading.RLock()
        self._real: ModuleType | None = None

    @staticmethod
    def disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
        """The function itself, also as a decorator with arguments: nothing is compiled."""
        return fn if fn is not None else (lambda function: function)

    @staticmethod
    def graph_break(*args: Any, **kwargs: Any) -> None:
        """There is no graph."""

    def __getattr__(self, name: str) -> Any:
        if name in ("__spec__", "__file__", "__cached__", "__loader__"):
            raise AttributeError(name)
        return getattr(self._loaded(), name)

    def _loaded(self) -> ModuleType:
        with self._lock:
            if self._real is None:
                if sys.modules.get(NAME) is self:
                    del sys.modules[NAME]
                    delattr(torch, "_dynamo")
                self._real = importlib.import_module(NAME)
            return self._real


def install() -> None:
    """Puts it in the real module's place, unless that is loaded already."""
    if NAME not in sys.modules:
        lazy = LazyDynamo()
        sys.modules[NAME] = lazy
        torch._dynamo = lazy
