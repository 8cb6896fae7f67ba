"""Which options a rocprofv3 of some version has, and what its PC sampler can do; from YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from msgspec import Struct

from ...errors import KinspectError

Version = tuple[int, ...]


class Sampling(Struct, frozen=True):
    """How one method of PC sampling is asked for on one arch."""

    method: str
    unit: str
    interval: int  # the default
    least: int
    power_of_two: bool


@cache
def _tables() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = yaml.safe_load(
        files(__package__).joinpath("versions.yaml").read_text(encoding="utf-8")
    )
    return loaded


def parse(text: str) -> Version | None:
    """The first version number in a text: `(1, 3, 0)` of "version: 1.3.0"; None without one."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else None


def show(version: Version | None) -> str:
    """As people write it; "unknown version" for None."""
    return ".".join(map(str, version)) if version else "unknown version"


def sdk_of_rocm(rocm: Version) -> Version | None:
    """The SDK's version in a ROCm release: that of the newest listed release not after it."""
    releases = sorted((parse(k) or (), parse(v) or ()) for k, v in _tables()["sdk_of_rocm"].items())
    fitting = [sdk for release, sdk in releases if release <= rocm]
    return fitting[-1] if fitting else None


def since(option: str) -> Version:
    """The first SDK version with an option that kinspect uses."""
    return parse(_tables()["since"][option]) or ()


def options_at(version: Version) -> frozenset[str]:
    """The options that kinspect uses and a version has."""
    return frozenset(name for name in _tables()["since"] if since(name) <= version)


def used_options() -> tuple[str, ...]:
    """All options that kinspect uses."""
    return tuple(_tables()["since"])


def compute_has(option: str, version: Version | None) -> bool:
    """Whether rocprof-compute has an option; an unknown version is taken for a new one."""
    return version is None or (parse(_tables()["compute_since"][option]) or ()) <= version


def sampling(arch: str, method: str | None = None, interval: int | None = None) -> Sampling:
    """What PC sampling on an arch is asked for with.

    Args:
        arch: such as gfx942.
        method: host_trap or stochastic; the best that the arch has, if None.
        interval: in the method's unit (microseconds or cycles); a default, if None.

    Raises:
        KinspectError: the arch has no such method, or the interval is none that it takes.
    """
    methods: Mapping[str, Mapping[str, Any]] = next(
        (
            row["methods"]
            for row in _tables()["pc_sampling"]
            if re.fullmatch(str(row["arch"]), arch)
        ),
        {},
    )
    if not methods:
        archs = "gfx90a, gfx94x and gfx95x"
        raise KinspectError(f"{arch} has no PC sampling", f"it is there on {archs}; try --att")
    chosen = method or next(iter(methods))
    if chosen not in methods:
        raise KinspectError(
            f"{arch} has no {chosen} PC sampling", f"use --pc-method {' or '.join(methods)}"
        )
    row = methods[chosen]
    rate = row["default"] if interval is None else interval
    power = bool(row.get("power_of_two"))
    unit = "cycles" if row["unit"] == "cycles" else "microseconds"
    if rate < row["least"] or (power and rate & (rate - 1)):
        kind = "a power of two, " if power else ""
        raise KinspectError(
            f"{chosen} PC sampling takes no interval of {rate} {unit}",
            f"give {kind}at least {row['least']}, to --pc-interval",
        )
    return Sampling(
        method=chosen, unit=row["unit"], interval=rate, least=row["least"], power_of_two=power
    )
