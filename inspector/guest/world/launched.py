"""Launches of kernels that were not executed, and could be: what the host reads of what they wrote
is computed then, by the emulator.

A launch takes its place among the operators that were put off (`deferred`): what it writes has it
as its recipe. Where the launch happened nothing is run and nothing is copied; memory that it reads
or writes is copied before something else changes it.
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
"""Bytes of copies of what is overwritten before a launch that wants it was executed."""
MOST_HOLDERS = 64
"""References to launches over one allocation after which those that are gone are dropped."""

Execute = Callable[[Sequence[torch.Tensor], Sequence[int], float], None]
"""Runs a launch over the bytes of its allocations, in place; those of the given places alone may
change. The last argument is how many seconds it may take. Raises `RefusedError`."""


@dataclass(eq=False)
class Held(Known):
    """The bytes of an allocation as they were at a launch. `preserve` sees to that."""

    is_lost: bool = False

    def value(self) -> torch.Tensor:
        """The bytes.

        Raises:
            UnknownError: they were overwritten, and there was no room for a copy.
        """
        if self.is_lost:
            raise UnknownError(REASONS["inputs"], "inputs")
        return self.tensor


@dataclass(eq=False)
class KernelCall(Work):
    """A launch that was not executed.

    Args:
        nbytes: of each of its allocations.
        written: which of these it may write to: its n-th target is the allocation `written[n]`.
        execute: executes it.
        refusal: why it was not executed, once that was tried.
    """

    nbytes: tuple[int, ...]
    written: tuple[int, ...]
    execute: Execute
    refusal: RefusedError | None = field(default=None, init=False)

    def run(self, allocations: Sequence[torch.Tensor], seconds: float) -> list[Any]:
        """Executes it over its allocations; gives the storages that it may have written to.

        Raises:
            UnknownError: it is refused, now or the last time.
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
    """Keeps the launches of one run.

    Args:
        deferred: numbers them among the operators.
    """

    def __init__(self, deferred: Deferred) -> None:
        self._deferred = deferred
        self._preserved: list[weakref.ref[torch.Tensor]] = []

    def keep(
        self, tensors: Sequence[DeviceTensor], is_written: Sequence[bool], execute: Execute
    ) -> KernelCall | None:
        """Notes a launch, and that what it writes to is made by it.

        Args:
            tensors: its arguments.
            is_written: of each, whether the kernel may write to it.
            execute: executes it over the arguments' allocations, each once in this order.

        Returns:
            None where what it reads cannot be known: then nothing was noted.
        """
        places: dict[int, int] = {}
        memories: list[DeviceTensor] = []
        writes: set[int] = set()
        for tensor, written in zip(tensors, is_written):
            place = places.setdefault(id(tensor._memory), len(memories))
            if place == len(memories):
                memories.append(tensor)
            if written:
                writes.add(place)
        operands: list[Known | Part] = []
        held: list[tuple[Memory, Held]] = []
        try:
            for place, tensor in enumerate(memories):
                operand = _allocation(tensor, place in writes)
                operands.append(operand)
                if isinstance(operand, Held):
                    held.append((tensor._memory, operand))
        except UnknownError:
            return None
        depth = depth_over(operands)
        if depth > DEEPEST:
            return None
        written_order = tuple(sorted(writes))
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
        for nth, place in enumerate(written_order):
            memories[place]._memory.recipe = Recipe(call, nth)
        return call

    def preserve(self, memory: Memory) -> None:
        """Copies what launches want of an allocation that is about to be changed."""
        references, memory.holders = memory.holders or (), None
        holders = [holder for holder in (its() for its in references) if holder is not None]
        if not holders:
            return
        self._preserved = [its for its in self._preserved if its() is not None]
        size = sum(copy.nbytes for copy in (its() for its in self._preserved) if copy is not None)
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
    """Bytes of an operand that is a whole allocation."""
    return operand.nbytes if isinstance(operand, Part) else int(operand.tensor.nbytes)


def _hold(memory: Memory, operand: Held) -> None:
    holders = memory.holders
    if holders is None:
        holders = memory.holders = []
    elif len(holders) >= MOST_HOLDERS:
        holders[:] = [its for its in holders if its() is not None]
    holders.append(weakref.ref(operand))


def _allocation(tensor: DeviceTensor, is_written: bool) -> Known | Part:
    """All of a tensor's allocation, as bytes.

    Raises:
        UnknownError: nobody knows its contents.
    """
    memory, payload = tensor._memory, tensor._payload
    nbytes = int(payload.untyped_storage().size())
    whole = Part(memory.recipe, nbytes, torch.uint8, (nbytes,), (1,), 0)
    if memory.recipe is not None and (memory.unknown or payload.is_meta):
        return whole
    if memory.unknown:
        # A kernel may write what nothing has written to, or look at the part of it that is filled.
        if not memory.blank or not (is_written or memory.unset is not None):
            raise UnknownError(REASONS["inputs"], "inputs")
        if payload.is_meta:
            return whole
    elif payload.is_meta:
        raise UnknownError(REASONS["inputs"], "inputs")
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        return Held(whole.of(payload.untyped_storage()), UNTOUCHED, UNTOUCHED.version)
