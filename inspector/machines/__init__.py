"""The hardware limits of each gfx target: one YAML file per target, each figure with its source.

A new target is a new `gfxNNN.yaml` and nothing else.
"""

from __future__ import annotations

from .loader import load, names
from .matrix import matrix_cycles

__all__ = ["load", "matrix_cycles", "names"]
