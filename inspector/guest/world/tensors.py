"""Tensors that claim to be on an AMD GPU. Imported only where the interpreter has torch.

A `DeviceTensor` wraps a payload. A small tensor's payload is a real CPU tensor, so that values that
the script reads back and branches on are correct; a large one's is a meta tensor, so that even a
terabyte costs nothing. Torch's C++ code takes a device tensor for a CPU tensor, which lets autograd
work in a build without GPU support; to Python it is on `cuda:0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NoReturn

import torch

from .memory import Memory

CPU = torch.device("cpu")
META = torch.device("meta")
GPU = torch.device("cuda", 0)
DEVICE_TYPES = ("cuda", "hip")
FLOAT_LIMIT = 1 << 18
"""Elements up to which a floating-point tensor has contents; low: scripts seldom read floats."""
INTEGER_LIMIT = 1 << 22
"""Elements up to which other tensors have contents; higher: scripts branch on indices."""
ALL_CONTENTS = False
"""Whether tensors of any size have contents: true where all kernels are executed."""
VALUES_ARE_REAL = False
"""Whether contents are what the program computes: launches are executed at once and whole.

Then nothing may be assumed for a check's sake: allocated memory that nobody wrote holds NaN or the
largest integer, which no check takes for a result.
"""
ALIGNMENT = 512
"""Bytes that torch's caching allocator rounds each allocation up to."""
GAP = 1 << 20
"""Bytes left free between two allocations: an access past the end of one is noticed, where on a GPU
it would silently hit the neighbour."""
_next_address = 0x7F00_0000_0000
_move_target: torch.device | None = None


def allocate(nbytes: int) -> Memory:
    """A new allocation, aligned as torch's caching allocator aligns them."""
    global _next_address
    memory = Memory(_next_address, nbytes)
    _next_address += max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT) + GAP
    return memory


class DeviceStorage:
    """The storage of a device tensor, with the methods that Python code calls.

    It counts in bytes; as `tensor.storage()` in elements. FSDP calls its underscored methods.
    """

    is_cuda = True

    def __init__(self, tensor: DeviceTensor, dtype: torch.dtype | None = None) -> None:
        self._tensor = tensor
        self._memory = tensor._memory
        self._unit = 1 if dtype is None else dtype.itemsize
        self.device = tensor.device
        if dtype is not None:
            self.dtype = dtype

    def data_ptr(self) -> int:
        return self._memory.address

    def nbytes(self) -> int:
        return self._memory.nbytes

    def size(self) -> int:
        return self._memory.nbytes // self._unit

    def element_size(self) -> int:
        return self._unit

    def resize_(self, count: int) -> DeviceStorage:
        """Changes the size; no contents are allocated or freed."""
        self._memory.nbytes = count * self._unit
        return self

    def untyped(self) -> DeviceStorage:
        return DeviceStorage(self._tensor)

    def cpu(self) -> Any:
        """The payload's own storage."""
        return self._tensor._payload.untyped_storage()

    _cdata = property(data_ptr)
    _untyped_storage = property(untyped)
    __len__ = _size = size
    _data_ptr = data_ptr
    _resize_ = resize_

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceStorage) and other._memory is self._memory

    def __hash__(self) -> int:
        return hash(self._memory.address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor._payload.untyped_storage(), name)


