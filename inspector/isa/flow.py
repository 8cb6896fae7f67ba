"""What an instruction does to the program counter, read from the mnemonic table's traits."""

from __future__ import annotations

from enum import Enum

from ..model import OpInfo

FLOW_CLASSES = frozenset({"branch", "control"})
"""The only classes whose instructions may do anything but go on with the next one."""

# AMDHSA trap handler ABI (LLVM's AMDGPUUsage, "Trap Handler ABI"): id 2 is llvm.trap and ends the
# wave, id 3 is llvm.debugtrap and goes on.
_FATAL_TRAP = "2"


class Flow(Enum):
    """Where control goes after an instruction."""

    NEXT = "next"
    JUMP = "jump"
    CONDITIONAL = "conditional"
    CALL = "call"  # comes back: goes on with the next instruction
    INDIRECT = "indirect"  # to an address in a register: return, tail call, long branch
    END = "end"

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may follow."""
        return self in _FALLS_THROUGH


_FALLS_THROUGH = frozenset({Flow.NEXT, Flow.CONDITIONAL, Flow.CALL})

# In this order: `indirect` ones are unconditional as well.
_BY_TRAIT = (
    ("end", Flow.END),
    ("call", Flow.CALL),
    ("indirect", Flow.INDIRECT),
    ("conditional", Flow.CONDITIONAL),
    ("unconditional", Flow.JUMP),
)


def flow_of(op: OpInfo, operands: str) -> Flow:
    """How control leaves an instruction.

    Args:
        op: its entry in the mnemonic table.
        operands: its operand text, looked at for traps alone.
    """
    if op.cls not in FLOW_CLASSES:
        return Flow.NEXT
    for trait, flow in _BY_TRAIT:
        if trait in op.traits:
            return flow
    if op.name == "s_trap" and operands.strip() == _FATAL_TRAP:
        return Flow.END
    return Flow.NEXT
