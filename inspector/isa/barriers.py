"""Barriers that not all waves of a workgroup take part in."""

from __future__ import annotations

from ..model import Function

_WHOLE_WORKGROUP = frozenset({"-1", "0xffff", "65535", ""})
"""Operands of the one barrier that needs no name; `s_barrier` has none."""


def has_special_barriers(function: Function) -> bool:
    """Whether a function has barriers that not all waves of the workgroup take part in."""
    for inst in function.instructions:
        if inst.cls == "control" and "barrier" in inst.op.traits:
            return True
        if inst.cls not in ("barrier", "barrier_signal"):
            continue
        if inst.op.name.endswith("_isfirst") or inst.operands.strip() not in _WHOLE_WORKGROUP:
            return True
    return False
