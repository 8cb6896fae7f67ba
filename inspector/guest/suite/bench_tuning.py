"""Chooses the configurations of a kernel file to time, and records those that `launch` uses."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..cases.space import indices_of
from .kernel_file import Backend, fitting, launches_watched, options_of, parameters_of

SEED = 1
MAX_POINTS = 20_000
"""How many points of a larger space are sampled."""


def candidates(
    module: Any, backend: Backend, max_configs: int, default: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Configurations to time beside the default one, each once.

    The file's CONFIGS for the backend come first, then the points of the space that TUNING spans,
    nearest to the default first: distant ones have large tiles, which take minutes to compile and
    seldom fit. The order is deterministic.
    """
    configs: dict[str, dict[str, Any]] = {}

    def add(config: Mapping[str, Any]) -> None:
        accepted = fitting(module, {"config": config}, backend)["config"]
        configs.setdefault(repr(sorted(accepted.items())), accepted)

    stated = default_config(module, backend)
    if stated:
        add(stated)
    space = {name: list(values) for name, values in (getattr(module, "TUNING", None) or {}).items()}
    for point in sorted(
        _points(space, default), key=lambda point: _distance(space, point, default)
    ):
        if len(configs) >= max_configs:
            break
        add(point)
    return list(configs.values())[:max_configs]


def _points(space: Mapping[str, list[Any]], default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a space in random order."""
    sizes = [len(values) for values in space.values()]
    size = math.prod(sizes) if space else 0
    sample = random.Random(SEED).sample(range(size), min(size, MAX_POINTS))
    points = [
        {name: values[i] for i, (name, values) in zip(indices_of(number, sizes), space.items())}
        for number in sample
    ]
    if size > MAX_POINTS and all(default.get(name) in values for name, values in space.items()):
        default_point = {name: default[name] for name in space}
        points += [
            {**default_point, name: value} for name, values in space.items() for value in values
        ]
    return points


def _distance(
    space: Mapping[str, list[Any]], point: Mapping[str, Any], default: Mapping[str, Any]
) -> int:
    """Distance of a point from `default`: steps along the lists of values, summed over names."""
    return sum(
        abs(values.index(point[name]) - values.index(default[name]))
        for name, values in space.items()
        if default.get(name) in values
    )


def default_config(module: Any, backend: Backend) -> dict[str, Any]:
    """The file's default for the backend; empty where it has none, or one for each shape."""
    stated = getattr(module, "CONFIGS", None)
    if isinstance(stated, Mapping):
        config = stated.get("cuda" if backend.interpreted else backend.kind)
        if isinstance(config, Mapping) and not any(
            isinstance(value, Mapping) for value in config.values()
        ):
            return dict(config)
    return {}


def known_names(module: Any) -> list[str]:
    """The names that a configuration of this file may have: parameters, options, its own."""
    return sorted(parameters_of(module) | _own_names(module))


def _own_names(module: Any) -> set[str]:
    """The options of all backends, and the names in the file's TUNING and CONFIGS."""
    names = set(options_of("amd") | options_of("nvidia"))
    names.update(getattr(module, "TUNING", None) or ())
    stated = getattr(module, "CONFIGS", None)
    for config in stated.values() if isinstance(stated, Mapping) else ():
        names.update(config if isinstance(config, Mapping) else ())
    return names


@contextmanager
def launched_configurations(module: Any) -> Iterator[list[dict[str, Any]]]:
    """Collects the configuration of every kernel that is launched inside the context."""
    names = _own_names(module)
    configs: list[dict[str, Any]] = []

    def collect(function: Any, kwargs: Mapping[str, Any]) -> None:
        configs.append({name: value for name, value in kwargs.items() if name in names})

    with launches_watched(collect):
        yield configs
