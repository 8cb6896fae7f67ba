"""Reads of device tensors by the host: contents where they are known or can be computed.

Elsewhere the script gets a plausible value, which `assumptions.LOG` records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from . import payloads, unknowns
from .assumptions import LOG, UnknownFloat, unknown_array
from .operator_plans import Invocation, OperatorPlan
from .placement import CPU, Placement
from .rerunning import Rerunning
from .tensors import READ_LIMIT, DeviceTensor, host_dtype

TOO_LARGE = "too large to be computed here"
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {"_local_scalar_dense": "the value of", "item": "the value of", "is_nonzero": "the truth of"}
)
"""Operator that reads a tensor -> the start of a message about the read."""
MAX_LOGGED_ELEMENTS = 16
"""How many elements of an array a note about a read value shows."""
COMPARING = frozenset(("allclose", "equal"))
"""Operators that compare whole tensors and return one bool to the host."""


class HostReads:
    """Reads of device tensors.

    Args:
        placement: makes the device tensors.

    Attributes:
        rerunning: computes contents that were deferred.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.rerunning = Rerunning()

    def plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """A CPU copy of a tensor's contents; for unknown ones, zeros expanded from one element."""
        if not isinstance(tensor, DeviceTensor):
            return tensor.detach()
        with torch._C._DisableTorchDispatch():
            contents = self.contents(tensor)
            payload = tensor._payload if contents is None else contents
            if payload.is_meta:
                return torch.zeros((), dtype=payload.dtype, device=CPU).expand(payload.shape)
            return payload.detach().clone()

    def contents(self, tensor: DeviceTensor) -> torch.Tensor | None:
        """A tensor's contents, computed now if they were deferred; None if they are unknown."""
        if not (tensor._payload.is_meta or tensor._memory.unknown):
            return tensor._payload
        if tensor._memory.recipe is None or not LOG.matters():
            return None
        return self.rerunning.contents(tensor)

    def is_unknown(self, tensor: DeviceTensor) -> bool:
        """Whether a tensor's contents stay unknown after executing the kernels that wrote them."""
        memory = tensor._memory
        if not (memory.unknown or tensor._payload.is_meta):
            return False
        recipe = memory.recipe
        return recipe is None or (recipe.call.by_kernels and self.contents(tensor) is None)

    def read(self, tensor: DeviceTensor, how: str) -> Any:
        """A tensor's contents in the form that `how` names: `tolist`, `numpy` or `repr`."""
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            if how == "repr":
                return _repr(tensor)
            too_long = how == "tolist" and tensor._payload.is_meta and tensor.numel() > READ_LIMIT
            contents = None if too_long else self.contents(tensor)
            payload = tensor._payload if contents is None else contents
            unknown = contents is None
            if unknown:
                LOG.answer(
                    described((tensor,), f"{how} of"),
                    "zeros" if payload.is_meta else "…",
                    unknown_reason((tensor,)),
                )
            if how == "tolist" and payload.is_meta:
                zero = torch.zeros((), dtype=payload.dtype, device=CPU).item()
                return unknowns.zeros(tuple(payload.shape), zero)
            if payload.is_meta:
                values = torch.zeros((), dtype=payload.dtype, device=CPU).expand(payload.shape)
            else:
                values = payload.detach().clone().resolve_conj().resolve_neg()
            values = values.to(host_dtype(values.dtype))
            listed = values.tolist() if how == "tolist" else None
            if not unknown:
                logged_values = (
                    listed
                    if listed is not None
                    else values.flatten()[:MAX_LOGGED_ELEMENTS].tolist()
                )
                note_emulated((tensor,), f"{how} of", logged_values)
            if how == "tolist":
                return listed
            return values.numpy().view(unknown_array()) if unknown else values.numpy()

    def item(self, tensor: DeviceTensor) -> Any:
        """Implements `tensor.item()`; an unknown float is logged only where the script uses it."""
        unknown = tensor._memory.unknown or tensor._payload.is_meta
        if not unknown or not tensor.dtype.is_floating_point:
            return torch._C.TensorBase.item(tensor)
        contents = self.contents(tensor)
        if contents is not None:
            note_emulated((tensor,), "the value of", contents.item())
            return contents.item()
        with LOG:
            value = torch._C.TensorBase.item(tensor)
        question = described((tensor,), "the value of")
        return UnknownFloat(value, question, unknown_reason((tensor,)))

    def read_operator(self, operation: Invocation, unknown: bool) -> Any:
        """The result of an operator that reads device tensors; an assumed one is logged.

        Args:
            operation: the operator and its arguments.
            unknown: whether the contents of any operand are unknown.
        """
        plan = operation.plan
        tensors = self._placement.device_operands(operation)
        if plan.name in COMPARING or (unknown and plan.name in QUESTIONS):
            known = self.with_contents(operation)
            if known is not None:
                value = known.run()
                if unknown:
                    question = QUESTIONS.get(plan.name, f"{plan.name} of")
                    note_emulated(tensors, question, value)
                return value
        assert plan.host_read is not None
        value = plan.host_read(tensors[0], unknown)
        if not unknown or plan.name in ("is_pinned", "_pin_memory"):
            return value
        question = described(tensors, QUESTIONS.get(plan.name, f"{plan.name} of"))
        return LOG.answer(question, value, unknown_reason(tensors))

    def with_contents(self, operation: Invocation) -> Invocation | None:
        """The call with contents in place of device tensors; None if any are unknown."""
        contents: dict[int, torch.Tensor] = {}
        for tensor in self._placement.device_operands(operation):
            tensor_contents = self.contents(tensor)
            if tensor_contents is None:
                return None
            contents[id(tensor)] = tensor_contents

        return payloads.map_arguments(operation, lambda tensor: contents.get(id(tensor), tensor))

    def note_copy(
        self, plan: OperatorPlan, device_operands: Sequence[DeviceTensor], is_known: bool
    ) -> None:
        """Logs that an operator copied contents, known or not, to a plain host tensor."""
        question = f"{plan.name.strip('_')} of"
        if is_known:
            note_emulated(device_operands, question, "…")
        else:
            LOG.answer(
                described(device_operands, question),
                "…",
                unknown_reason(device_operands),
            )


