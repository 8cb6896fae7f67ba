"""Launches that are executed by the emulator only if the host reads what they wrote.

A pending launch is kept like a deferred operator (`deferred`): it is the recipe of the memory that
it writes to. When the script launches, nothing is run or copied. The memory that the launch uses is
copied later, just before something else changes it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .deferred import (
    DEEPEST,
    UNTOUCHED,
    Deferred,
    Known,
    Part,
    Recipe,
    UnknownError,
    Work,
    depth_over,
)
from .refused import REASONS, RefusedError
from .tensors import DeviceTensor, Memory

MOST_PRESERVED = 1 << 28
"""Most bytes of copies that are made of memory which a pending launch needs."""
MOST_HOLDERS = 64
"""Number of references to launches over one allocation at which dead references are dropped for the
first time; then again whenever the number has doubled."""
MOST_HELD = 1 << 30
"""Most bytes of memory that pending launches keep alive."""

Execute = Callable[[Sequence[torch.Tensor], Sequence[int], float], None]
"""Executes a launch: (allocations, written, seconds). The allocations are byte tensors, changed in
place; `written` lists the indices of those that may change. Raises `RefusedError`."""


@dataclass(eq=False)
class Held(Known):
    """The bytes of an allocation at the time of a launch. `Launches.preserve` keeps them so."""

    is_lost: bool = False

    def value(self) -> torch.Tensor:
        """The bytes.

        Raises:
            UnknownError: they have been overwritten, and there was no room for a copy.
        """
        if self.is_lost:
            raise UnknownError(REASONS["inputs"], "inputs")
        return self.tensor


@dataclass(eq=False)
class KernelCall(Work):
    """A pending launch.

    Args:
        nbytes: size of each of its allocations, in bytes.
        written: indices of the allocations that it may write to, in the order of `targets`.
        execute: executes it.
        refusal: why executing it failed, if that was tried.
    """

    nbytes: tuple[int, ...]
    written: tuple[int, ...]
    execute: Execute
    refusal: RefusedError | None = field(default=None, init=False)

    def run(self, allocations: Sequence[torch.Tensor], seconds: float) -> list[Any]:
        """Executes it over its allocations; returns the storages that it may have written to.

        Raises:
            UnknownError: executing it fails now or failed before.
        """
        if self.refusal is None:
            try:
                self.execute(allocations, self.written, seconds)
            except RefusedError as refusal:
                self.refusal = refusal
        if self.refusal is not None:
            raise UnknownError(str(self.refusal), self.refusal.reason)
        return [allocations[place].untyped_storage() for place in self.written]

    def settle(self, made: list[Any]) -> None:
        """Keeps what it made, and no longer what that was made from."""
        super().settle(made)
        self.execute = _never


def _never(allocations: Sequence[torch.Tensor], written: Sequence[int], seconds: float) -> None:
    raise AssertionError("a launch that was executed is executed again")


class Launches:
    """Keeps the pending launches of one run of a script.

    Args:
        deferred: gives them their numbers, in one sequence with the deferred operators.
    """

    def __init__(self, deferred: Deferred) -> None:
        self._deferred = deferred
        self._preserved: list[weakref.ref[torch.Tensor]] = []
        self._held: list[weakref.ref[Held]] = []
        self._held_bytes = 0

    def keep(
        self, tensors: Sequence[DeviceTensor], is_written: Sequence[bool], execute: Execute
    ) -> KernelCall | None:
        """Keeps a launch, and makes it the recipe of the memory that it writes to.

        Args:
            tensors: the launch's tensor arguments.
            is_written: for each of them, whether the kernel may write to it.
            execute: executes the launch over the arguments' allocations: each once, in the order
                of the arguments.

        Returns:
            The launch; None, with nothing kept, if its inputs cannot be known.
        """
        index_by_memory: dict[int, int] = {}  # id of an allocation -> its index
        owners: list[DeviceTensor] = []  # the first tensor of each allocation
        written_indices: set[int] = set()
        for tensor, writes in zip(tensors, is_written):
            index = index_by_memory.setdefault(id(tensor._memory), len(owners))
            if index == len(owners):
                owners.append(tensor)
            if writes:
                written_indices.add(index)
        operands: list[Known | Part] = []
        held: list[tuple[Memory, Held]] = []
        try:
            for index, tensor in enumerate(owners):
                operand = _allocation(tensor, index in written_indices)
                operands.append(operand)
                if isinstance(operand, Held):
                    held.append((tensor._memory, operand))
        except UnknownError:
            return None
        depth = depth_over(operands)
        if depth > DEEPEST or not self._has_room([operand for _, operand in held]):
            return None
        written_order = tuple(sorted(written_indices))
        call = KernelCall(
            number=next(self._deferred.numbers),
            targets=(),
            operands=tuple(operands),
            results=(),
            depth=depth,
            by_kernels=True,
            nbytes=tuple(operand_bytes(operand) for operand in operands),
            written=written_order,
            execute=execute,
        )
        for memory, operand in held:
            _hold(memory, operand)
        for nth, index in enumerate(written_order):
            owners[index]._memory.recipe = Recipe(call, nth)
        return call

    def _has_room(self, operands: Sequence[Held]) -> bool:
        """Whether pending launches may keep this memory too; if so, counts it as kept."""
        size = sum(int(operand.tensor.nbytes) for operand in operands)
        if self._held_bytes + size > MOST_HELD:  # an upper bound: includes launches that are gone
            self._held = [reference for reference in self._held if reference() is not None]
            storages = {
                operand.tensor.data_ptr(): int(operand.tensor.nbytes)
                for operand in (reference() for reference in self._held)
                if operand is not None
            }
            self._held_bytes = sum(storages.values())
            if self._held_bytes + size > MOST_HELD:
                return False
        self._held_bytes += size
        self._held += map(weakref.ref, operands)
        return True

    def preserve(self, memory: Memory) -> None:
        """Copies an allocation that is about to change, if pending launches still need it."""
        references, memory.holders = memory.holders or (), None
        holders = [holder for holder in (ref() for ref in references) if holder is not None]
        if not holders:
            return
        self._preserved = [ref for ref in self._preserved if ref() is not None]
        size = sum(copy.nbytes for copy in (ref() for ref in self._preserved) if copy is not None)
        size += holders[0].tensor.nbytes
        if size > MOST_PRESERVED:
            for holder in holders:
                holder.is_lost = True
            return
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            copied = holders[0].tensor.clone()
        self._preserved.append(weakref.ref(copied))
        for holder in holders:
            holder.tensor = copied


def operand_bytes(operand: Known | Part) -> int:
    """Size in bytes of an operand that is a whole allocation."""
    return operand.nbytes if isinstance(operand, Part) else int(operand.tensor.nbytes)


def _hold(memory: Memory, operand: Held) -> None:
    holders = memory.holders
    if holders is None:
        holders = memory.holders = []
    elif len(holders) >= MOST_HOLDERS and not len(holders) & (len(holders) - 1):
        holders[:] = [its for its in holders if its() is not None]
    holders.append(weakref.ref(operand))


def _allocation(tensor: DeviceTensor, is_written: bool) -> Known | Part:
    """A tensor's whole allocation, as bytes.

    Raises:
        UnknownError: its contents cannot be known.
    """
    memory, payload = tensor._memory, tensor._payload
    nbytes = int(payload.untyped_storage().size())
    allocation = Part(memory.recipe, nbytes, torch.uint8, (nbytes,), (1,), 0)
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
        return Held(allocation.of(payload.untyped_storage()), UNTOUCHED, UNTOUCHED.version)
