"""Contents of large tensors, computed only if the host reads something that depends on them.

An operator on a large tensor is not run: this module stores its call, with the calls that its
operands come from. When the script reads a value (`mask.sum().item()`, `lengths.max()`),
`rerunning` runs the calls that lead to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .operator_plans import OVERWRITING, SHAPED, Invocation, OperatorPlan
from .payloads import tensors
from .tensors import DeviceTensor, Memory, bytes_of

MAX_DEPTH = 200
"""Length of the longest chain of deferred calls: a training loop would extend one without end."""

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
class Call(DeferredWork):
    """A deferred operator.

    Args:
        func: the operator overload.
        plan: how the dispatcher handles the overload.
        args: its positional arguments, with operands and `OutputMarker`s in place of tensors.
        kwargs: its keyword arguments, in the same form.
        seed: seed of its random numbers.
    """

    func: Any
    plan: OperatorPlan
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    seed: int

    def settle(self, storages: list[Any]) -> None:
        """Stores the storages that it produced, and drops its operands and arguments."""
        super().settle(storages)
        self.args, self.kwargs = (), {}


@dataclass(eq=False)  # not frozen: they are made at each operator
class Recipe:
    """How to compute one allocation's contents.

    Args:
        call: the work that produces them.
        index: which of the storages that it produces.
    """

    call: DeferredWork
    index: int


_TENSORS = (torch.Tensor, KnownOperand, StridedView, OutputMarker)


class Deferred:
    """Defers the operators of one run of a script."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def keep(self, operation: Invocation, results: Any) -> Call | None:
        """Defers an operator; None if some operand's contents can never be known.

        Args:
            operation: the operator and its arguments; devices among them are the CPU.
            results: tensors of its results' shapes; None if its results are its targets.
        """
        plan = operation.plan
        if plan.uninitialised or plan.view or not plan.native:
            return None
        arguments = _StoredArguments(plan)
        try:
            args, kwargs = arguments.stored(operation.args, operation.kwargs)
        except UnknownError:
            return None
        operands, targets = arguments.operands, arguments.targets
        depth = depth_over((*operands, *targets))
        if depth > MAX_DEPTH:
            return None
        return Call(
            number=next(self.numbers),
            targets=tuple(targets),
            operands=tuple(operands),
            results=tuple(map(geometry_of, tensors(results))),
            depth=depth,
            by_kernels=any(map(is_by_kernels, (*operands, *targets))),
            func=operation.func,
            plan=plan,
            args=args,
            kwargs=kwargs,
            seed=torch.initial_seed() % (1 << 30),
        )


class _StoredArguments:
    """The arguments of a call in the form in which a deferred call stores them.

    Args:
        plan: of the operator.

    Attributes:
        operands: the tensor arguments that the operator reads.
        targets: those that it writes to.
    """

    def __init__(self, plan: OperatorPlan) -> None:
        self._plan = plan
        self.operands: list[KnownOperand | StridedView] = []
        self.targets: list[KnownOperand | StridedView] = []

    def stored(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with operands and `OutputMarker`s in place of tensors.

        Raises:
            UnknownError: some operand's contents cannot be known.
        """
        written_positions = dict(self._plan.mutates)
        written_names = written_positions.values()
        stored_args = [
            map_operands(v, self._target if position in written_positions else self._operand)
            for position, v in enumerate(args)
        ]
        stored_kwargs = {
            name: map_operands(v, self._target if name in written_names else self._operand)
            for name, v in kwargs.items()
            if name != "generator"
        }
        return stored_args, stored_kwargs

    def _operand(self, tensor: torch.Tensor) -> KnownOperand | StridedView:
        shaped = self._plan.name in SHAPED and not self.operands
        self.operands.append(geometry_of(tensor) if shaped else _operand(tensor))
        return self.operands[-1]

    def _target(self, tensor: torch.Tensor) -> OutputMarker:
        self.targets.append(_written_operand(tensor, self._plan))
        return OutputMarker(len(self.targets) - 1)


def part_of(tensor: DeviceTensor, source: Recipe | None) -> StridedView:
    """A device tensor as a view of the allocation that `source` computes."""
    return geometry_of(tensor._payload, source)


def geometry_of(tensor: torch.Tensor, source: Recipe | None = None) -> StridedView:
    """A plain or meta tensor as a view of its storage."""
    size, stride, offset = tensor.shape, tensor.stride(), tensor.storage_offset()
    return StridedView(source, bytes_of(tensor), tensor.dtype, size, stride, offset)


def map_operands(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to the tensors and their stand-ins in an argument, lists and tuples too."""
    if isinstance(value, _TENSORS):
        return change(value)
    if isinstance(value, (list, tuple)):
        changed = [map_operands(inner, change) for inner in value]
        return changed if isinstance(value, list) else tuple(changed)
    return value


def depth_over(operands: Iterable[KnownOperand | StridedView]) -> int:
    """The `depth` of work on these operands."""
    return 1 + max((source.call.depth for source in sources_of(operands)), default=0)


def is_by_kernels(operand: KnownOperand | StridedView) -> bool:
    """Whether an operand's contents depend on a kernel."""
    return any(source.call.by_kernels for source in sources_of((operand,)))


def sources_of(operands: Iterable[KnownOperand | StridedView]) -> Iterator[Recipe]:
    """The recipes of the operands that have yet to be computed."""
    for operand in operands:
        if isinstance(operand, StridedView) and operand.source is not None:
            yield operand.source


def _operand(tensor: torch.Tensor) -> KnownOperand | StridedView:
    """A tensor that an operator reads, in the form that a deferred call stores.

    Raises:
        UnknownError: its contents cannot be known.
    """
    if isinstance(tensor, DeviceTensor):
        memory = tensor._memory
        if not (memory.unknown or tensor._payload.is_meta):
            return KnownOperand(tensor._payload, memory, memory.version)
        if memory.recipe is not None:
            return part_of(tensor, memory.recipe)
    elif type(tensor) in (torch.Tensor, torch.nn.Parameter) and _counts(tensor):
        return KnownOperand(tensor.detach(), tensor, tensor._version)
    raise UnknownError("that nobody knows")


def _counts(tensor: torch.Tensor) -> bool:
    """Whether a tensor in host memory has a version counter."""
    return tensor.is_cpu and not tensor.is_inference()


def _written_operand(tensor: torch.Tensor, plan: OperatorPlan) -> KnownOperand | StridedView:
    """A tensor that an operator writes to, in the form that a deferred call stores.

    It has no contents if the operator overwrites all of them.

    Raises:
        UnknownError: some unknown elements remain.
    """
    if isinstance(tensor, DeviceTensor) and plan.name in OVERWRITING and is_whole(tensor):
        return part_of(tensor, None)
    operand = _operand(tensor)
    if isinstance(operand, KnownOperand):  # the operator is about to change it
        copied = geometry_of(operand.tensor).of(operand.tensor.untyped_storage().clone())
        return KnownOperand(copied, UNTOUCHED, UNTOUCHED.version)
    return operand


def is_whole(tensor: DeviceTensor) -> bool:
    """Whether a tensor covers its whole allocation, in memory order."""
    return part_of(tensor, None).is_whole
