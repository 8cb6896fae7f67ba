"""Which configurations of a kernel to try: those of its file, made fit for the backend at hand."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .kernel_file import Backend, fitting, options_of, parameters_of

SEED = 1
MOST_POINTS = 20_000
"""Points of a space that are looked at; of a larger one a random choice."""
KERNELS = (
    ("triton.runtime.jit", "JITFunction"),
    ("triton.runtime.interpreter", "InterpretedFunction"),
)
"""What jitted functions are, on a GPU and in the interpreter."""


def candidates(
    module: Any, backend: Backend, most: int, start: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Configurations to time beside the default one, each once.

    The file's CONFIGS for the backend come first, then the points of the product of TUNING, those
    nearest to the default first: a large tile takes minutes to compile and seldom fits far from it.
    The order is the same every time.

    Args:
        module: the kernel file.
        backend: options that only other backends know are left out.
        most: how many at most.
        start: the default configuration, as far as it is known.
    """
    configs: dict[str, dict[str, Any]] = {}

    def add(config: Mapping[str, Any]) -> None:
        fit = fitting(module, {"config": config}, backend)["config"]
        configs.setdefault(repr(sorted(fit.items())), fit)

    stated = default_config(module, backend)
    if stated:
        add(stated)
    space = {name: list(values) for name, values in (getattr(module, "TUNING", None) or {}).items()}
    for point in sorted(_points(space, start), key=lambda p: _steps(space, p, start)):
        if len(configs) >= most:
            break
        add(point)
    return list(configs.values())[:most]


def _points(space: Mapping[str, list[Any]], start: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a product in random order; of a large one some, and those beside `start`."""
    size = math.prod(len(values) for values in space.values()) if space else 0
    draw = random.Random(SEED)
    points = [_point(space, number) for number in draw.sample(range(size), min(size, MOST_POINTS))]
    if size > MOST_POINTS and all(start.get(name) in values for name, values in space.items()):
        middle = {name: start[name] for name in space}
        points += [{**middle, name: value} for name, values in space.items() for value in values]
    return points


def _steps(
    space: Mapping[str, list[Any]], point: Mapping[str, Any], start: Mapping[str, Any]
) -> int:
    """How far a point is from another one, in steps along the lists of values."""
    return sum(
        abs(values.index(point[name]) - values.index(start[name]))
        for name, values in space.items()
        if start.get(name) in values
    )


def default_config(module: Any, backend: Backend) -> dict[str, Any]:
    """The default that the file states for the backend, where it is one for all shapes."""
    stated = getattr(module, "CONFIGS", None)
    if isinstance(stated, Mapping):
        config = stated.get(backend.kind if not backend.interpreted else "cuda")
        if isinstance(config, Mapping) and not any(
            isinstance(value, Mapping) for value in config.values()
        ):
            return dict(config)
    return {}


def known_names(module: Any) -> list[str]:
    """The names that a configuration of this file may have."""
    names = set(parameters_of(module)) | options_of("amd") | options_of("nvidia")
    names.update(getattr(module, "TUNING", None) or ())
    return sorted(names | known_defaults(module))


def known_defaults(module: Any) -> set[str]:
    """The names in the file's CONFIGS."""
    stated = getattr(module, "CONFIGS", None)
    configs = stated.values() if isinstance(stated, Mapping) else ()
    return {name for config in configs if isinstance(config, Mapping) for name in config}


@contextmanager
def configurations_seen(module: Any) -> Iterator[list[dict[str, Any]]]:
    """Notes the configuration of every kernel launched meanwhile: what `launch` chose itself."""
    names = set(options_of("amd") | options_of("nvidia"))
    names.update(getattr(module, "TUNING", None) or ())
    names.update(known_defaults(module))
    configs: list[dict[str, Any]] = []
    patched = []
    for place, name in KERNELS:
        try:
            kind = getattr(importlib.import_module(place), name)
        except ImportError:  # the interpreter needs NumPy, which need not be there
            continue
        patched.append((kind, kind.run))
        kind.run = _noting(kind.run, names, configs)
    try:
        yield configs
    finally:
        for kind, original in patched:
            kind.run = original


def _noting(original: Any, names: set[str], configs: list[dict[str, Any]]) -> Any:
    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        configs.append({name: value for name, value in kwargs.items() if name in names})
        return original(function, *args, **kwargs)

    return run


def _point(space: Mapping[str, list[Any]], number: int) -> dict[str, Any]:
    """The number-th point of a product, the last name's values changing fastest."""
    point = {}
    for name in reversed(list(space)):
        number, index = divmod(number, len(space[name]))
        point[name] = space[name][index]
    return dict(reversed(list(point.items())))
