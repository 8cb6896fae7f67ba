"""Records operators' and kernels' writes to device tensors: which contents are still known."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import payloads
from .contents import Recipe
from .deferred import Call, Deferred, geometry_of, is_whole
from .operator_plans import OVERWRITING, Invocation, OperatorPlan
from .pending_launches import Execute, Launches
from .placement import CPU, Placement
from .reads import unknown_cause, unknown_reason
from .refusal import LaunchRefusedError
from .tensors import DeviceTensor, bytes_of


class Writes:
    """Keeps the record of writes to device tensors.

    Args:
        placement: makes the device tensors.
        deferred: the deferred calls.
    """

    def __init__(self, placement: Placement, deferred: Deferred) -> None:
        self._placement = placement
        self._launches = Launches(deferred)

    def follow_operator(
        self,
        operation: Invocation,
        device_operands: list[DeviceTensor],
        call: Call | None,
    ) -> None:
        """Records an in-place operator's effect on its arguments' shapes and contents.

        Args:
            operation: the operator and its arguments.
            device_operands: the device tensors among them.
            call: the deferred call, if the values that it writes are not known now.
        """
        plan = operation.plan
        for index, tensor in enumerate(payloads.tensors(operation.written_arguments())):
            if not isinstance(tensor, DeviceTensor):
                continue
            recipe = Recipe(call, index) if call is not None else None
            _record_write(plan, tensor, [t for t in device_operands if t is not tensor], recipe)
            if plan.changes_shape:
                self._reshape(tensor)

    def _reshape(self, tensor: DeviceTensor) -> None:
        """Updates a tensor's shape after an operator resized its payload."""
        payload = tensor._payload
        if (
            payload.shape == tensor.shape
            and payload.stride() == tensor.stride()
            and payload.storage_offset() == tensor.storage_offset()
        ):
            return
        nbytes = bytes_of(payload)
        if nbytes > tensor._memory.nbytes:
            tensor._memory = self._placement.addresses.allocate(nbytes)
        self._placement.replace(
            tensor, self._placement.wrap(payload, tensor._claim, tensor._memory)
        )

    def launched(
        self,
        tensors: Sequence[DeviceTensor],
        is_written: Sequence[bool],
        execute: Execute | None,
        refusal: LaunchRefusedError | None,
    ) -> None:
        """Marks the tensors that a launched kernel writes as unknown until it is executed.

        Args:
            tensors: the kernel's tensor arguments.
            is_written: for each of them, whether the kernel may write to it.
            execute: executes the launch; None if it cannot be executed.
            refusal: why it cannot be executed.
        """
        written_tensors = [tensor for tensor, writes in zip(tensors, is_written) if writes]
        call = None
        if execute is not None and written_tensors:
            refusal = LaunchRefusedError("inputs")
            call = self._launches.keep(tensors, is_written, execute)
        for tensor in written_tensors:
            memory = tensor._memory
            if call is None:
                memory.recipe = None
            memory.unknown, memory.blank = True, False
            memory.truth = None
            memory.cause = str(refusal or LaunchRefusedError("off"))
            memory.reason = refusal.reason if call is None and refusal is not None else None
            memory.refusal = memory.unset = None
        for memory in {id(tensor._memory): tensor._memory for tensor in written_tensors}.values():
            memory.version += 1

    def preserve(self, operation: Invocation) -> None:
        """Copies memory that pending launches still need and that an operator will overwrite."""
        for tensor in payloads.tensors(operation.written_arguments()):
            if isinstance(tensor, DeviceTensor) and tensor._memory.snapshots is not None:
                self._launches.preserve(tensor._memory)


def _record_write(
    plan: OperatorPlan,
    tensor: DeviceTensor,
    operands: Sequence[DeviceTensor],
    recipe: Recipe | None,
) -> None:
    """Records that an operator wrote to a tensor."""
    memory = tensor._memory
    operand_unknown = any(t._memory.unknown or t._payload.is_meta for t in operands)
    is_deferred = operand_unknown or memory.unknown or tensor._payload.is_meta
    if operand_unknown:
        memory.unknown, memory.blank = True, False
        memory.cause = unknown_cause(operands)
        memory.unset = None
    elif plan.name in OVERWRITING and _is_fully_written(tensor):
        memory.unknown = memory.blank = False
        is_deferred = tensor._payload.is_meta
    memory.version += 1
    memory.refusal = None
    memory.reason = unknown_reason(operands) if operand_unknown else None
    memory.recipe = recipe if is_deferred else None


def mark_unknown(tensor: DeviceTensor, truth: bool | None, cause: str, reason: str | None) -> None:
    """Marks a tensor as unknown: an operand of the operator that made it was.

    Args:
        tensor: the result.
        truth: its assumed value, if it is a comparison's.
        cause: why it is unknown, in words; completes "a tensor …".
        reason: the same as one of `refusal.REASONS`, if a kernel's output is the cause.
    """
    memory = tensor._memory
    memory.unknown, memory.blank = True, False
    memory.truth = truth
    memory.cause, memory.reason = cause, reason


def mark_known(tensor: DeviceTensor) -> None:
    """Marks a tensor as known: an executed kernel has just written its contents."""
    memory = tensor._memory
    memory.unknown = memory.blank = False
    memory.truth = memory.recipe = memory.refusal = memory.unset = None
    memory.version += 1


def _is_fully_written(tensor: DeviceTensor) -> bool:
    """Whether overwriting this view leaves no unknown element in its allocation.

    `starts = torch.empty(n + 1); starts[0] = 0; starts[1:] = ...` leaves none.
    """
    if not tensor._memory.unknown or is_whole(tensor):
        return True
    if tensor._payload.is_meta:
        return False
    geometry, memory = geometry_of(tensor._payload), tensor._memory
    count = memory.nbytes // geometry.dtype.itemsize
    if memory.unset is None:
        memory.unset = torch.ones(count, dtype=torch.bool, device=CPU)
    if memory.unset.numel() != count:  # earlier writes went through a view of another type
        return False
    memory.unset.as_strided(geometry.size, geometry.stride, geometry.offset).fill_(False)
    return not bool(memory.unset.any())


def writes_to_host(operation: Invocation) -> bool:
    """Whether an operator writes to a plain host tensor, which cannot be marked as unknown."""
    targets = payloads.tensors(operation.written_arguments())
    return any(not isinstance(target, DeviceTensor) for target in targets)
