"""Records operators' and kernels' writes to device tensors: which contents are still known."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .deferred import Call, Execute, deferred_launch
from .memory import Recipe, view_of
from .operators import OVERWRITING, Invocation, OperatorPlan, tensors_in
from .reads import unknown_cause, unknown_reason
from .refusal import LaunchRefusedError
from .tensors import CPU, DeviceTensor, allocate, replace, wrap


def follow_operator(
    operation: Invocation, operands: Sequence[DeviceTensor], call: Call | None
) -> None:
    """Records an in-place operator's effect on its arguments' shapes and contents.

    `call` is the deferred call, if the values that it writes are not known now.
    """
    plan = operation.plan
    for index, tensor in enumerate(tensors_in(operation.written_arguments())):
        if not isinstance(tensor, DeviceTensor):
            continue
        recipe = Recipe(call, index) if call is not None else None
        _record_write(plan, tensor, [t for t in operands if t is not tensor], recipe)
        if plan.changes_shape:
            _reshape(tensor)


def launched(
    tensors: Sequence[DeviceTensor],
    is_written: Sequence[bool],
    execute: Execute | None,
    refusal: LaunchRefusedError | None,
) -> None:
    """Marks the tensors that a launched kernel writes as unknown until it is executed.

    `execute` executes the launch (`deferred.Execute`); None, or a refusal, if it cannot be
    executed.
    """
    written = {id(t._memory): t._memory for t, writes in zip(tensors, is_written) if writes}
    launch = None
    if execute is not None and written:
        refusal = LaunchRefusedError("inputs")
        launch = deferred_launch(tensors, is_written, execute)
    reason = refusal.reason if launch is None and refusal is not None else None
    for memory in written.values():
        if launch is None:
            memory.recipe = None
        memory.mark_unknown(None, str(refusal or LaunchRefusedError("off")), reason)
        memory.refusal = memory.unset = None


def preserve(operation: Invocation) -> None:
    """Copies memory that deferred work still needs and that an operator will overwrite."""
    for tensor in tensors_in(operation.written_arguments()):
        if isinstance(tensor, DeviceTensor) and tensor._memory.snapshot is not None:
            tensor._memory.preserve()


def writes_to_host(operation: Invocation) -> bool:
    """Whether an operator writes to a plain host tensor, which cannot be marked as unknown."""
    targets = tensors_in(operation.written_arguments())
    return any(not isinstance(target, DeviceTensor) for target in targets)


def _record_write(
    plan: OperatorPlan,
    tensor: DeviceTensor,
    operands: Sequence[DeviceTensor],
    recipe: Recipe | None,
) -> None:
    """Records that an operator wrote to a tensor; `operands` are its other device tensors."""
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
    memory.refusal = None
    memory.reason = unknown_reason(operands) if operand_unknown else None
    memory.recipe = recipe if is_deferred else None


def _is_fully_written(tensor: DeviceTensor) -> bool:
    """Whether overwriting this view leaves no unknown element in its allocation.

    `starts = torch.empty(n + 1); starts[0] = 0; starts[1:] = ...` leaves none.
    """
    memory, view = tensor._memory, view_of(tensor._payload)
    if not memory.unknown or view.is_whole:
        return True
    if tensor._payload.is_meta:
        return False
    count = memory.nbytes // view.dtype.itemsize
    if memory.unset is None:
        memory.unset = torch.ones(count, dtype=torch.bool, device=CPU)
    if memory.unset.numel() != count:  # earlier writes went through a view of another type
        return False
    memory.unset.as_strided(view.size, view.stride, view.offset).fill_(False)
    return not bool(memory.unset.any())


def _reshape(tensor: DeviceTensor) -> None:
    """Updates a tensor's shape after an operator resized its payload."""
    payload, memory = tensor._payload, tensor._memory
    if (payload.shape, payload.stride(), payload.storage_offset()) == (
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
    ):
        return
    nbytes = payload.untyped_storage().size()
    if nbytes > memory.nbytes:
        memory = allocate(nbytes)
    replace(tensor, wrap(payload, tensor._claim, memory))
