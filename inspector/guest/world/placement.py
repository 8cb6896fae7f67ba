"""Makes device tensors, and moves tensors between the devices that they claim to be on."""

from __future__ import annotations

from typing import Any

import torch

from .contents import Memory
from .operator_plans import Invocation
from .shapes import META
from .tensors import Addresses, DeviceTensor, Dispatching, bytes_of

CPU = torch.device("cpu")
DEVICE_TYPES = ("cuda", "hip")


def device_of(device: Any, default: str = "cpu") -> torch.device:
    """The torch device that a script means by `0`, `'cuda'`, `'hip:1'` or None (`default`)."""
    if device is None:
        device = default
    if isinstance(device, int):
        return torch.device("cuda", device)
    if not isinstance(device, torch.device):
        device = torch.device(str(device))
    if device.type in DEVICE_TYPES:
        return torch.device("cuda", device.index or 0)
    return device


class Placement:
    """The device tensors of one dispatcher.

    Attributes:
        tensor_class: their class.
        addresses: allocates their memory.
        target: the device that a move in progress goes to; None outside of moves.
    """

    device_of = staticmethod(device_of)

    def __init__(self, dispatcher: Dispatching) -> None:
        self.addresses = Addresses()
        self.target: torch.device | None = None
        self.tensor_class: type[DeviceTensor] = type(
            "DeviceTensor", (DeviceTensor,), {"dispatcher": dispatcher}
        )

    def wrap(self, payload: torch.Tensor, claim: torch.device, memory: Memory | None = None) -> Any:
        """A device tensor around `payload` that claims to be on `claim`.

        It gets a new allocation unless `memory` is given. Sparse and nested tensors are returned
        unchanged: no kernel takes them.
        """
        if payload.layout != torch.strided or payload.is_nested:
            return payload
        if payload.dtype.is_complex and (payload.is_conj() or payload.is_neg()):
            # Torch keeps these two flags on the tensor object, and the wrapper would not have
            # them: resolve them into the contents.
            payload, memory = payload.resolve_conj().resolve_neg(), None
        outer = torch.Tensor._make_wrapper_subclass(
            self.tensor_class,
            payload.size(),
            strides=payload.stride(),
            storage_offset=payload.storage_offset(),
            dtype=payload.dtype,
            layout=payload.layout,
            device=CPU,
        )
        outer._payload = payload
        outer._claim = claim
        outer._memory = memory or self.addresses.allocate(bytes_of(payload))
        return outer

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Implements `tensor.to(...)` in all of the method's forms."""
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        flags = list(args)
        for arg in args:
            if isinstance(arg, bool):
                break
            if isinstance(arg, torch.Tensor):
                device, dtype = arg.device, arg.dtype
            elif isinstance(arg, torch.dtype):
                dtype = arg
            elif arg is not None:
                device = arg
            flags.pop(0)
        like = kwargs.get("other")
        if like is not None:
            device, dtype = like.device, like.dtype
        copy = kwargs.get("copy", flags[1] if len(flags) > 1 else False)
        claim = device_of(device, default=str(tensor.device))
        return self.move(
            tensor, claim, dtype=dtype, copy=copy, memory_format=kwargs.get("memory_format")
        )

    def move(
        self,
        tensor: torch.Tensor,
        claim: torch.device,
        dtype: torch.dtype | None = None,
        copy: bool = False,
        memory_format: Any = None,
    ) -> torch.Tensor:
        """The tensor on device `claim` with type `dtype`: itself if nothing has to change."""
        is_unchanged = tensor.device == claim and dtype in (None, tensor.dtype) and not copy
        if is_unchanged and (
            memory_format in (None, torch.preserve_format)
            or tensor.is_contiguous(memory_format=memory_format)
        ):
            return tensor
        changes: dict[str, Any] = {}
        if dtype is not None:
            changes["dtype"] = dtype
        if memory_format is not None:
            changes["memory_format"] = memory_format
        if claim.type == META.type:
            return torch.empty_like(tensor, device=META, **changes)
        previous_target, self.target = self.target, claim
        try:
            moved = torch.ops.aten._to_copy.default(tensor, **changes)
        finally:
            self.target = previous_target
        return moved

    def replace(self, tensor: DeviceTensor, new: torch.Tensor) -> None:
        """Makes `tensor` share the contents, device and memory of `new`, as `tensor.data = new`."""
        if not isinstance(new, DeviceTensor):
            new = self.wrap(new.detach(), tensor._claim if new.is_cpu else new.device)
        torch._C.TensorBase.data.__set__(tensor, new)
        tensor._payload, tensor._claim = new._payload, new._claim
        tensor._memory = new._memory

    def device_operands(self, operation: Invocation) -> list[DeviceTensor]:
        """The device tensors among an operator's arguments, in order, lists of tensors included."""
        tensor_class = self.tensor_class
        args, kwargs = operation.args, operation.kwargs
        operands: list[DeviceTensor] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is tensor_class:
                operands.append(value)
            elif isinstance(value, (list, tuple)):
                operands += [inner for inner in value if type(inner) is tensor_class]
        return operands
