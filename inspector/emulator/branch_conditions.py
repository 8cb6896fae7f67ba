"""Which waves take a conditional branch, by its mnemonic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .waves import Array, Waves

CONDITIONS: Final[dict[str, Callable[[Waves], Array]]] = {
    "s_cbranch_scc0": lambda waves: ~waves.scc,
    "s_cbranch_scc1": lambda waves: waves.scc,
    "s_cbranch_vccz": lambda waves: waves.vccz,
    "s_cbranch_vccnz": lambda waves: ~waves.vccz,
    "s_cbranch_execz": lambda waves: waves.execz,
    "s_cbranch_execnz": lambda waves: ~waves.execz,
}
