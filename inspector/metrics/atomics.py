"""Atomics: lanes at one address; of a Triton kernel their ordering, and sums within a loop.

Triton's atomics are ordered (`sem="acq_rel"`) unless the source says otherwise. LLVM then waits for
all of the wave's accesses, writes the cache back before the atomic and invalidates it afterwards
(AMDGPUUsage, memory model). The order of an atomic matters where one workgroup writes a tensor
before it and another one reads that tensor behind an atomic of its own; a kernel in which no tensor
is both needs none (`atomic_order`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from math import prod
from typing import TYPE_CHECKING, Final

from ..model import Instruction, Metric, MetricSpec, Scalar, TtgirModule, TtgirOp
from ..ttgir.queries import ATOMIC_EXCHANGES, ATOMIC_RMW, LOADS, address_operands
from .subject import Subject, op_line, source_line

if TYPE_CHECKING:
    from ..ttgir.axes.graph import ValueGraph

_ATOMICS, SHARED = "atomics", "atomics.shared"

SPECS = (
    MetricSpec(
        _ATOMICS,
        "mapping",
        "derived",
        "kernel",
        "Atomics of the TTGIR that change memory by an operation (atomic_rmw), `of` them: "
        "`ordered` by Triton's default (acq_rel), though no tensor is written before an atomic and "
        "read behind one, and they are no signal, the first `at` which line; `unchanging`: in a "
        "loop that does not change their "
        "address, so that they could follow it, the first `unchanging_at` which line; neither "
        "in kernels that exchange values; `adders`: the most workgroups of the launch that add to "
        "each address of one tensor, which their numbers along some axis do not change, and "
        "`adders_at` which line (None where no atomic is known to have more than one); "
        "`cache`: instructions of the code that write back or invalidate caches, without the "
        "invalidations that follow barriers",
    ),
    MetricSpec(
        SHARED,
        "mapping",
        "derived",
        "kernel",
        "Atomic instructions of which one wave's lanes share addresses: how many `accesses` of the "
        "`of` whose addresses are known, of the one with most lanes for each address the `lanes` "
        "that take part, their different `addresses` and `at` which line",
    ),
)

_SUMS: Final = frozenset(("fadd", "add", "max", "min", "umax", "umin", "fmax", "fmin"))
_BARRIERS: Final = frozenset(("barrier", "barrier_signal", "barrier_wait"))
_OF_LOOPS: Final = frozenset(("scf.for", "scf.while"))
_DEFAULT_ORDER: Final = "acq_rel"
_MOST_STEPS: Final = 10_000
_PURE: Final = frozenset(
    ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.addptr", "tt.make_range",
     "tt.get_program_id", "ttg.convert_layout")
)  # fmt: skip


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of `SPECS`."""
    yield _shared(subject)
    module = subject.ttgir
    if module is None:
        yield Metric(_ATOMICS, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    atomics = [op for op in module.ops if op.name in ATOMIC_RMW]
    locks = _has_lock(module)
    unneeded = [] if locks else _needlessly_ordered(module, atomics)
    unchanging = list(_unchanging(module)) if atomics and not locks else []
    sums = [] if locks else list(_sums(module, atomics))
    adders = _adders(module, sums, subject.facts.grid) if sums else None
    value: dict[str, Scalar] = {
        "of": len(atomics),
        "ordered": len(unneeded),
        "at": op_line(unneeded[0]) if unneeded else None,
        "unchanging": len(unchanging),
        "unchanging_at": op_line(unchanging[0]) if unchanging else None,
        "adders": adders[0] if adders is not None else None,
        "adders_at": op_line(adders[1]) if adders is not None else None,
        "cache": _cache_instructions(subject.function.instructions),
    }
    yield Metric(_ATOMICS, value, "mapping", "derived")


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


def _shared(subject: Subject) -> Metric:
    """Lanes of a wave at one address, by the addresses of the code."""
    known = [
        (use.lanes / use.addresses, inst, use)
        for inst in subject.function.instructions
        if inst.cls == "atomic"
        and (use := subject.uses.get(inst.index)) is not None
        and use.lanes
        and use.addresses
    ]
    _, inst, use = max(known, key=lambda item: item[0], default=(0.0, None, None))
    value: dict[str, Scalar] = {
        "accesses": sum(times > 1 for times, _, _ in known),
        "of": len(known),
        "lanes": use.lanes if use is not None else None,
        "addresses": use.addresses if use is not None else None,
        "at": source_line(inst.loc) if inst is not None else None,
    }
    return Metric(SHARED, value, "mapping", "derived")


def _has_lock(module: TtgirModule) -> bool:
    """Whether the kernel exchanges values by atomics: what others order may rest on that."""
    return any(
        op.name in ATOMIC_EXCHANGES
        or (op.name in ATOMIC_RMW and op.attributes.get("atomic_rmw_op") not in _SUMS)
        for op in module.ops
    )


def _needlessly_ordered(module: TtgirModule, atomics: Sequence[TtgirOp]) -> list[TtgirOp]:
    """Atomics of Triton's default order that order nothing which another workgroup reads.

    Who has chosen another order needs it. A whole number that is added at one address behind other
    writes, and whose sum the kernel does not use, may be a signal to another kernel: a semaphore.
    """
    ordered = [op for op in atomics if op.attributes.get("sem", _DEFAULT_ORDER) == _DEFAULT_ORDER]
    if not ordered:
        return []
    # The flow of values is followed for kernels with such atomics only.
    from ..ttgir.atomic_order import AtomicOrder

    order = AtomicOrder(module)
    if order.is_needed:
        return []
    return [op for op in ordered if not order.may_signal(op)]


def _sums(module: TtgirModule, atomics: Sequence[TtgirOp]) -> Iterator[TtgirOp]:
    """Atomics whose result nothing uses, without those that may be signals."""
    used = {operand for op in module.ops for operand in op.operands}
    for op in atomics:
        result_type = op.result_types[0] if op.result_types else None
        if result_type is None or not used.isdisjoint(op.results):
            continue
        is_number = not result_type.shape and not result_type.text.startswith(("f", "bf"))
        if not is_number:
            yield op


def _adders(
    module: TtgirModule, atomics: Sequence[TtgirOp], grid: Sequence[int] | None
) -> tuple[int, TtgirOp] | None:
    """The most workgroups that add to the same addresses, and by which atomic; None for one.

    An address that is made of a workgroup's number along an axis counts as that workgroup's alone,
    and one that memory delivers as unknown.
    """
    if not grid:
        return None
    # The flow of values is followed for kernels with atomics only.
    from ..ttgir.flow import UNKNOWN, flow_of, values_behind

    flow = flow_of(module)
    most: tuple[int, TtgirOp] | None = None
    for atomic in atomics:
        count = address_operands(atomic)
        axes = set[str]()
        for value, maker in values_behind(flow, flow.operands[atomic.index][:count]):
            if value == UNKNOWN or (maker is not None and maker.name in LOADS):
                break
            if maker is not None and maker.name == "tt.get_program_id":
                axes.add(str(maker.attributes.get("axis")))
        else:
            shared = [size for axis, size in zip("xyz", grid, strict=False) if axis not in axes]
            if prod(shared) > (1 if most is None else most[0]):
                most = prod(shared), atomic
    return most


def _unchanging(module: TtgirModule) -> Iterator[TtgirOp]:
    """Atomics in a loop that does not change their address, whose result nothing uses."""
    # The analysis of axes is imported for kernels with atomics only.
    from ..ttgir.axes.graph import functions

    for graph in functions(module):
        used = {operand for op in graph.ops for operand in op.operands}
        for op in graph.ops:
            if op.name not in ATOMIC_RMW or not used.isdisjoint(op.results):
                continue
            inside = _loop_around(module, op)
            # Pointer and offsets come first, then what is added, which may change.
            address = op.operands[: address_operands(op)]
            if inside and not any(_changes(graph, name, inside, module) for name in address):
                yield op


def _loop_around(module: TtgirModule, op: TtgirOp) -> frozenset[int]:
    """Index of the innermost loop around an operation, empty outside of loops."""
    parent = op.parent
    while parent is not None:
        if module.ops[parent].name in _OF_LOOPS:
            return frozenset((parent,))
        parent = module.ops[parent].parent
    return frozenset()


def _changes(graph: ValueGraph, name: str, loop: Set[int], module: TtgirModule) -> bool:
    """Whether a value may differ from iteration to iteration of a loop."""
    visited = {name}
    work = [name]
    while work:
        value = work.pop()
        if len(visited) > _MOST_STEPS:
            return True
        carried = graph.carried.get(value)
        if carried is not None:
            if carried.owner.index in loop:
                return True
            continue  # an argument of the function, or of a loop further out
        op = graph.producers.get(value)
        if op is None or not _is_inside(module, op, loop):
            continue
        if op.name not in _PURE and not op.name.startswith("arith."):
            return True
        new = [operand for operand in op.operands if operand not in visited]
        visited.update(new)
        work += new
    return False


def _is_inside(module: TtgirModule, op: TtgirOp, loop: Set[int]) -> bool:
    parent = op.parent
    while parent is not None:
        if parent in loop:
            return True
        parent = module.ops[parent].parent
    return False
