"""Reads of device tensors by the host: contents where they are known or can be computed.

Elsewhere the script gets a plausible value, which `assumptions.LOG` records.

Records operators' and kernels' writes to device tensors: which contents are still known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from . import tensors
from .assumptions import LOG, LaunchRefusedError, UnknownFloat, unknown_array
from .deferred import Call, Execute, deferred_launch
from .memory import Recipe, view_of
from .operators import OVERWRITING, Invocation, OperatorPlan, tensors_in
from .rerunning import Rerunning
from .tensors import CPU, DeviceTensor, allocate, device_tensors, replace, wrap

UNKNOWN_FLOAT = 1e-6
"""Value read for an unknown float: small, so that a difference from a reference passes."""
LIST_LIMIT = 1 << 24
"""Elements up to which `tolist` computes or makes a list: Python's numbers take eight times the
memory of a tensor's."""
MAX_LOGGED_ELEMENTS = 16
"""How many elements of an array a note about a read value shows."""
TOO_LARGE = "too large to be computed here"
COMPARING = frozenset(("allclose", "equal"))
"""Operators that compare whole tensors and return one bool to the host."""
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {"_local_scalar_dense": "the value of", "item": "the value of", "is_nonzero": "the truth of"}
)
"""Operator that reads one element -> the start of a message about the read."""
NUMPY_TYPES = frozenset(
    (
        *(torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
        *(torch.uint16, torch.uint32, torch.uint64),
    )
)
RERUNNING = Rerunning()
"""Computes contents that were deferred, for the one script of this process."""


def read(tensor: DeviceTensor, how: str) -> Any:
    """A tensor's contents: `item`, `tolist`, `numpy`, `repr`, or `plain` for a CPU tensor."""
    if how == "item":
        return _item(tensor)
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        if how == "plain":
            return plain(tensor)
        if how == "repr":
            return _repr(tensor)
        return _array(tensor, how)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU copy of a tensor's contents; for unknown ones, zeros expanded from one element."""
    if not isinstance(tensor, DeviceTensor):
        return tensor.detach()
    with torch._C._DisableTorchDispatch():
        known = contents(tensor)
        payload = tensor._payload if known is None else known
        return _zeros(payload) if payload.is_meta else payload.detach().clone()


def contents(tensor: DeviceTensor) -> torch.Tensor | None:
    """A tensor's contents, computed now if they were deferred; None if they are unknown."""
    if not _is_unknown_now(tensor):
        return tensor._payload
    if tensor._memory.recipe is None or not LOG.matters():
        return None
    return RERUNNING.contents(tensor)


def is_unknown(tensor: DeviceTensor) -> bool:
    """Whether a tensor's contents stay unknown after executing the kernels that wrote them."""
    if not _is_unknown_now(tensor):
        return False
    recipe = tensor._memory.recipe
    return recipe is None or (recipe.work.by_kernels and contents(tensor) is None)


def read_operator(operation: Invocation, unknown: bool) -> Any:
    """The result of an operator that reads device tensors; an assumed one is logged."""
    name = operation.plan.name
    operands = device_tensors((*operation.args, *operation.kwargs.values()))
    if name == "is_pinned":
        return False
    if name == "_pin_memory":
        return operands[0]
    question = QUESTIONS.get(name, f"{name} of")
    if name in COMPARING or unknown:
        known = with_contents(operation)
        if known is not None:
            value = known.run()
            if unknown:
                note_emulated(operands, question, value)
            return value
    value = True if name in COMPARING else _element(operands[0], unknown)
    if name == "is_nonzero":
        value = bool(value)
    if not unknown:
        return value
    return LOG.answer(described(operands, question), value, unknown_reason(operands))


def with_contents(operation: Invocation) -> Invocation | None:
    """The call with contents in place of device tensors; None if any are unknown."""
    known: dict[int, torch.Tensor] = {}
    for tensor in device_tensors((*operation.args, *operation.kwargs.values())):
        tensor_contents = contents(tensor)
        if tensor_contents is None:
            return None
        known[id(tensor)] = tensor_contents
    return operation.mapped(lambda tensor: known.get(id(tensor), tensor))


def note_copy(plan: OperatorPlan, operands: Sequence[DeviceTensor], is_known: bool) -> None:
    """Logs that an operator copied contents, known or not, to a plain host tensor."""
    question = f"{plan.name.strip('_')} of"
    if is_known:
        note_emulated(operands, question, "…")
    else:
        LOG.answer(described(operands, question), "…", unknown_reason(operands))


def described(operands: Sequence[DeviceTensor], question: str) -> str:
    """A message about a read of unknown contents: the question, and why they are unknown."""
    memory = next(filter(_is_unknown_now, operands), operands[0])._memory
    why = memory.refusal or (memory.cause if memory.unknown else TOO_LARGE)
    return f"{question} a tensor {why}"


def unknown_cause(operands: Sequence[DeviceTensor]) -> str:
    """Why a result is unknown, in words: the cause of the first unknown operand."""
    return next((t._memory.cause for t in operands if t._memory.unknown), TOO_LARGE)


def unknown_reason(operands: Sequence[DeviceTensor]) -> str | None:
    """The first tensor's reason for unknown contents, as one of `refusal.REASONS`."""
    return next((t._memory.reason for t in operands if t._memory.reason is not None), None)


def note_emulated(operands: Sequence[DeviceTensor], question: str, value: Any) -> None:
    """Logs a value that the script read, if an executed kernel contributed to it."""
    recipes = [tensor._memory.recipe for tensor in operands]
    if any(recipe is not None and recipe.work.by_kernels for recipe in recipes):
        LOG.note_emulated(f"{question} a tensor that a kernel writes", value)


def _is_unknown_now(tensor: DeviceTensor) -> bool:
    return tensor._memory.unknown or tensor._payload.is_meta


def _item(tensor: DeviceTensor) -> Any:
    """An element; an unknown float is logged only where the script uses it."""
    if not _is_unknown_now(tensor) or not tensor.dtype.is_floating_point:
        return torch._C.TensorBase.item(tensor)
    question = "the value of"
    known = contents(tensor)
    if known is not None:
        note_emulated((tensor,), question, known.item())
        return known.item()
    with LOG:
        value = torch._C.TensorBase.item(tensor)
    return UnknownFloat(value, described((tensor,), question), unknown_reason((tensor,)))


def _element(tensor: DeviceTensor, unknown: bool) -> Any:
    """The value of a tensor's element; a plausible one if it is unknown."""
    payload, dtype, truth = tensor._payload, tensor.dtype, tensor._memory.truth
    if unknown or payload.is_meta:
        if dtype.is_complex:
            return complex(UNKNOWN_FLOAT)
        if dtype == torch.bool:
            return truth is not False
        if dtype.is_floating_point:
            return UNKNOWN_FLOAT if truth is not False else 0.0
        return int(truth is not False)
    value = payload.item()
    # Results of kernels that did not run may be NaN, and int(nan) would end the script.
    return UNKNOWN_FLOAT if value != value and not tensors.VALUES_ARE_REAL else value


def _array(tensor: DeviceTensor, how: str) -> Any:
    """The contents as lists or as a NumPy array; zeros where they are unknown."""
    is_listed = how == "tolist"
    too_long = is_listed and tensor._payload.is_meta and tensor.numel() > LIST_LIMIT
    known = None if too_long else contents(tensor)
    payload = tensor._payload if known is None else known
    question = f"{how} of"
    if known is None:
        answer = "zeros" if payload.is_meta else "…"
        LOG.answer(described((tensor,), question), answer, unknown_reason((tensor,)))
    if is_listed and payload.is_meta:
        return _nested_zeros(payload)
    if payload.is_meta:
        values = _zeros(payload)
    else:
        values = payload.detach().clone().resolve_conj().resolve_neg()
    values = values.to(values.dtype if values.dtype in NUMPY_TYPES else torch.float32)
    listed = values.tolist() if is_listed else None
    if known is not None:
        shown = values.flatten()[:MAX_LOGGED_ELEMENTS].tolist() if listed is None else listed
        note_emulated((tensor,), question, shown)
    if is_listed:
        return listed
    return values.numpy().view(unknown_array()) if known is None else values.numpy()


def _zeros(payload: torch.Tensor) -> torch.Tensor:
    """Zeros of a meta tensor's shape, expanded from one element."""
    return torch.zeros((), dtype=payload.dtype, device=CPU).expand(payload.shape)


def _nested_zeros(payload: torch.Tensor) -> Any:
    """Nested lists of zeros; equal rows are the same list, so that large shapes cost no memory."""
    value = torch.zeros((), dtype=payload.dtype, device=CPU).item()
    for extent in reversed(payload.shape):
        value = [value] * min(extent, LIST_LIMIT)
    return value


def _repr(tensor: DeviceTensor) -> str:
    """The tensor as torch prints it, without contents if it is large."""
    payload = tensor._payload
    if payload.is_meta:
        text = f"tensor(..., size={tuple(payload.shape)}, dtype={payload.dtype}"
    else:
        text = repr(payload.detach())[:-1]
    return f"{text}, device='{tensor.device}')" if tensor.is_cuda else text + ")"


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
