"""What an allocation of the device holds, and the work that computes it where that was deferred."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

MAX_COPIED_BYTES = 1 << 28
"""Bytes of all copies of memory that deferred work still needs and something overwrote."""


class Memory:
    """One allocation: its address and size in bytes, shared by all views of it."""

    __slots__ = (
        *("address", "blank", "cause", "nbytes", "reason", "recipe", "refusal", "snapshot"),
        *("truth", "unknown", "unset"),
    )

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        # Whether the contents are unknown: uninitialised, or written by a kernel that was not run.
        self.unknown = False
        # Whether they are unknown only because part of them is uninitialised.
        self.blank = False
        # Mask of the elements that are still unknown; None for all of them.
        self.unset: torch.Tensor | None = None
        # Why the contents are unknown, in words; completes "a tensor …".
        self.cause = "that nothing has written to"
        # The same as one of `refusal.REASONS`, where a kernel's output is the cause.
        self.reason: str | None = None
        # The assumed result of an unknown comparison; None if it is not a comparison.
        self.truth: bool | None = None
        # How to compute the contents, if that was deferred, and why that failed when it was tried.
        self.recipe: Recipe | None = None
        self.refusal: str | None = None
        # Weak reference to the snapshot of the present contents that deferred work holds.
        self.snapshot: Any = None

    def preserve(self) -> None:
        """Copies the contents, which are about to change, if deferred work still needs them."""
        snapshot = self.snapshot() if self.snapshot is not None else None
        self.snapshot = None
        if snapshot is not None:
            snapshot.copy()

    def mark_known(self) -> None:
        """Marks the contents as known: an executed kernel has just written them."""
        snapshot = self.snapshot() if self.snapshot is not None else None
        if snapshot is not None:
            snapshot.lose()
        self.unknown = self.blank = False
        self.truth = self.recipe = self.refusal = self.unset = self.snapshot = None

    def mark_unknown(self, truth: bool | None, cause: str, reason: str | None) -> None:
        """Marks the contents as unknown; see the attributes."""
        self.unknown, self.blank = True, False
        self.truth, self.cause, self.reason = truth, cause, reason


class UnknownError(Exception):
    """Contents that cannot be computed.

    Args:
        text: why, in words; completes "a tensor …".
        reason: one of `refusal.REASONS` if a kernel would have to be executed; else None.
    """

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason


class Snapshot:
    """The contents of an allocation when work on them was deferred.

    Args:
        storage: holds them; copied before an operator overwrites it.
        owner: a host tensor whose version counter tells of writes instead; None on the device.
    """

    alive_bytes = 0
    """Bytes that all snapshots keep alive."""
    copied_bytes = 0

    def __init__(self, storage: Any, owner: torch.Tensor | None = None) -> None:
        self._storage, self._owner = storage, owner
        self._version = 0 if owner is None else owner._version
        self._nbytes = int(storage.nbytes()) if owner is None else 0
        self._copied = 0
        Snapshot.alive_bytes += self._nbytes

    def __del__(self) -> None:
        Snapshot.alive_bytes -= self._nbytes
        Snapshot.copied_bytes -= self._copied

    def storage(self) -> Any:
        """The contents.

        Raises:
            UnknownError: they have been overwritten since.
        """
        changed = self._owner is not None and self._owner._version != self._version
        if self._storage is None or changed:
            raise UnknownError("made from one that was overwritten since")
        return self._storage

    def copy(self) -> None:
        """Makes the contents independent of the allocation, while there is room."""
        if Snapshot.copied_bytes + self._nbytes > MAX_COPIED_BYTES:
            self._storage = None
            return
        self._copied = self._nbytes
        Snapshot.copied_bytes += self._copied
        with torch._C._DisableTorchDispatch():
            self._storage = self._storage.clone()

    def lose(self) -> None:
        self._storage = None


@dataclass(eq=False)  # not frozen: they are made at each operator
class View:
    """A strided view of an allocation: an operand of deferred work, or a result.

    Args:
        source: holds or computes the allocation's contents; None if they are uninitialised.
        stride: strides of the view, in elements.
        offset: position of its first element, in elements.
    """

    source: Recipe | Snapshot | None
    nbytes: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def count(self) -> int:
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


def view_of(tensor: torch.Tensor, source: Recipe | Snapshot | None = None) -> View:
    """A plain or meta tensor as a view of its storage."""
    nbytes = int(tensor.untyped_storage().size())
    return View(
        source, nbytes, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
    )


@dataclass(eq=False)  # not frozen: they are made at each operator
class Work:
    """A deferred operator or kernel.

    Args:
        number: position in the order of the script; it depends only on smaller numbers.
        written: indices of the operands that it writes to.
        results: shapes of its results that are not arguments.

    Attributes:
        depth: length of the longest chain of deferred work that leads to it.
        by_kernels: whether it is a kernel or depends on one.
        storages: what it produced, in the order of `written` or of `results`; None if it was not
            run, or they are cached elsewhere.
    """

    number: int
    operands: tuple[View, ...]
    written: tuple[int, ...]
    results: tuple[View, ...]
    depth: int = field(init=False)
    by_kernels: bool = field(init=False)
    storages: list[Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        needs = self.needs
        self.depth = 1 + max((work.depth for work in needs), default=0)
        self.by_kernels = any(work.by_kernels for work in needs)

    @property
    def needs(self) -> list[Work]:
        """The work that its operands come from."""
        sources = [operand.source for operand in self.operands]
        return [source.work for source in sources if isinstance(source, Recipe)]

    @property
    def nbytes(self) -> int:
        """Bytes that running it allocates."""
        written = [self.operands[index] for index in self.written]
        return sum(view.nbytes for view in (*self.results, *written))

    @property
    def seconds(self) -> float:
        """Estimated CPU seconds of running it; 0 where another budget limits that."""
        return 0.0

    def run(self, tensors: Sequence[torch.Tensor], seconds: float) -> list[Any]:
        """The storages that it produces.

        Args:
            tensors: its operands; those that it writes to may be changed.
            seconds: wall time that is left for kernels.
        """
        raise NotImplementedError

    def settle(self, storages: list[Any]) -> None:
        """Stores the storages that it produced, and drops its operands."""
        self.storages = storages
        self.operands, self.written, self.depth = (), (), 0


@dataclass(eq=False)  # not frozen: they are made at each operator
class Recipe:
    """How to compute one allocation's contents."""

    work: Work
    index: int
