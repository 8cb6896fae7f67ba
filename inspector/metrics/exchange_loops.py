"""Loops of compare-and-swap that do what one atomic instruction of other targets does.

An operation without an atomic instruction is done by a loop: compute the new value of the one read
last, write it if memory still holds that one (`cmpswap`), else go on with what it holds now. Clang
makes such a loop of `atomicAdd` on float32 for gfx90a unless `-munsafe-fp-atomics` says that no
such memory is fine-grained (LLVM, SITargetLowering::shouldExpandAtomicRMWInIR), and older sources
have it written out for float64. Each turn is a return trip to the L2, and of lanes that add to one
address one succeeds in a turn.

The order of a Triton kernel's atomics.

Triton's atomics are ordered (`sem="acq_rel"`) unless the source says otherwise. LLVM then waits for
all of the wave's accesses, writes the cache back before the atomic and invalidates it afterwards
(AMDGPUUsage, memory model). The order of an atomic matters where one workgroup writes a tensor
before it and another one reads that tensor behind an atomic of its own; a kernel in which no tensor
is both needs none (`atomic_order`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ..isa.dataflow.value_graph import Operation, is_same, operations, registers, rows_of
from ..model import Function, Instruction, Scalar, TtgirModule, TtgirOp
from ..ttgir.queries import ATOMIC_EXCHANGES, ATOMIC_RMW
from .entries import of_kernels
from .subject import LineName, Subject, own_instructions

SPECS = of_kernels(
    {
        "atomics.exchange_loops": "Loops of a compare-and-swap whose new value is one operation "
        "of the old value and of one that the loop does not change: how many (`loops`); those on "
        "global memory whose operation is a sum, maximum or minimum of floats that the target has "
        "no instruction for, though others have (`emulated`; without those that one lane of a "
        "wave does), and `emulated_at` which line the first is",
    }
)

_SWAP: Final = re.compile(
    r"(?:(?:global|flat)_atomic_cmpswap(_x2|_b32|_b64)?|ds_cmpst(?:ore)?_rtn_b(?:32|64))$"
)
_MOST_COPIES: Final = 8
_MOST_INSTRUCTIONS: Final = 64
"""Of a loop that is searched; those that LLVM writes have about ten."""

_CDNA2, _CDNA3 = frozenset(("gfx90a",)), frozenset(("gfx940", "gfx941", "gfx942", "gfx950"))
_RDNA1 = frozenset(("gfx1010", "gfx1011", "gfx1012", "gfx1013"))
_RDNA2 = frozenset(("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"))
_RDNA3 = frozenset(
    ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153")
)
_RDNA4 = frozenset(("gfx1200", "gfx1201"))

NATIVE: Final[Mapping[str, tuple[tuple[frozenset[str], str], ...]]] = {
    "add_f32": ((_CDNA2 | _CDNA3 | _RDNA3 | _RDNA4, "global_atomic_add_f32"),),
    "add_f64": ((_CDNA2 | _CDNA3, "global_atomic_add_f64"),),
    "pk_add_f16": ((_CDNA2 | _CDNA3 | _RDNA4, "global_atomic_pk_add_f16"),),
    "max_f32": ((_RDNA1 | _RDNA2, "global_atomic_fmax"), (_RDNA3, "global_atomic_max_f32")),
    "min_f32": ((_RDNA1 | _RDNA2, "global_atomic_fmin"), (_RDNA3, "global_atomic_min_f32")),
    "max_f64": (
        (_CDNA2 | _CDNA3, "global_atomic_max_f64"),
        (_RDNA1 | _RDNA2, "global_atomic_fmax_x2"),
    ),
    "min_f64": (
        (_CDNA2 | _CDNA3, "global_atomic_min_f64"),
        (_RDNA1 | _RDNA2, "global_atomic_fmin_x2"),
    ),
    "max_num_f32": ((_RDNA4, "global_atomic_max_num_f32"),),
    "min_num_f32": ((_RDNA4, "global_atomic_min_num_f32"),),
}
"""Operation -> the targets that have it as an atomic of global memory, and its name there.

