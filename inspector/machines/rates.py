"""Reads `machines/rates.yaml`: what the timing model needs of each target it covers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..base.documents import own_yaml
from ..model.machine import Rates
from .loader import cite
from .target_names import base_arch

_FILE = Path(__file__).with_name("rates.yaml")

msgspec.json.Decoder(Rates)
"""Two threads that are the first to convert to a Struct end the process (msgspec 0.22)."""


@functools.cache
def rates_of(arch: str) -> Rates | None:
    """The rates of a target, with or without features behind its name; None: it has none."""
    table: Mapping[str, Any] = own_yaml(_FILE)
    name = base_arch(arch)
    if name not in table:
        return None
    figures = _figures(table, name)
    return msgspec.convert(
        {
            **{key: figure["value"] for key, figure in figures.items()},
            "ranges": {key: f["range"] for key, f in figures.items() if "range" in f},
            "sources": {
                key: cite("rates", key, figure["source"]) for key, figure in figures.items()
            },
        },
        Rates,
    )


def _figures(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    entry = table[name]
    inherited = _figures(table, entry["inherits"]) if "inherits" in entry else {}
    return {**inherited, **entry["figures"]}
