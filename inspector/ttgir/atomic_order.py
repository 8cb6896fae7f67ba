"""Whether the atomics of a kernel order accesses that its workgroups see of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from .access_tensors import ANY, PASSES_ON, loops_around, maker_of, tensors_of
from .flow import DataFlow, flow_of
from .queries import ATOMIC_EXCHANGES, ATOMIC_RMW, LOADS, STORES, address_operands
from .values import undense

_EXTREMES: Final = frozenset(("max", "min", "umax", "umin", "fmax", "fmin"))


class _Access(Struct, frozen=True):
    """An access of global memory.

    Args:
        tensors: the values of pointers that it may go through, `ANY` among them.
        reads: whether it brings a value that is used.
        writes: whether it changes memory.
    """

    op: TtgirOp
    tensors: frozenset[int]
    reads: bool
    writes: bool
    loops: frozenset[int]

    def may_precede(self, other: _Access) -> bool:
        """Whether it may be carried out before another access."""
        return self.op.index < other.op.index or not self.loops.isdisjoint(other.loops)


class AtomicOrder:
    """What comes before and behind the atomics of a module.

    Attributes:
        is_needed: whether some tensor is written before an atomic and read behind one, or an atomic
            waits for what somebody else has written.
    """

    def __init__(self, module: TtgirModule) -> None:
        """Follows the pointers of all accesses."""
        flow = flow_of(module)
        self._accesses = list(_accesses(flow))
        self._atomics = {
            access.op.index: access
            for access in self._accesses
            if access.op.name in ATOMIC_RMW | ATOMIC_EXCHANGES
        }
        written, loaded, returned = set[int](), set[int](), set[int]()
        for atomic in self._atomics.values():
            for access in self._accesses:
                if access.op.index == atomic.op.index:
                    continue
                if access.writes and access.may_precede(atomic):
                    written |= access.tensors
                if access.reads and atomic.may_precede(access):
                    into = returned if access.op.index in self._atomics else loaded
                    into |= access.tensors
        # Of one tensor that atomics alone touch each element is in order by itself.
        self.is_needed = (
            _meet(written, loaded)
            or len(written & returned) > 1
            or any(_only_reads(flow, access) for access in self._atomics.values())
            or any(op.name == "tt.call" for op in module.ops)  # arguments of the function called
        )

    def may_signal(self, atomic: TtgirOp) -> bool:
        """Whether an atomic may tell another kernel that what is before it has been written."""
        own = self._atomics[atomic.index]
        result = atomic.result_types[0] if atomic.result_types else None
        counts = atomic.attributes.get("atomic_rmw_op") not in _EXTREMES
        if result is None or result.shape or own.reads or not counts:
            return False
        if result.text.startswith(("f", "bf")):
            return False
        return any(
            access.writes and access.op.index != atomic.index and access.may_precede(own)
            for access in self._accesses
        )


def _only_reads(flow: DataFlow, access: _Access) -> bool:
    """Whether an atomic adds nothing: it asks for a signal, which another kernel may give."""
    if not access.reads:
        return False
    atomic = access.op
    place = address_operands(atomic)
    for value in flow.operands[atomic.index][place : place + 1]:
        maker = maker_of(flow, value)
        while maker is not None and maker.name in PASSES_ON and flow.operands[maker.index]:
            maker = maker_of(flow, flow.operands[maker.index][0])
        if maker is not None and maker.name == "arith.constant":
            return undense(maker.attributes.get("value")) in (None, 0)
    return False


def _meet(written: set[int], read: set[int]) -> bool:
    if ANY in written or ANY in read:
        return bool(written) and bool(read)
    return not written.isdisjoint(read)


def _accesses(flow: DataFlow) -> Iterator[_Access]:
    used = {value for operands in flow.operands for value in operands}
    for op in flow.module.ops:
        is_atomic = op.name in ATOMIC_RMW or op.name in ATOMIC_EXCHANGES
        is_store = op.name in STORES
        if not (is_atomic or is_store or op.name in LOADS):
            continue
        yield _Access(
            op,
            tensors_of(flow, op),
            not is_store and (not is_atomic or not used.isdisjoint(flow.results[op.index])),
            is_atomic or is_store,
            loops_around(flow, op),
        )
