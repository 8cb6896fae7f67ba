"""Patches a few modules as soon as the script has imported them."""

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
"""Functions of Triton's profiler that need a GPU; kernels keep `profiler.language`."""
VIEWER_CALLS = MappingProxyType(
    {"parse": 2, "read": 4, "get_raw_metrics": 4, "print_tree": 0, "apply_diff_profile": 0}
)
"""Function -> the length of the tuple that it returns; 0 where it returns a single value."""


def _profiler(module: ModuleType) -> None:
    _replace(module, {name: Inert() for name in PROFILER_CALLS})


def _viewer(module: ModuleType) -> None:
    """Makes the viewer of profiles return inert values, since there is no profile."""
    _replace(module, {name: _inert(count) for name, count in VIEWER_CALLS.items()})


def _replace(module: ModuleType, values: Mapping[str, Any]) -> None:
    vars(module).update({n: value for n, value in values.items() if hasattr(module, n)})


def _inert(count: int) -> Callable[..., Any]:
    return lambda *args, **kwargs: tuple(Inert() for _ in range(count)) if count else Inert()


def _aiter(module: ModuleType) -> None:
    """Adds `aiter.dtypes`, which AITER_TRITON_ONLY (see `rocm`) leaves out.

    It imports two enumerations of AITER's C++ library, which stand-ins replace: Triton kernels do
    not use them.
    """
    if hasattr(module, "dtypes"):
        return
    for folder in module.__path__:
        sys.path.append(os.path.join(folder, "jit", "utils"))  # as aiter.jit.core does
    sys.modules.setdefault("aiter.ops.enum", InertModule("aiter.ops.enum"))
    with contextlib.suppress(ImportError):
        module.dtypes = importlib.import_module("aiter.utility.dtypes")  # type: ignore[attr-defined]


def _dtensor(module: ModuleType) -> None:
    """Makes C++ see a DTensor on the device of its local tensor, which is the host's."""
    subclasses = importlib.import_module(".subclasses", __package__)
    subclasses.report_inner_device(module.DTensor, "_local_tensor")


def _symmetric_memory(module: ModuleType) -> None:
    """Replaces the part of the extension module that allocates memory on a GPU."""
    importlib.import_module(".symmetric_memory", __package__).adjust(module)


def _unittest(note: Callable[[str], None]) -> Callable[[ModuleType], None]:
    """Makes a note of each skipped test with its reason, which unittest's runner does not print."""

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


class AdjustingFinder:
    """A finder that lets the other finders find a module, and adjusts it once it is loaded."""

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
                    _adjust_after(spec.loader, adjust)
                return spec
        return None


def _adjust_after(loader: Any, adjust: Adjust) -> None:
    """Makes a loader adjust the module that it has loaded."""
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        adjust(module)

    loader.exec_module = exec_module


def patch_imports(
    note: Callable[[str], None], further_adjustments: Mapping[str, Adjust] = MappingProxyType({})
) -> None:
    """Adjusts the modules that are loaded already, and the others when they are imported."""
    adjustments = {**ADJUSTMENTS, **further_adjustments, "unittest.result": _unittest(note)}
    for name, adjust in adjustments.items():
        if name in sys.modules:
            adjust(sys.modules[name])
    sys.meta_path.insert(0, AdjustingFinder(adjustments))
