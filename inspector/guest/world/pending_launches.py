"""Launches that are executed by the emulator only if the host reads what they wrote.

A pending launch is like a deferred operator (`deferred`): it is the recipe of the memory that it
writes to. At the launch nothing is run or copied; the memory that it uses is copied later, just
before something else changes it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .contents import (
    UNTOUCHED,
    DeferredWork,
    KnownOperand,
    Memory,
    Recipe,
    StridedView,
    UnknownError,
)
from .deferred import MAX_DEPTH, Deferred, depth_over
from .refusal import REASONS, LaunchRefusedError
from .tensors import DeviceTensor

MAX_COPIED_BYTES = 1 << 28
"""Bytes of all copies of memory that pending launches need."""
MIN_PRUNED_SNAPSHOTS = 64
"""How many references to snapshots of one allocation there are when dead ones are first dropped;
then again whenever the number has doubled."""
MAX_SNAPSHOT_BYTES = 1 << 30
"""Bytes of memory that pending launches may keep alive."""

Execute = Callable[[Sequence[torch.Tensor], Sequence[int], float], None]
"""Executes a launch: (allocations, written, seconds). The allocations are byte tensors, changed in
place; `written` lists the indices of those that may change. Raises `LaunchRefusedError`."""


@dataclass(eq=False)
class MemorySnapshot(KnownOperand):
    """The bytes of an allocation at the time of a launch.

    Args:
        is_lost: whether they were overwritten, for want of room for a copy.
    """

    is_lost: bool = False

    def value(self) -> torch.Tensor:
        """The bytes.

        Raises:
            UnknownError: they are lost.
        """
        if self.is_lost:
            raise UnknownError(REASONS["inputs"], "inputs")
        return self.tensor


@dataclass(eq=False)
class KernelCall(DeferredWork):
    """A pending launch.

    Args:
        nbytes: size of each of its allocations, in bytes.
        written: indices of the allocations that it may write to, in the order of `targets`.
        execute: executes it.
        refusal: why executing it failed; None if it did not, or was not tried.
    """

    nbytes: tuple[int, ...]
    written: tuple[int, ...]
    execute: Execute
    refusal: LaunchRefusedError | None = field(default=None, init=False)

    def run(self, allocations: Sequence[torch.Tensor], seconds: float) -> list[Any]:
        """Executes it over its allocations; returns the storages that it may have written to.

        Raises:
            UnknownError: executing it fails now or failed before.
        """
        if self.refusal is None:
            try:
                self.execute(allocations, self.written, seconds)
            except LaunchRefusedError as refusal:
                self.refusal = refusal
        if self.refusal is not None:
            raise UnknownError(str(self.refusal), self.refusal.reason)
        return [allocations[index].untyped_storage() for index in self.written]

    def settle(self, storages: list[Any]) -> None:
        """Stores the storages that it wrote, and drops its operands."""
        super().settle(storages)
        self.execute = _not_again


def _not_again(allocations: Sequence[torch.Tensor], indices: Sequence[int], seconds: float) -> None:
    """Takes the place of `KernelCall.execute` once it was called."""
    raise AssertionError("a launch that was executed is executed again")


class Launches:
    """The pending launches of one run of a script.

    Args:
        deferred: numbers them, in one sequence with the deferred operators.
    """

    def __init__(self, deferred: Deferred) -> None:
        self._deferred = deferred
        self._copies: list[weakref.ref[torch.Tensor]] = []
        self._snapshots: list[weakref.ref[MemorySnapshot]] = []
        self._snapshot_bytes = 0

    def keep(
        self, tensors: Sequence[DeviceTensor], is_written: Sequence[bool], execute: Execute
    ) -> KernelCall | None:
        """Defers a launch: makes it the recipe of the memory that it writes to.

        Args:
            tensors: the launch's tensor arguments.
            is_written: for each of them, whether the kernel may write to it.
            execute: executes the launch over the arguments' allocations: each once, in the order
                of the arguments.

        Returns:
            The launch; None, with nothing changed, if its inputs cannot be known.
        """
        owners, written_indices = _allocations(tensors, is_written)
        try:
            operands = [_allocation(t, n in written_indices) for n, t in enumerate(owners)]
        except UnknownError:
            return None
        depth = depth_over(operands)
        snapshots = [operand for operand in operands if isinstance(operand, MemorySnapshot)]
        if depth > MAX_DEPTH or not self._has_room(snapshots):
            return None
        sorted_indices = tuple(sorted(written_indices))
        call = KernelCall(
            number=next(self._deferred.numbers),
            targets=(),
            operands=tuple(operands),
            results=(),
            depth=depth,
            by_kernels=True,
            nbytes=tuple(operand_bytes(operand) for operand in operands),
            written=sorted_indices,
            execute=execute,
        )
        _attach_snapshots(owners, operands)
        for storage_index, index in enumerate(sorted_indices):
            owners[index]._memory.recipe = Recipe(call, storage_index)
        return call

    def _has_room(self, operands: Sequence[MemorySnapshot]) -> bool:
        """Whether pending launches may keep these snapshots alive too; if so, counts them."""
        size = sum(int(operand.tensor.nbytes) for operand in operands)
        if self._snapshot_bytes + size > MAX_SNAPSHOT_BYTES:
            # The sum still includes launches that are gone.
            self._snapshots = [
                reference for reference in self._snapshots if reference() is not None
            ]
            storages = {
                operand.tensor.data_ptr(): int(operand.tensor.nbytes)
                for operand in (reference() for reference in self._snapshots)
                if operand is not None
            }
            self._snapshot_bytes = sum(storages.values())
            if self._snapshot_bytes + size > MAX_SNAPSHOT_BYTES:
                return False
        self._snapshot_bytes += size
        self._snapshots += map(weakref.ref, operands)
        return True

    def preserve(self, memory: Memory) -> None:
        """Copies an allocation that is about to change, if pending launches still need it."""
        references, memory.snapshots = memory.snapshots or (), None
        snapshots = [snapshot for snapshot in (ref() for ref in references) if snapshot is not None]
        if not snapshots:
            return
        self._copies = [ref for ref in self._copies if ref() is not None]
        size = sum(copy.nbytes for copy in (ref() for ref in self._copies) if copy is not None)
        size += snapshots[0].tensor.nbytes
        if size > MAX_COPIED_BYTES:
            for snapshot in snapshots:
                snapshot.is_lost = True
            return
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            copied = snapshots[0].tensor.clone()
        self._copies.append(weakref.ref(copied))
        for snapshot in snapshots:
            snapshot.tensor = copied


def _allocations(
    tensors: Sequence[DeviceTensor], is_written: Sequence[bool]
) -> tuple[list[DeviceTensor], set[int]]:
    """The first tensor of each allocation, and the indices of the allocations that are written."""
    index_by_memory: dict[int, int] = {}  # id of an allocation -> its index
    owners: list[DeviceTensor] = []
    written_indices: set[int] = set()
    for tensor, writes in zip(tensors, is_written):
        index = index_by_memory.setdefault(id(tensor._memory), len(owners))
        if index == len(owners):
            owners.append(tensor)
        if writes:
            written_indices.add(index)
    return owners, written_indices


def operand_bytes(operand: KnownOperand | StridedView) -> int:
    """Size in bytes of an operand that covers an allocation."""
    return operand.nbytes if isinstance(operand, StridedView) else int(operand.tensor.nbytes)


def _attach_snapshots(owners: Sequence[DeviceTensor], operands: Sequence[Any]) -> None:
    """Lets the allocations of a launch's tensors know of the snapshots among its operands."""
    for tensor, operand in zip(owners, operands):
        if isinstance(operand, MemorySnapshot):
            _attach(tensor._memory, operand)


