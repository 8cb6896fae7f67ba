"""Contents of large tensors, computed only if the host reads something that depends on them.

An operator on a large tensor is not run: this module stores its call, with the calls that its
operands come from. When the script reads a value (`mask.sum().item()`, `lengths.max()`),
`rerunning` runs the calls that lead to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .contents import (
    UNTOUCHED,
    DeferredWork,
    KnownOperand,
    OutputMarker,
    Recipe,
    StridedView,
    UnknownError,
)
from .operator_plans import OVERWRITING, SHAPED, Invocation, OperatorPlan
from .payloads import tensors
from .tensors import DeviceTensor, bytes_of

MAX_DEPTH = 200
"""Length of the longest chain of deferred calls: a training loop would extend one without end."""


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
        """The arguments with operands and `OutputMarker`s in place of tensors."""
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
    """A tensor that an operator reads, in the form that a deferred call stores."""
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
