"""The order of a Triton kernel's atomics.

Triton's atomics are ordered (`sem="acq_rel"`) unless the source says otherwise. LLVM then waits for
all of the wave's accesses, writes the cache back before the atomic and invalidates it afterwards
(AMDGPUUsage, memory model). The order of an atomic matters where one workgroup writes a tensor
before it and another one reads that tensor behind an atomic of its own; a kernel in which no tensor
is both needs none (`atomic_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..model import Instruction, Scalar, TtgirModule, TtgirOp
from ..ttgir.queries import ATOMIC_EXCHANGES, ATOMIC_RMW
from .entries import of_kernels
from .subject import LineName, Subject

ORDER_SPECS = of_kernels(
    {
        "atomics": "Atomics of the TTGIR that change memory by an operation (atomic_rmw), `of` "
        "them: `ordered` by Triton's default (acq_rel), though no tensor is written before an "
        "atomic and read behind one, and they are no signal, the first `at` which line; none in "
        "kernels that exchange values; `cache`: instructions of the code that write back or "
        "invalidate caches, without the invalidations that follow barriers",
    }
)

_SUMS: Final = frozenset(("fadd", "add", "max", "min", "umax", "umin", "fmax", "fmin"))
_BARRIERS: Final = frozenset(("barrier", "barrier_signal", "barrier_wait"))
_DEFAULT_ORDER: Final = "acq_rel"


def order(subject: Subject, module: TtgirModule) -> dict[str, Scalar]:
    """The value of the metric of `ORDER_SPECS`."""
    atomics = [op for op in module.ops if op.name in ATOMIC_RMW]
    unneeded = [] if _has_lock(module) else _needlessly_ordered(module, atomics)
    return {
        "of": len(atomics),
        "ordered": len(unneeded),
        "at": LineName.of(unneeded),
        "cache": _cache_instructions(subject.function.instructions),
    }


def _cache_instructions(code: Sequence[Instruction]) -> int:
    """Cache instructions but for those that a barrier of the workgroup brings.

    On RDNA the waves of a workgroup in WGP mode have two L0 caches: LLVM invalidates them behind
    each barrier (`buffer_gl0_inv`, or `global_inv` for this scope), whatever the atomics' order.
    """
    instructions = 0
    behind_barrier = False
    for inst in code:
        if inst.cls in _BARRIERS:
            behind_barrier = True
        elif inst.cls == "cache":
            instructions += not (behind_barrier and _of_workgroup(inst))
            behind_barrier = False
        elif inst.cls == "atomic":
            behind_barrier = False
    return instructions


def _of_workgroup(inst: Instruction) -> bool:
    """Whether an instruction invalidates no more than what other waves of the workgroup wrote."""
    name = inst.op.name
    return name == "buffer_gl0_inv" or (name == "global_inv" and "SCOPE_SE" in inst.operands)


def _has_lock(module: TtgirModule) -> bool:
    """Whether the kernel exchanges values by atomics: what others order may rest on that."""
    return any(
        op.name in ATOMIC_EXCHANGES
        or (op.name in ATOMIC_RMW and op.attributes.get("atomic_rmw_op") not in _SUMS)
        for op in module.ops
    )


def _needlessly_ordered(module: TtgirModule, atomics: Sequence[TtgirOp]) -> list[TtgirOp]:
    """Atomics of Triton's default order that order nothing which another workgroup reads."""
    ordered = [op for op in atomics if op.attributes.get("sem", _DEFAULT_ORDER) == _DEFAULT_ORDER]
    if not ordered:
        return []
    # The flow of values is followed for kernels with such atomics only.
    from ..ttgir.atomic_order import AtomicOrder

    order = AtomicOrder(module)
    if order.is_needed:
        return []
    return [op for op in ordered if not order.may_signal(op)]