def described(tensors: Sequence[DeviceTensor], question: str) -> str:
    """A message about a read of unknown contents: the question, and why they are unknown."""
    unknown_tensor = next(
        (t for t in tensors if t._memory.unknown or t._payload.is_meta), tensors[0]
    )
    memory = unknown_tensor._memory
    why = memory.refusal or (memory.cause if memory.unknown else TOO_LARGE)
    return f"{question} a tensor {why}"


def unknown_cause(tensors: Sequence[DeviceTensor]) -> str:
    """Why a result is unknown, in words: the cause of the first unknown operand."""
    cause = next((t._memory.cause for t in tensors if t._memory.unknown), None)
    return cause or TOO_LARGE


def unknown_reason(tensors: Sequence[DeviceTensor]) -> str | None:
    """The first tensor's reason for unknown contents, as one of `refusal.REASONS`."""
    return next(
        (tensor._memory.reason for tensor in tensors if tensor._memory.reason is not None), None
    )


def note_emulated(tensors: Sequence[DeviceTensor], question: str, value: Any) -> None:
    """Logs a value that the script read, if an executed kernel contributed to it."""
    for tensor in tensors:
        recipe = tensor._memory.recipe
        if recipe is not None and recipe.call.by_kernels:
            LOG.note_emulated(f"{question} a tensor that a kernel writes", value)
            return


def _repr(tensor: DeviceTensor) -> str:
    """The tensor as torch prints it, without contents if it is large."""
    payload = tensor._payload
    if payload.is_meta:
        text = f"tensor(..., size={tuple(payload.shape)}, dtype={payload.dtype}"
    else:
        text = repr(payload.detach())[:-1]
    return f"{text}, device='{tensor.device}')" if tensor.is_cuda else text + ")"
