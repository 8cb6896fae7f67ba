"""The options of rocprofv3's versions, and the capabilities of PC sampling; from YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...base.documents import own_yaml
from ...base.errors import KinspectError

Version = tuple[int, ...]

_FILE = Path(__file__).with_name("versions.yaml")


class Sampling(Struct, frozen=True):
    """A method of PC sampling on an arch, with its interval."""

    method: str
    unit: str
    interval: int  # the default
    least: int
    power_of_two: bool


@cache
def _tables() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = own_yaml(_FILE)
    return loaded


def parse(text: str) -> Version | None:
    """Returns the first version number in a text: `(1, 3, 0)` of "version: 1.3.0"; None if none."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else None


def show(version: Version | None) -> str:
    """Returns a version as text; "unknown version" for None."""
    return ".".join(map(str, version)) if version else "unknown version"


def sdk_of_rocm(rocm: Version) -> Version | None:
    """Returns the SDK's version in a ROCm release, of the newest listed release up to it."""
    releases = sorted((parse(k) or (), parse(v) or ()) for k, v in _tables()["sdk_of_rocm"].items())
    fitting = [sdk for release, sdk in releases if release <= rocm]
    return fitting[-1] if fitting else None


def since(option: str) -> Version:
    """Returns the first SDK version with an option that kinspect uses."""
    return parse(_tables()["since"][option]) or ()


def used_options() -> tuple[str, ...]:
    """Returns all options that kinspect uses."""
    return tuple(_tables()["since"])


def compute_has(option: str, version: Version | None) -> bool:
    """Tells whether rocprof-compute has an option; an unknown version is taken for a new one."""
    return version is None or (parse(_tables()["compute_since"][option]) or ()) <= version


def sampling(arch: str, method: str | None = None, interval: int | None = None) -> Sampling:
    """Chooses a method and interval of PC sampling for an arch.

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
