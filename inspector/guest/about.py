"""Describes this interpreter and its Triton.

Switches of the AMD backend that environment variables set: which are on for a target.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import importlib
import os
import platform
import sys
import types
from collections.abc import Mapping
from typing import Any

from .missing_modules import install_hint

TRITON_KEY_MODULES = ("triton.runtime.cache", "triton.compiler.compiler")
"""Modules with `triton_key`: since Triton 3.5, and before."""
WITNESSED_FOLDERS = ("compiler", "backends", "language", "runtime", "_C")
"""Folders of Triton's package whose files determine the result of a compile."""


def describe() -> dict[str, Any]:
    """The versions of the interpreter and Triton, and the facts that a host needs of them.

    Returns:
        `python`, `executable`, `triton` (version); `triton_key`, a hash over Triton's Python files,
        `libtriton`, the AMD backend and the device libraries, since vendor builds share version
        numbers; `options`, names of the AMD backend's compile options; `problem` and `hint`, if it
        cannot be used; and `witnesses`, the files and folders (with modification time in ns, and
        size) that the answer depends on: while they are unchanged, the host need not ask again.
    """
    reply: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "triton": None,
        "triton_key": None,
        "options": [],
        "problem": None,
        "hint": "",
        "witnesses": [],
    }
    try:
        triton: Any = importlib.import_module("triton")
        backends = importlib.import_module("triton.backends").backends
    except ImportError as error:
        problem = f"Triton cannot be imported by {sys.executable}: {error}"
        return {**reply, "problem": problem, "hint": install_hint(error, "triton")}
    reply["triton"] = getattr(triton, "__version__", None)
    reply["problem"], reply["hint"] = _unfitness(triton, backends)
    if reply["problem"] is None:
        folder = os.path.dirname(os.path.abspath(triton.__file__))
        reply["triton_key"] = _key(backends["amd"].compiler, folder)
        reply["options"] = _options(backends["amd"].compiler)
        reply["witnesses"] = _witnesses(folder)
    return reply


def _unfitness(triton: Any, backends: Mapping[str, Any]) -> tuple[str | None, str]:
    """Why an imported Triton cannot be used, and what to do; None if it can be."""
    version = getattr(triton, "__version__", None)
    if not hasattr(triton, "knobs"):
        return (
            f"Triton {version} is older than the oldest supported (3.4)",
            "install triton>=3.4, or name another interpreter with --python",
        )
    if "amd" not in backends:
        return (
            f"Triton {version} was built without its AMD backend",
            "install a Triton that has triton/backends/amd, or use --python",
        )
    return None, ""


def triton_key() -> str:
    """Triton's own key: a hash over its Python files and libtriton."""
    for name in TRITON_KEY_MODULES:
        key = getattr(importlib.import_module(name), "triton_key", None)
        if key is not None:
            return str(key())
    raise AttributeError("this Triton has no triton_key()")


def replace_triton_key(key: str) -> None:
    """Makes `triton_key` return `key` in this process.

    Triton's own would hash half a gigabyte for the key of a cache that nobody looks into.
    """
    for name in TRITON_KEY_MODULES:
        module: Any = importlib.import_module(name)
        if hasattr(module, "triton_key"):
            module.triton_key = functools.partial(str, key)


def _key(backend_class: Any, folder: str) -> str:
    digest = hashlib.sha256(triton_key().encode())
    try:
        digest.update(str(backend_class(_some_target()).hash()).encode())
    except Exception as error:
        # Triton 3.4 runs an external linker here. Without one compiling fails, with an error of
        # its own, but the front end works.
        digest.update(type(error).__name__.encode())
    for path in sorted(glob.glob(os.path.join(folder, "backends", "amd", "lib", "*.bc"))):
        with open(path, "rb") as stream:
            digest.update(hashlib.sha256(stream.read()).digest())
    return digest.hexdigest()


def _options(backend_class: Any) -> list[str]:
    return sorted(backend_class(_some_target()).parse_options({}).__dict__)


def _some_target() -> Any:
    return importlib.import_module("triton.backends.compiler").GPUTarget("hip", "gfx942", 64)


def _witnesses(folder: str) -> list[list[Any]]:
    """Path, modification time (ns) and size of the files that `describe` depends on."""
    paths = [sys.executable, os.path.join(folder, "__init__.py")]
    for name in WITNESSED_FOLDERS:
        for root, folders, files in os.walk(os.path.join(folder, name)):
            folders[:] = [f for f in folders if f not in ("__pycache__", "include")]
            paths += [os.path.join(root, f) for f in files if f.endswith((".py", ".so", ".bc"))]
    # Installing another Triton earlier on sys.path changes a folder up to this one.
    for entry in sys.path:
        paths.append(entry or os.curdir)
        if os.path.abspath(entry) == os.path.dirname(folder):
            break
    stamps: list[list[Any]] = []
    for path in dict.fromkeys(os.path.abspath(p) for p in paths):
        try:
            stat = os.stat(path)
        except OSError:
            stamps.append([path, None, None])
        else:
            stamps.append([path, stat.st_mtime_ns, stat.st_size])
    return stamps


def switches(arch: str) -> dict[str, bool]:
    """Environment variable -> whether the switch is on for a target, set or by default.

    A switch whose default depends on the target is decided by a function of the backend, which is
    called; one that no such function decides is off when nothing sets it.
    """
    knobs: Any = importlib.import_module("triton").knobs.amd
    backend = importlib.import_module("triton.backends.amd.compiler")
    keys: dict[str, str] = {}
    values: dict[str, bool] = {}
    for owner in reversed(type(knobs).__mro__):
        for name, descriptor in vars(owner).items():
            key = getattr(descriptor, "key", None)
            if not isinstance(key, str):
                continue
            value = getattr(knobs, name)
            if isinstance(value, bool) or (value is None and "bool" in type(descriptor).__name__):
                keys[name], values[name] = key, bool(value)
    # The decision on one switch may be an argument of another's: hence twice.
    deciders = {name: _decider(backend, name) for name in values}
    for _ in range(2):
        for name, decide in deciders.items():
            if decide is not None:
                values[name] = _decision(decide, arch, values, values[name])
    return {keys[name]: value for name, value in values.items()}


def _decider(backend: Any, name: str) -> types.FunctionType | None:
    for function in vars(backend).values():
        if isinstance(function, types.FunctionType):
            read = function.__code__.co_names
            if "knobs" in read and name in read and "amd" in read:
                return function
    return None


def _decision(
    decide: types.FunctionType, arch: str, values: dict[str, bool], otherwise: bool
) -> bool:
    code = decide.__code__
    arguments: list[Any] = []
    for parameter in code.co_varnames[: code.co_argcount]:
        if parameter.endswith("arch"):
            arguments.append(arch)
        elif parameter in values:
            arguments.append(values[parameter])
        else:
            return otherwise
    try:
        return bool(decide(*arguments))
    except Exception:
        return otherwise
