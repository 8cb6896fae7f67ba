"""The instructions' semantics, one file per class; importing a file registers its instructions.

Those that addresses are made of are there from the beginning. The others, which only an execution
needs, are imported when the first of them is asked for.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from .. import registry
from ..registry import Builder
from . import control, global_memory, integer, lanes, lds, scalar, scalar_bits, scalar_memory


def import_all() -> None:
    """Imports all files, for a process that will execute kernels."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
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
    "builder_of", "control", "global_memory", "import_all", "integer", "lanes", "lds", "scalar",
    "scalar_bits", "scalar_memory",
]  # fmt: skip