LLVM, FLATInstructions.td and the features of AMDGPU.td; `tests/test_exchange_loops.py` assembles
each. gfx908 is left out: its instruction returns nothing, which only some loops bear; and so is
gfx1250.
"""

_LEFT_OUT: Final = frozenset(("gfx908", "gfx1250"))
"""Targets that `NATIVE` leaves out though they have such instructions."""

_DIFFERENCES: Final = {"sub_f32": ("add_f32", 0), "subrev_f32": ("add_f32", 1)}
"""Differences -> the sum that does the same, and which operand is not the subtrahend."""
_CANONICAL: Final = frozenset(("max_f32", "max_f64", "max_num_f32", "max_num_f64"))


def _origin(done: Sequence[Operation], row: int, until: int) -> tuple[int, Operation | None]:
    """The register that a value was first in, and the loop's operation that made it, if any.

    Copies, and what only makes a value canonical, are followed back from operation `until` on.
    """
    for _ in range(_MOST_COPIES):
        at = next((n for n in range(until - 1, -1, -1) if row in rows_of(done[n].results)), None)
        if at is None:
            return row, None
        maker, (result, *sources) = done[at], done[at].parts.operands
        is_canonical = _kind(maker) in _CANONICAL and len(sources) == 2 and is_same(*sources)
        copied = registers(sources[0]) if sources else ()
        place = registers(result).index(row) if row in registers(result) else len(copied)
        if not (maker.name.startswith("v_mov_b") or is_canonical) or place >= len(copied):
            return row, maker
        row, until = copied[place], at
    return row, None


def _kind(operation: Operation) -> str:
    """What an operation does: `add_f32`."""
    return operation.parts.name.removeprefix("v_")


def exchange_loops(subject: Subject) -> dict[str, Scalar]:
    """The value of the metric of `SPECS`."""
    arch = subject.machine.arch if subject.machine is not None else None
    loops = 0
    emulated: list[Instruction] = []
    if any(_SWAP.match(inst.op.name) for inst in subject.function.instructions):
        for code in own_instructions(subject.function).values():
            swap = _only_swap(code)
            name = _operation(subject.function, code, swap) if swap is not None else None
            if swap is None or name is None:
                continue
            loops += 1
            is_global = not swap.op.name.startswith("ds_")
            if is_global and _needs_loop(name, arch) and not _is_of_one_lane(subject, swap):
                emulated.append(swap)
    emulated.sort(key=lambda swap: swap.index)
    return {
        "loops": loops,
        "emulated": len(emulated),
        "emulated_at": LineName.of(emulated),
    }


def _needs_loop(name: str, arch: str | None) -> bool:
    """Whether an operation on floats has an atomic instruction on other targets only."""
    if arch is None or arch in _LEFT_OUT or name not in NATIVE:
        return False
    return not any(arch in archs for archs, _ in NATIVE[name])


def _is_of_one_lane(subject: Subject, swap: Instruction) -> bool:
    """Whether one lane of a wave is known to take part, as behind a reduction."""
    use = subject.uses.get(swap.index)
    return use is not None and use.lanes == 1


def _only_swap(code: Sequence[Instruction]) -> Instruction | None:
    """The only compare-and-swap of a short loop."""
    if len(code) > _MOST_INSTRUCTIONS:
        return None
    swaps = [inst for inst in code if _SWAP.match(inst.op.name)]
    return swaps[0] if len(swaps) == 1 else None


def _operation(function: Function, code: Sequence[Instruction], swap: Instruction) -> str | None:
    """The operation that makes the new value of a loop's compare-and-swap, if it is one."""
    done = operations(function, code)
    at = next(number for number, operation in enumerate(done) if operation.inst is swap)
    new, old = _exchanged(done[at])
    if new is None or old is None:
        return None
    _, maker = _origin(done, new, at)
    if maker is None or len(maker.parts.operands) != 3:
        return None
    _, *sources = maker.parts.operands
    before, made_at = _origin(done, old, at), done.index(maker)
    written = rows_of(result for operation in done for result in operation.results)
    for place, source in enumerate(sources):
        rows = registers(source) if source.kind == "vgpr" else ()
        is_old = rows and _origin(done, rows[0], made_at) == before
        if is_old and written.isdisjoint(registers(sources[1 - place])):
            total, minuend = _DIFFERENCES.get(_kind(maker), (_kind(maker), place))
            return total if minuend == place else _kind(maker)
    return None


def _exchanged(swap: Operation) -> tuple[int | None, int | None]:
    """The first registers of the new value and of the one compared with."""
    data = [*swap.parts.operands[2:4], None, None]
    if swap.name.startswith("ds_"):
        first, second = (operand.rows if operand else range(0) for operand in data[:2])
        new, old = (second, first) if swap.name.startswith("ds_cmpst_") else (first, second)
    else:
        pair = data[0].rows if data[0] is not None else range(0)
        half = len(pair) // 2
        new, old = pair[:half], pair[half:]
    return new[0] if new else None, old[0] if old else None


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
    from .triton_loads import AtomicOrder

    order = AtomicOrder(module)
    if order.is_needed:
        return []
    return [op for op in ordered if not order.may_signal(op)]
