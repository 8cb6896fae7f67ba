"""The instructions' semantics, one file per class; importing a file registers its instructions.

Those that addresses are made of are there from the beginning. The others, which only an execution
needs, are imported when the first of them is asked for.
"""

from __future__ import annotations

import functools
import importlib
from typing import Final

from .. import registry
from ..registry import Builder
from . import (
    bits,
    control,
    global_memory,
    integer,
    lanes,
    lds,
    lds_crossbar,
    masks,
    scalar,
    scalar_bits,
    scalar_memory,
    transposed_loads,
)

_OTHERS: Final = (
    "atomics",
    "convert",
    "convert_float8",
    "convert_scaled",
    "division",
    "dot",
    "half",
    "lds_direct",
    "mfma",
    "mfma_scaled",
    "minmax",
    "moves",
    "packed",
    "real",
    "scalar_real",
    "sparse",
    "wmma",
    "wmma_scaled",
)


def import_all() -> None:
    """Imports all files, for a process that will execute kernels."""
    for module in _OTHERS:
        importlib.import_module(f".{module}", __name__)
    _imported.cache_clear()


@functools.cache
def _imported(name: str) -> Builder | None:
    """The builder of a mnemonic, of those that are imported."""
    return registry.builder_of(name)


def builder_of(name: str) -> Builder | None:
    """The builder of a mnemonic; None where it is not covered."""
    builder = _imported(name)
    if builder is None:
        import_all()
        builder = registry.builder_of(name)
    return builder


__all__ = [
    "bits",
    "builder_of",
    "control",
    "global_memory",
    "import_all",
    "integer",
    "lanes",
    "lds",
    "lds_crossbar",
    "masks",
    "scalar",
    "scalar_bits",
    "scalar_memory",
    "transposed_loads",
]
