"""A kernel's identity: its import path and a hash over all the source that it uses."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

LIBRARIES = ("triton", "torch")
"""Packages whose jitted functions belong to the installed version, not to the user's source."""


def identity(kernel: Any) -> dict[str, Any]:
    """Import path, line and hash of a JITFunction, by which another process finds it."""
    function = kernel.fn
    is_gluon = getattr(kernel, "is_gluon", None)
    return {
        "module": function.__module__,
        "qualname": function.__qualname__,
        "file": os.path.abspath(function.__code__.co_filename),
        "line": int(kernel.starting_line_number),
        "sha256": source_hash(kernel),
        "gluon": bool(is_gluon()) if is_gluon is not None else False,
    }


def source_hash(kernel: Any) -> str:
    """SHA-256 over the source of a kernel and of the jitted functions that it reaches by name.

    Line numbers and module names do not count: a kernel moved in its file is the same kernel.
    """
    base = importlib.import_module("triton.runtime.jit").JITFunction
    reached: dict[int, Any] = {}
    waiting = [kernel]
    while waiting:
        function = waiting.pop()
        if id(function) in reached:
            continue
        reached[id(function)] = function
        waiting += [
            value
            for value in _values_used(function.fn)
            if isinstance(value, base) and not _of_library(value)
        ]
    texts = sorted(f"{f.fn.__qualname__}\n{f.src}" for f in reached.values())
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()


def _values_used(function: Any) -> Iterator[Any]:
    """The globals, closure cells and members of modules that a function's code names."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or ())
    names = dict.fromkeys(code.co_names)
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for _, cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for value in values:
        yield value
        if inspect.ismodule(value):
            yield from _members(value, names)


def _members(module: ModuleType, names: dict[str, None]) -> Iterator[Any]:
    # vars(): the __getattr__ of a lazy module would import half a library.
    members = vars(module)
    for name in names:
        if name in members:
            yield members[name]


def _of_library(function: Any) -> bool:
    return str(function.fn.__module__).partition(".")[0] in LIBRARIES
