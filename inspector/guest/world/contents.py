"""What an allocation of the device holds, and how to compute it where that was deferred."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch


class Memory:
    """One allocation: its address and size, shared by all views of it.

    Args:
        address: where it would be on the device.
        nbytes: its size in bytes.
    """

    __slots__ = (
        *("address", "blank", "cause", "nbytes", "reason", "recipe", "refusal", "snapshots"),
        *("truth", "unknown", "unset", "version"),
    )

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        # Whether the contents are unknown: uninitialised, or written by a kernel that was not run.
        self.unknown = False
        # Why the contents are unknown, in words; completes "a tensor …".
        self.cause = "that nothing has written to"
        # The assumed result of an unknown comparison; None if it is not a comparison.
        self.truth: bool | None = None
        # How to compute the contents, if that was deferred.
        self.recipe: Recipe | None = None
        # Why computing the deferred contents failed, once it was tried.
        self.refusal: str | None = None
        # Mask of the elements that are still unknown; None for all of them.
        self.unset: torch.Tensor | None = None
        # Number of writes so far; tells whether an operand has changed since a call was deferred.
        self.version = 0
        # Whether it is unknown only because part of it is uninitialised.
        self.blank = False
        # Weak references to the snapshots of pending launches that need the present contents.
        self.snapshots: list[Any] | None = None
        # Why a kernel's output is unknown, as one of `refusal.REASONS`.
        self.reason: str | None = None


UNTOUCHED = Memory(0, 0)
"""The owner of copies that only this package can reach, and so nobody writes to."""


class UnknownError(Exception):
    """Contents that cannot be computed.

    Args:
        text: why, in words; completes "a tensor …".
        reason: one of `refusal.REASONS` if a kernel would have to be executed; else None.
    """

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(eq=False)  # not frozen: they are made at each operator
class KnownOperand:
    """An operand with contents.

    Args:
        tensor: the operand.
        owner: the object whose version counter counts writes to it.
        version: that counter when the call was deferred.
    """

    tensor: torch.Tensor
    owner: Memory | torch.Tensor
    version: int

    def value(self) -> torch.Tensor:
        """The operand.

        Raises:
            UnknownError: it has been overwritten since.
        """
        owner = self.owner
        version = owner.version if isinstance(owner, Memory) else owner._version
        if version != self.version:
            raise UnknownError("made from one that was overwritten since")
        return self.tensor


@dataclass(eq=False)  # not frozen: they are made at each operator
class StridedView:
    """A strided view of an allocation: an operand whose contents are deferred, or an output.

    Args:
        source: how to compute the allocation's contents; None if they are uninitialised.
        nbytes: size of the allocation in bytes.
        dtype: element type of the view.
        size: extents of the view.
        stride: strides of the view, in elements.
        offset: position of its first element, in elements.
    """

    source: Recipe | None
    nbytes: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def count(self) -> int:
        """Its number of elements."""
        return math.prod(self.size)

    @property
    def is_whole(self) -> bool:
        """Whether it covers the whole allocation, in memory order."""
        expected = 1
        for extent, stride in zip(reversed(self.size), reversed(self.stride)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return self.offset == 0 and self.count * self.dtype.itemsize == self.nbytes

    def of(self, storage: Any) -> torch.Tensor:
        """The view of `storage`, which holds the allocation's contents."""
        # An explicit device: the script may have set another default.
        view = torch.empty(0, dtype=self.dtype, device="cpu")
        return view.set_(storage, self.offset, self.size, self.stride)


@dataclass(eq=False)  # not frozen: they are made at each operator
class OutputMarker:
    """Marks, in a call's arguments, the place of its output `targets[index]`."""

    index: int


@dataclass(eq=False)  # not frozen: they are made at each operator
class DeferredWork:
    """A deferred operator or kernel.

    Args:
        number: position in the order of the script; it depends only on smaller numbers.
        targets: the arguments that it writes to, as they were before it.
        operands: the other tensor arguments.
        results: shapes of its results that are not arguments.
        depth: length of the longest chain of deferred work that leads to it.
        by_kernels: whether it is a kernel or depends on one.
        storages: the storages that it produced; None if it was not run, or they are cached
            elsewhere.
    """

    number: int
    targets: tuple[KnownOperand | StridedView, ...]
    operands: tuple[KnownOperand | StridedView, ...]
    results: tuple[StridedView, ...]
    depth: int
    by_kernels: bool
    storages: list[Any] | None = field(default=None, init=False)

    def settle(self, storages: list[Any]) -> None:
        """Stores the storages that it produced, and drops its operands."""
        self.storages = storages
        self.targets = self.operands = ()
        self.depth = 0


@dataclass(eq=False)  # not frozen: they are made at each operator
class Recipe:
    """How to compute one allocation's contents.

    Args:
        call: the work that produces them.
        index: which of the storages that it produces.
    """

    call: DeferredWork
    index: int