def _attach(memory: Memory, operand: MemorySnapshot) -> None:
    """Lets an allocation know of a snapshot; now and then drops references to dead ones."""
    snapshots = memory.snapshots
    if snapshots is None:
        snapshots = memory.snapshots = []
    elif len(snapshots) >= MIN_PRUNED_SNAPSHOTS and not len(snapshots) & (len(snapshots) - 1):
        snapshots[:] = [reference for reference in snapshots if reference() is not None]
    snapshots.append(weakref.ref(operand))


def _allocation(tensor: DeviceTensor, is_written: bool) -> KnownOperand | StridedView:
    """A tensor's whole allocation, as bytes."""
    memory, payload = tensor._memory, tensor._payload
    nbytes = int(payload.untyped_storage().size())
    allocation = StridedView(memory.recipe, nbytes, torch.uint8, (nbytes,), (1,), 0)
    if memory.recipe is not None and (memory.unknown or payload.is_meta):
        return allocation
    if memory.unknown:
        # Uninitialised memory is fine: the kernel may write it, or read only an initialised part.
        if not memory.blank or not (is_written or memory.unset is not None):
            raise UnknownError(REASONS["inputs"], "inputs")
        if payload.is_meta:
            return allocation
    elif payload.is_meta:
        raise UnknownError(REASONS["inputs"], "inputs")
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        return MemorySnapshot(
            allocation.of(payload.untyped_storage()), UNTOUCHED, UNTOUCHED.version
        )