class DeviceTensor(torch.Tensor):
    """A tensor that says it is on the device.

    The dispatcher sets the two class attributes: `mode` sends operators to it; `read` gives the
    contents in one of the forms of `reads.read`.
    """

    mode: ClassVar[AbstractContextManager[Any]]
    read: ClassVar[Any]
    _payload: torch.Tensor
    _claim: torch.device
    _memory: Memory

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Implements `type(x)(...)`: scripts call it on parameters, which have this class too."""
        if "requires_grad" in kwargs:  # torch.Tensor does not accept it
            return torch.nn.Parameter(*args[:1], requires_grad=kwargs["requires_grad"])
        return torch.Tensor(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        with cls.mode:
            return func(*args, **(kwargs or {}))

    @property
    def device(self) -> torch.device:
        return self._claim

    @property
    def is_cuda(self) -> bool:
        """True for a tensor on the device; ROCm builds of torch call it cuda too."""
        return bool(self._claim.type == "cuda")

    @property
    def is_cpu(self) -> bool:
        """True for a large tensor in host memory."""
        return bool(self._claim.type == "cpu")

    def get_device(self) -> int:
        return (self._claim.index or 0) if self.is_cuda else -1

    def data_ptr(self) -> int:
        """Address that the first element would have on the device."""
        payload = self._payload
        return int(self._memory.address + payload.storage_offset() * payload.element_size())

    const_data_ptr = mutable_data_ptr = data_ptr

    def ptr_range(self) -> int:
        """Bytes of its storage: AMD's backend asks whether 32-bit offsets reach all of them."""
        return self._memory.nbytes

    def untyped_storage(self) -> Any:
        return DeviceStorage(self)

    def storage(self) -> Any:
        return DeviceStorage(self, self.dtype)

    _typed_storage = storage

    def to(self, *args: Any, **kwargs: Any) -> Any:
        return to(self, *args, **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        return move(self, CPU)

    def cuda(self, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        return move(self, device_of(device, default="cuda"))

    @property
    def data(self) -> Any:
        """The tensor's memory without its autograd history, and with another write counter.

        Autograd must not notice writes through `data` between forward and backward.
        """
        return wrap(self._payload, self._claim, self._memory)

    @data.setter
    def data(self, new: torch.Tensor) -> None:
        replace(self, new)

    def pin_memory(self, *args: Any) -> Any:
        """Itself: pinned memory has no consequence here."""
        return self

    def is_pinned(self, *args: Any) -> bool:
        return False

    def is_shared(self) -> bool:
        """True, as torch says of all device memory."""
        return self.is_cuda

    def share_memory_(self) -> Any:
        return self

    def record_stream(self, stream: Any) -> None:
        """Does nothing: there are no streams to wait for."""

    # Reads never fail and never take much memory.

    def item(self) -> Any:
        return self.read("item")

    def tolist(self) -> Any:
        return self.read("tolist")

    def numpy(self, *, force: bool = False) -> Any:
        return self.read("numpy")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.read("numpy")
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return str(self.read("repr"))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and spec:
            return format(self.item(), spec)
        return repr(self) if self.dim() else str(self.item())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            copy = self.detach().clone()
        copy.requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        make = rebuild_parameter if isinstance(self, torch.nn.Parameter) else rebuild
        return make, (self.read("plain"), str(self.device), self.requires_grad)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise BufferError("a tensor without a device behind it cannot be exported")


def rebuild(plain: torch.Tensor, device: str, requires_grad: bool) -> torch.Tensor:
    """Unpickles a device tensor."""
    return plain.to(device).requires_grad_(requires_grad)


def rebuild_parameter(plain: torch.Tensor, device: str, requires_grad: bool) -> torch.Tensor:
    """Unpickles a parameter on the device."""
    return torch.nn.Parameter(plain.to(device), requires_grad)


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


def wrap(payload: torch.Tensor, claim: torch.device, memory: Memory | None = None) -> Any:
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
        DeviceTensor,
        payload.size(),
        strides=payload.stride(),
        storage_offset=payload.storage_offset(),
        dtype=payload.dtype,
        layout=payload.layout,
        device=CPU,
    )
    outer._payload = payload
    outer._claim = claim
    outer._memory = memory or allocate(payload.untyped_storage().size())
    return outer


def payload_of(tensor: torch.Tensor) -> torch.Tensor:
    """The payload of a device tensor; any other tensor itself."""
    return tensor._payload if isinstance(tensor, DeviceTensor) else tensor


def device_tensors(values: Iterable[Any]) -> list[DeviceTensor]:
    """The device tensors among an operator's arguments, in order, lists of tensors included."""
    found: list[DeviceTensor] = []
    for value in values:
        if type(value) is DeviceTensor:
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [inner for inner in value if type(inner) is DeviceTensor]
    return found


def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
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
    return move(tensor, claim, dtype, copy, kwargs.get("memory_format"))


def move(
    tensor: torch.Tensor,
    claim: torch.device,
    dtype: torch.dtype | None = None,
    copy: bool = False,
    memory_format: Any = None,
) -> torch.Tensor:
    """The tensor on device `claim` with type `dtype`: itself if nothing has to change."""
    global _move_target
    is_unchanged = tensor.device == claim and dtype in (None, tensor.dtype) and not copy
    if is_unchanged and (
        memory_format in (None, torch.preserve_format)
        or tensor.is_contiguous(memory_format=memory_format)
    ):
        return tensor
    stated = {"dtype": dtype, "memory_format": memory_format}
    changes: dict[str, Any] = {name: value for name, value in stated.items() if value is not None}
    if claim.type == META.type:
        return torch.empty_like(tensor, device=META, **changes)
    previous_target, _move_target = _move_target, claim
    try:
        moved = torch.ops.aten._to_copy.default(tensor, **changes)
    finally:
        _move_target = previous_target
    return moved


def move_target() -> torch.device | None:
    """The device that a move in progress goes to; None outside of moves."""
    return _move_target


def replace(tensor: DeviceTensor, new: torch.Tensor) -> None:
    """Makes `tensor` share the contents, device and memory of `new`, as `tensor.data = new`."""
    if not isinstance(new, DeviceTensor):
        new = wrap(new.detach(), tensor._claim if new.is_cpu else new.device)
    torch._C.TensorBase.data.__set__(tensor, new)
    tensor._payload, tensor._claim = new._payload, new._claim
    tensor._memory = new._memory


def keep_all_contents(are_real: bool) -> None:
    """Makes every tensor created from now on have contents, whatever its size."""
    global FLOAT_LIMIT, INTEGER_LIMIT, ALL_CONTENTS, VALUES_ARE_REAL
    FLOAT_LIMIT = INTEGER_LIMIT = 1 << 62
    ALL_CONTENTS, VALUES_ARE_REAL = True, are_real


def fits(tensor: torch.Tensor) -> bool:
    """Whether a tensor of this shape and type is small enough to have contents."""
    is_float = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return bool(tensor.numel() <= (FLOAT_LIMIT if is_float else INTEGER_LIMIT))
