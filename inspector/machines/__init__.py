"""The hardware limits of each gfx target: one YAML file per target, each figure with its source.

A new target is a new `gfxNNN.yaml`; rates of products, for times, are in `rates.yaml`.
"""

from __future__ import annotations

import re

from ..model import Machine
from .loader import DEFAULT_ARCH, load, names

__all__ = ["DEFAULT_ARCH", "load", "matrix_cycles", "names"]

# Operand formats of f8f6f4: 0 FP8, 1 BF8, 2 FP6, 3 BF6, 4 FP4. MFMA spells them as numbers (cbsz
# for A, blgp for B; CDNA4 ISA reference), gfx1250 WMMA by name. Absent means 0.
_FORMATS = (
    re.compile(r"\b(?:cbsz:|matrix_a_fmt:MATRIX_FMT_)(\w+)"),
    re.compile(r"\b(?:blgp:|matrix_b_fmt:MATRIX_FMT_)(\w+)"),
)
_WIDE = frozenset({"0", "1", "FP8", "BF8"})
_MIXED_FORMAT = "f8f6f4"


def matrix_cycles(machine: Machine, op_name: str, operands: str) -> int | None:
    """Clocks of the SIMD's matrix unit that one instruction takes.

    `op_name`: the mnemonic without encoding suffix; LLVM's aliases are known as well. `operands`:
    the operand text: f8f6f4 takes half the clocks where neither A nor B is 8 bits wide, and only
    the modifiers tell. Returns None where no figure is known for this instruction on this target.
    """
    if op_name.endswith(_MIXED_FORMAT):
        matches = (pattern.search(operands) for pattern in _FORMATS)
        if all(match and match[1] not in _WIDE for match in matches):
            return machine.mfma_cycles.get(f"{op_name}:narrow")
    return machine.mfma_cycles.get(op_name)
