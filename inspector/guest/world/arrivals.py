"""Adjusts a few modules right after the script imports them, if it ever does."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

from .stubs import Inert, InertModule

PROFILER_CALLS = (
    *("start", "finalize", "activate", "deactivate", "profile", "enter_scope", "exit_scope"),
    *("scope", "cpu_timed_scope", "enter_state", "exit_state", "state"),
)

VIEWER_CALLS = MappingProxyType(
    {"parse": 2, "read": 4, "get_raw_metrics": 4, "print_tree": 0, "apply_diff_profile": 0}
)
"""How many values each of them gives; 0: a single one."""


def _profiler(module: ModuleType) -> None:
    """Triton's profiler needs a GPU; what kernels use of it (`profiler.language`) stays."""
    for name in PROFILER_CALLS:
        if hasattr(module, name):
            setattr(module, name, Inert())


def _viewer(module: ModuleType) -> None:
    """There is no profile to look at."""
    for name, count in VIEWER_CALLS.items():
        if hasattr(module, name):
            setattr(module, name, _inert(count))


def _inert(count: int) -> Callable[..., Any]:
    """A function that gives so many values of no meaning."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return tuple(Inert() for _ in range(count)) if count else Inert()

    return function


def _aiter(module: ModuleType) -> None:
    """Its types, which are missing where AITER_TRITON_ONLY (see `rocm`) keeps it from building.

    Two of their names are enumerations of its C++ library; they have no meaning for Triton.
    """
    if hasattr(module, "dtypes"):
        return
    for folder in module.__path__:
        sys.path.append(os.path.join(folder, "jit", "utils"))  # as aiter.jit.core does
    sys.modules.setdefault("aiter.ops.enum", InertModule("aiter.ops.enum"))
    with contextlib.suppress(ImportError):
        module.dtypes = importlib.import_module("aiter.utility.dtypes")  # type: ignore[attr-defined]


def _dtensor(module: ModuleType) -> None:
    """C++ takes a DTensor to be where it takes its local tensor to be: on the host."""
    subclasses = importlib.import_module(".subclasses", __package__)
    subclasses.follow(module.DTensor, "_local_tensor")


def _symmetric_memory(module: ModuleType) -> None:
    """Its extension module's part asks a GPU for the memory."""
    importlib.import_module(".symmetric", __package__).adjust(module)


def _unittest(note: Callable[[str], None]) -> Callable[[ModuleType], None]:
    """What tests are skipped for its runner does not print."""

    def adjust(module: ModuleType) -> None:
        result: Any = module.TestResult
        add_skip = result.addSkip

        @functools.wraps(add_skip)
        def add_skip_noted(self: Any, test: Any, reason: str) -> Any:
            note(f"{test} is skipped: {reason}")
            return add_skip(self, test, reason)

        result.addSkip = add_skip_noted

    return adjust


Adjust = Callable[[ModuleType], None]
ADJUSTMENTS: Mapping[str, Adjust] = MappingProxyType(
    {
        "triton.profiler": _profiler,
        "triton.profiler.viewer": _viewer,
        "aiter": _aiter,
        "torch.distributed._symmetric_memory": _symmetric_memory,
        "torch.distributed.tensor._api": _dtensor,
    }
)


class ArrivalFinder:
    """Finds the modules to be adjusted where they really are, and adjusts them once loaded.

    Args:
        adjustments: module -> what is done to it.
    """

    def __init__(self, adjustments: Mapping[str, Adjust]) -> None:
        self._adjustments = adjustments

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders give, with the adjustment after its loader's work."""
        adjust = self._adjustments.get(name)
        if adjust is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _after(spec.loader, adjust)
                return spec
        return None


def _after(loader: Any, adjust: Adjust) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        adjust(module)

    loader.exec_module = exec_module


def install(
    note: Callable[[str], None], adjusters: Mapping[str, Adjust] = MappingProxyType({})
) -> None:
    """Adjusts what is loaded already, and the others when they come.

    Args:
        note: takes what the user should know.
        adjusters: module -> what is done to it; besides those of this file.
    """
    adjustments = {**ADJUSTMENTS, **adjusters, "unittest.result": _unittest(note)}
    for name, adjust in adjustments.items():
        if name in sys.modules:
            adjust(sys.modules[name])
    sys.meta_path.insert(0, ArrivalFinder(adjustments))
