"""Switches of the AMD backend that environment variables set: which are on for a target."""

from __future__ import annotations

import importlib
import types
from typing import Any


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
